"""Twins: where the authors' code departs from the paper or from a method's name, the row as it was meant. No torch."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from engram.studies.hsu2018.cells import TABLES, chosen, preset_name, published


@dataclass(frozen=True)
class Twin:
    """A row of a table with some values changed. Never a cell of the table: it is shown under it, beside its row."""

    table: str
    row: str
    name: str
    """What it is called after its row: `gem/one-slot`; records carry `split-mnist/class gem one-slot`."""
    why: str
    """How the row was made, and what the twin does instead."""
    columns: tuple[str, ...] = ("task", "domain", "class")
    method: str = ""
    """Another method in the row's place."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """group.field → value, for example `method.capacity`."""
    grid: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """column → weights of the penalty that are tried beside the row's own; the best by accuracy is the twin's."""

    @property
    def full_name(self) -> str:
        return f"{self.row}/{self.name}"

    def variants(self, column: str) -> dict[str, Variant]:
        """The settings to run in a column, by the label that records carry: one, or one a weight of the grid."""
        row = preset_name(self.table, self.row, column)
        scenario = TABLES[self.table][1][column]
        method = self.method or self.row
        if not self.grid:
            return {f"{row} {self.name}": Variant(scenario, method, dict(self.changes))}
        return {
            f"{row} {self.name}={value:g}": Variant(scenario, method, {"method.coef": value})
            for value in self.grid[column]
        }


class Variant(NamedTuple):
    """A preset with other values."""

    scenario: str
    method: str
    changes: dict[str, Any]


def _memory_twins(table: str, larger: int) -> list[Twin]:
    """Those of the rows with a memory, which Split and Permuted MNIST share."""
    sampled = " As the row, it looks at 256 images of its memory a step." if table == "table3" else ""
    return [
        Twin(
            table, "gem", "textbook", method="gem-textbook",
            why="The authors' GEM also trains on its memory, as naive rehearsal does, and fills two slots a task; "
            "the twin is the method of its own paper (Lopez-Paz & Ranzato, 2017): new data only, one slot." + sampled,
        ),
        Twin(
            table, "gem", "one-slot", changes={"method.slots_per_task": 1},
            why="The authors' code of January 2019 filled the memory twice a task, so that every task has two "
            "constraints, each from half as many images; the twin has one, as their later code." + sampled,
        ),
        Twin(
            table, "gem", str(larger), changes={"method.capacity": larger},
            why=f"The authors ran GEM with two sizes of memory and do not say which is printed; the twin has the "
            f"larger, {larger} images, as Naive rehearsal-C." + sampled,
        ),
        *(
            Twin(
                table, row, "half-and-half", changes={"method.mixing": "balanced"},
                why="The paper's text says that half of every batch comes from the memory; the authors' code shuffles "
                "new data and the repeated memory together. The twin follows the text: 64 and 64.",
            )
            for row in ("rehearsal", "rehearsal-c")
        ),
    ]  # fmt: skip


_PENALTIES = ("l2", "ewc", "online-ewc", "si", "mas")
_SPLIT_GRID = dict(
    zip(_PENALTIES, ((10, 1000, 10000), (60, 6000, 60000), (10, 1000, 10000), (60, 6000, 60000), (0.1, 10, 100)),
        strict=True)
)  # fmt: skip
_PERMUTED_GRID = dict(
    zip(_PENALTIES, ((0.001, 0.01, 0.1), (1, 100, 1000), (5, 500, 5000), (0.03, 3, 30), (0.0003, 0.03, 0.3)),
        strict=True)
)  # fmt: skip
"""The row's own weight times 0.1, 10 and 100; the row of L2 has weight 0 in permuted class."""

TWINS: tuple[Twin, ...] = (
    *_memory_twins("table2", 4400),
    *_memory_twins("table3", 16000),
    *(
        Twin(
            "table3", row, "per-sample", columns=("domain",), changes={"method.estimator": "sample"},
            why="The authors' script of this column squares the gradients of mini-batches; all their other scripts, "
            "and the twin, square those of single images, which is the Fisher information.",
        )
        for row in ("ewc", "online-ewc")
    ),
    Twin(
        "table3", "l2", "searched", columns=("class",), grid={"class": _PERMUTED_GRID["l2"]},
        why="The authors' script has a weight of 0 here, which is plain Adam; the twin is the best of a grid of "
        "weights, chosen by test accuracy as the paper's were.",
    ),
    Twin(
        "table3", "sgd", "text", columns=("task",), changes={"training.lr": 0.001},
        why="The paper's text says a learning rate of 0.001; the authors' script of this column has 0.01.",
    ),
    *(
        Twin(
            "table4", row, "searched", columns=("split/known", "permuted/known"),
            grid={"split/known": _SPLIT_GRID[row], "permuted/known": _PERMUTED_GRID[row]},
            why="No script tells the weights of the columns with known classes: the row has those of the unknown "
            "ones, the twin the best of a grid around them, chosen by test accuracy as the paper's were.",
        )
        for row in _PENALTIES
    ),
)  # fmt: skip


def twins_of(table: str, rows: Iterable[str] | None = None) -> list[Twin]:
    """A table's twins: all, or those of these rows (`gem`) or names (`gem/one-slot`)."""
    known = [twin for twin in TWINS if twin.table == table]
    if not rows:
        return known
    asked = set(rows)
    return [twin for twin in known if asked & {twin.row, twin.full_name}]


def twin_names(table: str) -> list[str]:
    return [twin.full_name for twin in twins_of(table)]


def known_twin(table: str, name: str) -> str:
    """The name of a twin, or an error with the choices."""
    names = twin_names(table)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"twin {name!r} is not under {table}; {hint}choose from {', '.join(names) or 'none'}")
    return name


def rows_and_twins(
    table: str, names: Sequence[str], columns: Sequence[str], with_twins: bool, skip: Sequence[str] = ()
) -> tuple[list[str], list[Twin]]:
    """The rows and the twins that are asked for: `gem` is a row, `gem/one-slot` a twin; no names are all rows. A twin
    that is named but has none of these columns is refused."""
    asked = [known_twin(table, name) for name in names if "/" in name]
    plain = [name for name in names if "/" not in name]
    rows = chosen("row", plain, list(published()[table])) if plain or not asked else []
    rows = [row for row in rows if row not in skip]
    if with_twins and rows:
        asked += [twin.full_name for twin in twins_of(table, rows)]
    found = [twin for twin in twins_of(table) if twin.full_name in asked]
    for twin in found:
        if twin.full_name in names and not set(columns) & set(twin.columns):
            raise ValueError(
                f"twin {twin.full_name} has no column {', '.join(columns)}; choose from {', '.join(twin.columns)}"
            )
    return rows, found


@cache
def variants() -> dict[str, Variant]:
    """The settings of all twins, by the label that records carry."""
    return {
        label: variant for twin in TWINS for column in twin.columns for label, variant in twin.variants(column).items()
    }
