"""Metrics on logits as the page shows them: a number per metric, per-class accuracy, confusion matrices. No torch."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from engram.analysis.metrics import mean_of
from engram.core.registry import METRICS
from engram.runs.records import Record

CONFUSION = "confusion"
MOST_PREDICTED = 30
"""Predicted classes up to which a confusion matrix is shown; with more there is accuracy per class alone."""


def metrics_data(runs: Sequence[Record]) -> list[dict[str, Any]]:
    """Each metric that these runs of one setting were measured by: title, and the number of each run at the end.

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
                          "left_out": len(having) - len(same)})  # fmt: skip
    return found


def stated_metric(run: Record, name: str) -> Any:
    """The metric as the run's spec states it, with a hash of its code."""
    return next((one for one in run.spec.get("metrics", []) if one.get("name") == name), None)


def metric_value(run: Record, name: str) -> float | None:
    """By the rule of a metric of the package; of one's own, the mean over tasks at the end."""
    if name in METRICS.built_in:
        try:
            value: float | None = METRICS[name]().of(run)
        except (TypeError, ValueError, ZeroDivisionError):  # anyone may have written the record
            return None
        return value
    return mean_of(run.extra[name][-1]) if run.extra[name] else None


def classes_data(runs: Iterable[Record]) -> list[dict[str, Any]]:
    """Per task: how often which class was taken for which at the end, over all runs that know."""
    by_task: dict[int, Counter[tuple[int, int]]] = {}
    for run in runs:
        for task, cells in enumerate((run.extra.get(CONFUSION) or [[]])[-1]):
            for right, guess, number in filter(is_cell, cells or ()):
                by_task.setdefault(task, Counter())[right, guess] += number
    return [{"task": task + 1, **task_classes(counts)} for task, counts in sorted(by_task.items())]


def is_cell(cell: Any) -> bool:
    """Whether it is (right output, predicted output, how many)."""
    return isinstance(cell, list) and len(cell) == 3 and all(isinstance(n, int) and n >= 0 for n in cell)


def task_classes(counts: Counter[tuple[int, int]]) -> dict[str, Any]:
    """Rows of shares in percent: of a right class, each predicted one; the accuracy of the class first."""
    predicted = sorted({guess for _, guess in counts})
    rows = []
    for right in sorted({right for right, _ in counts}):
        total = sum(number for (one, _), number in counts.items() if one == right) or 1
        shares = [100 * counts[right, guess] / total for guess in predicted]
        accuracy = 100 * counts[right, right] / total
        rows.append({"right": right, "accuracy": accuracy, "shares": shares if len(shares) <= MOST_PREDICTED else []})
    return {"predicted": predicted if len(predicted) <= MOST_PREDICTED else [], "rows": rows}
