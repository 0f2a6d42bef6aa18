"""Methods across papers: as text, Markdown, LaTeX, CSV or JSON. No torch."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence

from rich.console import Console

from engram.report.footer import agreement
from engram.report.latex import write_latex
from engram.report.layout import Document, Section, TableRow, make_entry, mean_text, our_text, printable
from engram.report.markdown import write_markdown
from engram.report.tables import print_document
from engram.report.written import Format, as_text
from engram.studies.across import Disagreement, Place
from engram.studies.bridge import Bridge, Effect
from engram.studies.study import method_title

ACROSS = "Methods across papers"
ACROSS_LEGEND = "Average accuracy in percent, ours and the published numbers."
ROWS_PER_PAGE = 30
"""Of LaTeX: a longer table would not fit."""
CSV_OF_METHODS = ("method", "study", "scenario", "row", "column", "ours", "std", "n", "paper", "paper_std", "verdict")


def write_across(form: Format, places: Sequence[Place], disagreements: Sequence[Disagreement]) -> str:
    """All of it, in one of the formats."""
    if form == "json":
        found = {"cells": [p.to_json() for p in places], "disagreements": [d.to_json() for d in disagreements]}
        return json.dumps(found) + "\n"
    if form == "csv":
        file = io.StringIO()
        writer = csv.DictWriter(file, CSV_OF_METHODS, restval="", extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(place.to_json() for place in places)
        return file.getvalue()
    if form == "text":
        return as_text(lambda console: show_across(places, disagreements, console))
    sections = sections_of(places)
    below = lines_below_methods(places, disagreements)
    if form == "markdown":
        return write_markdown(document_of(sections, below))
    pages = list(fill_pages(sections))
    return "\n".join(
        write_latex(document_of(page, below if number == len(pages) else ())) for number, page in enumerate(pages, 1)
    )


def show_across(places: Sequence[Place], disagreements: Sequence[Disagreement], console: Console) -> None:
    """On a terminal."""
    print_document(document_of(sections_of(places), lines_below_methods(places, disagreements)), console)


def document_of(sections: Sequence[Section], below: Sequence[str]) -> Document:
    return Document(
        name="methods",
        title=ACROSS,
        numbered=ACROSS,
        legend=ACROSS_LEGEND,
        published=True,
        first=("Method and protocol", ""),
        columns=("average accuracy",),
        headings=(("average accuracy", ()),),
        sections=tuple(sections),
        below=tuple(map(printable, below)),
    )


def sections_of(places: Sequence[Place]) -> list[Section]:
    """A section per method, a row per protocol."""
    return [
        Section(
            method_title(method),
            tuple(
                TableRow(
                    place.protocol,
                    f"{printable(place.title)}  {place.protocol}",
                    (make_entry(place.study, place.cell, bold=False),),
                )
                for place in places
                if place.method == method
            ),
        )
        for method in dict.fromkeys(place.method for place in places)
    ]


def fill_pages(sections: Sequence[Section]) -> Iterator[list[Section]]:
    """Sections in pages of so many rows, a section never parted unless it is alone."""
    page: list[Section] = []
    for section in sections:
        if page and sum(len(one.rows) for one in (*page, section)) > ROWS_PER_PAGE:
            yield page
            page = []
        page.append(section)
    if page:
        yield page


def lines_below_methods(places: Sequence[Place], disagreements: Sequence[Disagreement]) -> list[str]:
    lines = [agreement([place.cell for place in places])]
    if disagreements:
        lines.append(
            "Two papers disagree about the same method and scenario, by more than three standard errors of their "
            "difference:"
        )
    return [*lines, *map(disagreement_text, disagreements)]


def disagreement_text(found: Disagreement) -> str:
    """`Adam in split-mnist/task: 93.46 ± 2.01 in hsu2018/table2 (ours 94.28 ± 2.12), …`"""
    sides = [
        f"{mean_text(cell.paper or 0.0, cell.paper_std)} in {study.name} (ours {our_text(cell)})"
        for cell, study in ((place.cell, place.study) for place in (found.first, found.second))
    ]
    apart = signed(found.apart)
    text = f"{method_title(found.first.method)} in {found.first.scenario}: {', '.join(sides)}; difference {apart}."
    return " ".join([text, *map(bridge_text, found.bridges)])


def bridge_text(bridge: Bridge) -> str:
    """Where the experiment is, and what it found so far."""
    pointer = f"engram compare {bridge.study} changes one difference at a time"
    measured = [change for change in bridge.changes if change.at_first is not None]
    if bridge.gap is None or not measured:
        return f"{pointer}; it has no runs of both ends yet."
    largest = sorted(measured, key=lambda change: -abs(change.at_first.mean if change.at_first else 0.0))
    parts = ", ".join(
        " ".join([change.name, " and ".join(with_seeds(e) for e in (change.at_first, change.at_second) if e)])
        for change in largest
    )
    return f"{pointer}: in all {with_seeds(bridge.gap)}; at the first end, and at the second, {parts}."


def with_seeds(effect: Effect) -> str:
    """`+1.20 (n 5)`: over how many seeds matters as much as the number."""
    return f"{effect_text(effect)} (n {len(effect.differences)})"


def effect_text(effect: Effect | None) -> str:
    return "–" if effect is None else signed(effect.mean)


def signed(points: float) -> str:
    """`+1.20`, with a real minus sign."""
    return f"{points:+.2f}".replace("-", "−")
