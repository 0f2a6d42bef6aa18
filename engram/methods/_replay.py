"""Replay without stored images: distillation from the network as it was, and images from a generator."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import torch
from torch import Tensor

from engram.learning.learner import Learner
from engram.learning.method import Method
from engram.scenarios.task import Batch, Scaling, Task, Tasks, pool

Reduction = Literal["mean", "sum"]


def teacher_of(learner: Learner) -> Learner | None:
    """The learner as the last task left it; None if there was none: in the first, or with all tasks at once."""
    if learner.task == 0 or learner.steps == 0:
        return None
    teacher = learner.frozen()
    teacher.task = learner.task - 1
    return teacher


def share_of_now(learner: Learner) -> float:
    """1/t: what the current task, the t-th, counts against all of the past."""
    return 1 / (learner.task + 1)


def distillation(old: Tensor, new: Tensor, temperature: float, reduction: Reduction, squared: bool = True) -> Tensor:
    """T² times the cross-entropy between softened outputs (Hinton et al., 2015).

    Args:
        old: Logits of the network as it was, (batch, k).
        new: Logits of the network as it is, (batch, K) with K ≥ k: outputs that are new count as 0 in the old.
        temperature: What logits are divided by.
        reduction: Over outputs: `sum`, or `mean`, which divides by K. Over the batch it is the mean.
        squared: Whether it is multiplied by T².
    """
    p = torch.softmax(old / temperature, 1)
    logs = torch.log_softmax(new / temperature, 1)
    factor = temperature**2 if squared else 1.0
    entropy = -factor * (p * logs[:, : p.shape[1]]).sum() / len(new)
    return entropy / new.shape[1] if reduction == "mean" else entropy


def distilled(
    learner: Learner,
    old: Tensor,
    new: Tensor,
    temperature: float,
    reduction: Reduction,
    parts: bool = False,
    squared: bool = True,
) -> Tensor:
    """Distillation of all outputs of the past, from logits over all outputs.

    Task learning: head by head, the mean over past heads; with `parts` each on its own, equal part of the rows. Class
    learning: the classes that were known, among those known now. Else all outputs.
    """
    tasks, now = learner.tasks, learner.task
    if tasks.kind != "task":
        before, after = tasks.active(now - 1, now - 1), tasks.active(now, now)
        return distillation(old[:, before], new[:, after], temperature, reduction, squared)
    rows = len(new) // now if parts else 0
    total = new.new_zeros(())
    for task, head in enumerate(tasks.heads[:now]):
        part = slice(rows * task, rows * (task + 1)) if parts else slice(None)
        total = total + distillation(old[part, head], new[part, head], temperature, reduction, squared)
    return total / now


@dataclass
class DrawnReplay(Method):
    """Replays drawn images: knows how intensities become network input, now and in each past task."""

    kept: ClassVar[tuple[str, ...]] = ("generator", "scales")
    uncounted: ClassVar[tuple[str, ...]] = ("scales",)
    working: ClassVar[tuple[str, ...]] = ("teacher",)
    needs = frozenset({"boundaries"})
    replays = True

    def start(self, learner: Learner, tasks: Tasks) -> None:
        # Drawn images are of no known task, but in task learning, where each is given one.
        for task in tasks if tasks.kind == "task" else [pool(tasks)]:
            task.train.one_scaling()
        self.scales: list[tuple[list[float], list[float]]] = []

    def begin_task(self, learner: Learner, task: Task) -> None:
        self.teacher = teacher_of(learner)
        self._noise = learner.rng("noise")
        self._scaling = task.train.one_scaling()
        self._plain = self._scaling.plain
        self._past = [Scaling(*(torch.tensor(part, device=learner.device) for part in scale)) for scale in self.scales]
        self._alike = all(torch.equal(torch.stack(a), torch.stack(b)) for a, b in pairwise(self._past))

    def end_task(self, learner: Learner, task: Task) -> None:
        self.scales.append((self._scaling.scale.tolist(), self._scaling.shift.tolist()))

    def intensities(self, x: Tensor) -> Tensor:
        """The task's network input as intensities in [0, 1]."""
        return x if self._plain else self._scaling.to_intensities(x)

    def inputs(self, intensities: Tensor, t: Tensor, tasks: tuple[int, ...]) -> Tensor:
        """Intensities as the network input of the past task that each is drawn for."""
        if self._alike:
            scaling = self._past[0]
            return intensities if scaling.plain else scaling.from_intensities(intensities)
        x = torch.empty_like(intensities)
        for task in tasks:
            here = t == task
            x[here] = self._past[task].from_intensities(intensities[here])
        return x


@dataclass
class GenerativeReplay(DrawnReplay):
    """Next to each batch of the current task, as many images from a generator of the past.

    In task learning every past task gets an equal part of them, whatever they show: the generator knows no tasks.
    """

    @abstractmethod
    def draw(self, n: int, rng: torch.Generator) -> Tensor:
        """Images from the generator as the last task left it: (n, pixels) in [0, 1]."""

    def replay(self, learner: Learner, n: int) -> tuple[Tensor, Batch]:
        """Drawn images as intensities, and as a batch of the past tasks without labels; n of them, or a few more."""
        past, device = learner.task, learner.device
        if learner.tasks.kind == "task":
            t = torch.arange(past, device=device).repeat_interleave(math.ceil(n / past))
            tasks = tuple(range(past))
        else:
            t, tasks = torch.full((n,), past - 1, device=device), (past - 1,)
        intensities = self.draw(len(t), self._noise)
        return intensities, Batch(self.inputs(intensities, t, tasks), torch.zeros_like(t), t, tasks)

    def samples(self, learner: Learner, n: int) -> Tensor:
        return self.draw(n, learner.rng("samples"))
