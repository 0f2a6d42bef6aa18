"""Accuracy on test data: the only place that reads them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engram.core.streams import own_global_generators, seed_global_generators, seed_of
from engram.core.validation import check_values
from engram.learning.learner import Learner, in_eval_mode, parameter_of_task
from engram.learning.method import Method
from engram.scenarios.task import Batch, Task


@dataclass(frozen=True)
class Evaluation:
    """What is measured besides the accuracy on all seen tasks after each task."""

    mask: bool = True
    """Predictions over the active outputs; no: over all, as in the authors' code (changes intermediate rows only)."""
    forward_transfer: bool = False
    """Measure also each task just before it is learned, and untrained."""
    evaluate_every: int = 0
    """Measure the current and the first task every so many steps (the stability gap); 0: not."""
    give_task_identity: bool = False
    """Tell methods and networks which task a test image belongs to, outside task learning as well. Such results do not
    compare with those of learners that have to do without."""

    def __post_init__(self) -> None:
        check_values(self)
        if self.evaluate_every < 0:
            raise ValueError(f"evaluate_every {self.evaluate_every} is out of range; give 0 or more")


def check_needs(method: Method, kind: str, evaluation: Evaluation) -> None:
    """Refuses a method that needs task identity if nobody gives it."""
    if kind == "task" or evaluation.give_task_identity:
        return
    for member in method.members():
        if "task identity" in member.needs:
            raise ValueError(
                f"{type(member).__name__} needs task identity, which {kind} learning does not have; choose kind task, "
                "or give it and say so: --give-task-identity, Evaluation(give_task_identity=True)"
            )


def check_network(learner: Learner, evaluation: Evaluation) -> None:
    """Refuses a network that cannot do without task identity if nobody gives it."""
    t = parameter_of_task(learner.net)
    if learner.tasks.kind == "task" or evaluation.give_task_identity or t is None:
        return
    if t.default is t.empty:
        raise ValueError(
            f"{type(learner.net).__name__} takes the task of each sample (t), which {learner.tasks.kind} learning does "
            "not know at test time; give its t a default, choose kind task, or give task identity and say so: "
            "--give-task-identity, Evaluation(give_task_identity=True)"
        )


@torch.no_grad()
def count_correct(
    learner: Learner, task: Task, evaluation: Evaluation | None = None, method: Method | None = None
) -> tuple[int, int]:
    """(right, all) on a task's test images."""
    evaluation, method = evaluation or Evaluation(), method or Method()
    right = torch.zeros((), dtype=torch.long, device=learner.device)
    with in_eval_mode(learner.net), task.test.opened(), own_global_generators(learner.device):
        seed_global_generators(seed_of(learner.seed, "evaluation", task.index), learner.device)
        for batch in task.test.chunks():
            right += (predicted(learner, method, batch, evaluation) == batch.y).sum()
    return int(right), len(task.test)


def predicted(learner: Learner, method: Method, batch: Batch, evaluation: Evaluation) -> Tensor:
    """The output that the method's scores predict for each test image. Labels do not leave the evaluator."""
    known = learner.tasks.kind == "task" or evaluation.give_task_identity
    if not known or len(batch.tasks) == 1:
        scores = method.scores(learner, batch.x, batch.tasks[0] if known else None)
        check_scores(scores, len(batch.x), learner.tasks.outputs, method)
    else:
        scores = batch.x.new_zeros(len(batch.x), learner.tasks.outputs)
        for task in batch.tasks:
            here = batch.t == task
            scores[here] = method.scores(learner, batch.x[here], task)
    return learner.largest(scores, batch.t, batch.tasks, evaluation.mask)


def check_scores(scores: Tensor, images: int, outputs: int, method: Method) -> None:
    if not isinstance(scores, Tensor) or scores.shape != (images, outputs):
        shape = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise ValueError(f"scores of {type(method).__name__} are {shape}; give one per output: ({images}, {outputs})")


def accuracy(learner: Learner, task: Task, evaluation: Evaluation | None = None, method: Method | None = None) -> float:
    """Percent of a task's test images that are predicted right."""
    right, n = count_correct(learner, task, evaluation, method)
    return 100 * right / n
