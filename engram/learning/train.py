"""The training loop: tasks one after the other, evaluation after each."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from engram.core.streams import own_global_generators, seed_global_generators, seed_of
from engram.learning import fast
from engram.learning.augment import check_augmentable
from engram.learning.evaluate import Evaluation, accuracy, check_needs, check_network
from engram.learning.hooks import check_class
from engram.learning.learner import Learner, Training, batches
from engram.learning.measure import LogitMetric, check_metrics, pooled_accuracy, score_tasks
from engram.learning.memory import check_memory, memory
from engram.learning.method import Method
from engram.learning.precision import check_precision
from engram.learning.state import StateGuard, kept_state, restore_kept_state
from engram.learning.targets import check_targets, scores_in_words
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
    """Images that the method's generator draws, if it has one: right after a task. (n, h, w) or (n, h, w, 3)"""
    learner: Learner | None = None
    """The learner itself, with its network, its weights (`params`) and the gradients of the last step (`p.grad`): to be
    read, not changed. None if the run is in another process."""


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
    """Accuracy within tasks, if asked for."""
    untrained: list[float] = field(default_factory=list)
    before: list[float] = field(default_factory=list)
    """Percent on tasks 2 … T, untrained and just before each was learned, if asked for."""
    resumed_after_task: int = 0
    resumed_after_epoch: int = 0
    """Epochs of the next task that were done when the run was resumed; both are 0 if it never was."""
    network: dict[str, Any] = field(default_factory=dict)
    """`class` and `parameters` of the network that was trained, if the method replaced the one asked for."""
    extra: dict[str, list[list[Any]]] = field(default_factory=dict)
    """By metric on logits: entry [i][j] on task j after task i."""
    scores: list[str] = field(default_factory=list)
    """What each task is scored by, if not all are by accuracy."""
    kept: dict[str, Any] = field(default_factory=dict)
    """Tensors that the run leaves beside its record, if asked for."""


class DivergedError(ArithmeticError):
    """The loss, or a weight, is no longer finite."""


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
    memory_budget: int | None = None,
    metrics: Mapping[str, LogitMetric] | None = None,
) -> Outcome:
    """Trains a fresh network on the tasks and returns what was measured.

    `save` gets a checkpoint at each boundary; a run that is given one as `resume` goes on from there and ends
    with the same bits; one that does not fit raises a MisfitError before anything is learned. The method's state is
    its own object's: give each run a fresh one. Global generators are seeded from the run's own streams, and left as
    they were found. With a memory budget, a method that keeps more bytes at a boundary is an error.
    """
    evaluation, device = evaluation or Evaluation(), torch.device(device)
    metrics = metrics or {}
    check_method_here(method, tasks.kind, evaluation)
    check_metrics(metrics, method)
    check_targets(method, tasks)
    state = StateGuard(method)
    with tasks.guarded(), own_global_generators(device):
        learner = new_learner(tasks, method, net, training, seed, device)
        state.after_start()
        check_network(learner, evaluation)
        outcome = Outcome(network=network_facts(learner) if learner.network_replaced else {})
        first_task = first_epoch = 0
        streams: dict[str, Tensor] = {}
        if resume is not None:
            outcome, first_task, first_epoch, streams = restore(resume, learner, method)
        clock = time.perf_counter() - outcome.seconds
        curriculum = method.curriculum(tasks)
        steps = task_steps(method, training, curriculum)
        total = method.networks * sum(steps)

        def checkpoint(done: int, epoch: int = 0) -> None:
            outcome.steps, outcome.seconds = learner.steps, time.perf_counter() - clock
            save(copy.deepcopy(capture(outcome, learner, method, done, epoch)))

        if evaluation.forward_transfer and not outcome.untrained:
            outcome.untrained = [accuracy(learner, task, evaluation, method) for task in tasks[1:]]
        for number, task in enumerate(curriculum):
            if number < first_task:
                continue
            learner.training = training_of_task(method, training, number)
            learner.steps_before_task, learner.steps_of_run = sum(steps[:number]), sum(steps)
            learner.begin_task(task.index, steps[number])
            skip = first_epoch if number == first_task else 0
            if evaluation.forward_transfer and number > 0 and not skip:
                outcome.before.append(accuracy(learner, task, evaluation, method))
            if training.reset_optimizer and number > 0 and not skip:
                learner.new_optimizer()
            try:
                with task.train.opened(load=True):
                    learn(
                        learner, method, task, outcome, evaluation,
                        skip=skip,
                        streams=streams if skip else {},
                        each_epoch=lambda epoch, number=number: checkpoint(number, epoch),  # type: ignore[misc]
                        watch=lambda loss, number=number: watch(  # type: ignore[misc]
                            Progress(number + 1, len(curriculum), learner.steps, total, loss, learner=learner)
                        ),
                    )  # fmt: skip
            except DivergedError:
                outcome.status = "diverged"
                break
            state.check()
            check_memory(method, learner, memory_budget)
            scored = score_tasks(
                learner, tasks, task.index + 1, evaluation, method, metrics, outcome.extra, outcome.kept,
                last=number == len(curriculum) - 1,
            )  # fmt: skip
            outcome.accuracy.append([one.score for one in scored])
            outcome.pooled_accuracy = pooled_accuracy(scored)
            where = Progress(number + 1, len(curriculum), learner.steps, total, outcome.losses[-1], learner=learner)
            watch(replace(where, accuracy=outcome.accuracy[-1], samples=samples(learner, method)))
            outcome.memory = memory(method)
            state.at_boundary()
            checkpoint(number + 1)
    outcome.steps, outcome.seconds = learner.steps, time.perf_counter() - clock
    outcome.scores = scores_in_words(tasks)
    return outcome


