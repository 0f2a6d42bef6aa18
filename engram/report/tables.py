"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engram.report.footer import agreement, notes, twin_notes
from engram.report.layout import MARKS as PLAIN
from engram.report.layout import TITLES as TITLES
from engram.report.layout import number, ours
from engram.studies.hsu2018.cells import QUEUE_TABLES, TABLES, Cell
from engram.studies.hsu2018.twin_cells import TwinCell

COLOURS = {"agrees": "green", "higher": "red", "lower": "red", "missing": "dim"}
MARKS = {verdict: f"[{COLOURS[verdict]}]{mark}[/]" for verdict, mark in PLAIN.items()}


def print_cells(table: str, cells: Sequence[Cell], console: Console, footer: Sequence[str] = ()) -> None:
    """Ours beside print, or above it where the console is narrow; a mark for the verdict."""
    columns = list(dict.fromkeys(cell.column for cell in cells))
    between = " " if console.width >= 30 + 38 * len(columns) else "\n"
    console.print(f"{table}: {TABLES[table][0]}, average accuracy in percent, ours (print)")
    view = Table(show_lines=between == "\n")
    view.add_column("after task" if table in QUEUE_TABLES else "method", min_width=10)
    for column in columns:
        view.add_column(column, justify="right", no_wrap=True)
    for row in dict.fromkeys(cell.row for cell in cells):
        view.add_row(TITLES.get(row, row), *(text(cell, between) for cell in cells if cell.row == row))
    console.print(view)
    for line in footer or [agreement(cells)]:
        console.print(escape(line))
    if footer or table in QUEUE_TABLES:  # what stands in for EMNIST letters is always said
        for line in notes(cells):
            console.print(f"[dim]{escape(line)}[/]")


def text(cell: Cell, between: str) -> str:
    printed = f"[dim]({number(cell.paper, cell.paper_std)})[/] {MARKS[cell.verdict]}"
    if cell.ours is None:
        return printed
    return f"{ours(cell)} [dim]n={cell.n}[/]{between}{printed}"


def print_twins(twins: Sequence[TwinCell], console: Console) -> None:
    """As meant beside as published: the difference over common seeds, and what is changed."""
    console.print("twins: as meant, where the authors' code departs from it; no cells of the table")
    view = Table()
    for column in ("twin", "column", "twin's", "row's", "difference"):
        view.add_column(column, justify="left" if column in ("twin", "column") else "right", no_wrap=True)
    for twin in twins:
        mean = f"{ours(twin)} [dim]n={twin.n}[/]" if twin.n else "–"
        view.add_row(
            twin.row, twin.column, mean, "–" if twin.of_row is None else f"{twin.of_row:.2f}", twin.says()
        )  # fmt: skip
    console.print(view)
    for line in twin_notes(twins):
        console.print(f"[dim]{escape(line)}[/]")
