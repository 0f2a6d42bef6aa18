"""A run that goes on from any of its checkpoints ends with the bits of the run that was never interrupted."""

import pytest
import torch
from helpers import Run, blobs

import engram as eg
from engram.learning.train import train


@pytest.fixture(scope="module")
def images():
    return blobs(6)


def deal(images, kind="class"):
    return eg.split(images, kind=kind).deal(0)


TRAININGS = {
    "adam": eg.Training(epochs=2, batch=16, lr=0.01),
    "sgd": eg.Training(epochs=2, batch=16, lr=0.1, optimizer="sgd"),
    "adagrad": eg.Training(epochs=2, batch=16, lr=0.05, optimizer="adagrad"),
    "momentum": eg.Training(epochs=2, batch=16, lr=0.05, optimizer="sgd", momentum=0.9),
    "rmsprop": eg.Training(epochs=2, batch=16, lr=0.01, optimizer="rmsprop", momentum=0.5),
    "steps": eg.Training(steps=13, batch=16, lr=0.01),
    "dropped": eg.Training(epochs=3, batch=30, lr=0.01, drop_last=True),
    "reset": eg.Training(epochs=2, batch=16, lr=0.01, reset_optimizer=True),
}
LOOKS = {
    "plain": eg.Evaluation(),
    "curve": eg.Evaluation(evaluate_every=3),
    "transfer": eg.Evaluation(forward_transfer=True),
}


class Passes(eg.Adam):
    """Plain training that can also be resumed within a task: nothing is kept there."""

    checkpoints = "epoch"


def check_all(images, expected: list[tuple[int, int]], kind="class", **options) -> None:
    whole = Run(deal(images, kind), **options)
    assert [(c["task"], c["epoch"]) for c in whole.checkpoints] == expected
    for i, checkpoint in enumerate(whole.checkpoints[:-1]):
        resumed = Run(deal(images, kind), resume=checkpoint, **options)
        assert resumed.bits() == whole.bits(), f"from task {checkpoint['task']}, epoch {checkpoint['epoch']}"
        assert resumed.outcome.resumed_after_task == checkpoint["task"]
        assert resumed.outcome.resumed_after_epoch == checkpoint["epoch"]
        assert len(resumed.checkpoints) == len(whole.checkpoints) - i - 1
    assert whole.outcome.resumed_after_task == whole.outcome.resumed_after_epoch == 0


@pytest.mark.parametrize("training", TRAININGS)
def test_from_every_task_boundary(images, training):
    check_all(images, [(1, 0), (2, 0), (3, 0)], training=TRAININGS[training])


@pytest.mark.parametrize("kind", ["task", "domain", "iid"])
def test_in_every_kind(images, kind):
    check_all(images, [(1, 0), (2, 0), (3, 0)], kind, training=TRAININGS["adam"])


@pytest.mark.parametrize("looks", ["curve", "transfer"])
def test_with_more_to_look_at(images, looks):
    check_all(images, [(1, 0), (2, 0), (3, 0)], training=TRAININGS["adam"], evaluation=LOOKS[looks])


@pytest.mark.parametrize("looks", LOOKS)
@pytest.mark.parametrize("training", ["adam", "sgd", "adagrad", "momentum", "reset"])
def test_offline_from_every_epoch(images, training, looks):
    check_all(
        images, [(0, 1), (0, 2), (1, 0)], method=eg.Offline, training=TRAININGS[training], evaluation=LOOKS[looks]
    )


def test_offline_by_steps(images):
    """240 images are 15 batches: 35 steps are two passes and a third of one."""
    training = eg.Training(steps=35, batch=16, lr=0.01)
    check_all(images, [(0, 1), (0, 2), (1, 0)], method=eg.Offline, training=training)


@pytest.mark.parametrize("looks", LOOKS)
@pytest.mark.parametrize("training", ["adam", "reset"])
def test_within_the_tasks_of_a_sequence(images, training, looks):
    """A method may ask for checkpoints after each pass; then they come in the middle of every task."""
    expected = [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2), (3, 0)]
    check_all(images, expected, method=Passes, training=TRAININGS[training], evaluation=LOOKS[looks])


def test_a_finished_run_that_is_resumed_is_not_trained_again(images):
    whole = Run(deal(images))
    told = []
    again = Run(deal(images), resume=whole.checkpoints[-1], watch=told.append)
    assert told == again.checkpoints == []
    assert again.outcome.accuracy == whole.outcome.accuracy
    assert again.outcome.steps == whole.outcome.steps == 45


def test_what_a_method_keeps_comes_back(images):
    class Counts(eg.Method):
        kept = ("seen",)

        def end_task(self, learner, task):
            self.seen = getattr(self, "seen", torch.zeros(6))  # a method need not have it from the start
            self.seen += torch.bincount(task.train.batch(torch.arange(80)).y, minlength=6)

    methods = [Counts(), Counts()]
    whole = Run(deal(images), lambda: methods[0])
    Run(deal(images), lambda: methods[1], resume=whole.checkpoints[0])
    assert methods[0].seen.tolist() == methods[1].seen.tolist() == [40] * 6


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "adagrad"])
def test_checkpoints_held_in_memory_stay_as_they_were(images, optimizer):
    """`save` may keep what it gets, and what is given as `resume` may be given again."""
    training = eg.Training(epochs=2, batch=16, lr=0.02, optimizer=optimizer)
    held = []
    tasks = deal(images)
    whole = train(tasks, eg.Adam(), eg.MLP(12), training, save=held.append)
    losses, accuracy = list(whole.losses), list(whole.accuracy)
    for _ in range(2):
        resumed = train(tasks, eg.Adam(), eg.MLP(12), training, resume=held[0])
        assert resumed.losses == losses
        assert resumed.accuracy == accuracy
