"""What a table says before any markup: headings, groups of rows, entries, variants, and the lines below. No torch."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from engram.core.messages import duration, size
from engram.core.registry import METHODS, METRICS
from engram.report.footer import lines_below, notes_of_variants
from engram.studies.study import Study, method_title
from engram.studies.table import Cell, VariantCell, shown_p
from engram.studies.verdict import Verdict

ABSENT = "–"


@dataclass(frozen=True)
class Entry:
    """What a table says in one place."""

    value: str
    """`94.28 ± 2.12`, or a dash if there are no runs; empty if there is no such cell."""
    n: int
    published: str = ""
    """The published number; empty if there is none."""
    verdict: Verdict | None = None
    p: str = ""
    """`p 0.004`: against the baseline, if the table tests that."""
    differs: bool = False
    """Whether that p counts as shown."""
    bold: bool = False


@dataclass(frozen=True)
class TableRow:
    """One row."""

    name: str
    title: str
    entries: tuple[Entry, ...]
    remembers: bool = False
    """Whether it has a check mark in the column Memory."""
    extra: tuple[str, ...] = ()
    """What it costs: memory and time."""


@dataclass(frozen=True)
class Section:
    """A group of rows between two rules."""

    title: str
    rows: tuple[TableRow, ...]


@dataclass(frozen=True)
class VariantLine:
    """A variant beside its row."""

    name: str
    column: str
    value: str
    n: int
    of_row: str
    difference: str


@dataclass(frozen=True)
class Document:
    """A table with all that stands around it; what is left to do is markup."""

    name: str
    title: str
    numbered: str
    """`Table 2: Split MNIST`; of a study that is no numbered table its title."""
    legend: str
    published: bool
    """Whether entries have published numbers and verdicts."""
    first: tuple[str, str]
    """The heading of the first column, in up to two lines."""
    columns: tuple[str, ...]
    """A heading per column, in one line."""
    headings: tuple[tuple[str, tuple[str, ...]], ...]
    """Columns under common headings: `split/known` is Yes under Split MNIST, `task` stands alone."""
    sections: tuple[Section, ...]
    below: tuple[str, ...]
    memory: bool = False
    """Whether there is a column Memory with check marks."""
    extra: tuple[str, ...] = ()
    """The headings of the columns at the end."""
    variants: tuple[VariantLine, ...] = ()
    below_variants: tuple[str, ...] = ()

    @property
    def rows(self) -> list[TableRow]:
        return [row for section in self.sections for row in section.rows]


def make_document(study: Study, cells: Sequence[Cell], variants: Sequence[VariantCell] = ()) -> Document:
    """The table of these cells; variants and notes below it."""
    above, _, below = study.first.partition("\n")
    published = study.is_published
    extra = () if published else cost_headings(cells)
    return Document(
        name=study.name,
        title=printable(study.title),
        numbered=printable(numbered_title(study)),
        legend=legend(study),
        published=published,
        first=(capitalize(printable(above)), printable(below)),
        columns=tuple(printable(study.columns[name].title or name) for name in names_of_columns(cells)),
        headings=tuple(make_headings(study, cells)),
        sections=tuple(make_sections(study, cells, extra)),
        below=tuple(map(printable, lines_below(study, cells))),
        memory=bool(study.memory_rows),
        extra=extra,
        variants=tuple(map(variant_line, variants)),
        below_variants=tuple(map(printable, notes_of_variants(variants))),
    )


def names_of_columns(cells: Sequence[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.column for cell in cells))


def numbered_title(study: Study) -> str:
    number = study.short_name.removeprefix("table")
    return f"Table {number}: {study.title}" if number.isdigit() else study.title


def legend(study: Study) -> str:
    """`Average accuracy in percent, ours and the published numbers.`"""
    if study.metric not in METRICS:  # numbers that were made elsewhere
        return f"{capitalize(study.metric)}."
    literals = METRICS.facts(study.metric).literals
    what = capitalize(str(literals.get("title") or study.metric))
    unit = "percent" if "unit" not in literals else str(literals["unit"])
    return f"{what} in {unit}" + (", ours and the published numbers." if study.is_published else ".")


def capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def end_sentence(text: str) -> str:
    """A title in front of a sentence; one that asks needs no full stop."""
    return text if text.endswith(("?", "!", ".")) else f"{text}."


def printable(text: str) -> str:
    """Text from studies and records in one line, without control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def make_headings(study: Study, cells: Sequence[Cell]) -> list[tuple[str, tuple[str, ...]]]:
    found: list[tuple[str, tuple[str, ...]]] = []
    for column in names_of_columns(cells):
        if study.columns[column].title:
            found.append((printable(study.columns[column].title), ()))
            continue
        first, _, second = column.partition("/")
        above, below = column_heading(study, first), column_heading(study, second)
        if found and below and found[-1][0] == above:
            found[-1] = (above, (*found[-1][1], below))
        else:
            found.append((above, (below,) if below else ()))
    return found


