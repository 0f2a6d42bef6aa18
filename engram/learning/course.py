"""A run in progress: what the loops with and without boundaries share."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from engram.core.messages import tell
from engram.learning.evaluate import Evaluation, accuracy
from engram.learning.learner import Learner
from engram.learning.measure import LogitMetric, pooled_accuracy, score_tasks
from engram.learning.memory import check_memory, memory
from engram.learning.method import Method
from engram.learning.on_network import OnNetwork
from engram.learning.outcome import Checkpoint, Outcome, Progress, capture, samples
from engram.learning.saved_changes import UnsavableError
from engram.learning.state import StateGuard
from engram.scenarios.task import Task, Tasks


@dataclass
class Course:
    """What a run learns with, what it has found so far, and whom it tells."""

    learner: Learner
    method: Method
    evaluation: Evaluation
    guard: StateGuard
    network: OnNetwork
    outcome: Outcome
    began: float
    """Reading of the clock when the run would have begun if it had not been interrupted."""
    tasks: int
    """Tasks in all."""
    steps: int
    """Steps in all, about."""
    save: Callable[[Checkpoint], None] = lambda _: None
    watch: Callable[[Progress], None] = lambda _: None
    memory_budget: int | None = None
    metrics: Mapping[str, LogitMetric] = field(default_factory=dict)
    told_unsavable: bool = False
    on_network: dict[str, int] = field(default_factory=dict)
    """Bytes of what the method has put on the network, as last measured."""

    def checkpoint(self, task: int, epoch: int = 0, step: int = 0) -> None:
        """Saves all that the run needs to go on from here."""
        self.note_cost()
        try:
            found = capture(self.outcome, self.learner, self.method, self.guard.beside, task, epoch, step)
        except UnsavableError as error:
            if not self.told_unsavable:
                tell(f"{error}: no checkpoint can hold that, so that this run starts again if it is stopped")
            self.told_unsavable = True
        else:
            self.save(copy.deepcopy(found))

    def note_cost(self) -> None:
        self.outcome.steps, self.outcome.seconds = self.learner.steps, time.perf_counter() - self.began

    def accuracy(self, task: Task) -> float:
        return accuracy(self.learner, task, self.evaluation, self.method)

    def tell(self, number: int, loss: float) -> None:
        """Tells the mean loss in task `number`, from 0."""
        self.watch(self.progress(number, loss))

    def progress(self, number: int, loss: float) -> Progress:
        return Progress(number + 1, self.tasks, self.learner.steps, self.steps, loss, learner=self.learner)

    def check_state(self) -> None:
        """Refuses state that is not declared, and more bytes than the method declares or may keep."""
        self.guard.check()
        self.on_network = self.network.measure()
        check_memory(self.method, self.learner, self.on_network, self.memory_budget)

    def measure(self, tasks: Tasks, seen: int, number: int) -> None:
        """Adds a row of scores on the first `seen` tasks, after task `number`, from 0."""
        outcome = self.outcome
        scored = score_tasks(
            self.learner, tasks, seen, self.evaluation, self.method, self.metrics, outcome.extra, outcome.kept,
            last=number == self.tasks - 1,
        )  # fmt: skip
        outcome.accuracy.append([one.score for one in scored])
        outcome.pooled_accuracy = pooled_accuracy(scored)
        where = self.progress(number, outcome.losses[-1])
        self.watch(replace(where, accuracy=outcome.accuracy[-1], samples=samples(self.learner, self.method)))

    def measure_curve(self, current: Task, first: Task) -> None:
        """Adds a point to the curve of accuracies within tasks, if it is time for one."""
        every, steps = self.evaluation.evaluate_every, self.learner.steps
        if every and steps % every == 0:
            now = self.accuracy(current)
            start = now if current is first else self.accuracy(first)
            self.outcome.curve.append({"step": steps, "task": current.index + 1, "current": now, "first": start})

    def pass_boundary(self) -> None:
        """Notes the bytes held, and undoes what a method does not keep."""
        self.outcome.memory = memory(self.method, self.on_network)
        self.guard.at_boundary()
