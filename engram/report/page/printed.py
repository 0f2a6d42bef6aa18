"""The published tables as the page shows them: cells with the settings behind them, comparisons, twins, claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engram.report.claims import HOW, SIDES, counts, says
from engram.report.layout import TITLES
from engram.report.page.comparisons import comparisons
from engram.report.page.settings import Setting
from engram.runs.records import Record
from engram.studies.hsu2018.cells import QUEUE_TABLES, TABLES, accepted, band, cells, preset_name, runs_by_label
from engram.studies.hsu2018.claim_tests import results
from engram.studies.hsu2018.long_queue import NETS, Runs, Shown, remarks
from engram.studies.hsu2018.twin_cells import best_of, twin_cells
from engram.studies.hsu2018.twins import twins_of


def table_of(name: str, records: Sequence[Record], named: Mapping[str, Setting]) -> dict[str, Any]:
    """A published table: rows of cells in print's order, each with the setting whose runs it is made of."""
    rows: dict[str, list[dict[str, Any]]] = {}
    measured: dict[str, dict[str, Setting]] = {}
    queue = columns_of_queue(name, records) if name in QUEUE_TABLES else None
    runs = runs_by_label(records)
    for cell in cells(name, records):
        label = preset_name(name, cell.row, cell.column) if queue is None else label_of(queue[cell.column])
        setting = named.get(accepted(runs, label))
        if setting and setting.done and queue is None:
            measured.setdefault(cell.column, {})[cell.row] = setting
        values = list(setting.accuracies.values()) if setting else []
        rows.setdefault(cell.row, []).append(
            {
                **cell.to_json(),
                "band": band(cell.row, cell.paper_std, values),
                "setting": setting.id if setting else None,
            }
        )
    title, columns = TABLES[name]
    return {
        "name": name,
        "title": title,
        "head": "method" if queue is None else "after task",
        "remarks": remarks(run for shown in queue.values() for run in shown.runs) if queue else [],
        "columns": [{"name": column, "scenario": scenario} for column, scenario in columns.items()],
        "rows": [{"name": row, "title": TITLES.get(row, row), "cells": found} for row, found in rows.items()],
        "tests": {column: comparisons(found) for column, found in measured.items() if len(found) > 1},
        "twins": twins(name, records, named),
    }


def columns_of_queue(table: str, records: Sequence[Record]) -> dict[str, Shown]:
    runs = Runs(records)
    return {column: runs.column(NETS[table], column) for column in TABLES[table][1]}


def label_of(shown: Shown) -> str:
    """Of the runs that a column of Table 5 or 6 shows; empty where there are none."""
    return shown.setting.label(shown.scenario) if shown.setting else ""


def twins(table: str, records: Sequence[Record], named: Mapping[str, Setting]) -> list[dict[str, Any]]:
    """Rows as they were meant, where there are runs, each with the setting that it is."""
    known = twins_of(table)
    runs = runs_by_label(records)
    found = []
    for cell in twin_cells(table, records, known, TABLES[table][1]):
        twin = next(one for one in known if one.full_name == cell.row)
        of_twin, _ = best_of(twin, cell.column, runs)
        label = next((run.preset for run in of_twin.values() if run.preset), None)
        if cell.n and label and label in named:
            found.append({**cell.to_json(), "setting": named[label].id, "of": TITLES.get(twin.row, twin.row)})
    return found


def claims(records: Sequence[Record]) -> dict[str, Any]:
    """What the paper concludes, on print and on these records, comparison by comparison."""
    return {
        "how": HOW,
        "claims": [
            {
                "number": result.claim.number,
                "text": result.claim.text,
                "notes": result.notes,
                **{side: {"outcome": result.outcome(side), "counts": counts(result, side)} for side in SIDES},
                "parts": [
                    [part.text, in_print.outcome, says(in_print), ours.outcome, says(ours)]
                    for part, in_print, ours in zip(result.claim.parts, result.print, result.ours, strict=True)
                ],
            }
            for result in results(records)
        ],
    }
