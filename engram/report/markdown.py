"""A table as Markdown that GitHub renders."""

from __future__ import annotations

from collections.abc import Sequence

from engram.report.footer import notes, twin_notes
from engram.report.layout import MARKS, Row, headings, number, ours, sections, with_memory
from engram.studies.hsu2018.cells import QUEUE_TABLES, TABLES, Cell
from engram.studies.hsu2018.twin_cells import TwinCell


def markdown(table: str, cells: Sequence[Cell], twins: Sequence[TwinCell], footer: Sequence[str]) -> str:
    """The table in print's layout, ours above print in each cell; twins and the footer below it."""
    columns = [f"{above}<br>{below}" for above, parts in headings(cells) for below in parts or [""]]
    columns = [column.removesuffix("<br>") for column in columns]
    memory = ["Memory"] if with_memory(table) else []
    first = "Tasks" if table in QUEUE_TABLES else "Method<br>Known total #class?" if table == "table4" else "Method"
    lines = [
        f"**Table {table.removeprefix('table')}: {TABLES[table][0]}.** Average accuracy in percent, ours above print.",
        "",
        line([first, *memory, *columns]),
        line(["---", *(":-:" for _ in memory), *("--:" for _ in columns)]),
    ]
    for section in sections(table, cells):
        if section.title:
            lines.append(line([f"*{section.title}*", *("" for _ in memory + columns)]))
        for row in section.rows:
            mark = ["✓" if row.memory else ""] if memory else []
            lines.append(line([row.title, *mark, *(text(cell, row) for cell in row.cells)]))
    lines += ["", *(f"- {escaped(said)}" for said in (*footer, *notes(cells)))]
    lines = lines if cells else []
    if twins:
        lines += [
            *([""] if lines else []),
            *twin_lines(twins),
            "",
            *(f"- {escaped(said)}" for said in twin_notes(twins)),
        ]
    return "\n".join(lines) + "\n"


def line(entries: Sequence[str]) -> str:
    return "| " + " | ".join(entries) + " |"


def text(cell: Cell, row: Row) -> str:
    mean = ours(cell)
    mean = f"**{mean}**" if cell.column in row.bold else mean
    runs = f" (n = {cell.n})" if cell.n else ""
    return f"{mean}{runs}<br>print {number(cell.paper, cell.paper_std)} {MARKS[cell.verdict]} {cell.verdict}"


def twin_lines(twins: Sequence[TwinCell]) -> list[str]:
    """As meant beside as published, with the difference."""
    lines = [
        "**Twins.** As meant, where the authors' code departs from it; no cells of the table.",
        "",
        line(["Twin", "Column", "Twin's", "Row's", "Difference"]),
        line(["---", "---", "--:", "--:", "--:"]),
    ]
    for twin in twins:
        mean = f"{ours(twin)} (n = {twin.n})" if twin.n else "–"
        of_row = "–" if twin.of_row is None else f"{twin.of_row:.2f}"
        lines.append(line([twin.row, twin.column, mean, of_row, twin.says()]))
    return lines


def escaped(said: str) -> str:
    """Characters that would end a cell or start markup."""
    return said.replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")
