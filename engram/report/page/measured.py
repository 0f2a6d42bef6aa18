"""Metrics as the page shows them: a number per metric and setting, and how it went along the tasks. No torch."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from engram.analysis.metrics import mean_of
from engram.core.registry import METRICS
from engram.report.page.classes import CONFUSION
from engram.runs.records import Record
from engram.runs.soundness import RECORDED_METRICS


def recorded_data(runs: Sequence[Record]) -> dict[str, list[Any]]:
    """The metrics that every record has: title → [mean, standard deviation, number of runs]."""
    found = {}
    for name in RECORDED_METRICS:
        values = [value for run in runs if (value := getattr(run, name)) is not None]
        if values:
            found[name.replace("_", " ")] = [statistics.fmean(values), statistics.pstdev(values), len(values)]
    return found


def metrics_data(runs: Sequence[Record]) -> list[dict[str, Any]]:
    """Each metric on logits that these runs of one setting were measured by: title, the number of each run at the end,
    and the mean over the tasks seen after each task.

    Runs that another version of the metric measured than the latest run's are left out, and counted.
    """
    found = []
    for name in dict.fromkeys(name for run in runs for name in run.extra if name != CONFUSION):
        having = [run for run in runs if name in run.extra]
        latest = stated_metric(having[-1], name)
        same = [run for run in having if stated_metric(run, name) == latest]
        values = [value for run in same if (value := metric_value(run, name)) is not None]
        if values:
            title = str(METRICS.facts(name).literals.get("title") or name) if name in METRICS else name
            std = statistics.pstdev(values)
            found.append({"title": title, "mean": statistics.fmean(values), "std": std, "n": len(values),
                          "left_out": len(having) - len(same), "along": along_tasks(same, name)})  # fmt: skip
    return found


def along_tasks(runs: Sequence[Record], name: str) -> list[float]:
    """After each task the mean over the tasks seen, over runs; empty if it is not one number per task."""
    rows = [[mean_of(row) for row in run.extra[name]] for run in runs]
    if not all(all(is_plain(row) for row in run.extra[name]) for run in runs) or len({len(row) for row in rows}) != 1:
        return []
    columns = [[value for value in column if value is not None] for column in zip(*rows, strict=True)]
    return [statistics.fmean(column) for column in columns] if all(columns) else []


def is_plain(row: Any) -> bool:
    """Whether it has a number per task, or nothing where the metric gave none."""
    return isinstance(row, list) and all(value is None or isinstance(value, int | float) for value in row)


def stated_metric(run: Record, name: str) -> Any:
    """The metric as the run's spec states it, with a hash of its code."""
    stated = run.spec.get("metrics", [])
    listed = stated if isinstance(stated, list) else []
    return next((one for one in listed if isinstance(one, Mapping) and one.get("name") == name), None)


def metric_value(run: Record, name: str) -> float | None:
    """By the rule of a metric of the package; of one's own, the mean over tasks at the end."""
    if name in METRICS.built_in:
        try:
            value: float | None = METRICS[name]().of(run)
        except (TypeError, ValueError, ZeroDivisionError):  # anyone may have written the record
            return None
        return value
    return mean_of(run.extra[name][-1]) if run.extra[name] else None
