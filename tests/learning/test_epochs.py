"""Epochs as one number, or as two: of the first task, and of each other."""

import pytest
from helpers import Run, blobs

import engram as eg
from engram.learning.train import task_steps
from engram.runs.spec import Spec, from_json


def tasks():
    return eg.split(blobs(6), kind="class").tasks(0)  # three tasks of 5 batches of 16


def training(epochs, **values) -> eg.Training:
    return eg.Training(epochs=epochs, batch=16, lr=0.01, **values)


class Steps(eg.Method):
    kept = ("steps",)

    def start(self, learner, tasks):
        self.steps = []

    def after_step(self, learner, batch):
        self.steps.append((learner.task, learner.steps_of_task, learner.training.epochs))


def test_the_first_task_is_trained_longer():
    method = Steps()
    run = Run(tasks(), lambda: method, training((3, 1)))
    assert run.outcome.steps == 15 + 5 + 5
    assert method.steps == [(0, 15, 3)] * 15 + [(1, 5, 1)] * 5 + [(2, 5, 1)] * 5
    assert task_steps(method, training((3, 1)), tasks()) == [15, 5, 5]


def test_offline_has_the_epochs_of_a_first_task():
    assert Run(tasks(), eg.Offline, training((3, 1))).outcome.steps == 3 * 15


def test_a_generator_is_trained_as_long_as_the_network():
    assert Run(tasks(), eg.DGR, training((3, 1))).outcome.steps == 2 * (15 + 5 + 5)


def test_two_equal_numbers_are_one():
    assert training((2, 2)) == training(2)
    assert Run(tasks(), training=training((2, 2))).bits() == Run(tasks(), training=training(2)).bits()


def test_the_first_task_does_not_depend_on_the_epochs_of_the_others():
    long, short = (Run(tasks(), training=training((3, others))) for others in (2, 1))
    assert long.outcome.losses[0] == short.outcome.losses[0]
    assert long.outcome.losses[1:] != short.outcome.losses[1:]


def test_a_resumed_run_has_the_bits_of_one_that_was_not_interrupted():
    pair = training((1, 2), schedule="cosine", schedule_over="run")
    whole = Run(tasks(), eg.Rehearsal, pair)
    for checkpoint in whole.checkpoints[:-1]:
        assert Run(tasks(), eg.Rehearsal, pair, resume=checkpoint).bits() == whole.bits()


def test_two_numbers_are_in_the_key_and_survive_json():
    scenario = eg.split(blobs(4))
    spec = Spec(scenario, eg.Adam(), training=training([3, 1]))
    assert spec.to_json()["training"]["epochs"] == [3, 1]
    again = from_json(spec.to_json(), {one.fingerprint: one for one in scenario.images})
    assert again.training == spec.training
    assert again.key == spec.key != Spec(scenario, eg.Adam(), training=training(3)).key


@pytest.mark.parametrize(
    ("epochs", "message"),
    [
        (0, "epochs 0 is out of range; give a whole number, 1 or more"),
        ((4, 0), "epochs 0 is out of range; give a whole number, 1 or more"),
        (1.5, "epochs 1.5 has the wrong type; give one whole number, or two: first task, later tasks"),
        ((4, 3, 2), r"epochs \(4, 3, 2\) has the wrong type"),
        ("4", "epochs '4' has the wrong type"),
        (True, "epochs True has the wrong type"),
    ],
)
def test_wrong_values_are_refused(epochs, message):
    with pytest.raises(ValueError, match=message):
        eg.Training(epochs=epochs)
