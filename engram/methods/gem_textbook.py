"""Gradient episodic memory as published: trained on new data alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engram.learning.learner import Learner
from engram.methods.gem import GEM
from engram.scenarios.task import Data, Task


@dataclass
class GEMTextbook(GEM):
    """Gradient episodic memory as published: the memory constrains the gradient and is never trained on.

    Lopez-Paz & Ranzato, 2017. No row of the paper: its "GEM" rehearses too.
    """

    title = "GEM, textbook"
    family = "gradient memory"
    look = ("sky", "P", "--")
    equal_memory = False

    slots_per_task: int = 1
    """Constraints per task."""
    shares: Literal["so-far", "all"] = "so-far"
    """Among which tasks the memory is shared out: those so far, so that it is always full, or all of the scenario, as
    in the code of Buzzega et al. (2020)."""

    def slots_sharing(self, learner: Learner) -> int:
        return len(learner.tasks) * self.slots() if self.shares == "all" else super().slots_sharing(learner)

    def data(self, task: Task) -> Data:
        return task.train

    def pass_sizes(self, images: Sequence[int]) -> list[int]:
        return list(images)
