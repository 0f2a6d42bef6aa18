"""Claims: what the paper concludes from its tables, each as comparisons of cells that can be tested. No torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from engram.studies.hsu2018.cells import QUEUE_TABLES

MARGIN = 2.0
"""Points within which two methods are about as good as each other."""
MUCH = 10.0
"""Points from which on a method is much better than another."""

Expected = Literal["above", "below", "within", "not above", "no difference"]


class Place(NamedTuple):
    """A cell of a printed table."""

    table: str
    row: str
    column: str

    def __str__(self) -> str:
        return f"{self.table} {self.row} {self.column}"


@dataclass(frozen=True)
class Part:
    """One comparison: a less b, against what the claim expects of it."""

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
        """`Table 2, class: si − adagrad is above −2`, with the words that the two have in common said once."""
        if self.a.table == self.b[0].table and self.a.column == self.b[0].column:
            where, a, b = f"{self.a.table} {self.a.column}", self.a.row, ", ".join(place.row for place in self.b)
            if self.a.table in QUEUE_TABLES:  # whose rows are numbers of tasks
                a, b = f"after {a} tasks", f"after {b}"
        elif self.a.table == self.b[0].table:
            where, a, b = f"{self.a.table} {self.a.row}", self.a.column, ", ".join(place.column for place in self.b)
        else:
            where, a, b = f"{self.a.row} {self.a.column}", self.a.table, ", ".join(place.table for place in self.b)
        b = f"best of ({b})" if len(self.b) > 1 else b
        return f"{where}: {a} − {b} {self.expects}"

    @property
    def expects(self) -> str:
        if self.expected == "within":
            return f"within ±{self.by:g}"
        if self.expected in ("above", "below"):
            return f"{self.expected} {self.by:g}".replace("-", "−")
        return {"not above": "not significantly above 0", "no difference": "not significantly different"}[self.expected]


@dataclass(frozen=True)
class Heads:
    """Random heads less zero heads, in runs on the long queue that are otherwise the same."""

    method: str
    expected: Expected = "above"
    thresholds = (MUCH,)

    @property
    def text(self) -> str:
        return f"long queue, {self.method}: random − zero heads above {MUCH:g}"


AnyPart = Part | Heads


class Group(NamedTuple):
    """Parts of which all, or more than half, must hold."""

    how_many: Literal["all", "most"]
    parts: tuple[AnyPart, ...]


@dataclass(frozen=True)
class Claim:
    """A conclusion of the paper; it holds where all its groups do."""

    number: int
    text: str
    groups: tuple[Group, ...]

    @property
    def parts(self) -> list[AnyPart]:
        return [part for group in self.groups for part in group.parts]


KINDS = ("task", "domain", "class")
BASELINES = ("adam", "sgd", "adagrad", "l2", "rehearsal", "rehearsal-c")
PENALTIES = ("ewc", "online-ewc", "si", "mas")
REPLAY = ("gem", "dgr", "rtf")
MNIST = ("table2", "table3")


def versus(
    table: str, a: str, b: str | tuple[str, ...], column: str, expected: Expected = "above", by: float = 0.0
) -> Part:
    """Two rows of one column; `b` may be several, of which the best counts."""
    rows = (b,) if isinstance(b, str) else b
    return Part(Place(table, a, column), tuple(Place(table, row, column) for row in rows), expected, by)


def known(images: str, row: str, expected: Expected, by: float) -> Part:
    """The number of classes known, less unknown."""
    return Part(Place("table4", row, f"{images}/known"), (Place("table4", row, f"{images}/unknown"),), expected, by)


def all_of(parts: Iterable[AnyPart]) -> Group:
    return Group("all", tuple(parts))


def most_of(parts: Iterable[AnyPart]) -> Group:
    return Group("most", tuple(parts))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        1, "Adagrad and L2 do better than online EWC and about as well as SI (Table 2).",
        (
            all_of(versus("table2", row, "online-ewc", kind) for row in ("adagrad", "l2") for kind in KINDS),
            all_of(versus("table2", row, "si", kind, by=-MARGIN) for row in ("adagrad", "l2") for kind in KINDS),
        ),
    ),
    Claim(
        2, "Naive rehearsal is about as good as GEM, DGR and RtF at the same memory, and much better than "
        "regularisation, most of all in class learning.",
        (
            all_of(versus(t, "rehearsal", row, kind, by=-MARGIN) for t in MNIST for row in REPLAY for kind in KINDS),
            all_of(
                versus(t, "rehearsal", PENALTIES, kind, by=MUCH if kind == "class" else 0.0)
                for t in MNIST for kind in KINDS
            ),
        ),
    ),
    Claim(
        3, "Task learning is easier than domain learning, and that easier than class learning.",
        tuple(
            all_of(
                Part(Place(t, row, easier), (Place(t, row, harder),))
                for row in (*BASELINES, *PENALTIES, "lwf", *REPLAY)
                for easier, harder in (("task", "domain"), ("domain", "class"))
            )
            for t in MNIST
        ),
    ),
    Claim(
        4, "With permutation, SI and online EWC beat Adagrad significantly in class learning only.",
        (
            all_of(versus("table3", row, "adagrad", "class") for row in ("si", "online-ewc")),
            all_of(
                versus("table3", row, "adagrad", kind, "not above")
                for row in ("si", "online-ewc") for kind in ("task", "domain")
            ),
        ),
    ),
    Claim(
        5, "The six baselines do as well or better on Permuted than on Split MNIST.",
        (
            all_of(
                Part(Place("table3", row, kind), (Place("table2", row, kind),), by=-MARGIN)
                for row in BASELINES for kind in KINDS
            ),
        ),
    ),
    Claim(
        6, "Knowing the number of classes in advance helps much on Permuted, hardly on Split MNIST (Table 4).",
        (
            most_of(known("permuted", row, "above", MUCH) for row in (*BASELINES, *PENALTIES)),
            most_of(known("split", row, "within", MARGIN) for row in (*BASELINES, *PENALTIES)),
        ),
    ),
    Claim(
        7, "EWC against Adagrad is not significant in most settings.",
        (
            most_of((
                *(versus(t, "ewc", "adagrad", kind, "no difference") for t in MNIST for kind in KINDS),
                *(versus("table4", "ewc", "adagrad", f"{images}/known", "no difference")
                  for images in ("split", "permuted")),
            )),
        ),
    ),
    Claim(
        8, "On the long queue badly weighted SI and online EWC fall below Adam, while Adagrad needs no tuning.",
        (
            all_of(
                Part(Place(t, "78", f"{row}/worst"), (Place(t, "78", "adam"),), "below")
                for t in QUEUE_TABLES for row in ("si", "online-ewc")
            ),
            all_of(Part(Place(t, "78", "adagrad"), (Place(t, "78", "adam"),)) for t in QUEUE_TABLES),
        ),
    ),
    Claim(
        9, "Regularisers are sensitive to how heads are initialised: random heads are much better than zero heads.",
        (all_of(Heads(row) for row in ("si", "online-ewc")),),
    ),
    Claim(
        10, "Regularisers go on degrading as the queue lengthens.",
        (
            all_of(
                Part(Place(t, "78", f"{row}/best"), (Place(t, "11", f"{row}/best"),), "below")
                for t in QUEUE_TABLES for row in ("si", "online-ewc")
            ),
        ),
    ),
)  # fmt: skip
