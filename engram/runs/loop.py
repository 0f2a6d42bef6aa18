"""A method in a training loop of one's own: what a run does around its steps, for callers who take the steps."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from engram.core.streams import own_global_generators
from engram.learning.evaluate import Evaluation, accuracy, check_network
from engram.learning.learner import Training, batches
from engram.learning.method import Method
from engram.learning.state import StateGuard
from engram.learning.step import end_task, new_learner, seed_layers, take_step, training_of_task
from engram.learning.targets import check_targets
from engram.learning.train import check_method_here, task_steps
from engram.nets._start import Freeze, Start
from engram.nets.mlp import MLP
from engram.nets.net import Net
from engram.runs.arguments import (
    check_evaluation,
    check_method_argument,
    check_net_argument,
    check_scenario_argument,
    check_training,
)
from engram.runs.run import process_state, resolve_device
from engram.runs.spec import Spec
from engram.scenarios.scenario import Scenario
from engram.scenarios.task import Batch, Task


class Loop:
    """A method, a network and the tasks that they learn, for a loop of one's own; arguments are those of `engram.run`.

        loop = eg.Loop(scenario, eg.GEM(), seed=0)
        for task in loop.tasks:
            for batch in loop.batches(task):
                loop.step(batch)

    It ends with the bits of `engram.run`. Test data are open.
    """

    def __init__(
        self,
        scenario: Scenario,
        method: Method | Sequence[Method],
        *,
        seed: int = 0,
        net: Net | Callable[..., nn.Module] | None = None,
        training: Training | None = None,
        evaluation: Evaluation | None = None,
        threads: int = 1,
        device: str = "cpu",
        weights: str | Path | None = None,
        freeze: Freeze = "none",
    ) -> None:
        method = check_method_argument(method)
        spec = Spec(
            check_scenario_argument(scenario),
            method,
            MLP() if net is None else check_net_argument(net),
            Training(optimizer=method.optimizer) if training is None else check_training(training),
            Evaluation() if evaluation is None else check_evaluation(evaluation),
            seed=seed,
            threads=threads,
            device=resolve_device(device),
            start=Start(str(weights or ""), freeze),
        )
        self.evaluation = spec.evaluation
        self.training, self.threads, self.device = spec.training, threads, torch.device(spec.device)
        self.method = copy.deepcopy(method)
        drawn = spec.scenario.tasks(seed, spec.device).for_batch(self.training.batch)
        if drawn.stream is not None:
            raise ValueError("your own loop goes from task to task, and this stream tells no boundaries; use run")
        check_method_here(self.method, drawn, self.training, self.evaluation)
        check_targets(self.method, drawn)
        self._guard = StateGuard(self.method)
        with process_state(threads), own_global_generators(self.device):
            self.learner = new_learner(drawn, self.method, spec.network, self.training, seed, self.device)
            self._guard.after_start(self.learner)
            check_network(self.learner, self.evaluation)
        self.tasks = list(self.method.curriculum(drawn))
        """What is learned one after the other; `offline` has one task of all data."""
        self._steps = task_steps(self.method, self.training, self.tasks)
        self._done = 0

    def batches(self, task: Task) -> Iterator[Batch]:
        """What the method trains on while it learns a task, step by step: new images, and old ones it mixes in.

        The method's `begin_task` is called before the first batch, `end_task` after the last one. Meanwhile the process
        is as in a run: so many threads, denormal numbers are 0, global generators are seeded by the run; all three are
        the caller's again afterwards.
        """
        number = self._done
        if number >= len(self.tasks) or task is not self.tasks[number]:
            raise ValueError("each task is learned once, in order: for task in loop.tasks")
        learner, method = self.learner, self.method
        if number:
            self._guard.at_boundary()
        with process_state(self.threads), own_global_generators(self.device), task.train.opened(load=True):
            learner.training = training_of_task(method, self.training, number)
            learner.steps_before_task, learner.steps_of_run = sum(self._steps[:number]), sum(self._steps)
            learner.begin_task(task.index, self._steps[number])
            if self.training.reset_optimizer and number:
                learner.new_optimizer()
            seed_layers(learner, "begin task")
            method.begin_task(learner, task)
            yield from self._count(task)
            end_task(learner, method, task)
        self._guard.check()
        self._done += 1

    def _count(self, task: Task) -> Iterator[Batch]:
        """The batches of a task; the learner knows which step it is at."""
        learner = self.learner
        data = self.method.data(task)
        per_epoch = learner.training.steps_per_epoch(len(data))
        learner.step_of_task, learner.steps_of_task = 0, learner.training.steps_for(len(data))
        seed_layers(learner, "epoch 1")
        for batch in batches(data, learner.training, learner.fresh_rng("shuffle")):
            yield batch
            learner.steps += 1
            learner.step_of_task += 1
            if learner.step_of_task % per_epoch == 0:
                seed_layers(learner, f"epoch {learner.step_of_task // per_epoch + 1}")

    def step(self, batch: Batch) -> Tensor:
        """One step of training, as a run takes it; returns the loss."""
        return take_step(self.learner, self.method, batch)

    def accuracy(self, task: Task) -> float:
        """Percent on the test data of a task, as a run measures it at this point."""
        with process_state(self.threads):
            return accuracy(self.learner, task, self.evaluation, self.method)
