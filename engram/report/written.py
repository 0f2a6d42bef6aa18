"""A comparison as the text of a file: Markdown, LaTeX or JSON, or what a terminal would show."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from typing import Literal

from rich.console import Console

from engram.report.footer import footer
from engram.report.latex import latex
from engram.report.markdown import markdown
from engram.report.tables import print_cells, print_twins
from engram.runs.records import Record
from engram.studies.hsu2018.cells import Cell
from engram.studies.hsu2018.twin_cells import TwinCell

Format = Literal["text", "markdown", "latex", "json"]


def written(form: Format, table: str, cells: Sequence[Cell], twins: Sequence[TwinCell], runs: Sequence[Record]) -> str:
    """`runs` are those that the cells were made of."""
    if form == "json":
        return json.dumps([cell.to_json() for cell in (*cells, *twins)]) + "\n"
    if form == "text":
        return as_text(lambda console: show(table, cells, twins, runs, console))
    return {"markdown": markdown, "latex": latex}[form](table, cells, twins, footer(table, cells, runs))


def show(
    table: str, cells: Sequence[Cell], twins: Sequence[TwinCell], runs: Sequence[Record], console: Console
) -> None:
    """On a terminal."""
    if cells:
        print_cells(table, cells, console, footer(table, cells, runs))
    if twins:
        print_twins(twins, console)


def as_text(shown: Callable[[Console], None]) -> str:
    """What a wide terminal would show, without its colours."""
    page = io.StringIO()
    shown(Console(file=page, width=150, highlight=False))
    return page.getvalue()
