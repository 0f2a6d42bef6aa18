"""The training loop: tasks one after the other, evaluation after each."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engram.core.streams import stream
from engram.learning.evaluate import Evaluation, accuracy, count_correct
from engram.learning.learner import Learner, Training, batches
from engram.learning.memory import memory
from engram.learning.method import Method
from engram.nets.net import Net
from engram.scenarios.task import Batch, Task, Tasks

CHECK_EVERY = 50
"""Steps between two looks at whether the loss is still finite (each look waits for the device)."""
SAMPLES = 64
"""Images that a generator is asked for after a task."""


@dataclass
class Progress:
    """Where a run is; handed to `watch` now and then."""

    task: int
    """From 1, among `tasks`."""
    tasks: int
    step: int
    """Steps done, of about `steps` in all."""
    steps: int
    loss: float
    accuracy: list[float] | None = None
    """Percent on each seen task: right after a task."""
    samples: NDArray[np.uint8] | None = None
    """Images that the method's generator draws, where it has one: right after a task. (n, h, w) or (n, h, w, 3)"""


@dataclass
class Outcome:
    """What a run found. It is also what a checkpoint carries of the past."""

    status: Literal["done", "diverged", "failed"] = "done"
    accuracy: list[list[float]] = field(default_factory=list)
    """accuracy[i][j]: percent on task j after task i."""
    pooled_accuracy: float | None = None
    """Percent over all test images together, at the end."""
    steps: int = 0
    seconds: float = 0.0
    memory: dict[str, dict[str, int]] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    """Mean training loss of each task."""
    running: tuple[float, int] = (0.0, 0)
    """Summed loss and steps of the task at hand."""
    curve: list[dict[str, float]] = field(default_factory=list)
    """Accuracy within tasks, where asked for."""
    untrained: list[float] = field(default_factory=list)
    before: list[float] = field(default_factory=list)
    """Percent on tasks 2 … T, untrained and just before each was learned, where asked for."""
    resumed_after_task: int = 0
    resumed_after_epoch: int = 0
    """Passes over the next task that were done where the run was resumed; both are 0 if it never was."""


class DivergedError(ArithmeticError):
    """The loss is not finite any more."""


class MisfitError(ValueError):
    """A checkpoint holds something else than this run would have saved."""


Checkpoint = dict[str, Any]


def train(
    tasks: Tasks,
    method: Method,
    net: Net,
    training: Training,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    evaluation: Evaluation | None = None,
    save: Callable[[Checkpoint], None] = lambda _: None,
    resume: Checkpoint | None = None,
    watch: Callable[[Progress], None] = lambda _: None,
) -> Outcome:
    """Trains a fresh network on the tasks and says what came of it.

    `save` gets a checkpoint at each boundary; a run that is given one as `resume` goes on from there and ends
    with the same bits; one that does not fit raises a MisfitError before anything is learned. The method's state is
    its own object's: give each run a fresh one.
    """
    evaluation = evaluation or Evaluation()
    with tasks.guarded():
        learner = new_learner(tasks, method, net, training, seed, torch.device(device))
        outcome = Outcome()
        first_task = first_epoch = 0
        if resume is not None:
            outcome, first_task, first_epoch = restore(resume, learner, method)
        clock = time.perf_counter() - outcome.seconds
        curriculum = method.curriculum(tasks)
        total = total_steps(method, training, curriculum)

        def checkpoint(done: int, epoch: int = 0) -> None:
            outcome.steps, outcome.seconds = learner.steps, time.perf_counter() - clock
            save(copy.deepcopy(capture(outcome, learner, method, done, epoch)))

        if evaluation.forward_transfer and not outcome.untrained:
            outcome.untrained = [accuracy(learner, task, evaluation.mask) for task in tasks[1:]]
        for number, task in enumerate(curriculum):
            if number < first_task:
                continue
            learner.task = task.index
            skip = first_epoch if number == first_task else 0
            if evaluation.forward_transfer and number > 0 and not skip:
                outcome.before.append(accuracy(learner, task, evaluation.mask))
            if training.reset_optimizer and number > 0 and not skip:
                learner.new_optimizer()
            try:
                with task.train.opened(load=True):
                    learn(
                        learner, method, task, outcome, evaluation,
                        skip=skip,
                        each_epoch=lambda epoch, number=number: checkpoint(number, epoch),  # type: ignore[misc]
                        watch=lambda loss, number=number: watch(  # type: ignore[misc]
                            Progress(number + 1, len(curriculum), learner.steps, total, loss)
                        ),
                    )  # fmt: skip
            except DivergedError:
                outcome.status = "diverged"
                break
            counts = [count_correct(learner, past, evaluation.mask) for past in tasks[: task.index + 1]]
            outcome.accuracy.append([100 * right / n for right, n in counts])
            outcome.pooled_accuracy = 100 * sum(right for right, _ in counts) / sum(n for _, n in counts)
            where = Progress(number + 1, len(curriculum), learner.steps, total, outcome.losses[-1])
            watch(replace(where, accuracy=outcome.accuracy[-1], samples=samples(learner, method)))
            outcome.memory = memory(method)
            checkpoint(number + 1)
    outcome.steps, outcome.seconds = learner.steps, time.perf_counter() - clock
    return outcome


