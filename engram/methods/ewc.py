"""Elastic weight consolidation, one penalty per past task."""

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
    target_kinds = ("classes", "values", "labels")

    coef: Annotated[float, Log(1e-2, 1e4)] = 100.0
    """Coefficient of the penalty; Kirkpatrick's lambda is twice this."""

    def importance(self, learner: Learner, task: Task) -> Params:
        return self.consolidate(learner, task)[0]

    @torch.no_grad()
    def consolidate(self, learner: Learner, task: Task) -> tuple[Params, Params]:
        """Adds the task's Fisher, and moves the centre by its share of the sum."""
        totals, centres = [], []
        fishers = self.fisher(learner, task)
        for p, old, centre, new in zip(learner.params, self.weights, self.centre, fishers, strict=True):
            total = old + new
            share = torch.where(total > 0, new / total, 1.0)
            totals.append(total)
            centres.append(torch.lerp(centre, p.detach(), share))  # not even by rounding if p stayed at the centre
        return totals, centres
