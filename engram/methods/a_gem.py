"""Averaged gradient episodic memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch

from engram.learning.buffer import Rule
from engram.learning.learner import Learner, Params
from engram.learning.method import Each
from engram.methods._stored import StoredReplay, check_coefficients, draw_per_class, images_per_class
from engram.scenarios.task import Batch, Task, Tasks


@dataclass
class AGEM(StoredReplay):
    """Averaged GEM: a step may not oppose the mean gradient of a draw from the memory (Chaudhry et al., 2019)."""

    title = "A-GEM"
    family = "gradient memory"
    look = ("orange", "P", "-")
    target_kinds = ("classes", "values", "labels")

    memory: Annotated[Literal["per-task", "reservoir", "per-class"], Each()] = "per-task"
    """per-task: ⌊capacity / number of tasks⌋ random images of each finished task; reservoir: a uniform sample of the
    stream (A-GEM-R), which needs no boundaries; per-class: an equal number of all classes of the scenario, drawn at the
    end of their task (van de Ven et al., 2022)."""
    epsilon: float = 0.0
    """Added to the squared length of the reference gradient; van de Ven et al. (2022) have 1e-7."""

    needs = frozenset({"boundaries", "past data"})
    without_boundaries = ("memory", "reservoir")
    optimizer = "sgd"
    gradient_stage = "project"  # the whole step is projected

    def __post_init__(self) -> None:
        super().__post_init__()
        check_coefficients(epsilon=self.epsilon)
        if self.memory == "reservoir":
            self.needs = frozenset({"past data"})  # type: ignore[misc]

    def rule(self) -> Rule:
        return "reservoir" if self.memory == "reservoir" else "per-task"

    def start(self, learner: Learner, tasks: Tasks) -> None:
        if self.memory == "per-class":
            images_per_class(self.capacity, tasks)
        super().start(learner, tasks)

    @torch.no_grad()
    def adjust_gradients(self, learner: Learner, batch: Batch) -> None:
        if (old := self.buffer.draw(self.replay)) is not None:
            project_on_reference(learner.params, learner.gradients(old), self.epsilon)

    def after_step(self, learner: Learner, batch: Batch) -> None:
        if self.memory == "reservoir":
            self.buffer.add(batch)

    def end_task(self, learner: Learner, task: Task) -> None:
        if self.memory == "per-task":
            share = self.capacity // len(learner.tasks)
            rows = torch.randperm(len(task.train), generator=learner.rng("memory"))[:share]
            self.buffer.add(task.train.batch(rows.to(learner.device)))
        if self.memory == "per-class":
            self.buffer.add(draw_per_class(learner, task, self.capacity))


def project_on_reference(params: Params, reference: Params, epsilon: float = 0.0) -> None:
    """Takes the part along the reference out of the gradients, if they oppose it (Chaudhry et al. 2019, eq. 11)."""
    product = sum((p.grad * r).sum() for p, r in zip(params, reference, strict=True) if p.grad is not None)
    if product < 0:
        factor = product / (sum((r * r).sum() for r in reference) + epsilon)
        for p, r in zip(params, reference, strict=True):
            p.grad = p.grad - factor * r if p.grad is not None else None
