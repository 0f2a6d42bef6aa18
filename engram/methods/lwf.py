"""Learning without forgetting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from engram.learning.learner import Learner
from engram.learning.method import Log, Method
from engram.methods._replay import Reduction, distilled, share_of_now, teacher_of
from engram.scenarios.task import Batch, Task


@dataclass
class LwF(Method):
    """Learning without forgetting: the old outputs are distilled on the new images (Li & Hoiem, 2016).

    As in the code that the copied row came from (van de Ven & Tolias, September 2018). Paper row: "LwF".
    """

    title = "LwF"
    family = "distillation"
    look = ("yellow", "v", "-")

    temperature: Annotated[float, Log(0.5, 8)] = 2.0
    """Divisor of the logits before old and new outputs are compared."""
    reduction: Reduction = "mean"
    """How the distillation is reduced over outputs: mean (the row's code), or sum (that code since May 2019)."""
    weighting: Literal["share", "count"] = "share"
    """Coefficients of the new and the old loss in the t-th task: share, 1/t and 1 − 1/t (the row's code); count, 1 and
    t − 1, but 1 and 1 in class learning (that code today)."""

    squared: bool = True
    """Multiply the distillation by T², so that its gradient does not shrink with T; van de Ven et al. (2022): no."""

    working = ("teacher",)
    needs = frozenset({"boundaries"})
    replays = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature {self.temperature} is out of range; give a number above 0")

    def begin_task(self, learner: Learner, task: Task) -> None:
        self.teacher = teacher_of(learner)

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        if self.teacher is None:
            return learner.loss(batch)
        logits = learner.logits(batch.x, batch.t)
        with torch.no_grad():
            old = self.teacher.logits(batch.x, batch.t)
        new = learner.loss_of(logits, batch)
        past = distilled(learner, old, logits, self.temperature, self.reduction, squared=self.squared)
        if self.weighting == "count":
            return new + past * (1 if learner.tasks.kind.startswith("class") else learner.task)
        share = share_of_now(learner)
        return share * new + (1 - share) * past
