"""Metrics: one number for a run. Some are read from its accuracies; others are measured on the logits of test data.

A metric of your own is a subclass of `Metric`, or a function `(logits, targets, active)`, in a file.
"""

from __future__ import annotations

import inspect
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

from engram.core.code import MADE_OF, captured_values
from engram.core.registry import METRICS, functions_with
from engram.runs.records import Record, canonical
from engram.runs.setting import metric_json

PARAMETERS = ["logits", "targets", "active"]
"""What a function in a file has to take to count as a metric."""
BINS = 15
"""Of the calibration error (Guo et al., 2017)."""
MetricValue = float | Sequence[Any]
"""A number, or a list of numbers such as one per class."""


@dataclass(frozen=True)
class Metric:
    """A number for a finished run. Its fields, if it has any, are what can be chosen.

    A subclass defines `of`, which reads the number from the record; or `measure`, which is called with the logits of
    each task's test data, and whose results are in `record.extra`. It can define both.
    """

    title: ClassVar[str] = ""
    """What tables and figures call it."""
    unit: ClassVar[str] = "percent"
    better: ClassVar[str] = "higher"
    """Whether `higher` or `lower` is better."""
    when: ClassVar[str] = "each task"
    """When `measure` is called: after `each task`, on all tasks so far, or at the `end`."""
    needs_logits: ClassVar[bool] = False
    """Whether it takes the softmax of the logits: refused for methods that predict by other scores."""
    targets: ClassVar[tuple[str, ...]] = ("classes",)
    """Targets of the tasks that it is measured on: classes, values, labels. It is None on other tasks."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.of is Metric.of and cls.measure is Metric.measure:
            raise TypeError(
                f"metric {cls.__name__} has no method to compute it: define of(self, record) or "
                "measure(self, logits, targets, active)"
            )
        for name, allowed in (("better", ("higher", "lower")), ("when", ("each task", "end"))):
            if getattr(cls, name) not in allowed:
                raise ValueError(
                    f"metric {cls.__name__}: {name} = {getattr(cls, name)!r} is not one of its values; choose from "
                    f"{', '.join(map(repr, allowed))}"
                )

    def measure(self, logits: Any, targets: Any, active: slice) -> MetricValue:
        """The metric of one task's test data: a number, or a list of numbers.

        Args:
            logits: (n, all outputs), a tensor on the processor: what the method predicts by.
            targets: (n,), the right output of each sample.
            active: The active outputs: `logits[:, active]`.
        """
        raise NotImplementedError

    def of(self, record: Record) -> float | None:
        """The number; None if the record does not have it. Of a measured one: its mean over the tasks at the end."""
        rows = self.measured(record)
        means = [mean for value in rows[-1] if (mean := mean_of(value)) is not None] if rows else []
        return statistics.fmean(means) if means else None

    def measured(self, record: Record) -> list[list[Any]]:
        """What `measure` returned: entry [i][j] on task j after task i. Empty if the run was not measured, or by other
        code or with other fields than this metric has."""
        name = METRICS.name_of(self)
        stated = [one for one in record.spec.get("metrics", []) if one.get("name") == name]
        if name not in record.extra or (stated and canonical(stated[0]) != canonical(metric_json(self))):
            return []
        rows: list[list[Any]] = record.extra[name]
        return rows

    @property
    def is_measured(self) -> bool:
        """Whether a run has to be asked for it."""
        return type(self).measure is not Metric.measure

    @staticmethod
    def recipes_in(module: ModuleType) -> list[type[Metric]]:
        """Metrics from the functions of a file that take (logits, targets, active)."""
        return [metric_class(f) for f in functions_with(module, PARAMETERS)]

    @staticmethod
    def from_function(function: Callable[..., MetricValue]) -> Metric:
        """The metric that a function `(logits, targets, active)` measures."""
        return metric_class(function)()


def metric_class(function: Callable[..., MetricValue]) -> type[Metric]:
    """A metric from a function; refused if it cannot be called so, or uses values that have no place in a key."""
    try:
        inspect.signature(function).bind(*PARAMETERS)
    except TypeError:
        raise ValueError(
            f"metric {function.__name__}{inspect.signature(function)} cannot be called: it is given the logits, the "
            "targets and the active outputs of a task's test data; write def my_metric(logits, targets, active)"
        ) from None
    name = function.__name__.strip("<>").replace("_", "-")
    doc = function.__doc__ or f"{name}, a metric of one's own."
    own = {
        "measure": lambda self, logits, targets, active: function(logits, targets, active),
        "title": name.replace("-", " "),
        "unit": "",
        "name": name,
        "__doc__": doc,
        "__module__": __name__,
        MADE_OF: (function, captured_values(function)),
    }
    return type(name, (Metric,), own)


def mean_of(value: Any) -> float | None:
    """A number as it is, a list by its mean; None if there is nothing."""
    if isinstance(value, list):
        inner = [mean for one in value if (mean := mean_of(one)) is not None]
        return statistics.fmean(inner) if inner else None
    return None if value is None else float(value)


def entries(rows: list[list[Any]]) -> Iterator[list[Any]]:
    """All that was measured on some task: lists."""
    for row in rows:
        yield from (value for value in row if value is not None)


class AverageAccuracy(Metric):
    """Accuracy over all tasks, after the last one."""

    name = "average-accuracy"
    title = "average accuracy"

    def of(self, record: Record) -> float | None:
        return record.average_accuracy


class AverageIncrementalAccuracy(Metric):
    """The mean, over time, of the average accuracy on the tasks seen so far."""

    name = "average-incremental-accuracy"
    title = "average incremental accuracy"

    def of(self, record: Record) -> float | None:
        return record.average_incremental_accuracy


class Forgetting(Metric):
    """How far each earlier task fell from its best accuracy before the end."""

    name = "forgetting"
    title = "forgetting"
    better = "lower"

    def of(self, record: Record) -> float | None:
        return record.forgetting


class BackwardTransfer(Metric):
    """How later learning changed the accuracy on each earlier task."""

    name = "backward-transfer"
    title = "backward transfer"

    def of(self, record: Record) -> float | None:
        return record.backward_transfer


class ForwardTransfer(Metric):
    """Accuracy on a task just before it is learned, compared with an untrained network (needs --forward-transfer)."""

    name = "forward-transfer"
    title = "forward transfer"

    def of(self, record: Record) -> float | None:
        return record.forward_transfer


class PooledAccuracy(Metric):
    """Accuracy over all test images of all tasks together."""

    name = "pooled-accuracy"
    title = "pooled accuracy"

    def of(self, record: Record) -> float | None:
        return record.pooled_accuracy


class LearningAccuracy(Metric):
    """Mean accuracy on each task right after it was learned, before anything was forgotten."""

    name = "learning-accuracy"
    title = "learning accuracy"

    def of(self, record: Record) -> float | None:
        rows = record.accuracy
        if not rows or any(len(row) <= i for i, row in enumerate(rows)):
            return None
        return sum(row[i] for i, row in enumerate(rows)) / len(rows)


class KeptMemory(Metric):
    """Bytes that the method keeps across a task boundary, beyond the network and its optimiser."""

    name = "memory"
    title = "memory"
    unit = "bytes"
    better = "lower"

    def of(self, record: Record) -> float | None:
        return float(sum(record.memory.get("kept", {}).values()))


class Seconds(Metric):
    """Time of the run."""

    name = "seconds"
    title = "time"
    unit = "seconds"
    better = "lower"

    def of(self, record: Record) -> float | None:
        return record.seconds


class CalibrationError(Metric):
    """Expected calibration error: mean distance between confidence and accuracy over 15 bins (Guo et al., 2017)."""

    name = "ece"
    title = "expected calibration error"
    better = "lower"
    needs_logits = True

    def measure(self, logits: Any, targets: Any, active: slice) -> float:
        confidence, guess = logits[:, active].double().softmax(1).max(1)
        right = (guess + active.start == targets).double()
        bins = (confidence * BINS).ceil().clamp(1, BINS)  # as published: (0, 1/15], (1/15, 2/15], …
        gaps = [((confidence - right) * (bins == b)).sum().abs() for b in range(1, BINS + 1)]
        return 100 * float(sum(gaps)) / len(targets)


class PerClassAccuracy(Metric):
    """Accuracy on each class of each task, in the order of the outputs; in tables the mean over classes."""

    name = "per-class-accuracy"
    title = "mean accuracy of the classes"

    def measure(self, logits: Any, targets: Any, active: slice) -> list[float]:
        right = (logits[:, active].argmax(1) + active.start == targets).double()
        return [100 * float(right[targets == output].mean()) for output in sorted(set(targets.tolist()))]


class ClassWeightedIncrementalAccuracy(Metric):
    """Average incremental accuracy in which every test sample counts the same, so that tasks with more classes count
    more, as in papers that follow iCaRL."""

    name = "class-weighted-incremental-accuracy"
    title = "class-weighted average incremental accuracy"

    def measure(self, logits: Any, targets: Any, active: slice) -> list[float]:
        """How many are right, and how many there are."""
        return [int((logits[:, active].argmax(1) + active.start == targets).sum()), len(targets)]

    def of(self, record: Record) -> float | None:
        rows = [list(entries([row])) for row in self.measured(record)]
        means = [100 * sum(right for right, _ in row) / sum(n for _, n in row) for row in rows if row]
        return statistics.fmean(means) if means else None


class Confusion(Metric):
    """Confusion matrices at the end, as (right output, predicted output, how many) without zeros; in tables the share
    on the diagonal. Runs that keep their logits have it."""

    name = "confusion"
    title = "accuracy over all test data"
    when = "end"

    def measure(self, logits: Any, targets: Any, active: slice) -> list[list[int]]:
        pairs = list(zip(targets.tolist(), (logits[:, active].argmax(1) + active.start).tolist(), strict=True))
        return [[right, guess, pairs.count((right, guess))] for right, guess in sorted(set(pairs))]

    def of(self, record: Record) -> float | None:
        cells = [cell for value in entries(self.measured(record)[-1:]) for cell in value]
        right = sum(n for target, guess, n in cells if target == guess)
        return 100 * right / sum(n for *_, n in cells) if cells else None
