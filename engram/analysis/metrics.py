"""Metrics: one number for a run, read from its record. A metric of your own is a subclass of `Metric` in a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from engram.runs.records import Record


@dataclass(frozen=True)
class Metric(ABC):
    """A number for a finished run. Its fields, if it has any, are what can be chosen."""

    title: ClassVar[str] = ""
    """What tables and figures call it."""
    unit: ClassVar[str] = "percent"
    better: ClassVar[str] = "higher"
    """Whether `higher` or `lower` is better."""

    @abstractmethod
    def of(self, record: Record) -> float | None:
        """The number; None if the record does not have it."""


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
    """Accuracy on each task right after it was learned, averaged: what was learned before anything was forgotten."""

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
