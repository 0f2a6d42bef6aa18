"""L2 to the last weights: the plainest penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch

from engram.learning.learner import Learner, Params
from engram.learning.method import Log
from engram.methods._penalty import QuadraticPenalty
from engram.scenarios.task import Task


@dataclass
class L2(QuadraticPenalty):
    """A penalty keeps every parameter near its value at the last boundary, all with the same strength. Paper row: "L2".

    This includes outputs that no task has used yet; no other method does that.
    """

    title = "L2"
    family = "penalty"
    look = ("purple", "v", "-.")
    target_kinds = ("classes", "values", "labels")
    equal_memory = True

    coef: Annotated[float, Log(1e-3, 1e3)] = 0.5
    """Coefficient of the penalty, that of the authors' split-domain script."""

    def importance(self, learner: Learner, task: Task) -> Params:
        return [torch.ones_like(p) for p in learner.params]
