"""Metrics of a run, from `a[i][j]`: percent on task j after task i. Plain numbers, so that anyone can check them.

A full T × T matrix, in which tasks are also measured before they are learned, is cut to its lower triangle.
"""

from collections.abc import Sequence

AccuracyMatrix = Sequence[Sequence[float]]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def lower_triangle(a: AccuracyMatrix) -> AccuracyMatrix:
    """Of a full T × T matrix the tasks seen so far; another matrix as it is (`offline` has one row of T entries)."""
    full = len(a) > 1 and all(len(row) == len(a) for row in a)
    return [row[: i + 1] for i, row in enumerate(a)] if full else a


def average_accuracy(a: AccuracyMatrix) -> float:
    """Mean accuracy over all tasks, after the last task."""
    return mean(a[-1])


def average_incremental_accuracy(a: AccuracyMatrix) -> float:
    """Mean over time of the average accuracy on the tasks seen so far."""
    return mean([mean(row) for row in lower_triangle(a)])


def forgetting(a: AccuracyMatrix) -> float | None:
    """Mean over earlier tasks of how far the accuracy fell from its best before the end; None without earlier tasks."""
    if len(a) < 2:
        return None
    last = len(a) - 1
    return mean([max(a[i][j] for i in range(j, last)) - a[last][j] for j in range(last)])


def backward_transfer(a: AccuracyMatrix) -> float | None:
    """Mean over earlier tasks of how later learning changed the accuracy."""
    if len(a) < 2:
        return None
    return mean([a[-1][j] - a[j][j] for j in range(len(a) - 1)])


def forward_transfer(before: Sequence[float], untrained: Sequence[float]) -> float:
    """What a task gains from earlier ones: accuracy just before it is learned, minus that of the untrained network.

    Both run over tasks 2 … T.
    """
    return mean([b - u for b, u in zip(before, untrained, strict=True)])


def intransigence(a: AccuracyMatrix, offline: Sequence[float]) -> float | None:
    """How much worse a task is learned in sequence than by training on everything at once."""
    if len(a) < 2 or any(len(row) <= j for j, row in enumerate(a)):
        return None
    return mean([offline[j] - a[j][j] for j in range(len(a))])