def check_method_here(method: Method, kind: str, evaluation: Evaluation) -> None:
    """Refuses, before anything runs, a method that would not do here what its author thinks."""
    for member in method.members():
        check_class(type(member), Method)
    check_needs(method, kind, evaluation)


def task_steps(method: Method, training: Training, curriculum: Sequence[Task]) -> list[int]:
    """Optimiser steps of the network in each task."""
    sizes = method.pass_sizes([len(task.train) for task in curriculum])
    return [training_of_task(method, training, number).steps_for(size) for number, size in enumerate(sizes)]


def training_of_task(method: Method, training: Training, number: int) -> Training:
    """How a task is trained, the first being number 0. A method without gradient steps sees every image once."""
    if method.gradient_steps:
        return training.for_task(number)
    return replace(training, epochs=1, steps=0, drop_last=False)


def total_steps(method: Method, training: Training, curriculum: Sequence[Task]) -> int:
    """Optimiser steps of a whole run, those of helpers included."""
    return method.networks * sum(task_steps(method, training, curriculum))


def learn(
    learner: Learner,
    method: Method,
    task: Task,
    outcome: Outcome,
    evaluation: Evaluation,
    *,
    skip: int,
    streams: dict[str, Tensor],
    each_epoch: Callable[[int], None],
    watch: Callable[[float], None],
) -> None:
    """One task, from its first step to its last; after the first `skip` epochs if it is resumed there."""
    first = learner.tasks[0]
    learner.watch = watch
    seed_layers(learner, "begin task")
    method.begin_task(learner, task)
    data = method.data(task)
    per_epoch = learner.training.steps_per_epoch(len(data))
    summed, steps = outcome.running
    learner.step_of_task, learner.steps_of_task = steps, learner.training.steps_for(len(data))
    learner.set_stream_states(streams)
    total = torch.tensor(summed, device=learner.device)
    seed_layers(learner, f"epoch {skip + 1}")
    for batch in batches(data, learner.training, learner.fresh_rng("shuffle"), skip):
        total += take_step(learner, method, batch)
        learner.steps += 1
        steps += 1
        learner.step_of_task = steps
        if steps % CHECK_EVERY == 0:
            watch(finite(total) / steps)
        if evaluation.evaluate_every and learner.steps % evaluation.evaluate_every == 0:
            current = accuracy(learner, task, evaluation, method)
            start = current if task is first else accuracy(learner, first, evaluation, method)
            outcome.curve.append({"step": learner.steps, "task": task.index + 1, "current": current, "first": start})
        if steps % per_epoch == 0:
            if method.checkpoints == "epoch":
                outcome.running = (finite(total), steps)
                each_epoch(steps // per_epoch)
            seed_layers(learner, f"epoch {steps // per_epoch + 1}")
    mean_loss = finite(total) / max(steps, 1)
    check_weights(learner)  # the last step is in no loss
    outcome.losses.append(mean_loss)
    outcome.running = (0.0, 0)
    method.end_task(learner, task)


def seed_layers(learner: Learner, when: str) -> None:
    """Seeds the global generators, which dropout and augmentation draw from, by a stream of their own.

    Each epoch has its own, so that a run which is resumed after an epoch draws what it would have drawn.
    """
    seed_global_generators(seed_of(learner.seed, f"layers, {when}", learner.task), learner.device)


def take_step(learner: Learner, method: Method, batch: Batch) -> Tensor:
    """One step of training on a batch; its loss, 0 if the network is not trained."""
    if not method.gradient_steps:
        method.after_step(learner, batch)
        return torch.zeros((), device=learner.device)
    learner.apply_schedule()
    augmented = learner.augment(batch)
    with learner.step_precision():
        loss = backward(learner, method, augmented)
    method.adjust_gradients(learner, augmented)
    learner.clip_gradients()
    learner.optimizer.step()
    method.after_step(learner, batch)  # images as they are: what it stores can be augmented anew
    return loss


def backward(learner: Learner, method: Method, batch: Batch) -> Tensor:
    """Fills the gradients of the method's loss, zeros for parameters that it does not depend on, and returns it."""
    if method.plain_loss and fast.has_closed_form(learner.net):
        return fast.backward(learner, learner.net, batch)
    loss = method.loss(learner, batch)
    learner.optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    for p in learner.params:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    return loss.detach()


def samples(learner: Learner, method: Method) -> NDArray[np.uint8] | None:
    """What the method's generator draws now, as pictures."""
    drawn = method.samples(learner, SAMPLES)
    if drawn is None:
        return None
    by_channel = drawn.view(-1, *learner.tasks.shape).permute(0, 2, 3, 1)
    pictures: NDArray[np.uint8] = by_channel.mul(255).round().to("cpu", torch.uint8).numpy()
    return pictures[..., 0] if pictures.shape[-1] == 1 else pictures


def finite(total: Tensor) -> float:
    """The summed loss, which is never finite again after one loss that is not."""
    value = float(total)
    if not math.isfinite(value):
        raise DivergedError
    return value


def check_weights(learner: Learner) -> None:
    """Raises if a parameter is no longer finite."""
    if not all(bool(torch.isfinite(p).all()) for p in learner.params):
        raise DivergedError


def new_learner(tasks: Tasks, method: Method, net: Net, training: Training, seed: int, device: torch.device) -> Learner:
    """A learner with a freshly drawn network."""
    check_augmentable(training.augment, tasks)
    check_precision(training.precision, device)
    with own_global_generators(device):
        seed_global_generators(seed_of(seed, "init"), device)
        asked = net.build(tasks.shape, tasks.outputs)
        before = count_parameters(asked)
        module = method.network(asked, tasks)
        learner = Learner(module, tasks, training, seed, device)
        learner.network_replaced = module is not asked or count_parameters(module) != before
        seed_layers(learner, "start")
        method.start(learner, tasks)
    return learner


def network_facts(learner: Learner) -> dict[str, Any]:
    """Class and size of the network that is trained."""
    return {"class": type(learner.net).__name__, "parameters": count_parameters(learner.net)}


def count_parameters(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def capture(outcome: Outcome, learner: Learner, method: Method, task: int, epoch: int) -> Checkpoint:
    """All that a run needs to go on after `task` tasks and `epoch` epochs of the next."""
    return {
        "task": task,
        "epoch": epoch,
        "net": learner.net.state_dict(),
        "optimizer": learner.optimizer.state_dict(),
        "method": kept_state(method),
        "outcome": {name: value for name, value in vars(outcome).items() if not name.startswith("resumed_")},
        "streams": learner.stream_states() if epoch else {},
    }


def restore(checkpoint: Checkpoint, learner: Learner, method: Method) -> tuple[Outcome, int, int, dict[str, Tensor]]:
    """Puts a checkpoint's state back; (what was measured so far, tasks done, epochs of the next done, its streams)."""
    checkpoint = copy.deepcopy(checkpoint)  # whoever holds it may resume from it again
    try:
        learner.net.load_state_dict(checkpoint["net"])
        learner.optimizer.load_state_dict(checkpoint["optimizer"])
        restore_kept_state(method, checkpoint["method"])
        task, epoch = checkpoint["task"], checkpoint["epoch"]
        outcome = Outcome(**checkpoint["outcome"], resumed_after_task=task, resumed_after_epoch=epoch)
        if len(outcome.accuracy) != task:
            raise ValueError(f"{len(outcome.accuracy)} tasks were measured after {task}")
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:  # what torch and Python say of it
        raise MisfitError("its checkpoint was made by other code and does not fit") from error
    learner.steps = outcome.steps
    return outcome, task, epoch, checkpoint.get("streams", {})
