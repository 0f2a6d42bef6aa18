"""A table as Markdown that GitHub renders."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from engram.report.footer import VERDICT_MARKS
from engram.report.layout import Document, Entry, end_sentence


def write_markdown(document: Document) -> str:
    """The table with ours above the published number in each cell; variants and notes below it."""
    parts = []
    if document.sections:
        parts += [table_lines(document), list_lines(document.below)]
    if document.variants:
        parts += [variant_lines(document), list_lines(document.below_variants)]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def table_lines(document: Document) -> list[str]:
    columns = [
        "<br>".join(escape_markdown(text) for text in (above, below) if text)
        for above, parts in document.headings
        for below in parts or ("",)
    ]
    memory = ["Memory"] if document.memory else []
    first = "<br>".join(escape_markdown(text) for text in document.first if text)
    lines = [
        f"**{escape_markdown(end_sentence(document.numbered))}** {escape_markdown(document.legend)}",
        "",
        markdown_row([first, *memory, *columns, *document.extra]),
        markdown_row(["---", *(":-:" for _ in memory), *("--:" for _ in (*columns, *document.extra))]),
    ]
    for section in document.sections:
        if section.title:
            empty = [""] * (len(memory) + len(columns) + len(document.extra))
            lines.append(markdown_row([f"*{escape_markdown(section.title)}*", *empty]))
        for row in section.rows:
            mark = ["✓" if row.remembers else ""] if memory else []
            entries = map(entry_markdown, row.entries)
            lines.append(markdown_row([escape_markdown(row.title), *mark, *entries, *map(escape_markdown, row.extra)]))
    return lines


def entry_markdown(entry: Entry) -> str:
    """`**94.28 ± 2.12** (n = 10)<br>published 93.46 ± 2.01 ✓ agrees`"""
    value = f"**{entry.value}**" if entry.bold else entry.value
    value += "\\*" if entry.differs else ""
    inside = ", ".join(filter(None, [f"n = {entry.n}" if entry.n else "", entry.p]))
    value += f" ({inside})" if inside else ""
    if not entry.published:
        return value
    verdict = f" {VERDICT_MARKS[entry.verdict]} {entry.verdict}" if entry.verdict else ""
    return f"{value}<br>published {entry.published}{verdict}"


def variant_lines(document: Document) -> list[str]:
    """Each variant beside its row."""
    lines = [
        "**Variants.** Rows with some values changed; not cells of the table.",
        "",
        markdown_row(["Variant", "Column", "Variant's", "Row's", "Difference"]),
        markdown_row(["---", "---", "--:", "--:", "--:"]),
    ]
    for line in document.variants:
        value = f"{line.value} (n = {line.n})" if line.n else line.value
        names = [escape_markdown(line.name), escape_markdown(line.column)]
        lines.append(markdown_row([*names, value, line.of_row, line.difference]))
    return lines


def list_lines(texts: Sequence[str]) -> list[str]:
    return [f"- {escape_markdown(text)}" for text in texts]


def markdown_row(entries: Sequence[str]) -> str:
    return "| " + " | ".join(entries) + " |"


def escape_markdown(text: str) -> str:
    """Text in which no character ends a cell or starts markup; entities, since not all renderers know `\\<`."""
    return re.sub(r"[\\`*_\[\]|~$]", r"\\\g<0>", html.escape(" ".join(text.splitlines()), quote=False))
