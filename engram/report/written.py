"""A table as text in any format: as on a terminal, Markdown, LaTeX, CSV, JSON. No torch."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from typing import Any, Literal

from rich.console import Console

from engram.report.latex import write_latex
from engram.report.layout import make_document
from engram.report.markdown import write_markdown
from engram.report.tables import print_document
from engram.studies.study import Study
from engram.studies.table import Cell, VariantCell

Format = Literal["text", "markdown", "latex", "csv", "json"]
JsonForm = Literal["compare", "study"]
"""The keys of a cell: as `compare --json` has them, or as `study --format json`."""
CSV_COLUMNS = ("row", "column", "mean", "std", "n", "p", "difference", "pairs", "memory", "seconds", "failed")
CSV_PUBLISHED = ("paper", "paper_std", "verdict")


def write_table(
    format: Format,
    study: Study,
    cells: Sequence[Cell],
    variants: Sequence[VariantCell] = (),
    json_form: JsonForm = "compare",
) -> str:
    """The table of a study, and the variants below it."""
    if format == "json":
        return json.dumps([cell_json(cell, json_form) for cell in (*cells, *variants)]) + "\n"
    if format == "csv":
        return write_csv(study, (*cells, *variants))
    if format == "text":
        return as_text(lambda console: show_table(study, cells, variants, console))
    write = {"markdown": write_markdown, "latex": write_latex}[format]
    return write(make_document(study, cells, variants))


def show_table(study: Study, cells: Sequence[Cell], variants: Sequence[VariantCell], console: Console) -> None:
    """On a terminal."""
    print_document(make_document(study, cells, variants), console)


def as_text(show_on: Callable[[Console], None]) -> str:
    """What a wide terminal would show, without its colours."""
    page = io.StringIO()
    show_on(Console(file=page, width=150, highlight=False, force_jupyter=False))
    return page.getvalue()


def cell_json(cell: Cell, form: JsonForm) -> dict[str, Any]:
    if form == "compare":
        return cell.to_json()
    found = cell.to_study_json()
    if isinstance(cell, VariantCell):  # tested against its row, not against the baseline
        found |= {"p": cell.p, "difference": cell.difference, "pairs": cell.pairs}
    return found


def write_csv(study: Study, cells: Sequence[Cell]) -> str:
    """A line per cell. Of a variant, p, difference and pairs are against its row; of a row, against the baseline."""
    file = io.StringIO()
    names = (*CSV_COLUMNS, *(CSV_PUBLISHED if study.is_published else ()))
    writer = csv.DictWriter(file, names, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(cell_json(cell, "study") for cell in cells)
    return file.getvalue()
