"""Synaptic intelligence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch

from engram.learning.learner import Learner, Params
from engram.learning.method import Log
from engram.methods._penalty import QuadraticPenalty, gradient_factor
from engram.scenarios.task import Batch, Task


@dataclass
class SI(QuadraticPenalty):
    """Synaptic intelligence: how much a parameter's changes contributed to the decrease of the loss (Zenke et al.,
    2017).

    Paper row: "SI".
    """

    title = "SI"
    family = "penalty"
    look = ("red", "s", "-")
    target_kinds = ("classes", "values", "labels")
    equal_memory = True

    coef: Annotated[float, Log(1e-2, 1e4)] = 300.0
    """Coefficient of the penalty."""
    xi: float = 0.1
    """Damping of the division by the squared path length; the authors' code has 0.1, Zenke et al. 0.001."""
    clamp: bool = False
    """Set negative contributions to 0; the authors' code does not."""
    path_of: Literal["loss", "total"] = "loss"
    """Gradient that the path follows: of the loss alone, or of loss and penalty (van de Ven et al., 2022)."""
    clip_each: float = 0.0
    """Largest absolute value of each element of the gradient, with the penalty's; 0: not clipped. Buzzega et al. (2020)
    have 1, and use the clipped gradient for the path."""

    working = ("path",)
    gradient_stage = "read"  # the path is that of the loss, without anybody's penalty

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.xi < float("inf"):
            raise ValueError(f"xi {self.xi} is out of range; give a number above 0")
        if not 0 <= self.clip_each < float("inf"):
            raise ValueError(f"clip_each {self.clip_each} is out of range; give 0 or more")

    @torch.no_grad()
    def begin_task(self, learner: Learner, task: Task) -> None:
        self.path: Params = [torch.zeros_like(p) for p in learner.params]
        self._pull = [p - centre for p, centre in zip(learner.params, self.centre, strict=True)]
        self._next: Params = [torch.empty_like(p) for p in learner.params]
        self._gradient: Params = []

    @torch.no_grad()
    def adjust_gradients(self, learner: Learner, batch: Batch) -> None:
        """Notes the gradient before the step; the penalty goes into a gradient of its own."""
        self._gradient = []
        for p, weight, pull in zip(learner.params, self.weights, self._pull, strict=True):
            assert p.grad is not None
            own = p.grad
            p.grad = torch.addcmul(own, weight, pull, value=gradient_factor(self.coef))
            if self.clip_each:
                p.grad.clamp_(-self.clip_each, self.clip_each)
            self._gradient.append(own if self.path_of == "loss" else p.grad)

    @torch.no_grad()
    def after_step(self, learner: Learner, batch: Batch) -> None:
        """A step changes θ by the change of θ − centre, which the next step needs anyway."""
        for p, centre, gradient, pull, new, path in zip(
            learner.params, self.centre, self._gradient, self._pull, self._next, self.path, strict=True
        ):
            torch.sub(p, centre, out=new)
            path.addcmul_(gradient, pull.sub_(new))  # Zenke 2017, eq. 3: − gradient · (θ_new − θ_old)
        self._pull, self._next = self._next, self._pull

    @torch.no_grad()
    def importance(self, learner: Learner, task: Task) -> Params:
        new = []
        for p, start, path, weight in zip(learner.params, self.centre, self.path, self.weights, strict=True):
            contribution = path.clamp(min=0) if self.clamp else path
            new.append(weight + contribution / ((p - start) ** 2 + self.xi))  # Zenke 2017, eq. 5
        return new
