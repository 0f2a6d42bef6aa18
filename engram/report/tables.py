"""Tables for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from engram.report.footer import VERDICT_MARKS
from engram.report.layout import Document, Entry

VERDICT_COLOURS = {"agrees": "green", "higher": "red", "lower": "red", "missing": "dim"}


def print_document(document: Document, console: Console) -> None:
    """The table, its variants, and the lines below; what comes from studies and records is never markup."""
    if document.sections:
        print_table(document, console)
    if document.variants:
        print_variants(document, console)


def print_table(document: Document, console: Console) -> None:
    """Ours beside the published number, or above it if the console is narrow; a mark for the verdict."""
    width = 30 + (38 if document.published else 32) * len(document.columns) + 12 * len(document.extra)
    between = " " if console.width >= width else "\n"
    console.print(Text(f"{document.numbered} ({document.name})"))
    console.print(Text(document.legend))
    for view in fitting_views(document, console, between):
        console.print(view)
    for line in document.below:
        console.print(Text(line), style="dim")


def fitting_views(document: Document, console: Console, between: str) -> list[Table]:
    """The table, or its columns spread over as few tables as fit into the console: no column is squeezed."""
    columns = len(document.columns) + len(document.extra)
    for parts in range(1, columns + 1):
        size = -(-columns // parts)
        views = [
            view_of_columns(document, between, range(first, min(first + size, columns)))
            for first in range(0, columns, size)
        ]
        free = console.options.update(width=10_000)
        if all(Measurement.get(console, free, view).maximum <= console.width for view in views):
            return views
    return views


def view_of_columns(document: Document, between: str, places: range) -> Table:
    """Some columns of the table, beside the names of the rows."""
    headings = [*document.columns, *document.extra]
    titles = [row.title for row in document.rows]
    view = Table(show_lines=between == "\n")
    longest = max(map(len, titles), default=0)
    view.add_column(Text(" / ".join(filter(None, document.first))), min_width=10, max_width=min(max(longest, 10), 36))
    for place in places:
        view.add_column(Text(headings[place]), justify="right", no_wrap=True)
    for section in document.sections:
        for row in section.rows:
            entries = [*(entry_text(e, between) for e in row.entries), *map(Text, row.extra)]
            view.add_row(Text(row.title), *(entries[place] for place in places))
        if between == " ":
            view.add_section()
    return view


def entry_text(entry: Entry, between: str) -> Text:
    """`94.28 ± 2.12 n=10 (93.46 ± 2.01) ✓`, or with `* p 0.004` if there is no published number."""
    parts: list[str | tuple[str, str]] = []
    if entry.n or not entry.published:
        parts += [entry.value, "*" if entry.differs else "", (f" n={entry.n}" if entry.n else "", "dim")]
    if entry.published:
        verdict = entry.verdict or ""
        parts += [between if parts else "", (f"({entry.published})", "dim"), " "]
        parts.append((VERDICT_MARKS.get(verdict, ""), VERDICT_COLOURS.get(verdict, "")))
    elif entry.p:
        parts += [between, (entry.p, "dim")]
    return Text.assemble(*parts)


def print_variants(document: Document, console: Console) -> None:
    """Each variant beside its row: the difference over common seeds, and what is changed."""
    console.print("variants: rows with some values changed; not cells of the table")
    view = Table()
    for heading in ("variant", "column", "variant's", "row's", "difference"):
        view.add_column(heading, justify="left" if heading in ("variant", "column") else "right", no_wrap=True)
    for line in document.variants:
        value = Text.assemble(line.value, (f" n={line.n}" if line.n else "", "dim"))
        view.add_row(Text(line.name), Text(line.column), value, line.of_row, line.difference)
    console.print(view)
    for text in document.below_variants:
        console.print(Text(text), style="dim")
