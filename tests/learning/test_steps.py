"""A method knows how many steps its task has, and can set the learning rate."""

import pytest
from helpers import Run, blobs

import engram as eg
from engram.learning.combine import combine

TRAINING = eg.Training(epochs=3, batch=16, lr=0.01)


class Counts(eg.Method):
    """Notes (step, steps) at the beginning of each task and after each step."""

    kept = ("begun", "taken")

    def start(self, learner, tasks):
        self.begun, self.taken = [], []

    def begin_task(self, learner, task):
        self.begun.append((learner.step_of_task, learner.steps_of_task))
        self.taken.append([])

    def after_step(self, learner, batch):
        self.taken[-1].append((learner.step_of_task, learner.steps_of_task, len(batch.y)))


def tasks():
    return eg.split(blobs(6), kind="class").deal(0)


@pytest.mark.parametrize(
    ("others", "steps"),
    [
        ([], [15, 15, 15]),  # three epochs of 80 images, 16 at a time
        ([eg.Rehearsal(capacity=20)], [15, 30, 30]),  # 80 images and four times the buffer of 20
        ([eg.Rehearsal(capacity=20, mixing="balanced"), eg.L2()], [15, 30, 30]),
        ([eg.DGR()], [15, 15, 15]),
    ],
)
def test_steps_of_a_task_are_those_that_are_taken(others, steps):
    counts = Counts()
    Run(tasks(), lambda: combine([*others, counts]) if others else counts, TRAINING, eg.MLP(12, 10))
    taken = [len(of_task) for of_task in counts.taken]
    assert counts.begun == [(0, n) for n in taken]
    for of_task in counts.taken:
        assert [(step, of) for step, of, _ in of_task] == [(i, len(of_task)) for i in range(len(of_task))]
    assert taken == steps


class Halves(eg.Method):
    """Halves the learning rate after every epoch of five steps."""

    def after_step(self, learner, batch):
        if (learner.step_of_task + 1) % 5 == 0:
            learner.lr = learner.lr / 2


def test_the_learning_rate_can_be_set_and_survives_a_boundary_and_a_checkpoint():
    whole = Run(tasks(), Halves, TRAINING, eg.MLP(12))
    rates = [checkpoint["optimizer"]["param_groups"][0]["lr"] for checkpoint in whole.checkpoints]
    assert rates == [0.01 / 2**3, 0.01 / 2**6, 0.01 / 2**9]
    for checkpoint in whole.checkpoints[:-1]:
        assert Run(tasks(), Halves, TRAINING, eg.MLP(12), resume=checkpoint).bits() == whole.bits()
    assert whole.outcome.losses != Run(tasks(), eg.Adam, TRAINING, eg.MLP(12)).outcome.losses


def test_a_step_at_rate_zero_changes_nothing():
    class Stops(eg.Method):
        def begin_task(self, learner, task):
            learner.lr = 0.0 if task.index else 0.01

    nets = [checkpoint["net"] for checkpoint in Run(tasks(), Stops, TRAINING, eg.MLP(12)).checkpoints]
    assert all((nets[0][name] == nets[2][name]).all() for name in nets[0])
