"""During a run a method sees the training data of the current task, and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from helpers import Run, blobs, everything

import engram as eg
from engram.learning.train import train
from engram.scenarios.task import ClosedDataError

HOOKS = ("begin_task", "loss", "adjust_gradients", "after_step", "end_task")


@pytest.fixture
def tasks():
    return eg.split(blobs(6), kind="class").deal(0)


@dataclass
class Reads(eg.Method):
    """Reads some data in some hook while task 2 is learned."""

    hook: str
    read: Callable
    times: list

    def look(self, hook: str, learner) -> None:
        if hook == self.hook and learner.task == 1:
            self.read(learner.tasks)
            self.times[0] += 1

    kept = ("times",)

    def begin_task(self, learner, task):
        self.look("begin_task", learner)

    def loss(self, learner, batch):
        self.look("loss", learner)
        return learner.loss(batch)

    def adjust_gradients(self, learner, batch):
        self.look("adjust_gradients", learner)

    def after_step(self, learner, batch):
        self.look("after_step", learner)

    def end_task(self, learner, task):
        self.look("end_task", learner)


FORBIDDEN = {
    "a past task's training data": lambda tasks: everything(tasks[0].train),
    "a past task's training data among the current's": lambda tasks: everything(tasks[1].train + 2 * tasks[0].train),
    "a coming task's training data": lambda tasks: everything(tasks[2].train),
    "its own test data": lambda tasks: everything(tasks[1].test),
    "a past task's test data": lambda tasks: everything(tasks[0].test),
    "chunks of test data": lambda tasks: list(tasks[2].test.chunks()),
}


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("what", FORBIDDEN)
def test_reading_other_data_raises(tasks, hook, what):
    method = Reads(hook, FORBIDDEN[what], [0])
    with pytest.raises(ClosedDataError, match="may not be read now"):
        Run(tasks, lambda: method)
    assert method.times == [0]
    for task in tasks:  # the run is over, badly: all is open again
        everything(task.train)
        everything(task.test)


@pytest.mark.parametrize("hook", HOOKS)
def test_the_current_task_s_training_data_may_be_read(tasks, hook):
    method = Reads(hook, lambda tasks: everything(tasks[1].train), [0])
    Run(tasks, lambda: method)
    assert method.times == [15 if hook in ("loss", "adjust_gradients", "after_step") else 1]


@pytest.mark.parametrize("hook", ["start", "network", "curriculum"])
def test_test_data_are_closed_before_the_first_task_too(tasks, hook):
    """These hooks are handed all tasks."""

    class Peeks(eg.Method):
        def start(self, learner, tasks):
            self.peek("start", tasks)

        def network(self, net, tasks):
            self.peek("network", tasks)
            return net

        def curriculum(self, tasks):
            self.peek("curriculum", tasks)
            return tasks

        def peek(self, now, tasks):
            if now == hook:
                everything(tasks[1].test)

    with pytest.raises(ClosedDataError):
        Run(tasks, Peeks)


def test_drawing_from_a_past_task_raises(tasks):
    class Replays(eg.Method):
        def data(self, task):
            return task.train if task.index == 0 else task.train + tasks[0].train

    with pytest.raises(ClosedDataError, match="training data of task 1"):
        Run(tasks, Replays)


def test_a_buffer_of_own_pixels_may_be_drawn_from(tasks):
    class Buffer(eg.Method):
        kept = ("pixels", "labels")

        def data(self, task):
            if task.index == 0:
                return task.train
            own = {"x": self.pixels, "y": self.labels, "rows": None, "loaded": None, "what": "buffer"}
            return task.train + replace(task.train, **own)

        def end_task(self, learner, task):
            rows = torch.arange(20)
            self.pixels, self.labels = task.train.pixels(rows), task.train.y[rows]

    outcome = train(tasks, Buffer(), eg.MLP(12), eg.Training(epochs=2, batch=20))
    assert outcome.steps == 2 * (4 + 5 + 5)  # 80 images, then 80 and 20


def test_offline_may_read_all_training_data_and_no_test_data(tasks):
    Run(tasks, eg.Offline)

    class Peeks(eg.Offline):
        def after_step(self, learner, batch):
            everything(tasks[0].test)

    with pytest.raises(ClosedDataError, match="test data of task 1"):
        Run(tasks, Peeks)


def test_data_are_open_again_after_a_run(tasks):
    Run(tasks)
    for task in tasks:
        assert len(everything(task.train).y) == 80
        assert len(everything(task.test).y) == 20
        assert task.train.loaded is None
