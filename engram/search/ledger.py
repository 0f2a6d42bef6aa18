"""The tuning ledger: what a search spent on each method and what it found, from the records alone, without torch."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engram.runs.records import Record


@dataclass(frozen=True)
class Spent:
    """What some runs cost."""

    runs: int
    steps: int
    """Gradient steps."""
    seconds: float
    looks: int
    """Runs that were scored on the real test images."""


@dataclass(frozen=True)
class Tuned:
    """One method of a search."""

    scenario: str
    method: str
    selected_on: str
    """`holdout` or `test`."""
    trials: Spent
    finals: Spent
    best: float | None
    """Average accuracy of the trials over the grid, in percent; None: that trial diverged or failed."""
    median: float | None
    worst: float | None
    unfinished: int
    """Trials that diverged or failed; they rank below all others."""
    point: dict[str, Any]
    """The values of the best trial."""
    at_end: list[str]
    """Those of them that lie at an end of what was tried: a wider range might do better."""
    final: float | None
    """Mean of the reported runs with these values, on all training data and the real test images."""
    final_std: float | None
    """The population's."""
    n: int
    failed: int
    """Reported runs that diverged or failed."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def tuned(records: Sequence[Record]) -> list[Tuned]:
    """The ledger of a folder: a line for every method that has trials, in the order in which they were begun."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in once(records):
        groups.setdefault((record.scenario, record.method, record.search["selected_on"]), []).append(record)
    return [line(*name, group) for name, group in groups.items()]


def once(records: Iterable[Record]) -> list[Record]:
    """The runs of searches, each as it ended: a retry is the same run."""
    found: dict[str, Record] = {}
    for record in records:
        if record.search and (record.key not in found or found[record.key].status == "failed"):
            found[record.key] = record
    return list(found.values())


def line(scenario: str, method: str, selected_on: str, records: Sequence[Record]) -> Tuned:
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
        trials=spent(trials),
        finals=spent(finals),
        best=finite(ranked[-1]) if ranked else None,
        median=finite(statistics.median(ranked)) if ranked else None,
        worst=finite(ranked[0]) if ranked else None,
        unfinished=sum(r.status != "done" for r in trials),
        point=point,
        at_end=ends(point, trials),
        final=statistics.fmean(values) if values else None,
        final_std=statistics.pstdev(values) if values else None,
        n=len(values),
        failed=len(reported) - len(values),
    )


def ends(point: dict[str, Any], trials: Sequence[Record]) -> list[str]:
    """The numbers of a point that are the smallest or largest that was tried."""
    found = []
    for name, value in point.items():
        tried = sorted({r.search["point"][name] for r in trials})
        if isinstance(value, int | float) and value in (tried[0], tried[-1]):
            found.append(name)
    return found


def best(trials: Sequence[Record]) -> Record | None:
    """The trial with the highest average accuracy, of equal ones the middle of the plateau; None: none was finished."""
    top = max((score(r) for r in trials), default=-math.inf)
    equal = sorted((r for r in trials if score(r) == top), key=lambda r: tuple(r.search["point"].values()))
    return equal[(len(equal) - 1) // 2] if top > -math.inf else None


def score(record: Record) -> float:
    return record.average_accuracy if record.status == "done" and record.average_accuracy is not None else -math.inf


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def spent(records: Sequence[Record]) -> Spent:
    return Spent(
        runs=len(records),
        steps=sum(r.steps for r in records),
        seconds=sum(r.seconds for r in records),
        looks=sum(not r.spec["scenario"]["held_out"] for r in records),
    )
