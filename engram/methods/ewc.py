"""Elastic weight consolidation, one penalty a past task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch

from engram.learning.learner import Learner, Params
from engram.learning.method import Log
from engram.methods._penalty import FisherPenalty
from engram.scenarios.task import Task


@dataclass
class EWC(FisherPenalty):
    """Elastic weight consolidation, Σ_k F_k (θ − θ*_k)² over the past tasks k (Kirkpatrick et al., 2017).

    The sum is kept folded: as a function of θ it is F (θ − c)² plus a constant, with F = Σ F_k and c the mean of the
    θ*_k weighted by F_k. So a step, and the memory, cost the same at task 50 as at task 2. Paper row: "EWC".
    """

    title = "EWC"
    family = "penalty"
    look = ("sky", "^", "-")

    coef: Annotated[float, Log(1e-2, 1e4)] = 100.0
    """Weight of the penalty; Kirkpatrick's lambda is twice this."""

    def importance(self, learner: Learner, task: Task) -> Params:
        self._new = self.fisher(learner, task)
        return [old + new for old, new in zip(self.weights, self._new, strict=True)]

    @torch.no_grad()
    def end_task(self, learner: Learner, task: Task) -> None:
        centres = self.centre
        super().end_task(learner, task)
        # moves each centre by its share; a parameter that stayed where it was is not moved at all, not even by rounding
        for centre, old, new, total in zip(self.centre, centres, self._new, self.weights, strict=True):
            share = torch.where(total > 0, new / total, 1.0)
            centre.copy_(torch.lerp(old, centre, share))
        del self._new
