"""Function distance regularisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from engram.learning.buffer import Rule
from engram.learning.learner import Learner, in_eval_mode
from engram.learning.method import Log
from engram.methods._stored import StoredReplay, check_coefficients, take_another_step
from engram.scenarios.task import Batch, Task


@dataclass
class FDR(StoredReplay):
    """Function distance regularisation: after each step, a second one towards old outputs (Benjamin et al., 2019).

    As in the code of Buzzega et al. (2020).
    """

    title = "FDR"
    family = "rehearsal"
    look = ("yellow", "^", "-.")

    alpha: Annotated[float, Log(0.1, 2)] = 1.0
    """Coefficient of the distance; 1 in effect in the code of Buzzega et al., which never uses its own."""

    needs = frozenset({"boundaries", "past data"})
    keeps_logits = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_coefficients(alpha=self.alpha)

    def rule(self) -> Rule:
        return "per-task"

    def after_step(self, learner: Learner, batch: Batch) -> None:
        """A second step, on the distance to the stored outputs alone."""
        if (old := self.buffer.draw(self.replay)) is None:
            return
        distance = function_distance(learner.logits(old.x, old.t), old.extra["logits"])
        take_another_step(learner, self.alpha * distance if self.alpha != 1 else distance)

    @torch.no_grad()
    def end_task(self, learner: Learner, task: Task) -> None:
        share = self.capacity // (task.index + 1)
        rows = torch.randperm(len(task.train), generator=learner.rng("memory"))[:share]
        batch = task.train.batch(rows.to(learner.device))
        with in_eval_mode(learner.net):
            self.buffer.add(batch, logits=learner.logits(batch.x, batch.t))


def function_distance(new: Tensor, old: Tensor) -> Tensor:
    """The mean over images of ‖softmax(new) − softmax(old)‖₂, with gradient 0 at distance 0."""
    squares = (torch.softmax(new, 1) - torch.softmax(old, 1)).square().sum(1)
    return squares[squares > 0].sqrt().sum() / len(new)
