"""The tuning ledger: what a search cost for each method and what it found. Reads only records; no torch."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engram.runs.records import Record


@dataclass(frozen=True)
class Cost:
    """The cost of some runs."""

    runs: int
    steps: int
    """Gradient steps."""
    seconds: float
    looks: int
    """Number of runs that were scored on the real test images."""


@dataclass(frozen=True)
class Tuned:
    """The result of a search for one method."""

    scenario: str
    method: str
    selected_on: str
    """`holdout` or `test`."""
    trials: Cost
    finals: Cost
    best: float | None
    """Average accuracy of the best trial in percent; None if it diverged or failed."""
    median: float | None
    worst: float | None
    unfinished: int
    """Number of trials that diverged or failed; they rank below all others."""
    point: dict[str, Any]
    """The values of the best trial."""
    at_end: list[str]
    """The fields whose best value is at an end of the range: a wider range might be better."""
    final: float | None
    """Mean accuracy of the reported runs with these values, on all training data and the real test images."""
    final_std: float | None
    """Population standard deviation of the same runs."""
    n: int
    failed: int
    """Number of reported runs that diverged or failed."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def tuned(records: Sequence[Record]) -> list[Tuned]:
    """The ledger of a folder's records: one entry per method with trials, in the order of their first trials."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in deduplicate(records):
        groups.setdefault((record.scenario, record.method, record.search["selected_on"]), []).append(record)
    return [summarize_method(*name, group) for name, group in groups.items()]


def deduplicate(records: Iterable[Record]) -> list[Record]:
    """The runs of searches, one record per run: the one that did not fail, if there is one."""
    runs: dict[str, Record] = {}
    for record in records:
        if record.search and (record.key not in runs or runs[record.key].status == "failed"):
            runs[record.key] = record
    return list(runs.values())


def summarize_method(scenario: str, method: str, selected_on: str, records: Sequence[Record]) -> Tuned:
    trials = [r for r in records if r.search["stage"] == "trial"]
    finals = [r for r in records if r.search["stage"] == "final"]
    ranked = sorted(score(r) for r in trials)
    winner = best(trials)
    point = winner.search["point"] if winner else {}
    reported = [r for r in finals if r.search["point"] == point]
    values = [r.average_accuracy for r in reported if r.status == "done" and r.average_accuracy is not None]
    return Tuned(
        scenario=scenario,
        method=method,
        selected_on=selected_on,
        trials=total_cost(trials),
        finals=total_cost(finals),
        best=finite_or_none(ranked[-1]) if ranked else None,
        median=finite_or_none(statistics.median(ranked)) if ranked else None,
        worst=finite_or_none(ranked[0]) if ranked else None,
        unfinished=sum(r.status != "done" for r in trials),
        point=point,
        at_end=fields_at_ends(point, trials),
        final=statistics.fmean(values) if values else None,
        final_std=statistics.pstdev(values) if values else None,
        n=len(values),
        failed=len(reported) - len(values),
    )


def fields_at_ends(point: dict[str, Any], trials: Sequence[Record]) -> list[str]:
    """The fields of a point whose value is the smallest or largest number that was tried."""
    names = []
    for name, value in point.items():
        tried = [v for r in trials if isinstance(v := r.search["point"].get(name), int | float)]
        if isinstance(value, int | float) and value in (min(tried), max(tried)):
            names.append(name)
    return names


def best(trials: Sequence[Record]) -> Record | None:
    """The trial with the highest average accuracy; of equal trials the middle one; None if no trial finished."""
    top = max((score(r) for r in trials), default=-math.inf)
    equal = sorted((r for r in trials if score(r) == top), key=point_order)
    return equal[(len(equal) - 1) // 2] if top > -math.inf else None


def point_order(trial: Record) -> list[tuple[bool, Any]]:
    """Numbers by size, then words: trials of other grids may have either under a name."""
    return [(isinstance(value, str), value) for value in trial.search["point"].values()]


def score(record: Record) -> float:
    return record.average_accuracy if record.status == "done" and record.average_accuracy is not None else -math.inf


def finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def total_cost(records: Sequence[Record]) -> Cost:
    return Cost(
        runs=len(records),
        steps=sum(r.steps for r in records),
        seconds=sum(r.seconds for r in records),
        looks=sum(not r.spec["scenario"]["held_out"] for r in records),
    )
