"""Claims: what a paper concludes from its tables, as comparisons of cells that can be tested. No torch."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, Literal, NamedTuple, Protocol

from engram.runs.records import Record
from engram.studies.catalog import FOLDER, built_in_study
from engram.studies.reading import read_toml
from engram.studies.study import StudyError
from engram.studies.table import Results

Expected = Literal["above", "below", "within", "not above", "no difference"]


class Place(NamedTuple):
    """A cell of a published table."""

    table: str
    row: str
    column: str

    def __str__(self) -> str:
        return f"{self.table} {self.row} {self.column}"


class AnyComparison(Protocol):
    """A difference that a claim expects something of."""

    expected: Any

    @property
    def thresholds(self) -> tuple[float, ...]: ...

    @property
    def text(self) -> str: ...


class PairedComparison(AnyComparison, Protocol):
    """A comparison whose pairs of runs only the paper's own Python can find."""

    method: str

    def pairs(self, tables: dict[str, Results]) -> tuple[list[tuple[float, float]], list[Record]]: ...

    def remarks(self, records: list[Record]) -> list[str]: ...


@dataclass(frozen=True)
class Comparison:
    """a less b, against what the claim expects of it."""

    paper: str
    a: Place
    b: tuple[Place, ...]
    """The best of these, by mean."""
    expected: Expected = "above"
    by: float = 0.0
    """What the difference is expected to be above or below, or within on both sides."""

    @property
    def thresholds(self) -> tuple[float, ...]:
        return (-self.by, self.by) if self.expected == "within" else (self.by,)

    @property
    def text(self) -> str:
        """`table2 class: si − adagrad above −2`; words that both cells have in common are said once."""
        first = self.b[0]
        if self.a.table == first.table and self.a.column == first.column:
            where, a, b = f"{self.a.table} {self.a.column}", self.a.row, ", ".join(place.row for place in self.b)
            if built_in_study(f"{self.paper}/{self.a.table}").first == "after task":
                a, b = f"after {a} tasks", f"after {b}"
        elif self.a.table == first.table:
            where, a, b = f"{self.a.table} {self.a.row}", self.a.column, ", ".join(place.column for place in self.b)
        else:
            where, a, b = f"{self.a.row} {self.a.column}", self.a.table, ", ".join(place.table for place in self.b)
        b = f"best of ({b})" if len(self.b) > 1 else b
        return f"{where}: {a} − {b} {self.expectation}"

    @property
    def expectation(self) -> str:
        if self.expected == "within":
            return f"within ±{self.by:g}"
        if self.expected in ("above", "below"):
            return f"{self.expected} {self.by:g}".replace("-", "−")
        return {"not above": "not significantly above 0", "no difference": "not significantly different"}[self.expected]


class ComparisonGroup(NamedTuple):
    """Comparisons of which all, or more than half, must hold."""

    how_many: Literal["all", "most"]
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class Claim:
    """A conclusion of a paper; it holds if all its groups do."""

    paper: str
    number: int
    text: str
    groups: tuple[ComparisonGroup, ...]

    @property
    def parts(self) -> list[Any]:
        return [part for group in self.groups for part in group.parts]


@cache
def claims_of(paper: str) -> tuple[str, tuple[Claim, ...]]:
    """(how comparisons are decided, the claims) of a paper; none if its folder has no claims.toml."""
    path = FOLDER / paper / "claims.toml"
    if not path.is_file():
        return "", ()
    values = read_toml(path)
    found = tuple(
        Claim(
            paper,
            claim["number"],
            claim["text"],
            tuple(
                ComparisonGroup(
                    group["how_many"], tuple(c for part in group["parts"] for c in read_comparisons(part, paper))
                )
                for group in claim["groups"]
            ),
        )
        for claim in values["claims"]
    )
    return values["how"], found


def read_comparisons(part: Mapping[str, Any], paper: str) -> Iterator[Any]:
    """A comparison for every combination of the values under `for`."""
    loops: Mapping[str, list[str]] = part.get("for", {})
    for combination in product(*loops.values()):
        names = dict(zip(loops, combination, strict=True))
        filled = {key: fill_template(value, names) for key, value in part.items() if key != "for"}
        if "python" in filled:
            module, _, name = filled.pop("python").partition(".")
            yield getattr(importlib.import_module(f"engram.studies.{paper}.{module}"), name)(**filled)
            continue
        b = filled.pop("b")
        places = tuple(read_place(text, paper) for text in (b if isinstance(b, list) else [b]))
        yield Comparison(paper, read_place(filled.pop("a"), paper), places, **filled)


def fill_template(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [fill_template(one, names) for one in value]
    return value.format(**names) if isinstance(value, str) else value


def read_place(text: str, paper: str) -> Place:
    """`table2 ewc class`, refused if the table has no such cell."""
    place = Place(*text.split(" "))
    study = built_in_study(f"{paper}/{place.table}")
    known = place.row in study.rows and place.column in study.columns
    if not known or not study.has_cell(place.row, place.column):
        raise StudyError(f"claims of {paper}: {study.name} has no cell {place.row}, {place.column}")
    return place
