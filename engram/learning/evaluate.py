"""Accuracy on test data: the only place that reads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from engram.core.messages import unknown
from engram.core.streams import own_global_generators, seed_global_generators, seed_of
from engram.core.validation import check_values
from engram.learning.learner import Learner, in_eval_mode, parameter_of_task
from engram.learning.method import Method
from engram.learning.step import DivergedError
from engram.learning.targets import class_outputs, own_targets, score_numbers
from engram.scenarios.task import Batch, Task

Keep = Literal["net", "logits", "features"]
"""What a run can leave beside its record."""


@dataclass(frozen=True)
class Evaluation:
    """What is measured besides the accuracy on all tasks seen so far after each task."""

    mask: bool = True
    """Predict among the active outputs; no: among all, as in the authors' code (this changes intermediate rows
    only)."""
    forward_transfer: bool = False
    """Also measure each task just before it is learned, and with the untrained network."""
    evaluate_every: int = 0
    """Measure the current and the first task every so many steps (the stability gap); 0: never."""
    give_task_identity: bool = False
    """Tell methods and networks which task a test image belongs to, outside task learning as well. Such results cannot
    be compared with those of learners that are not told."""
    keep: tuple[Keep, ...] = ()
    """What the run keeps in a file beside its record: the trained `net`, the `logits` of all test data after each task,
    the `features` of all test data at the end."""

    def __post_init__(self) -> None:
        given: tuple[str, ...] = (self.keep,) if isinstance(self.keep, str) else self.keep  # type: ignore[unreachable]
        for part in given:
            if part not in get_args(Keep):
                raise ValueError(unknown("keep", part, get_args(Keep)))
        object.__setattr__(self, "keep", tuple(part for part in get_args(Keep) if part in given))  # one order, one key
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


@dataclass
class Scored:
    """A task's test data, looked at once."""

    score: float
    """In percent."""
    n: int
    right: int | None
    """How many were predicted right; None if the task is not scored so."""
    active: slice
    """The outputs in play."""
    what: str = "classes"
    """Targets of the task."""
    logits: Tensor | None = None
    """(n, all outputs) on the processor: what the method predicts by. Only if asked for, as the targets."""
    targets: Tensor | None = None


@contextmanager
def in_evaluation(learner: Learner, task: Task) -> Iterator[None]:
    """Test data are open, and layers as at test time; what is drawn is drawn from a stream of its own."""
    with in_eval_mode(learner.net), task.test.opened(), own_global_generators(learner.device):
        seed_global_generators(seed_of(learner.seed, "evaluation", task.index), learner.device)
        yield


@torch.no_grad()
def score_task(
    learner: Learner,
    task: Task,
    evaluation: Evaluation | None = None,
    method: Method | None = None,
    *,
    logits: bool = False,
) -> Scored:
    """The score on a task's test data; with `logits`, also what it was computed from."""
    evaluation, method = evaluation or Evaluation(), method or Method()
    masked = learner.tasks.kind == "task" or evaluation.mask
    active = learner.active(task.index) if masked else slice(0, learner.tasks.outputs)
    what = task.targets
    right = torch.zeros((), dtype=torch.long, device=learner.device)
    parts: list[tuple[Tensor, Tensor]] = []
    undefined = torch.zeros((), dtype=torch.bool, device=learner.device)
    with in_evaluation(learner, task):
        for batch in task.test.chunks():
            scores = scores_of(learner, method, batch, evaluation)
            undefined |= scores[:, active].isnan().any()
            if what == "classes":
                guess = learner.largest(scores, batch.t, batch.tasks, evaluation.mask)
                right += (guess == class_outputs(batch.y)).sum()
            if logits or what != "classes":
                parts.append((scores.cpu(), own_targets(what, batch.y, active).cpu()))
    if undefined:  # the largest of them would be whatever stands first
        raise DivergedError
    n = len(task.test)
    found = Scored(100 * int(right) / n, n, int(right), active, what)
    if parts:
        found.logits, found.targets = torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])
        if what != "classes":
            found.score, found.right = score_numbers(what, found.logits[:, active], found.targets), None
    return found


def known_task(learner: Learner, evaluation: Evaluation) -> bool:
    """Whether the learner is told which task a test image belongs to."""
    return learner.tasks.kind == "task" or evaluation.give_task_identity


def scores_of(learner: Learner, method: Method, batch: Batch, evaluation: Evaluation) -> Tensor:
    """What the method predicts by, (n, all outputs). Labels do not leave the evaluator."""
    known = known_task(learner, evaluation)
    if not known or len(batch.tasks) == 1:
        scores = method.scores(learner, batch.x, batch.tasks[0] if known else None)
        check_scores(scores, len(batch.x), learner.tasks.outputs, method)
    else:
        scores = batch.x.new_zeros(len(batch.x), learner.tasks.outputs)
        for task in batch.tasks:
            here = batch.t == task
            scores[here] = method.scores(learner, batch.x[here], task)
    return scores


def check_scores(scores: Tensor, images: int, outputs: int, method: Method) -> None:
    if not isinstance(scores, Tensor) or scores.shape != (images, outputs):
        shape = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise ValueError(f"scores of {type(method).__name__} are {shape}; give one per output: ({images}, {outputs})")


def accuracy(learner: Learner, task: Task, evaluation: Evaluation | None = None, method: Method | None = None) -> float:
    """The score on a task's test data: percent that are predicted right."""
    return score_task(learner, task, evaluation, method).score
