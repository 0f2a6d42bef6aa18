"""Permute: one permutation of the pixels per task, including border and channels."""

import numpy as np
import pytest
import torch
from helpers import blobs, everything

import engram as eg
from engram.scenarios.kinds import ScenarioError


def ramp(channels: int = 1) -> eg.Images:
    """Images of 5 × 5 pixels that are all different (10, 20, …, 250), so that a picture shows its permutation.

    In colour, green is red + 1 and blue is red + 2.
    """
    x = 10 + 10 * np.arange(25).reshape(1, 5, 5)
    if channels == 3:
        x = np.stack([x, x + 1, x + 2], -1)
    x = np.repeat(x, 4, 0).astype(np.uint8)
    return eg.Images(x, [0, 1, 0, 1], x, [0, 1, 0, 1])


def places(data) -> list[int]:
    """Where each pixel came from."""
    return ((everything(data).x[0] * 255).round().long() // 10 - 1).tolist()


def test_the_first_task_is_the_identity_unless_asked_otherwise():
    assert places(eg.permute(ramp(), permutations=3).tasks(0)[0].train) == list(range(25))
    permuted = places(eg.permute(ramp(), permutations=3, identity_first=False).tasks(0)[0].train)
    assert permuted != list(range(25))
    assert sorted(permuted) == list(range(25))


def test_later_tasks_are_permuted_alike_with_and_without_the_identity():
    with_, without = (eg.permute(ramp(), permutations=3, identity_first=first).tasks(7) for first in (True, False))
    assert places(with_[1].train) == places(without[1].train)
    assert places(with_[2].train) == places(without[2].train)


def test_train_and_test_share_the_permutation_and_tasks_and_seeds_do_not():
    found = set()
    for seed in range(4):
        for task in eg.permute(ramp(), permutations=5).tasks(seed)[1:]:
            order = places(task.train)
            assert sorted(order) == list(range(25))
            assert order == places(task.test)
            found.add(tuple(order))
    assert len(found) == 16


def test_a_seed_gives_the_same_permutations_whatever_the_number_of_tasks_and_the_kind():
    short, long = (eg.permute(ramp(), permutations=n, kind=k).tasks(1) for n, k in ((2, "task"), (6, "domain")))
    assert places(short[1].train) == places(long[1].train)


def test_the_border_takes_part():
    """A frame of 24 zeros around 5 × 5: left out of the permutation, they would all stay where they are."""
    plain, moved = (
        everything(task.train).x[0].view(7, 7) for task in eg.permute(ramp(), permutations=2, pad=1).tasks(0)
    )
    assert (plain[0] == 0).all()
    assert (plain == 0).sum() == (moved == 0).sum() == 24
    assert (moved[1:6, 1:6] == 0).sum() > 0
    assert plain.flatten().sort().values.tolist() == moved.flatten().sort().values.tolist()


def test_the_channels_of_a_pixel_go_together():
    for task in eg.permute(ramp(3), permutations=3).tasks(0):
        red, green, blue = (everything(task.train).x[0] * 255).round().long().view(3, 25)
        assert torch.equal(green, red + 1)
        assert torch.equal(blue, red + 2)
        assert (red.tolist() == list(range(10, 260, 10))) == (task.index == 0)


@pytest.mark.parametrize("normalize", ["train", ((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))])
def test_permuting_normalised_pixels_is_normalising_permuted_ones(normalize):
    """Each channel keeps its own statistics: sorted by value, all tasks have the same pixels in each channel."""
    tasks = eg.permute(ramp(3), permutations=3, normalize=normalize).tasks(0)
    first, *others = (everything(task.train).x.view(4, 3, 25).sort(2).values for task in tasks)
    for other in others:
        assert torch.equal(first, other)


@pytest.mark.parametrize(
    ("kind", "labels", "outputs", "floor"),
    [
        ("task", [{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}], 12, 50.0),  # (100 + 25 + 25) / 3
        ("domain", [{0, 1, 2, 3}] * 3, 4, 50.0),
        ("class", [{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}], 12, 100 / 3),
    ],
)
def test_labels_outputs_and_floor(kind, labels, outputs, floor):
    tasks = eg.permute(blobs(4), permutations=3, kind=kind).tasks(0)
    assert [set(task.train.y.tolist()) for task in tasks] == labels
    assert [set(task.test.y.tolist()) for task in tasks] == labels
    assert tasks.outputs == outputs
    assert tasks.floor == pytest.approx(floor)


@pytest.mark.parametrize("part", ["train", "test"])
def test_iid_uses_every_permuted_image_once(part):
    """44 images in 3 permutations are 132 different pictures."""
    images = blobs(4, train=11, test=11)
    apart = eg.permute(images, permutations=3, kind="domain").tasks(5)
    mixed = eg.permute(images, permutations=3, kind="iid").tasks(5)

    def pictures(tasks) -> list[tuple]:
        batches = [everything(getattr(task, part)) for task in tasks]
        return sorted((*x, y) for b in batches for x, y in zip(b.x.tolist(), b.y.tolist(), strict=True))

    assert pictures(mixed) == pictures(apart)
    assert len(set(pictures(mixed))) == 132
    assert [len(getattr(task, part)) for task in mixed] == [44, 44, 44]
    assert mixed.outputs == 4


def test_one_permutation_is_no_scenario():
    with pytest.raises(ScenarioError, match="two or more"):
        eg.permute(ramp(), permutations=1)
