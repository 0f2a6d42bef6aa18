"""Accuracy on test data: the only place that reads them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engram.core.validation import check_values
from engram.learning.learner import Learner, in_eval_mode
from engram.scenarios.task import Task


@dataclass(frozen=True)
class Evaluation:
    """What is measured besides the accuracy on all seen tasks after each task."""

    mask: bool = True
    """Predictions over the active outputs; no: over all, as in the authors' code (changes intermediate rows only)."""
    forward_transfer: bool = False
    """Measure also each task just before it is learned, and untrained."""
    evaluate_every: int = 0
    """Measure the current and the first task every so many steps (the stability gap); 0: not."""

    def __post_init__(self) -> None:
        check_values(self)
        if self.evaluate_every < 0:
            raise ValueError(f"evaluate_every {self.evaluate_every} is out of range; give 0 or more")


@torch.no_grad()
def count_correct(learner: Learner, task: Task, mask: bool = True) -> tuple[int, int]:
    """(right, all) on a task's test images."""
    right = torch.zeros((), dtype=torch.long, device=learner.device)
    with in_eval_mode(learner.net), task.test.opened():
        for batch in task.test.chunks():
            right += (learner.predict(batch, mask) == batch.y).sum()
    return int(right), len(task.test)


def accuracy(learner: Learner, task: Task, mask: bool = True) -> float:
    """Percent of a task's test images that are predicted right."""
    right, n = count_correct(learner, task, mask)
    return 100 * right / n
