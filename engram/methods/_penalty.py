"""The quadratic penalty that L2, EWC, online EWC, SI and MAS share: coef · Σ importance · (θ − centre)²."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import nn

from engram.learning.fisher import Divisor, Estimator, Label, check_estimator, fisher
from engram.learning.learner import Learner, Params
from engram.learning.method import Log, Method
from engram.scenarios.task import Batch, Task, Tasks


def gradient_factor(coef: float) -> float:
    """2 · coef; infinite if float32 cannot hold it, so that the run diverges instead of raising an error in torch."""
    return 2 * coef if 2 * coef <= torch.finfo(torch.float32).max else math.inf


@dataclass
class QuadraticPenalty(Method):
    """Keeps every parameter (weights, biases, all heads) near its value after past tasks. There is no factor ½. The
    gradient, 2 · coef · importance · (θ − centre), is added in closed form. In the first task importances are 0. A
    subclass defines `importance`.
    """

    coef: Annotated[float, Log(1e-3, 1e4)] = 1.0
    """Coefficient of the penalty."""

    kept = ("weights", "centre")
    needs = frozenset({"boundaries"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.coef < float("inf"):
            raise ValueError(f"coef {self.coef} is out of range; give 0 or more")

    def start(self, learner: Learner, tasks: Tasks) -> None:
        self.weights: Params = [torch.zeros_like(p) for p in learner.params]
        self.centre: Params = [p.detach().clone() for p in learner.params]

    def kept_bytes(self, net: nn.Module, pixels: int) -> int:
        return 2 * sum(p.numel() * p.element_size() for p in net.parameters() if p.requires_grad)

    @abstractmethod
    def importance(self, learner: Learner, task: Task) -> Params:
        """The importances from now on, those of the task that was just learned included."""

    @torch.no_grad()
    def adjust_gradients(self, learner: Learner, batch: Batch) -> None:
        if not hasattr(self, "_pull"):
            self._pull: Params = [torch.empty_like(p) for p in learner.params]
        for p, weight, centre, pull in zip(learner.params, self.weights, self.centre, self._pull, strict=True):
            assert p.grad is not None
            torch.sub(p, centre, out=pull)
            p.grad.addcmul_(weight, pull, value=gradient_factor(self.coef))

    def end_task(self, learner: Learner, task: Task) -> None:
        self.weights, self.centre = self.consolidate(learner, task)

    def consolidate(self, learner: Learner, task: Task) -> tuple[Params, Params]:
        """(importances, centre) of the penalty from now on."""
        return self.importance(learner, task), [p.detach().clone() for p in learner.params]


@dataclass
class FisherPenalty(QuadraticPenalty):
    """A penalty whose importances are Fisher information."""

    label: Label = "predicted"
    """Label whose likelihood gives the Fisher information: predicted (the authors' code), true, sampled, exact (all
    labels), or weighted (true, times its probability: Buzzega et al., 2020)."""
    estimator: Estimator = "sample"
    """Squared gradients per sample, or per mini-batch as in the authors' permuted-domain scripts."""
    divisor: Divisor = "images"
    """Divisor of the sum over N images: N, N − 1 (van de Ven et al., 2022), or N rounded up to whole
    mini-batches (Buzzega et al., 2020)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_estimator(self.label, self.estimator, self.divisor)

    def fisher(self, learner: Learner, task: Task) -> Params:
        """Of the task that was just learned."""
        return fisher(learner, task.train, self.label, self.estimator, learner.training.batch, self.divisor)
