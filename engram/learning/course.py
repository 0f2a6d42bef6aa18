"""A run in progress: what the loops with and without boundaries share."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engram.learning.evaluate import Evaluation, accuracy, count_correct
from engram.learning.learner import Learner
from engram.learning.memory import check_memory, memory
from engram.learning.method import Method
from engram.learning.outcome import Checkpoint, Outcome, Progress, capture, samples
from engram.learning.state import StateGuard
from engram.scenarios.task import Task


@dataclass
class Course:
    """What a run learns with, what it has found so far, and whom it tells."""

    learner: Learner
    method: Method
    evaluation: Evaluation
    guard: StateGuard
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

    def checkpoint(self, task: int, epoch: int = 0, step: int = 0) -> None:
        """Saves all that the run needs to go on from here."""
        self.note_cost()
        self.save(copy.deepcopy(capture(self.outcome, self.learner, self.method, task, epoch, step)))

    def note_cost(self) -> None:
        self.outcome.steps, self.outcome.seconds = self.learner.steps, time.perf_counter() - self.began

    def accuracy(self, task: Task) -> float:
        return accuracy(self.learner, task, self.evaluation, self.method)

    def tell(self, number: int, loss: float) -> None:
        """Tells the mean loss in task `number`, from 0."""
        self.watch(Progress(number + 1, self.tasks, self.learner.steps, self.steps, loss))

    def check_state(self) -> None:
        """Refuses state that is not declared, and more bytes than the method declares or may keep."""
        self.guard.check()
        check_memory(self.method, self.learner, self.memory_budget)

    def measure(self, tasks: Sequence[Task], number: int) -> None:
        """Adds a row of accuracies on these tasks, after task `number`, from 0."""
        counts = [count_correct(self.learner, task, self.evaluation, self.method) for task in tasks]
        self.outcome.accuracy.append([100 * right / n for right, n in counts])
        self.outcome.pooled_accuracy = 100 * sum(right for right, _ in counts) / sum(n for _, n in counts)
        where = Progress(number + 1, self.tasks, self.learner.steps, self.steps, self.outcome.losses[-1])
        where.accuracy, where.samples = self.outcome.accuracy[-1], samples(self.learner, self.method)
        self.watch(where)

    def measure_curve(self, current: Task, first: Task) -> None:
        """Adds a point to the curve of accuracies within tasks, if it is time for one."""
        every, steps = self.evaluation.evaluate_every, self.learner.steps
        if every and steps % every == 0:
            now = self.accuracy(current)
            start = now if current is first else self.accuracy(first)
            self.outcome.curve.append({"step": steps, "task": current.index + 1, "current": now, "first": start})

    def pass_boundary(self) -> None:
        """Notes the bytes held, and undoes what a method does not keep."""
        self.outcome.memory = memory(self.method)
        self.guard.at_boundary()
