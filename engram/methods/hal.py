"""Hindsight anchor learning."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

import torch
from torch import Tensor, nn

from engram.learning.buffer import Buffer, Rule, image_bytes
from engram.learning.learner import Learner
from engram.learning.method import Each, Log
from engram.methods._stored import StoredReplay, check_coefficients, check_image_count, check_shares, join_batches
from engram.scenarios.task import Batch, Task, Tasks


@dataclass
class HAL(StoredReplay):
    """Hindsight anchor learning: replay, and a penalty on changed outputs of learned anchors (Chaudhry et al., 2021).

    As in the code of Buzzega et al. (2020).
    """

    title = "HAL"
    family = "rehearsal"
    look = ("sky", "v", "-.")

    coef: Annotated[float, Log(0.01, 1)] = 0.1
    """Coefficient of the change that a step would make to the outputs on anchors (λ)."""
    beta: float = 0.5
    """Share of the old in the running mean of the features of a task (β)."""
    gamma: Annotated[float, Log(0.01, 1)] = 0.1
    """Coefficient of the distance of an anchor's features from that mean (γ)."""
    anchors: int = 200
    """Largest number of anchors, which are kept as floats beside the buffer: one per class and task."""
    anchor_steps: int = 100
    """Gradient steps in which an anchor is learned."""
    hindsight: bool = True
    """Whether an anchor is also what a step on the buffer makes worst. In the code of Buzzega et al. (2020) it is not,
    because the networks before and after that step share their weights."""

    memory: Annotated[Literal["reservoir", "ring"], Each()] = "reservoir"
    """reservoir: a uniform sample of the stream; ring: the newest ⌊capacity / number of tasks⌋ images of each task."""

    kept = ("buffer", "anchored")
    working = ("mean_features",)
    needs = frozenset({"boundaries", "past data"})
    optimizer = "sgd"  # look-ahead and anchors are plain gradient steps at its learning rate

    def __post_init__(self) -> None:
        super().__post_init__()
        check_coefficients(coef=self.coef, gamma=self.gamma)
        check_shares(beta=self.beta)
        check_image_count("anchors", self.anchors)
        if self.anchor_steps < 1:
            raise ValueError(f"anchor_steps {self.anchor_steps} is out of range; give 1 or more")

    def rule(self) -> Rule:
        return "task-ring" if self.memory == "ring" else "reservoir"

    def start(self, learner: Learner, tasks: Tasks) -> None:
        needed = sum(len(anchor_outputs(tasks, task)) for task in tasks)
        if needed > self.anchors:
            raise ValueError(
                f"anchors {self.anchors}: HAL keeps one per class and task, {needed} in this scenario; give as many"
            )
        super().start(learner, tasks)
        self.anchored = Buffer(learner, self.anchors, "ring", "float")

    def kept_bytes(self, net: nn.Module, pixels: int) -> int:
        return super().kept_bytes(net, pixels) + self.anchors * image_bytes(pixels, "float")

    def fit_budget(self, budget: int, tasks: Tasks) -> Self:
        anchors = sum(len(anchor_outputs(tasks, task)) for task in tasks)
        room = anchors * image_bytes(math.prod(tasks.shape), "float")
        if budget <= room:
            raise ValueError(
                f"memory_budget {budget:,} leaves room for no image: {anchors} anchors take {room:,} bytes"
            )
        return replace(super().fit_budget(budget - room, tasks), anchors=anchors)

    def begin_task(self, learner: Learner, task: Task) -> None:
        self.mean_features = torch.zeros((), device=learner.device)
        self._anchors = self.anchored.everything()

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        return learner.loss(join_batches(batch, self.buffer.draw(self.replay)))

    @torch.no_grad()
    def adjust_gradients(self, learner: Learner, batch: Batch) -> None:
        """Adds the gradient of the distance to the outputs after the step, which are constants."""
        if self._anchors is None or self.coef == 0:
            return
        x, t = self._anchors.x, self._anchors.t
        after = look_ahead(learner, x, t)

        def delta(logits: Tensor) -> Tensor:
            return (logits - after) * (2 * self.coef / logits.numel())

        for p, g in zip(learner.params, learner.gradients_from(x, delta, t), strict=True):
            p.grad = g if p.grad is None else p.grad + g

    @torch.no_grad()
    def after_step(self, learner: Learner, batch: Batch) -> None:
        new = learner.features(batch.x, batch.t).mean(0)
        self.mean_features = self.beta * self.mean_features + (1 - self.beta) * new
        super().after_step(learner, batch)

    def end_task(self, learner: Learner, task: Task) -> None:
        """Learns an anchor for each class: what a step on the buffer makes worst, with features of the task."""
        before, after = learner.frozen(), learner.frozen()
        old = self.buffer.draw(self.replay)
        assert old is not None
        trained = [
            p for p, own in zip(after.net.parameters(), learner.net.parameters(), strict=True) if own.requires_grad
        ]
        with torch.no_grad():
            for p, g in zip(trained, learner.gradients(old), strict=True):
                p.sub_(g, alpha=learner.lr)
        if not self.hindsight:
            before = after
        start = first_anchors(learner, task)
        self.anchored.add(
            learn_anchors(before, after, start, self.mean_features, self.gamma, learner.lr, self.anchor_steps)
        )


def anchor_outputs(tasks: Tasks, task: Task) -> range:
    """The outputs that get an anchor after a task: those of its classes."""
    head = tasks.heads[task.index]
    return range(head.start, head.stop)


def first_anchors(learner: Learner, task: Task) -> Batch:
    """Noise for each class, uniform in the range of the pixels."""
    y = torch.tensor(anchor_outputs(learner.tasks, task), device=learner.device)
    like = task.train.batch(torch.zeros(1, dtype=torch.long, device=task.train.device)).x
    x = torch.rand(len(y), *like.shape[1:], generator=learner.rng("anchors")).to(learner.device)
    leaf = next(task.train.leaves())
    x = leaf.scaling.from_intensities(x) if leaf.dtype == torch.uint8 else x
    return Batch(x, y, torch.full_like(y, task.index), (task.index,))


def learn_anchors(
    before: Learner, after: Learner, start: Batch, features: Tensor, gamma: float, lr: float, steps: int
) -> Batch:
    """Descends −loss(after) + loss(before) + γ ‖features − mean‖² of each anchor, at the networks' learning rate."""
    anchors = start
    for _ in range(steps):
        x = anchors.x.detach().requires_grad_()
        batch = anchors._replace(x=x)
        gain = len(x) * (before.loss(batch) - after.loss(batch))
        distance = (before.features(x, batch.t) - features).square().sum()
        (g,) = torch.autograd.grad(gain + gamma * distance, x)
        anchors = batch._replace(x=x.detach() - lr * g)
    return anchors


@torch.no_grad()
def look_ahead(learner: Learner, x: Tensor, t: Tensor) -> Tensor:
    """Outputs after a plain gradient step along the gradients at hand; the weights are left as they were."""
    weights = [p.clone() for p in learner.params]
    for p in learner.params:
        if p.grad is not None:
            p.sub_(p.grad, alpha=learner.lr)
    outputs = learner.logits(x, t)
    for p, weight in zip(learner.params, weights, strict=True):
        p.copy_(weight)
    return outputs
