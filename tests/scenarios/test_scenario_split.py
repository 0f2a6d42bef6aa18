"""Splitting, mixing, holding out and scaling, checked by hand on small datasets."""

import numpy as np
import pytest
import torch
from helpers import blobs, everything, numbered, numbers

import engram as eg
from engram.scenarios.kinds import ScenarioError


@pytest.mark.parametrize(
    ("kind", "heads", "outputs"),
    [
        ("task", [(0, 2), (2, 4)], 4),
        ("domain", [(0, 2), (0, 2)], 2),
        ("class", [(0, 2), (2, 4)], 4),
        ("class-known", [(0, 2), (2, 4)], 4),
        ("iid", [(0, 4), (0, 4)], 4),
    ],
)
def test_outputs_of_each_kind(kind, heads, outputs):
    tasks = eg.split(blobs(4), kind=kind).tasks(0)
    assert [(head.start, head.stop) for head in tasks.heads] == heads
    assert tasks.outputs == outputs


def test_names_of_classes_are_in_the_order_of_their_outputs_in_kind_iid():
    """Each class of `numbered` has its label as its last pixel."""
    tasks = eg.split(numbered(6), kind="iid", order="shuffled").tasks(3)
    assert {task.classes for task in tasks} != {tuple("012345")}
    for task in tasks:
        batch = everything(task.train)
        labels = (batch.x[:, -1] * 255).round().int().tolist()
        assert [task.classes[output] for output in batch.y.tolist()] == [str(label) for label in labels]


@pytest.mark.parametrize(
    ("kind", "after_first", "after_third"),
    [
        ("task", [(0, 2), (2, 4), (4, 6)], [(0, 2), (2, 4), (4, 6)]),
        ("domain", [(0, 2), (0, 2), (0, 2)], [(0, 2), (0, 2), (0, 2)]),
        ("class", [(0, 2), (0, 4), (0, 6)], [(0, 6), (0, 6), (0, 6)]),  # an unseen task needs its own outputs
        ("class-known", [(0, 6), (0, 6), (0, 6)], [(0, 6), (0, 6), (0, 6)]),
        ("iid", [(0, 6), (0, 6), (0, 6)], [(0, 6), (0, 6), (0, 6)]),
    ],
)
def test_active_outputs(kind, after_first, after_third):
    tasks = eg.split(blobs(6), kind=kind).tasks(0)
    for seen, expected in ((0, after_first), (2, after_third)):
        assert [(s.start, s.stop) for s in (tasks.active(j, seen) for j in range(3))] == expected


@pytest.mark.parametrize(
    ("kind", "floor"),
    [("task", (100 + 50 + 100 / 3) / 3), ("domain", (100 + 2 * 100 / 3) / 3), ("class", 100 / 3)],
)
def test_floor_with_unequal_heads(kind, floor):
    """Heads of 2, 3 and 1: a guess is worth 1/2 and 1/3 with own heads; the shared head has 3 outputs."""
    assert eg.split(blobs(6), kind=kind, classes_per_task=[2, 3, 1]).tasks(0).floor == pytest.approx(floor)


@pytest.mark.parametrize(
    ("kind", "labels", "outputs"),
    [
        ("task", [{0, 1}, {2, 3, 4}, {5}], 6),
        ("domain", [{0, 1}, {0, 1, 2}, {0}], 3),
        ("class", [{0, 1}, {2, 3, 4}, {5}], 6),
    ],
)
def test_a_list_of_classes_per_task_makes_unequal_heads(kind, labels, outputs):
    tasks = eg.split(blobs(6), kind=kind, classes_per_task=[2, 3, 1]).tasks(0)
    assert [set(task.train.y.tolist()) for task in tasks] == labels
    assert [set(task.test.y.tolist()) for task in tasks] == labels
    assert [len(task.train) for task in tasks] == [80, 120, 40]
    assert [task.classes for task in tasks] == [("0", "1"), ("2", "3", "4"), ("5",)]
    assert tasks.outputs == outputs


