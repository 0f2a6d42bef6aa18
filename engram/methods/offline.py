"""Training on all tasks at once: the upper bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engram.learning.method import Method
from engram.scenarios.task import Task, Tasks, pool


@dataclass
class Offline(Method):
    """One training on the union of all tasks. Paper row: "Offline (upper bound)" of tables 2 and 3."""

    title = "Offline"
    family = "offline"
    look = ("black", "*", ":")
    target_kinds = ("classes", "values", "labels")

    needs = frozenset({"past data"})
    checkpoints = "epoch"

    def curriculum(self, tasks: Tasks) -> Sequence[Task]:
        return [pool(tasks)]
