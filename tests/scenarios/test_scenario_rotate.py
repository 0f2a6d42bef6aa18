"""Rotate: one angle per task, exact at the angles whose answer is known."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import blobs, everything

import engram as eg
from engram.runs.defaults import default_setting
from engram.runs.spec import Spec, from_json
from engram.scenarios.look import categorize_tasks


def noise(side: int = 28, channels: int = 1) -> eg.Images:
    shape = (6, side, side, 3) if channels == 3 else (6, side, side)
    x = np.random.default_rng(1).integers(1, 256, shape, dtype=np.uint8)
    return eg.Images(x, [0, 1, 2, 0, 1, 2], x, [0, 1, 2, 0, 1, 2])


def stored(tasks, task: int, part: str = "train") -> np.ndarray:
    """The pixels of a task as (n, height, width[, 3])."""
    data = getattr(tasks[task], part)
    x = data.pixels(torch.arange(len(data))).numpy().reshape(len(data), *tasks.shape)
    return x[:, 0] if tasks.shape[0] == 1 else x.transpose(0, 2, 3, 1)


def turn_by_loops(image: np.ndarray, degrees: float) -> np.ndarray:
    """Buzzega et al.'s rotation, one pixel at a time: where does each output pixel come from?"""
    height, width = image.shape[:2]
    phi = degrees * math.pi / 180
    turned = np.zeros_like(image)
    for y in range(height):
        for x in range(width):
            dx, dy = x + 0.5 - width / 2, y + 0.5 - height / 2
            column = math.floor(math.cos(phi) * dx - math.sin(phi) * dy + width / 2)
            row = math.floor(math.sin(phi) * dx + math.cos(phi) * dy + height / 2)
            if 0 <= column < width and 0 <= row < height:
                turned[y, x] = image[row, column]
    return turned


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize(("side", "channels"), [(28, 1), (7, 1), (8, 3)])
def test_quarter_turns_are_exact(side, channels, interpolation):
    images = noise(side, channels)
    tasks = eg.rotate(images, angles=(0, 90, 180, 270), interpolation=interpolation).tasks(0)
    for turns in range(4):
        for part in ("train", "test"):
            assert np.array_equal(stored(tasks, turns, part), np.rot90(images.x_train, turns, axes=(1, 2)))


@pytest.mark.parametrize("degrees", [37, 1, 45, 123.4, 179.9])
@pytest.mark.parametrize("channels", [1, 3])
def test_other_angles_are_those_of_a_loop_over_pixels(degrees, channels):
    images = noise(channels=channels)
    turned = stored(eg.rotate(images, angles=(0, degrees)).tasks(0), 1)
    for one, original in zip(turned, images.x_train, strict=True):
        expected = turn_by_loops(original, degrees)
        if degrees == 45:  # coordinates on the edge between two pixels: the loop rounds cos 45° and sin 45° apart
            assert np.mean(one != expected) < 0.05
        else:
            assert np.array_equal(one, expected)


def test_a_border_is_turned_with_the_image():
    tasks = eg.rotate(noise(6), angles=(0, 37), pad=2).tasks(0)
    padded = np.pad(noise(6).x_train[0], 2)
    assert tasks.shape == (1, 10, 10)
    assert np.array_equal(stored(tasks, 1)[0], turn_by_loops(padded, 37))


def test_bilinear_values_lie_between_the_pixels_around_them():
    """A ramp from left to right, value 8 x: turned by 30°, the centre of each pixel has 8 times its own place."""
    x = np.tile((8 * np.arange(20)).astype(np.uint8), (2, 20, 1))
    turned = stored(eg.rotate(eg.Images(x, [0, 1], x, [0, 1]), angles=(0, 30), interpolation="bilinear").tasks(0), 1)
    for row, column in ((10, 10), (7, 12), (13, 5)):
        dx, dy = column + 0.5 - 10, row + 0.5 - 10
        place = math.cos(math.pi / 6) * dx - math.sin(math.pi / 6) * dy + 10 - 0.5
        assert abs(turned[0, row, column] - 8 * place) <= 0.5


