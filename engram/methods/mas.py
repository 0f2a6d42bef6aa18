"""Memory aware synapses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch

from engram.learning.fisher import CHUNK, Delta, shuffled_batches, summed_gradients
from engram.learning.learner import Learner, Params, in_eval_mode
from engram.learning.method import Log
from engram.methods._penalty import QuadraticPenalty
from engram.scenarios.task import Task


@dataclass
class MAS(QuadraticPenalty):
    """Memory aware synapses: how much the outputs' squared length depends on a parameter (Aljundi et al., 2018).

    Paper row: "MAS".
    """

    title = "MAS"
    family = "penalty"
    look = ("purple", "D", "-")
    target_kinds = ("classes", "values", "labels")
    equal_memory = True

    coef: Annotated[float, Log(1e-3, 1e4)] = 1.0
    """Coefficient of the penalty."""
    form: Literal["batch-mean", "per-sample"] = "batch-mean"
    """Importance: mean over mini-batches of |∂ mean of squared outputs| (the authors' code), or mean over images of
    |∂ sum of squared outputs| (as published)."""

    @torch.no_grad()
    def importance(self, learner: Learner, task: Task) -> Params:
        total = [torch.zeros_like(p) for p in learner.params]
        outputs = learner.active(task.index)
        with in_eval_mode(learner.net):
            if self.form == "per-sample":
                count = len(task.train)
                for batch in task.train.chunks(CHUNK):
                    inputs = learner.inputs(batch.x, batch.t)
                    gradients = summed_gradients(learner.net, inputs, squared_outputs(outputs, mean=False), torch.abs)
                    for sum_, g in zip(total, gradients, strict=True):
                        sum_ += g
            else:
                count = 0
                for batch in shuffled_batches(learner, task.train, learner.training.batch):
                    gradients = learner.gradients_from(batch.x, squared_outputs(outputs), batch.t)
                    for sum_, g in zip(total, gradients, strict=True):
                        sum_ += g.abs()
                    count += 1
        return [old + new / count for old, new in zip(self.weights, total, strict=True)]


def squared_outputs(outputs: slice, mean: bool = True) -> Delta:
    """Gradient at the logits of the squared active outputs, their mean over batch and outputs or their sum."""

    def delta(logits: torch.Tensor) -> torch.Tensor:
        own = logits[:, outputs]
        everywhere = torch.zeros_like(logits)
        everywhere[:, outputs] = 2 * own / (own.numel() if mean else 1)
        return everywhere

    return delta