@pytest.mark.parametrize("wrong", [0, 3, 4, 5, [4], [2, 3], [2, 2, 0], [5, -1]])
def test_groups_that_do_not_fit_four_classes_are_refused(wrong):
    with pytest.raises(ScenarioError, match="classes_per_task"):
        eg.split(blobs(4), classes_per_task=wrong)


def test_fixed_order_is_the_same_for_all_seeds_and_shuffled_order_is_not():
    images = blobs(6)
    fixed = {tuple(task.classes for task in eg.split(images).tasks(seed)) for seed in range(4)}
    assert fixed == {(("0", "1"), ("2", "3"), ("4", "5"))}
    scenario = eg.split(images, order="shuffled")
    orders = [tuple(name for task in scenario.tasks(seed) for name in task.classes) for seed in range(6)]
    assert len(set(orders)) == 6  # of 720
    assert all(sorted(order) == list("012345") for order in orders)
    assert orders == [tuple(name for task in scenario.tasks(seed) for name in task.classes) for seed in range(6)]


@pytest.mark.parametrize("kind", ["task", "domain", "class"])
def test_a_shuffled_order_relabels_train_and_test_alike(kind):
    """The last pixel of these images is their class; output = its place in the shuffled order."""
    tasks = eg.split(numbered(6), kind=kind, order="shuffled").tasks(3)
    order = [int(name) for task in tasks for name in task.classes]
    assert order != sorted(order)
    for task in tasks:
        for data in (task.train, task.test):
            batch = everything(data)
            classes = (batch.x[:, 5] * 255).round().long().tolist()
            place = [order.index(c) % 2 if kind == "domain" else order.index(c) for c in classes]
            assert batch.y.tolist() == place


@pytest.mark.parametrize("seed", [0, 1])
def test_iid_uses_every_image_once(seed):
    tasks = eg.split(numbered(4, train=41, test=11), kind="iid").tasks(seed)
    assert [len(task.train) for task in tasks] == [82, 82]
    assert sorted(n for task in tasks for n in numbers(task.train)) == list(range(164))
    assert sorted(n for task in tasks for n in numbers(task.test)) == list(range(10_000, 10_044))
    for task in tasks:
        for data in (task.train, task.test):
            batch = everything(data)
            assert batch.y.tolist() == (batch.x[:, 5] * 255).round().long().tolist()
            assert set(batch.t.tolist()) == {task.index}
            assert set(batch.y.tolist()) == {0, 1, 2, 3}


def test_iid_is_drawn_again_by_each_seed():
    scenario = eg.split(numbered(4), kind="iid")
    hands = [numbers(scenario.tasks(seed)[0].train) for seed in (0, 0, 1)]
    assert hands[0] == hands[1]
    assert set(hands[0]) != set(hands[2])


@pytest.mark.parametrize("make", [eg.split, lambda images, **options: eg.permute(images, permutations=2, **options)])
def test_a_holdout_parts_the_training_images_by_class_and_never_reads_the_test_part(make):
    images = numbered(4, train=40)
    found = set()
    for seed in (0, 1, 2):
        tasks = make(images, kind="class").holdout(0.1).tasks(seed)
        one_pass = [tasks[0]] if make is not eg.split else list(tasks)  # each permuted task has them all
        train = [n for task in one_pass for n in numbers(task.train)]
        held = [n for task in one_pass for n in numbers(task.test)]
        assert sorted(train + held) == list(range(160))  # no number from 10000 on
        assert len(train) == 144
        assert np.bincount([n % 4 for n in held]).tolist() == [4, 4, 4, 4]
        found.add(tuple(held))
    assert len(found) == 1  # the same for all seeds


def test_a_holdout_of_a_holdout_s_fraction_keeps_everything_else():
    scenario = eg.split(blobs(4), kind="domain", pad=1, order="shuffled")
    held = scenario.holdout(0.25)
    assert (held.kind, held.pad, held.order, held.held_out) == ("domain", 1, "shuffled", 0.25)
    assert scenario.held_out == 0