def test_angles_are_uniform_over_half_a_turn_and_belong_to_seed_and_task():
    scenario = eg.rotate(noise(), tasks=5)
    drawn = [scenario.draw_angles(seed) for seed in range(400)]
    angles = np.array(drawn).flatten()
    assert len(set(angles)) == 2000
    assert angles.min() >= 0
    assert angles.max() < 180
    counts = np.bincount((angles // 18).astype(int), minlength=10)
    assert ((counts - 200) ** 2 / 200).sum() < 27.9  # chi-square with 9 degrees of freedom at 0.001
    assert scenario.draw_angles(7) == drawn[7]
    assert eg.rotate(noise(), tasks=9).draw_angles(7)[:5] == drawn[7]
    assert replace(scenario, kind="class").draw_angles(7) == drawn[7]


def test_twenty_tasks_by_default_each_with_all_images():
    scenario = eg.rotate(blobs(4, train=5, test=2))
    tasks = scenario.tasks(3)
    assert [len(task.train) for task in tasks] == scenario.sizes() == [20] * 20
    assert (tasks.kind, tasks.outputs, tasks.floor) == ("domain", 4, pytest.approx((100 + 19 * 25) / 20))


@pytest.mark.parametrize(("kind", "outputs"), [("task", 9), ("domain", 3), ("class", 9), ("iid", 3)])
def test_kinds_and_outputs(kind, outputs):
    tasks = eg.rotate(noise(), tasks=3, kind=kind).tasks(0)
    assert tasks.outputs == outputs
    assert sum(len(task.train) for task in tasks) == 18


def test_data_loaded_for_training_are_those_read_batch_by_batch():
    data = eg.rotate(noise(), angles=(10, 20), normalize="train").tasks(0)[1].train
    cold = everything(data).x
    with data.opened(load=True):
        assert data.loaded is not None  # transformed once
        assert torch.equal(everything(data).x, cold)


def test_the_kind_is_read_off_the_data():
    images = blobs(3, train=100, size=12)
    assert categorize_tasks(eg.rotate(images, angles=(0, 60, 120), kind="domain").tasks(0)).kind == "domain"


def test_a_spec_comes_back_from_json_and_angles_are_in_the_key():
    images = noise()
    spec = Spec(eg.rotate(images, angles=[5, 50.5], kind="domain"), eg.Adam())
    again = from_json(spec.to_json(), {images.fingerprint: images})
    assert again.key == spec.key
    keys = {Spec(eg.rotate(images, **fields), eg.Adam()).key for fields in
            ({}, {"tasks": 5}, {"angles": (5, 50)}, {"interpolation": "bilinear"})}  # fmt: skip
    assert len(keys) == 4


def test_a_run_is_the_same_twice():
    scenario = eg.rotate(blobs(3), tasks=3, kind="domain")
    first, second = (eg.run(scenario, eg.Adam(), net=eg.MLP(8), training=eg.Training(epochs=1)) for _ in range(2))
    assert first.accuracy == second.accuracy


def test_the_named_scenario_is_prepared_as_published():
    setting = default_setting("rotated-mnist/domain", "sgd")
    assert setting.value("scenario.pad") == 0
    assert setting.value("scenario.normalize") is None
    assert setting.value("net.hidden") == (100, 100)
    assert setting.value("training.epochs") == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tasks": 1}, "rotations 1: a scenario needs two or more"),
        ({"tasks": 2.5}, "rotations 2.5 has the wrong type"),
        ({"angles": (3,)}, "two or more"),
        ({"angles": (3, math.inf)}, "one number of degrees per task"),
        ({"angles": ("3", 4)}, "one number of degrees per task"),
        ({"tasks": 3, "angles": (1, 2)}, "rotations 3 and 2 angles contradict"),
        ({"interpolation": "cubic"}, "cubic.*nearest, bilinear"),
    ],
)
def test_wrong_values_are_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        eg.rotate(noise(), **fields)
