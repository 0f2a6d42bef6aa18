"""Metrics of a run, from `a[i][j]`: percent on task j after task i. Plain numbers, so that anyone can check them."""

from collections.abc import Sequence

Matrix = Sequence[Sequence[float]]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def average_accuracy(a: Matrix) -> float:
    """Over all tasks, after the last."""
    return mean(a[-1])


def average_incremental_accuracy(a: Matrix) -> float:
    """The mean over time of the average over the tasks seen so far."""
    return mean([mean(row) for row in a])


def forgetting(a: Matrix) -> float | None:
    """How far each earlier task fell from its best before the end. None where there is no earlier task."""
    if len(a) < 2:
        return None
    last = len(a) - 1
    return mean([max(a[i][j] for i in range(j, last)) - a[last][j] for j in range(last)])


def backward_transfer(a: Matrix) -> float | None:
    """How later learning changed each earlier task."""
    if len(a) < 2:
        return None
    return mean([a[-1][j] - a[j][j] for j in range(len(a) - 1)])


def forward_transfer(before: Sequence[float], untrained: Sequence[float]) -> float:
    """What a task gains from those before it: accuracy just before it is learned, less the untrained network's.

    Both run over tasks 2 … T.
    """
    return mean([b - u for b, u in zip(before, untrained, strict=True)])


def intransigence(a: Matrix, offline: Sequence[float]) -> float | None:
    """How much worse a task is learned in its turn than by training on everything at once."""
    if len(a) < 2:
        return None
    return mean([offline[j] - a[j][j] for j in range(len(a))])