def column_heading(study: Study, part: str) -> str:
    """A column's name, or a part of it, as the study heads it; methods by their titles."""
    title = study.column_titles.get(part)
    return printable(title or (method_title(part) if part in METHODS else part))


def make_sections(study: Study, cells: Sequence[Cell], extra: Sequence[str]) -> list[Section]:
    """The rows in the study's groups; those of no group come last."""
    names = list(dict.fromkeys(cell.row for cell in cells))
    grouped = {name for members in study.groups.values() for name in members}
    groups = {printable(title): [n for n in names if n in members] for title, members in study.groups.items()}
    groups[""] = [name for name in names if name not in grouped]
    return [
        Section(title, tuple(make_rows(study, members, cells, extra))) for title, members in groups.items() if members
    ]


def make_rows(study: Study, names: Sequence[str], cells: Sequence[Cell], extra: Sequence[str]) -> list[TableRow]:
    """The rows of a group. Bold is the best of its rows with a memory, if the table marks those."""
    by_row = {name: [cell for cell in cells if cell.row == name] for name in names}
    columns = names_of_columns(cells)
    remembering = [c for name in names if name in study.memory_rows for c in by_row[name] if c.ours is not None]
    best: dict[str, float] = {}
    for cell in remembering:
        best[cell.column] = max(best.get(cell.column, float("-inf")), cell.ours or 0.0)
    bold = {(cell.row, cell.column) for cell in remembering if cell.ours == best[cell.column]}
    return [
        TableRow(
            name,
            printable(study.row_title(name)),
            tuple(make_entries(study, by_row[name], columns, bold)),
            name in study.memory_rows,
            row_costs(by_row[name], extra),
        )
        for name in names
    ]


def make_entries(
    study: Study, cells: Sequence[Cell], columns: Sequence[str], bold: Collection[tuple[str, str]]
) -> Iterator[Entry]:
    """An entry per column of one row; empty if the study has no such cell."""
    by_column = {cell.column: cell for cell in cells}
    for column in columns:
        cell = by_column.get(column)
        yield Entry("", 0) if cell is None else make_entry(study, cell, (cell.row, column) in bold)


def make_entry(study: Study, cell: Cell, bold: bool) -> Entry:
    if study.is_published:
        published = "" if cell.paper is None else mean_text(cell.paper, cell.paper_std)
        return Entry(our_text(cell), cell.n, published, cell.verdict, bold=bold)
    p = shown_p(cell.test)
    differs = p is not None and cell.test is not None and cell.test.shown
    return Entry(our_text(cell), cell.n, p="" if p is None else f"p {p:.2g}", differs=differs, bold=bold)


def mean_text(mean: float, spread: float | None) -> str:
    """`94.28 ± 2.12`, or the mean alone if there is no spread."""
    return f"{mean:.2f}" if spread is None else f"{mean:.2f} ± {spread:.2f}"


def our_text(cell: Cell) -> str:
    return ABSENT if cell.ours is None else mean_text(cell.ours, cell.std if cell.n > 1 else None)


def cost_headings(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Memory and time, unless the values were made elsewhere and nothing is known of them."""
    memory = ["Memory"] if any(cell.memory is not None for cell in cells) else []
    return (*memory, *(["Time"] if any(cell.seconds for cell in cells) else []))


def row_costs(cells: Sequence[Cell], extra: Sequence[str]) -> tuple[str, ...]:
    """The most bytes that a row keeps, and the median time of its runs."""
    most = max((cell.memory for cell in cells if cell.memory is not None), default=None)
    seconds = [r.seconds for cell in cells for r in cell.runs.records if r.status == "done"]
    texts = {
        "Memory": ABSENT if most is None else size(most) if most else "none",
        "Time": duration(statistics.median(seconds)) if seconds else ABSENT,
    }
    return tuple(texts[name] for name in extra)


def variant_line(cell: VariantCell) -> VariantLine:
    of_row = ABSENT if cell.of_row is None else f"{cell.of_row:.2f}"
    name, column = printable(cell.row), printable(cell.column)
    return VariantLine(name, column, our_text(cell), cell.n, of_row, cell.difference_text())
