"""The training loop: tasks one after the other, evaluation after each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from engram.core.streams import own_global_generators
from engram.learning.course import Course
from engram.learning.evaluate import Evaluation, check_needs, check_network
from engram.learning.hooks import check_class
from engram.learning.learner import Training, batches
from engram.learning.measure import LogitMetric, check_metrics
from engram.learning.method import Method
from engram.learning.on_network import OnNetwork
from engram.learning.outcome import Checkpoint as Checkpoint
from engram.learning.outcome import MisfitError as MisfitError
from engram.learning.outcome import Outcome as Outcome
from engram.learning.outcome import Progress as Progress
from engram.learning.outcome import restore
from engram.learning.schedule import check_warmup
from engram.learning.state import StateGuard, check_parameters
from engram.learning.step import CHECK_EVERY as CHECK_EVERY
from engram.learning.step import DivergedError, check_weights, end_task, network_facts, seed_layers, training_of_task
from engram.learning.step import finite as finite
from engram.learning.step import new_learner as new_learner
from engram.learning.step import take_step as take_step
from engram.learning.targets import check_targets, scores_in_words
from engram.learning.unbounded import check_stream, learn_stream, learns_stream, plan_stream, view_of_learner
from engram.nets.net import Net
from engram.scenarios.task import Task, Tasks


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

    `save` gets a checkpoint at each boundary, and every so many steps of a stream without boundaries; a run that is
    given one as `resume` goes on from there and ends with the same bits; one that does not fit raises a MisfitError
    before anything is learned. The method's state is its own object's: give each run a fresh one. Global generators are
    seeded from the run's own streams, and left as they were found. With a memory budget, a method that keeps more bytes
    at a boundary is an error.
    """
    evaluation, device = evaluation or Evaluation(), torch.device(device)
    tasks = tasks.for_batch(training.batch)
    check_method_here(method, tasks, training, evaluation)
    check_metrics(metrics or {}, method)
    check_targets(method, tasks)
    guard = StateGuard(method)
    plan = plan_stream(tasks, method, training) if learns_stream(tasks, method) else None
    shown = tasks if plan is None else view_of_learner(tasks, plan, training.boundary_every)
    with tasks.guarded(), own_global_generators(device):
        learner = new_learner(shown, method, net, training, seed, device)
        guard.after_start(learner)
        on_network = OnNetwork(learner, method)
        if plan is not None and tasks.kind == "class":
            learner.seen = ()
        check_network(learner, evaluation)
        outcome = Outcome(network=network_facts(learner) if learner.network_replaced else {})
        if resume is not None:
            outcome = restore(resume, learner, method)
        if tasks.stream is not None:
            outcome.told_boundaries = f"every {training.boundary_every} steps" if training.boundary_every else "no"
        curriculum = method.curriculum(tasks)
        steps = task_steps(method, training, curriculum) if plan is None else [len(plan.sizes)]
        check_warmup(training, steps)
        course = Course(
            learner, method, evaluation, guard, on_network, outcome,
            began=time.perf_counter() - outcome.seconds,
            tasks=len(curriculum),
            steps=method.networks * sum(steps),
            save=save,
            watch=watch,
            memory_budget=memory_budget,
            metrics=metrics or {},
        )  # fmt: skip
        if evaluation.forward_transfer and not outcome.untrained:
            outcome.untrained = [course.accuracy(task) for task in tasks[1:]]
        streams: dict[str, Tensor] = resume.get("streams", {}) if resume is not None else {}
        try:
            if plan is None:
                learn_tasks(course, tasks, curriculum, steps, training, streams)
            else:
                learn_stream(course, tasks, training, plan, streams)
        except DivergedError:
            outcome.status = "diverged"
    course.note_cost()
    outcome.scores = scores_in_words(tasks)
    return outcome


def check_method_here(method: Method, tasks: Tasks, training: Training, evaluation: Evaluation) -> None:
    """Refuses, before anything runs, a method that would not do here what its author thinks."""
    for member in method.members():
        check_class(type(member), Method)
    check_needs(method, tasks.kind, evaluation)
    check_stream(method, tasks, training, evaluation)


def task_steps(method: Method, training: Training, curriculum: Sequence[Task]) -> list[int]:
    """Optimiser steps of the network in each task."""
    sizes = method.pass_sizes([len(task.train) for task in curriculum])
    return [training_of_task(method, training, number).steps_for(size) for number, size in enumerate(sizes)]


def total_steps(method: Method, training: Training, tasks: Tasks) -> int:
    """Optimiser steps of a whole run, those of helpers included."""
    if learns_stream(tasks, method):
        return method.networks * len(plan_stream(tasks, method, training).sizes)
    return method.networks * sum(task_steps(method, training, method.curriculum(tasks)))


def learn_tasks(
    course: Course,
    tasks: Tasks,
    curriculum: Sequence[Task],
    steps: list[int],
    training: Training,
    streams: dict[str, Tensor],
) -> None:
    """All tasks, one after the other, each for its number of steps; a resumed run goes on where it was."""
    learner, outcome, evaluation = course.learner, course.outcome, course.evaluation
    for number, task in enumerate(curriculum):
        if number < outcome.resumed_after_task:
            continue
        learner.training = training_of_task(course.method, training, number)
        learner.steps_before_task, learner.steps_of_run = sum(steps[:number]), sum(steps)
        learner.begin_task(task.index, steps[number])
        skip = outcome.resumed_after_epoch if number == outcome.resumed_after_task else 0
        if evaluation.forward_transfer and number > 0 and not skip:
            outcome.before.append(course.accuracy(task))
        if training.reset_optimizer and number > 0 and not skip:
            learner.new_optimizer()
        with task.train.opened(load=True):
            learn(course, task, tasks[0], number, skip, streams if skip else {})
        course.check_state()
        course.measure(tasks, task.index + 1, number)
        course.pass_boundary()
        course.checkpoint(number + 1)


def learn(course: Course, task: Task, first: Task, number: int, skip: int, streams: dict[str, Tensor]) -> None:
    """One task, from its first step to its last; after the first `skip` epochs if it is resumed there."""
    learner, method, outcome = course.learner, course.method, course.outcome
    learner.watch = lambda loss: course.tell(number, loss)
    seed_layers(learner, "begin task")
    method.begin_task(learner, task)
    check_parameters(learner)
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
            course.tell(number, finite(total) / steps)
        course.measure_curve(task, first)
        if steps % per_epoch == 0:
            if method.checkpoints == "epoch":
                outcome.running = (finite(total), steps)
                course.checkpoint(number, steps // per_epoch)
            seed_layers(learner, f"epoch {steps // per_epoch + 1}")
    mean_loss = finite(total) / max(steps, 1)
    check_weights(learner)  # the last step is in no loss
    outcome.losses.append(mean_loss)
    outcome.running = (0.0, 0)
    end_task(learner, method, task)