def total_steps(method: Method, training: Training, curriculum: Sequence[Task]) -> int:
    """Optimiser steps of a whole run, those of helpers included."""
    sizes = method.pass_sizes([len(task.train) for task in curriculum])
    return method.networks * sum(training.steps_for(size) for size in sizes)


def learn(
    learner: Learner,
    method: Method,
    task: Task,
    outcome: Outcome,
    evaluation: Evaluation,
    *,
    skip: int,
    each_epoch: Callable[[int], None],
    watch: Callable[[float], None],
) -> None:
    """One task, from its first step to its last."""
    first = learner.tasks[0]
    learner.watch = watch
    method.begin_task(learner, task)
    data = method.data(task)
    per_pass = learner.training.passes(len(data))
    so_far, steps = outcome.running
    total = torch.tensor(so_far, device=learner.device)
    for batch in batches(data, learner.training, learner.rng("shuffle"), skip):
        total += backward(learner, method, batch)
        method.adjust_gradients(learner, batch)
        learner.optimizer.step()
        method.after_step(learner)
        learner.steps += 1
        steps += 1
        if steps % CHECK_EVERY == 0:
            watch(check(total) / steps)
        if evaluation.evaluate_every and learner.steps % evaluation.evaluate_every == 0:
            current = accuracy(learner, task, evaluation.mask)
            start = current if task is first else accuracy(learner, first, evaluation.mask)
            outcome.curve.append({"step": learner.steps, "task": task.index + 1, "current": current, "first": start})
        if method.checkpoints == "epoch" and steps % per_pass == 0:
            outcome.running = (check(total), steps)
            each_epoch(steps // per_pass)
    outcome.losses.append(check(total) / max(steps, 1))
    outcome.running = (0.0, 0)
    method.end_task(learner, task)


def backward(learner: Learner, method: Method, batch: Batch) -> Tensor:
    """Fills the gradients of the method's loss and returns it; the plain loss goes by its closed form."""
    if method.plain_loss:
        loss, gradients = learner.loss_and_gradients(batch)
        for p, g in zip(learner.params, gradients, strict=True):
            p.grad = g
        return loss
    loss = method.loss(learner, batch)
    learner.optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach()


def samples(learner: Learner, method: Method) -> NDArray[np.uint8] | None:
    """What the method's generator draws now, as pictures."""
    drawn = method.samples(learner, SAMPLES)
    if drawn is None:
        return None
    by_channel = drawn.view(-1, *learner.tasks.shape).permute(0, 2, 3, 1)
    pictures: NDArray[np.uint8] = by_channel.mul(255).round().to("cpu", torch.uint8).numpy()
    return pictures[..., 0] if pictures.shape[-1] == 1 else pictures


def check(total: Tensor) -> float:
    """The summed loss, which one loss that is not finite spoils for good."""
    value = float(total)
    if not math.isfinite(value):
        raise DivergedError
    return value


def new_learner(tasks: Tasks, method: Method, net: Net, training: Training, seed: int, device: torch.device) -> Learner:
    """A learner with a freshly drawn network."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, "init").initial_seed())
        module = method.network(net.build(tasks.shape, tasks.outputs), tasks)
    learner = Learner(module, tasks, training, seed, device)
    method.start(learner, tasks)
    return learner


def capture(outcome: Outcome, learner: Learner, method: Method, task: int, epoch: int) -> Checkpoint:
    """All that a run needs to go on after `task` tasks and `epoch` passes over the next."""
    return {
        "task": task,
        "epoch": epoch,
        "net": learner.net.state_dict(),
        "optimizer": learner.optimizer.state_dict(),
        "method": [{name: state_of(getattr(member, name)) for name in member.kept} for member in method.members()],
        "outcome": {name: value for name, value in vars(outcome).items() if not name.startswith("resumed_")},
    }


def restore(checkpoint: Checkpoint, learner: Learner, method: Method) -> tuple[Outcome, int, int]:
    """Puts a checkpoint's state back; (what was found so far, tasks done, passes done over the next)."""
    checkpoint = copy.deepcopy(checkpoint)  # whoever holds it may resume from it again
    try:
        learner.net.load_state_dict(checkpoint["net"])
        learner.optimizer.load_state_dict(checkpoint["optimizer"])
        for member, kept in zip(method.members(), checkpoint["method"], strict=True):
            for name in member.kept:
                now: Any = getattr(member, name, None)
                value = kept.pop(name)
                if hasattr(now, "load_state_dict"):
                    now.load_state_dict(value)
                else:
                    setattr(member, name, value)
            if kept:
                raise ValueError(f"{', '.join(kept)} is kept by no method")
        task, epoch = checkpoint["task"], checkpoint["epoch"]
        outcome = Outcome(**checkpoint["outcome"], resumed_after_task=task, resumed_after_epoch=epoch)
        if len(outcome.accuracy) != task:
            raise ValueError(f"{len(outcome.accuracy)} tasks were looked at after {task}")
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:  # what torch and Python say of it
        raise MisfitError("its checkpoint was made by other code and does not fit") from error
    learner.steps = outcome.steps
    return outcome, task, epoch


def state_of(value: Any) -> Any:
    """As it goes into a checkpoint: networks and optimisers as their state."""
    return value.state_dict() if hasattr(value, "state_dict") else value
