"""Twins beside their rows: our numbers as meant and as published, and the difference over common seeds. No torch."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engram.analysis.statistics import corrected, paired
from engram.runs.records import Record
from engram.studies.hsu2018.cells import Cell, accuracies, cell, preset_name, runs_by_label, taken
from engram.studies.hsu2018.twins import Twin


@dataclass(frozen=True)
class TwinCell(Cell):
    """A twin in one column; `row` is `gem/one-slot`, print is its row's."""

    of_row: float | None = None
    """Our mean of the row that it is a twin of."""
    difference: float | None = None
    """Twin less row, the mean over common seeds."""
    pairs: int = 0
    p: float | None = None
    """Of the paired permutation test, after Holm's correction over the twins that are shown."""
    seconds: float = 0.0
    """Of its runs, those of a grid's other weights included."""

    def says(self) -> str:
        """The difference in words."""
        if self.difference is None:
            return "–"
        seeds = f"{self.pairs} common seed{'s' if self.pairs > 1 else ''}"
        difference = f"{self.difference:+.2f}".replace("-", "−")
        return f"{difference} ({seeds}" + (")" if self.p is None else f", p {self.p:.2g})")


def twin_cells(table: str, records: Sequence[Record], twins: Sequence[Twin], columns: Iterable[str]) -> list[TwinCell]:
    """Some twins of a table in these columns."""
    runs = runs_by_label(records)
    asked = set(columns)
    found = [
        (twin, column, *best_of(twin, column, runs)) for twin in twins for column in twin.columns if column in asked
    ]
    tests = []
    for twin, column, of_twin, _ in found:
        of_row = accuracies(taken(runs, preset_name(table, twin.row, column)))
        common = sorted(set(of_row) & set(accuracies(of_twin)))
        tests.append(paired([of_row[s] for s in common], [accuracies(of_twin)[s] for s in common]))
    made = []
    for (twin, column, of_twin, chosen), test in zip(found, corrected(tests), strict=True):
        base = cell(table, twin.row, column, of_twin)
        row = accuracies(taken(runs, preset_name(table, twin.row, column)))
        made.append(
            TwinCell(
                **vars(base) | {"row": twin.full_name, "note": f"{twin.why} {chosen}".strip()},
                of_row=statistics.fmean(row.values()) if row else None,
                difference=test.difference if test.n else None,
                pairs=test.n,
                p=test.adjusted if test.can_show else None,
                seconds=sum(r.seconds for label in twin.variants(column) for r in runs.get(label, {}).values()),
            )
        )
    return made


def best_of(twin: Twin, column: str, runs: Mapping[str, dict[int, Record]]) -> tuple[dict[int, Record], str]:
    """The runs of a twin by seed; of a grid those of its best weight by mean accuracy, and which that is.

    Weights are compared over the seeds that all of them have.
    """
    labels = list(twin.variants(column))
    if not twin.grid:
        return runs.get(labels[0], {}), ""
    labels.append(preset_name(twin.table, twin.row, column))  # the row's own weight is one of the grid's
    found = {name: a for name in labels if (a := accuracies(runs.get(name, {})))}
    tried = sum(name in found for name in labels[:-1])
    if not tried:
        return {}, ""
    common = set.intersection(*map(set, found.values())) or set().union(*found.values())
    best = max(found, key=lambda name: statistics.fmean(a for seed, a in found[name].items() if seed in common))
    weight = best.rpartition("=")[2] if "=" in best else "the row's own"
    return runs[best], f"Best weight: {weight}, of {tried} of {len(labels) - 1} others run."