def test_a_small_share_holds_out_at_least_one_image_per_class_and_a_large_one_keeps_one():
    images = numbered(4, train=10)
    tasks = eg.split(images).holdout(0.01).tasks(0)
    assert [(len(task.train), len(task.test)) for task in tasks] == [(18, 2), (18, 2)]
    tasks = eg.split(images).holdout(0.99).tasks(0)
    assert [(len(task.train), len(task.test)) for task in tasks] == [(2, 18), (2, 18)]


def one_image_per_class(*pictures: list) -> eg.Images:
    x = np.array(pictures, np.uint8)
    return eg.Images(x, np.arange(len(x)), x, np.arange(len(x)))


def test_statistics_of_the_training_part_are_taken_after_padding():
    """2 × 2 white in a 4 × 4 frame: mean 1/4, variance 3/16. Black is −1/√3, white √3."""
    white = np.full((2, 2), 255)
    tasks = eg.split(one_image_per_class(white, white), classes_per_task=1, pad=1, normalize="train").tasks(0)
    x = everything(tasks[0].train).x.view(4, 4)
    assert x[1:3, 1:3].flatten().tolist() == pytest.approx([3**0.5] * 4)
    assert x[0].tolist() == pytest.approx([-(3**-0.5)] * 4)


def test_statistics_of_a_holdout_are_those_of_what_is_left_to_train_on():
    """Each class has nine grey (51) images and one white one: the numbers depend on which was held out."""
    x = np.full((20, 2, 2), 51, np.uint8)
    x[::10] = 255
    images = eg.Images(x, np.repeat([0, 1], 10), x, np.repeat([0, 1], 10))
    tasks = eg.split(images, classes_per_task=1, normalize="train").holdout(0.1).tasks(0)
    left = torch.cat([everything(task.train).x for task in tasks])
    assert left.mean().item() == pytest.approx(0, abs=1e-6)
    assert left.std(unbiased=False).item() == pytest.approx(1, rel=1e-5)


def test_colour_images_are_normalised_by_channel():
    """Red: half 0, half 255 → ±1. Green: a quarter white → −1/√3 and √3. Blue: 51 and 153 → 0.4 ± 0.2 → ±1."""
    red, green, blue = [[0, 255], [0, 255]], [[255, 0], [0, 0]], [[51, 153], [153, 51]]
    picture = np.stack([red, green, blue], -1)
    tasks = eg.split(one_image_per_class(picture, picture), classes_per_task=1, normalize="train").tasks(0)
    assert tasks.shape == (3, 2, 2)
    x = everything(tasks[1].test).x.view(3, 4)
    assert x[0].tolist() == pytest.approx([-1, 1, -1, 1])
    assert x[1].tolist() == pytest.approx([3**0.5] + 3 * [-(3**-0.5)])
    assert x[2].tolist() == pytest.approx([-1, 1, 1, -1], abs=1e-6)


def test_given_statistics_for_all_channels_and_for_each():
    picture = np.full((1, 1, 3), 255)
    images = one_image_per_class(picture, picture)
    for normalize, expected in (
        ((0.5, 0.25), [2, 2, 2]),
        (((0.5, 0.0, 1.0), (0.25, 0.5, 2.0)), [2, 2, 0]),
        (None, [1, 1, 1]),
    ):
        tasks = eg.split(images, classes_per_task=1, normalize=normalize).tasks(0)
        assert everything(tasks[0].train).x[0].tolist() == pytest.approx(expected)


def test_pixels_that_are_all_equal_cannot_be_normalised():
    grey = np.full((2, 2), 7)
    with pytest.raises(ScenarioError, match="equal"):
        eg.split(one_image_per_class(grey, grey), classes_per_task=1, normalize="train").tasks(0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "clas"}, "class"),
        ({"pad": -1}, "0 to 64"),
        ({"held_out": 1.0}, "below 1"),
        ({"normalize": (0.1, 0.0)}, "above 0"),
        ({"order": "random"}, "fixed, shuffled"),
    ],
)
def test_wrong_values_are_refused_with_the_right_ones(options, message):
    with pytest.raises(ScenarioError, match=message):
        eg.split(blobs(4), **options)
