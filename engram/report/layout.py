"""The layout of the printed tables: titles, groups of rows, columns under common headings, what is bold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engram.studies.hsu2018.cells import Cell

TITLES = {
    "adam": "Adam", "sgd": "SGD", "adagrad": "Adagrad", "l2": "L2", "rehearsal": "Naive rehearsal",
    "rehearsal-c": "Naive rehearsal-C", "ewc": "EWC", "online-ewc": "Online EWC", "si": "SI", "mas": "MAS",
    "lwf": "LwF", "gem": "GEM", "dgr": "DGR", "rtf": "RtF", "offline": "Offline (upper bound)",
}  # fmt: skip
"""Rows as print names them."""

HEADINGS = {
    "task": "Incremental task learning",
    "domain": "Incremental domain learning",
    "class": "Incremental class learning",
    "split": "Split MNIST",
    "permuted": "Permuted MNIST",
    "unknown": "No",
    "known": "Yes",
} | TITLES
"""Columns, and the two parts of `split/known`, as print heads them."""

MEMORY = ("rehearsal", "rehearsal-c", "gem", "dgr", "rtf")
"""Rows with a check mark in print's column Memory, below a thin rule in their group."""
NEEDS: dict[str, tuple[str, ...]] = {
    "boundaries": (
        "l2", "rehearsal", "rehearsal-c", "ewc", "online-ewc", "si", "mas", "lwf", "gem", "dgr", "rtf",
    ),
    "past data": ("rehearsal", "rehearsal-c", "gem", "offline"),
}  # fmt: skip
"""What the methods of the rows declare, without torch; a test compares."""
GROUPS: dict[str, tuple[str, ...]] = {
    "Baselines": ("adam", "sgd", "adagrad", "l2", "rehearsal", "rehearsal-c"),
    "Continual learning methods": ("ewc", "online-ewc", "si", "mas", "lwf", "gem", "dgr", "rtf"),
}
MARKS = {"agrees": "✓", "higher": "↑", "lower": "↓", "missing": "·"}


@dataclass(frozen=True)
class Row:
    """One line of a printed table."""

    name: str
    cells: tuple[Cell, ...]
    memory: bool
    bold: frozenset[str]
    """Columns in which it is the best of its group's rows with a memory."""

    @property
    def title(self) -> str:
        return TITLES.get(self.name, self.name)


@dataclass(frozen=True)
class Section:
    """A group of rows between two rules."""

    title: str
    rows: tuple[Row, ...]


def with_memory(table: str) -> bool:
    """Whether print has the column Memory, and bold numbers."""
    return table in ("table2", "table3")


def sections(table: str, cells: Sequence[Cell]) -> list[Section]:
    """The cells as print groups them."""
    names = list(dict.fromkeys(cell.row for cell in cells))
    grouped = [name for names_of in GROUPS.values() for name in names_of]
    groups = {title: [n for n in names if n in members] for title, members in GROUPS.items()}
    groups[""] = [name for name in names if name not in grouped]
    return [Section(title, rows(table, members, cells)) for title, members in groups.items() if members]


def rows(table: str, names: Sequence[str], cells: Sequence[Cell]) -> tuple[Row, ...]:
    of = {name: tuple(cell for cell in cells if cell.row == name) for name in names}
    best = {}
    if with_memory(table):
        remembering = [c for name in names if name in MEMORY for c in of[name] if c.ours is not None]
        for column in {cell.column for cell in remembering}:
            best[column] = max(cell.ours or 0.0 for cell in remembering if cell.column == column)
    return tuple(
        Row(
            name,
            of[name],
            name in MEMORY,
            frozenset(c.column for c in of[name] if name in MEMORY and c.column in best and c.ours == best[c.column]),
        )
        for name in names
    )


def headings(cells: Sequence[Cell]) -> list[tuple[str, list[str]]]:
    """The columns as print heads them: `split/known` is Yes under Split MNIST, `task` stands alone."""
    found: list[tuple[str, list[str]]] = []
    for column in dict.fromkeys(cell.column for cell in cells):
        first, _, second = column.partition("/")
        above = HEADINGS.get(first, first)
        below = HEADINGS.get(second, second)
        if found and below and found[-1][0] == above:
            found[-1][1].append(below)
        else:
            found.append((above, [below] if below else []))
    return found


def number(mean: float, spread: float | None, plus_minus: str = "±") -> str:
    """`94.28 ± 2.12`, or the mean alone where there is no spread."""
    return f"{mean:.2f}" if spread is None else f"{mean:.2f} {plus_minus} {spread:.2f}"


def ours(cell: Cell, plus_minus: str = "±") -> str:
    return "–" if cell.ours is None else number(cell.ours, cell.std if cell.n > 1 else None, plus_minus)


def duration(seconds: float) -> str:
    """`90 s`, `45 min`, `3 h 20 min`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
