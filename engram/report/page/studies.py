"""Studies as the page shows them: papers and own studies, cells with the settings behind them, variants, claims."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from engram.core.registry import METRICS
from engram.report.claims import SIDES, judged_text, tally
from engram.report.layout import numbered_title
from engram.report.page.comparisons import compare_rows
from engram.report.page.settings import setting_id
from engram.report.page.values import values_by_seed
from engram.studies.catalog import FIRST, own_names, paper_names, results_of, study_names
from engram.studies.claims import claims_of
from engram.studies.hsu2018.queue import stand_ins
from engram.studies.outcomes import examine_claims
from engram.studies.study import Study
from engram.studies.table import Cell, Groups, Results, make_cells, make_variant_cells, shown_p

OWN, PACKAGE = "own", "engram"
"""The parts of the page for studies of the reader's own, and for those of the package that are no paper's."""


def tables_data(studies: Sequence[Study], records: Groups, known: Collection[str]) -> list[dict[str, Any]]:
    """The tables, each under a name of its own: two files of one name are two studies."""
    taken: set[str] = set()
    found = []
    for study in studies:
        name, number = page_name(study), 1
        while name in taken:
            number += 1
            name = f"{page_name(study)}-{number}"
        taken.add(name)
        found.append({**study_data(study, records, known), "name": name})
    return found


def places_of_settings(tables: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """setting → where it stands, `buzzega2020 er/200`: what tells it from other settings of its method."""
    found: dict[str, str] = {}
    for table in (table for table in tables if table["paper"] != OWN):
        for row in table["rows"]:
            for cell in (cell for cell in row["cells"] if cell["setting"] and table["head"] != "after task"):
                plain = "/" not in row["name"]
                found.setdefault(cell["setting"], table["paper"] if plain else f"{table['paper']} {row['name']}")
    return found


def has_runs(table: Mapping[str, Any]) -> bool:
    return any(cell["setting"] for row in table["rows"] for cell in row["cells"])


def papers_data(studies: Sequence[Study], tables: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the page switches between: the papers, then the studies of one's own; each with what has no runs yet."""
    found: dict[str, dict[str, Any]] = {}
    for study, table in zip(studies, tables, strict=True):
        about = {"name": table["paper"], "citation": study.paper if is_built_in(study) else "", "missing": []}
        paper = found.setdefault(table["paper"], about)
        if not has_runs(table):
            paper["missing"].append({"title": table["title"], "command": table["command"]})
    return list(found.values())


def study_data(study: Study, records: Groups, known: Collection[str]) -> dict[str, Any]:
    """A table: rows of cells, each with the setting whose runs it is made of, if the page has that setting."""
    results = results_of(study, records)
    cells = make_cells(results)
    names = list(dict.fromkeys(cell.row for cell in cells))
    by_place = {(cell.row, cell.column): cell for cell in cells}  # some rows exist in some columns only
    return {
        "name": page_name(study),
        "paper": part_of_page(study),
        "asked": bool(study.path),
        "title": numbered_title(study),
        "published": study.is_published,
        "head": study.first.partition("\n")[0],
        "metric": str(METRICS.facts(study.metric).literals.get("title") or study.metric),
        "baseline_row": study.baseline if study.baseline in study.rows else "",
        "baseline": study.row_title(study.baseline) if study.baseline in study.rows else "",
        "command": command_of(study),
        "remarks": stand_ins(run for cell in cells for run in cell.runs.records),
        "columns": [{"name": name, "scenario": column.scenario} for name, column in study.columns.items()],
        "rows": [
            {
                "name": row,
                "title": study.row_title(row),
                "cells": [cell_data(by_place.get((row, column)), row, column, known) for column in study.columns],
            }
            for row in names
        ],
        "tests": {} if study.first == "after task" else tests_by_column(cells),
        "variants": variants_data(results, known),
    }


def page_name(study: Study) -> str:
    """`table2` of the first paper, else the study's name."""
    return study.name.removeprefix(f"{FIRST}/")


def part_of_page(study: Study) -> str:
    if is_built_in(study):
        return study.name.partition("/")[0]
    return PACKAGE if not study.path and study.name in own_names() else OWN


def is_built_in(study: Study) -> bool:
    return not study.path and study.name in study_names()


def command_of(study: Study) -> str:
    """What makes the runs of a study."""
    own = study.path or (study.name if study.name in own_names() else f"{study.name}.toml")
    return f"engram reproduce {page_name(study)}" if is_built_in(study) else f"engram study {shlex.quote(own)}"


def cell_data(cell: Cell | None, row: str, column: str, known: Collection[str]) -> dict[str, Any]:
    """A cell; `absent` if the row does not exist in that column."""
    if cell is None:
        return {**Cell(row, column, notes=()).to_json(), "absent": True, "setting": None}
    test = cell.test if cell.test and cell.test.n else None
    found = {
        **cell.to_json(),
        "band": cell.band,
        "p": shown_p(cell.test),
        "difference": test.difference if test else None,
        "setting": known_setting(cell, known),
    }
    return found | values_apart(cell)


def values_apart(cell: Cell) -> dict[str, Any]:
    """The value of each run, unless it is the average accuracy, which the setting has."""
    accuracies = {r.seed: r.average_accuracy for r in cell.runs.records if r.status == "done"}
    return {} if cell.runs.values == accuracies else {"values": values_by_seed(cell.runs.values)}


def known_setting(cell: Cell, known: Collection[str]) -> str | None:
    """The id of the setting behind a cell, if it has runs."""
    found = setting_id(cell.setting) if cell.setting and cell.runs.records else None
    return found if found in known else None


def tests_by_column(cells: Sequence[Cell]) -> dict[str, dict[str, dict[str, Any]]]:
    columns: dict[str, dict[str, Any]] = {}
    for cell in cells:
        if cell.runs.values:
            columns.setdefault(cell.column, {})[cell.row] = cell.runs.values
    return {column: compare_rows(rows) for column, rows in columns.items() if len(rows) > 1}


def variants_data(results: Results, known: Collection[str]) -> list[dict[str, Any]]:
    """The variants that have runs, each with its setting."""
    study = results.study
    return [
        {
            **cell.to_json(),
            "setting": known_setting(cell, known),
            "of": study.row_title(study.variants[cell.row].row),
            **values_apart(cell),
        }
        for cell in make_variant_cells(results, list(study.variants.values()))
        if cell.n and known_setting(cell, known)
    ]


def claims_data(papers: Collection[str], records: Groups) -> list[dict[str, Any]]:
    """What these papers conclude, in their numbers and in these records, comparison by comparison."""
    return [
        {"paper": paper, "how": claims_of(paper)[0], "claims": claims_of_paper(paper, records)}
        for paper in paper_names()
        if paper in papers and claims_of(paper)[1]
    ]


def claims_of_paper(paper: str, records: Groups) -> list[dict[str, Any]]:
    return [
        {
            "number": result.claim.number,
            "text": result.claim.text,
            "notes": result.notes,
            **{side: {"outcome": result.outcome(side), "counts": tally(result, side)} for side in SIDES},
            "parts": [
                [part.text, published.outcome, judged_text(published), ours.outcome, judged_text(ours)]
                for part, published, ours in zip(result.claim.parts, result.print, result.ours, strict=True)
            ],
        }
        for result in examine_claims(paper, records)
    ]
