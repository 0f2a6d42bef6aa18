"""Averaged gradient episodic memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch

from engram.learning.buffer import Rule
from engram.learning.learner import Learner, Params
from engram.learning.method import Each
from engram.methods._stored import StoredReplay
from engram.scenarios.task import Batch, Task


@dataclass
class AGEM(StoredReplay):
    """Averaged GEM: a step may not oppose the mean gradient of a draw from the memory (Chaudhry et al., 2019)."""

    title = "A-GEM"
    family = "gradient memory"
    look = ("orange", "P", "-")
    target_kinds = ("classes", "values", "labels")

    memory: Annotated[Literal["per-task", "reservoir"], Each()] = "per-task"
    """per-task: ⌊capacity / number of tasks⌋ random images of each finished task; reservoir: a uniform sample of the
    stream (A-GEM-R), which needs no boundaries."""

    needs = frozenset({"boundaries", "past data"})
    without_boundaries = ("memory", "reservoir")
    optimizer = "sgd"
    gradient_stage = "project"  # the whole step is projected

    def rule(self) -> Rule:
        return self.memory

    @torch.no_grad()
    def adjust_gradients(self, learner: Learner, batch: Batch) -> None:
        if (old := self.buffer.draw(self.replay)) is not None:
            project_on_reference(learner.params, learner.gradients(old))

    def after_step(self, learner: Learner, batch: Batch) -> None:
        if self.memory == "reservoir":
            self.buffer.add(batch)

    def end_task(self, learner: Learner, task: Task) -> None:
        if self.memory == "per-task":
            share = self.capacity // len(learner.tasks)
            rows = torch.randperm(len(task.train), generator=learner.rng("memory"))[:share]
            self.buffer.add(task.train.batch(rows.to(learner.device)))


def project_on_reference(params: Params, reference: Params) -> None:
    """Takes the part along the reference out of the gradients, if they oppose it (Chaudhry et al. 2019, eq. 11)."""
    product = sum((p.grad * r).sum() for p, r in zip(params, reference, strict=True) if p.grad is not None)
    if product < 0:
        factor = product / sum((r * r).sum() for r in reference)
        for p, r in zip(params, reference, strict=True):
            p.grad = p.grad - factor * r if p.grad is not None else None
