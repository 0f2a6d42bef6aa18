"""MNIST-360 by the description of Buzzega et al.'s code: counts, stages, angles, test images. No MNIST is needed."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch

import engram as eg
from engram.scenarios.mnist360 import cut_into_chunks, stages
from engram.scenarios.names import is_name, parse_name
from engram.scenarios.rotate import Rotation, rotate_each
from engram.scenarios.scenario import ScenarioError

TRAIN = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def images_with(train: list[int], test: list[int], size: int = 2) -> eg.Images:
    rng = np.random.default_rng(0)

    def part(counts):
        y = rng.permutation(np.repeat(np.arange(10), counts))
        return rng.integers(0, 256, (len(y), size, size), dtype=np.uint8), y

    return eg.Images(*part(train), *part(test), name="digits")


@pytest.fixture(scope="module")
def digits() -> eg.Images:
    return images_with(TRAIN, TEST)


@pytest.mark.parametrize(
    ("batch", "images", "steps"), [(1, 54_024, 54_024), (4, 54_048, 13_516), (8, 54_050, 6_764), (16, 54_051, 3_387)]
)
def test_the_published_numbers_of_images_and_steps(digits, batch, images, steps):
    tasks = eg.mnist360(digits).tasks(0).for_batch(batch)
    (task,) = tasks
    assert len(task.train) == images
    plan = tasks.stream.plan(tasks, [images], batch)
    assert (len(plan.sizes), sum(plan.sizes), plan.ends) == (steps, images, (steps,))
    assert max(plan.sizes) == batch
    assert len(task.test) == 8_991
    assert tasks.outputs == 10


def test_three_rounds_of_nine_pairs_take_chunks_from_the_last_to_the_first():
    found = list(stages())
    assert len(found) == 27
    assert [stage.digits for stage in found[:9]] == [(d, (d + 1) % 9) for d in range(9)]
    used = {digit: [c for s in found for d, c in zip(*s, strict=True) if d == digit] for digit in range(9)}
    assert all(chunks == [5, 4, 3, 2, 1, 0] for chunks in used.values())


def test_chunks_are_cut_in_order():
    chunks = cut_into_chunks(np.arange(5923))
    assert [len(chunk) for chunk in chunks] == [988] * 5 + [983]
    assert np.concatenate(chunks).tolist() == list(range(5923))


def test_a_stage_shows_its_two_digits_in_proportion_from_their_chunks(digits):
    tasks = eg.mnist360(digits).tasks(0).for_batch(4)
    train = tasks[0].train
    sizes = np.array(tasks.stream.batch_sizes)
    first_chunks = {d: set(cut_into_chunks(np.flatnonzero(digits.y_train == d))[5].tolist()) for d in (0, 1)}
    shown = [(d, r) for d, r in zip(train.y[:1900].tolist(), train.rows[:1900].tolist(), strict=True)]
    assert all(row in first_chunks[digit] for digit, row in shown)
    assert len(set(shown)) < len(shown)  # draws with replacement
    starts = np.cumsum(sizes) - sizes
    for start, size in zip(starts[:100], sizes[:100], strict=True):
        batch = train.y[start : start + size].tolist()
        assert batch == sorted(batch)  # digit 0, then digit 1
        assert Counter(batch) == {0: 2, 1: 2}  # 983 and 1122 are left at first: 1.9 of 4


def test_angles_go_on_from_chunk_to_chunk_and_turn_once_in_all(digits):
    train = eg.mnist360(digits).tasks(0).for_batch(16)[0].train
    for digit in range(9):
        angles = np.array(train.angles)[(train.y == digit).numpy()]
        assert angles[0] == (digit - 1) * 60 % 360
        steps = {round((b - a) % 360, 9) for a, b in pairwise(angles)}
        assert steps == {round(360 / TRAIN[digit], 9)}
    assert len(train.angles) == 54_051


def test_test_images_turn_once_and_come_in_samples_without_replacement(digits):
    test = eg.mnist360(digits).tasks(0).for_batch(64)[0].test
    assert Counter(test.y.tolist()) == dict(enumerate(TEST[:9]))
    own = test.rows[test.y == 3].tolist()
    assert all(len(set(own[i : i + 64])) == len(own[i : i + 64]) for i in range(0, 1010, 64))
    assert len(set(own)) < 1010
    angles = np.array(test.angles)[(test.y == 3).numpy()]
    assert angles == pytest.approx(np.arange(1010) * 360 / 1010)


def test_each_image_is_turned_as_a_rotation_would_turn_it():
    x = torch.randint(0, 256, (300, 3 * 7 * 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    degrees = [k * 1.37 for k in range(300)]
    turned = rotate_each(x, degrees, (3, 7, 5))
    for k in range(300):
        assert torch.equal(turned[k : k + 1], Rotation(degrees[k], (3, 7, 5))(x[k : k + 1]))


@pytest.fixture(scope="module")
def small() -> eg.Images:
    return images_with([60] * 10, [12] * 10, 6)


def test_one_score_at_the_end_of_one_pass(small):
    record = eg.run(eg.mnist360(small), eg.ER(capacity=50), training=eg.Training(epochs=1, batch=4, lr=0.01))
    assert record.scenario == "mnist-360-digits"
    assert [len(row) for row in record.accuracy] == [1]
    assert record.forgetting is None
    assert record.environment["told_boundaries"] == "no"
    assert record.steps == len(eg.mnist360(small).tasks(0).for_batch(4).stream.batch_sizes)


def test_offline_trains_one_shuffled_epoch_on_all_images_shown(small):
    record = eg.run(eg.mnist360(small), eg.Offline(), training=eg.Training(epochs=1, batch=4, lr=0.01))
    shown = len(eg.mnist360(small).tasks(0).for_batch(4)[0].train)
    assert record.steps == -(-shown // 4)


@pytest.mark.parametrize(
    "training", [eg.Training(epochs=2), eg.Training(steps=5), eg.Training(epochs=1, drop_last=True)]
)
def test_more_than_one_pass_is_refused(small, training):
    with pytest.raises(ScenarioError, match="mnist-360 is shown once"):
        eg.run(eg.mnist360(small), eg.SGD(), training=training)


def test_images_that_do_not_fit_are_refused():
    with pytest.raises(ScenarioError, match="a class of 20 training images; mnist-360 needs 36"):
        eg.mnist360(images_with([20] * 10, [3] * 10))
    with pytest.raises(ScenarioError, match="one kind"):
        eg.mnist360(images_with([60] * 10, [3] * 10), kind="domain")


def test_the_name_has_no_kind():
    name = parse_name("mnist-360")
    assert (name.maker, name.images, name.kind, str(name)) == ("mnist-360", "mnist", "class-known", "mnist-360")
    assert is_name("mnist-360")
    assert not is_name("mnist")
    with pytest.raises(ScenarioError, match="write mnist-360"):
        parse_name("mnist-360/class")
