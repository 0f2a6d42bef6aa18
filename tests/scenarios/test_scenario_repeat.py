"""Repetition: classes come back with the given probabilities, tasks in turn."""

import numpy as np
import pytest
from helpers import Run, blobs, numbered, numbers

import engram as eg
from engram.runs.spec import Spec, from_json
from engram.scenarios.kinds import ScenarioError

IMAGES = blobs(6, train=8, test=3)


def present(scenario, seeds):
    """(seeds, tasks, classes): whether a class is in a task."""
    found = np.zeros((seeds, scenario.count, 6), bool)
    for seed in range(seeds):
        for task, group in enumerate(scenario.draw_groups(seed)):
            found[seed, task, group] = True
    return found


def test_classes_come_back_with_the_given_probabilities():
    p = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
    found = present(eg.repeat(IMAGES, probabilities=p, length=8), 2000)
    for task, new in enumerate(([0, 1], [2, 3], [4, 5])):
        assert found[:, task, new].all()
        assert not found[:, :task, new].any()
    share = found.mean(0)  # (tasks, classes): standard error 0.011 at most
    assert share[1, :2] == pytest.approx(p[:2], abs=0.04)
    assert share[2, :4] == pytest.approx(p[:4], abs=0.04)
    # without new classes an empty draw is repeated: p over the probability that any class is drawn
    some = 1 - np.prod(1 - np.array(p))
    assert share[3:] == pytest.approx(np.tile(np.array(p) / some, (5, 1)), abs=0.04)


def test_draws_of_tasks_and_classes_are_independent():
    found = present(eg.repeat(IMAGES, probabilities=(0.5,), length=8), 2000)[:, 3:].reshape(2000, -1)
    correlation = np.corrcoef(found.T)
    np.fill_diagonal(correlation, 0)
    assert np.abs(correlation).max() < 0.1  # standard error 0.022; tasks that were empty change this by 0.01


def test_probability_1_brings_everything_back_and_0_is_the_split():
    assert eg.repeat(IMAGES, probabilities=(1,), length=4).draw_groups(0) == [
        [0, 1], [2, 3, 0, 1], [4, 5, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5],
    ]  # fmt: skip
    assert eg.repeat(IMAGES, probabilities=(0,), length=3).draw_groups(0) == eg.split(IMAGES).draw_groups(0)


def test_cyclic_tasks_come_back_in_turn_with_the_same_images():
    images = numbered(6, train=10)
    scenario = eg.repeat(images, order="cyclic", length=7)
    tasks = scenario.tasks(0)
    assert [task.classes for task in tasks] == [("0", "1"), ("2", "3"), ("4", "5")] * 2 + [("0", "1")]
    assert numbers(tasks[0].train) == numbers(tasks[3].train) == numbers(tasks[6].train)
    assert tasks.outputs == 6
    assert [tasks.active(i, i).stop for i in range(7)] == [2, 4, 6, 6, 6, 6, 6]
    assert [len(task.train) for task in tasks] == scenario.sizes() == [20] * 7


def test_a_class_keeps_its_output_in_class_learning_and_gets_a_new_head_in_task_learning():
    for kind, outputs in (("class", 6), ("class-known", 6), ("domain", 2), ("task", 12)):
        assert eg.repeat(IMAGES, order="cyclic", kind=kind).tasks(0).outputs == outputs


def test_expected_sizes():
    scenario = eg.repeat(IMAGES, probabilities=(0.5,), length=6)
    assert scenario.sizes() == [16, 24, 32, 24, 24, 24]
    assert eg.repeat(IMAGES).count == 6


@pytest.mark.parametrize("fields", [{}, {"order": "cyclic", "length": 4}, {"order": "shuffled"}])
@pytest.mark.parametrize("kind", ["task", "domain", "class", "class-known", "iid"])
def test_same_seed_same_bits_and_resumed_equals_uninterrupted(kind, fields):
    scenario = eg.repeat(IMAGES, kind=kind, **fields)
    whole, again = (Run(scenario.tasks(1), lambda: eg.Rehearsal(capacity=12)) for _ in range(2))
    resumed = Run(scenario.tasks(1), lambda: eg.Rehearsal(capacity=12), resume=whole.checkpoints[2])
    assert whole.bits() == again.bits() == resumed.bits()


def test_fields_are_in_the_key_and_come_back_from_json():
    choices = ({}, {"length": 9}, {"probabilities": (0.3,)}, {"order": "cyclic"})
    specs = [Spec(eg.repeat(IMAGES, **fields), eg.Adam()) for fields in choices]
    assert len({spec.key for spec in specs}) == 4
    assert specs[0].scenario_name == "repeating-split-own/class"
    for spec in specs:
        assert from_json(spec.to_json(), {IMAGES.fingerprint: IMAGES}).key == spec.key


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"length": 2}, "the 3 tasks that bring new classes come first; give 3 or more"),
        ({"probabilities": (0.1, 0.2)}, "one number from 0 to 1, or one for each of the 6 classes"),
        ({"probabilities": (1.5,)}, "one number from 0 to 1"),
        ({"probabilities": (0,)}, "no class would be in tasks 4 to 6"),
        ({"order": "cyclic", "probabilities": (0.5,)}, "with the order cyclic nothing is drawn"),
        ({"order": "cycle"}, "cyclic"),
    ],
)
def test_wrong_values_are_refused(fields, words):
    with pytest.raises(ScenarioError, match=words):
        eg.repeat(IMAGES, **fields)


def test_probabilities_that_never_draw_anything_end_in_words():
    with pytest.raises(ScenarioError, match="drew no class 10000 times"):
        eg.repeat(IMAGES, probabilities=(1e-12,)).tasks(0)
