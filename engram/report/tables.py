"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from engram.paper.cells import TABLES, Cell

MARKS = {"agrees": "[green]✓[/]", "higher": "[red]↑[/]", "lower": "[red]↓[/]", "missing": "[dim]·[/]"}
TITLES = {
    "adam": "Adam", "sgd": "SGD", "adagrad": "Adagrad", "l2": "L2", "rehearsal": "Naive rehearsal",
    "rehearsal-c": "Naive rehearsal-C", "ewc": "EWC", "online-ewc": "Online EWC", "si": "SI", "mas": "MAS",
    "lwf": "LwF", "gem": "GEM", "dgr": "DGR", "rtf": "RtF", "offline": "Offline (upper bound)",
}  # fmt: skip


def print_cells(table: str, cells: Sequence[Cell], console: Console) -> None:
    """Ours beside print, or above it where the console is narrow; a mark for the verdict."""
    columns = list(dict.fromkeys(cell.column for cell in cells))
    between = " " if console.width >= 30 + 38 * len(columns) else "\n"
    console.print(f"{table}: {TABLES[table][0]}, average accuracy in percent, ours (print)")
    view = Table(show_lines=between == "\n")
    view.add_column("method", min_width=10)
    for column in columns:
        view.add_column(column, justify="right", no_wrap=True)
    for row in dict.fromkeys(cell.row for cell in cells):
        view.add_row(TITLES.get(row, row), *(text(cell, between) for cell in cells if cell.row == row))
    console.print(view)
    counts = {name: sum(cell.verdict == name for cell in cells) for name in MARKS}
    telling = [cell for cell in cells if cell.telling and cell.verdict != "missing"]
    console.print(
        f"{counts['agrees']} agree ✓, {counts['higher']} higher ↑, {counts['lower']} lower ↓, "
        f"{counts['missing']} missing ·; of {len(telling)} telling cells "
        f"{sum(cell.verdict == 'agrees' for cell in telling)} agree. ± is the population deviation over n runs."
    )


def text(cell: Cell, between: str) -> str:
    printed = f"[dim]({cell.paper:.2f} ± {cell.paper_std:.2f})[/] {MARKS[cell.verdict]}"
    if cell.ours is None:
        return printed
    spread = f" ± {cell.std:.2f}" if cell.n > 1 else ""
    return f"{cell.ours:.2f}{spread} [dim]n={cell.n}[/]{between}{printed}"
