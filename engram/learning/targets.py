"""Losses and scores by what a task has to predict: classes, values, or labels.

If all tasks have classes, `Batch.y` is (batch,), the output of each sample. Else it is (batch, widest target) as 32-bit
floats: the output of the class in the first column, or the values or labels of the task in its first columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from engram.core.messages import join_words
from engram.data.targets import SCORES

if TYPE_CHECKING:
    from engram.learning.learner import Learner
    from engram.learning.method import Method
    from engram.scenarios.task import Batch, Tasks


def class_outputs(y: Tensor) -> Tensor:
    """The right output of each sample, whichever form y has."""
    return y if y.ndim == 1 else y[:, 0].long()


def own_targets(what: str, y: Tensor, head: slice) -> Tensor:
    """The targets of a task's samples: (n,) outputs, or (n, outputs of the head) values or labels."""
    return class_outputs(y) if what == "classes" else y[:, : head.stop - head.start]


def loss_by_head(learner: Learner, logits: Tensor, batch: Batch) -> Tensor:
    """Mean over samples, each by the head of its task: cross-entropy; squared error, its mean over the values; binary
    cross-entropy, its mean over the labels."""
    total = logits.new_zeros(())
    for task in batch.tasks:
        here = (batch.t == task).nonzero().squeeze(1)
        if not len(here):
            continue
        head, what = learner.active(task), learner.tasks[task].targets
        own = logits.index_select(0, here)[:, head]
        y = own_targets(what, batch.y.index_select(0, here), head)
        if what == "classes":
            smoothing = learner.training.label_smoothing
            total = total + cross_entropy(own, y - head.start, reduction="sum", label_smoothing=smoothing)
        elif what == "values":
            total = total + (own - y).square().mean(1).sum()
        else:
            total = total + binary_cross_entropy_with_logits(own, y, reduction="none").mean(1).sum()
    return total / len(batch.y)


def score_numbers(what: str, outputs: Tensor, y: Tensor) -> float:
    """R² of values, or mean average precision of labels, in percent; the mean over columns."""
    outputs, y = outputs.double(), y.double()
    if what == "values":
        residual = (y - outputs).square().sum(0)
        return 100 * float((1 - residual / (y - y.mean(0)).square().sum(0)).mean())
    return 100 * sum(average_precision(outputs[:, k], y[:, k]) for k in range(y.shape[1])) / y.shape[1]


def average_precision(scores: Tensor, y: Tensor) -> float:
    """Σ (recall_k − recall_{k−1}) · precision_k over the distinct scores from high to low."""
    order = scores.argsort(descending=True, stable=True)
    scores, y = scores[order], y[order]
    last = torch.cat([scores[1:] != scores[:-1], torch.ones(1, dtype=torch.bool)])  # of samples with equal scores
    found = y.cumsum(0)[last]
    precision = found / (torch.arange(1, len(y) + 1)[last])
    steps = torch.diff(found, prepend=found.new_zeros(1)) / found[-1]
    return float((steps * precision).sum())


def check_targets(method: Method, tasks: Tasks) -> None:
    """Refuses a method that has no answer for the targets of a task."""
    for member in method.members():
        for task in tasks:
            if task.targets not in member.target_kinds:
                raise ValueError(
                    f"{type(member).__name__} is for {join_words(member.target_kinds)}, and task {task.index + 1} has "
                    f"{task.targets} as targets; choose a method for them, such as adam, l2, ewc, si, rehearsal or er "
                    f'(a method of your own says so: target_kinds = ("classes", "{task.targets}"))'
                )


def scores_in_words(tasks: Tasks) -> list[str]:
    """What each task is scored by; empty if all are by accuracy."""
    return [] if tasks.only_classes else [SCORES[task.targets] for task in tasks]
