"""Long tails and fewer images per class: a part of the training images, always the same; keys stay without them."""

import numpy as np
import pytest
from helpers import blobs, numbered, numbers

import engram as eg
from engram.runs.spec import Spec
from engram.scenarios.kinds import ScenarioError


def counts(tasks):
    return np.bincount(np.concatenate([task.train.y for task in tasks])).tolist()


def test_a_long_tail_has_the_exponential_profile():
    """100 · 0.01^(c / 4): 100, 31.6, 10, 3.2, 1."""
    scenario = eg.split(blobs(5, train=100), classes_per_task=1, imbalance="exp", ratio=0.01)
    tasks = scenario.tasks(0)
    assert counts(tasks) == scenario.sizes() == [100, 32, 10, 3, 1]
    assert [len(task.test) for task in tasks] == [10] * 5  # test images stay


def test_per_class_is_the_most_that_a_class_has_and_a_smaller_subset_is_part_of_a_larger():
    images = numbered(4, train=40)
    found = {}
    for per_class in (5, 20, 100):
        tasks = eg.split(images, per_class=per_class).tasks(0)
        assert counts(tasks) == [min(40, per_class)] * 4
        found[per_class] = {n for task in tasks for n in numbers(task.train)}
    assert found[5] < found[20] < found[100]


def test_the_seed_does_not_choose_the_images():
    one, other = (eg.split(numbered(4), per_class=7).tasks(seed) for seed in (0, 1))
    assert [numbers(task.train) for task in one] == [numbers(task.train) for task in other]


def test_both_together_and_images_held_out_come_from_the_subset():
    scenario = eg.split(numbered(4, train=40), per_class=20, imbalance="exp", ratio=0.1)
    assert counts(scenario.tasks(0)) == [20, 9, 4, 2]
    whole = {n for task in scenario.tasks(0) for n in numbers(task.train)}
    held = scenario.holdout(0.25)
    parts = [(numbers(task.train), numbers(task.test)) for task in held.tasks(0)]
    assert {n for train, test in parts for n in (*train, *test)} == whole
    assert [len(train) for train, _ in parts] == held.sizes() == [15 + 7, 3 + 1]


@pytest.mark.parametrize("recipe", [eg.permute, eg.rotate, lambda i, **o: eg.transform(i, ["none", "invert"], **o),
                                    lambda i, **o: eg.queue([i], **o), eg.repeat, eg.split])  # fmt: skip
def test_all_recipes_have_them(recipe):
    scenario = recipe(blobs(4, train=40), per_class=10, imbalance="exp", ratio=0.5)
    sizes = [len(task.train) for task in scenario.tasks(0)]
    assert sizes[0] in (10 + 8 + 6 + 5, 10 + 8)
    if not isinstance(scenario, type(eg.repeat(blobs(4)))):  # sizes on average
        assert sizes == scenario.sizes()


def test_neutral_values_move_no_key_and_others_do():
    images = blobs(4)
    plain = Spec(eg.split(images), eg.Adam()).key
    assert Spec(eg.split(images, per_class=0, imbalance="none", ratio=1.0), eg.Adam()).key == plain
    choices = ({"per_class": 5}, {"imbalance": "exp", "ratio": 0.1}, {"imbalance": "exp", "ratio": 0.2})
    assert len({plain, *(Spec(eg.split(images, **fields), eg.Adam()).key for fields in choices)}) == 4


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"imbalance": "exp"}, "imbalance exp and ratio 1.0 contradict each other"),
        ({"ratio": 0.01}, "imbalance none and ratio 0.01 contradict each other"),
        ({"imbalance": "linear", "ratio": 0.1}, "imbalance.*linear"),
        ({"imbalance": "exp", "ratio": 0}, "ratio 0 is out of range"),
        ({"per_class": -1}, "per_class -1"),
        ({"per_class": 2.5}, "per_class 2.5"),
    ],
)
def test_wrong_values_are_refused(fields, words):
    with pytest.raises(ScenarioError, match=words):
        eg.split(blobs(4), **fields)
