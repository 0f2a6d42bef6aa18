"""Transform: any function on tensors makes a task, and its code is in the key."""

import functools

import numpy as np
import pytest
import torch
from helpers import blobs, everything

import engram as eg
from engram.runs.spec import Spec, from_json
from engram.scenarios.kinds import ScenarioError
from engram.scenarios.look import categorize_tasks


def stored(data) -> torch.Tensor:
    return data.pixels(torch.arange(len(data)))


def brighten(by: float):
    return lambda x: x + by


def key(*functions) -> str:
    return Spec(eg.transform(blobs(), functions), eg.Adam()).key


def test_functions_get_intensities_and_return_pixels():
    images = blobs(3, train=5, test=2, size=4, channels=3)
    shapes, lows = [], []

    def swap_colours(x):
        shapes.append(tuple(x.shape))
        lows.append(float(x.min()))
        return x.flip(1)

    tasks = eg.transform(images, [lambda x: x, lambda x: 1 - x, swap_colours]).tasks(0)
    assert shapes == 2 * [(15, 3, 4, 4)] + 2 * [(6, 3, 4, 4)]  # each a second time, to see that it gives the same
    assert min(lows) >= 0
    plain = torch.from_numpy(images.x_train.transpose(0, 3, 1, 2).copy())
    assert torch.equal(stored(tasks[0].train).view(15, 3, 4, 4), plain)
    assert torch.equal(stored(tasks[1].train).view(15, 3, 4, 4), 255 - plain)
    assert torch.equal(stored(tasks[2].train).view(15, 3, 4, 4), plain.flip(1))
    assert (tasks.kind, tasks.outputs, [len(task.test) for task in tasks]) == ("domain", 3, [6, 6, 6])


def test_values_are_cut_to_the_range_of_pixels_and_rounded():
    x = np.full((2, 2, 2), 100, np.uint8)
    images = eg.Images(x, [0, 1], x, [0, 1])
    tasks = eg.transform(images, [lambda x: x + 1, lambda x: x - 1, lambda x: x * 1.006]).tasks(0)
    assert [int(stored(task.train)[0, 0]) for task in tasks] == [255, 0, 101]


def test_the_named_functions():
    x = np.zeros((2, 3, 3), np.uint8)
    x[:, 1, 1] = 180
    tasks = eg.transform(eg.Images(x, [0, 1], x, [0, 1]), ["none", "invert", "blur"]).tasks(0)
    assert stored(tasks[0].train)[0].tolist() == [0, 0, 0, 0, 180, 0, 0, 0, 0]
    assert stored(tasks[1].train)[0].tolist() == [255, 255, 255, 255, 75, 255, 255, 255, 255]
    assert stored(tasks[2].train)[0].tolist() == [20] * 9  # 180 / 9


def test_noise_belongs_to_seed_task_and_part_and_leaves_the_caller_alone():
    scenario = eg.transform(blobs(2, train=5, test=5), ["noise", "noise"])
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, again, other = (scenario.tasks(seed) for seed in (0, 0, 1))
    assert torch.rand(1) == expected
    assert torch.equal(stored(first[0].train), stored(again[0].train))
    assert not torch.equal(stored(first[0].train), stored(first[1].train))
    assert not torch.equal(stored(first[0].train), stored(other[0].train))
    assert torch.equal(everything(first[0].train).x, everything(first[0].train).x)


def test_held_out_images_are_transformed_too():
    scenario = eg.transform(blobs(2, train=10), ["none", "invert"]).holdout(0.2)
    tasks = scenario.tasks(0)
    assert [(len(task.train), len(task.test)) for task in tasks] == [(16, 4), (16, 4)]
    assert torch.equal(stored(tasks[1].test), 255 - stored(tasks[0].test))
    assert scenario.sizes() == [16, 16]


def test_code_and_values_of_functions_are_in_the_key():
    assert key(brighten(0.1), brighten(0.2)) == key(brighten(0.1), brighten(0.2))
    keys = {
        key(brighten(0.1), brighten(0.2)),
        key(brighten(0.2), brighten(0.1)),
        key(lambda x: x, lambda x: 1 - x),
        key(lambda x: x, lambda x: 0 - x),
        key("none", "invert"),
        key(functools.partial(torch.mul, other=0.5), "invert"),
        key(functools.partial(torch.mul, other=0.4), "invert"),
        key(functools.partial(torch.add, other=0.4), "invert"),
        key(torch.nn.Dropout(0.1), "invert"),
        key(torch.nn.Dropout(0.2), "invert"),
    }
    assert len(keys) == 10


def test_arrays_that_a_function_uses_are_in_its_key():
    def masked(mask):
        return lambda x: x * mask

    one, other = torch.ones(6, 6), torch.eye(6)
    assert key("none", masked(one)) == key("none", masked(one.clone()))
    assert key("none", masked(one)) != key("none", masked(other))


def test_named_functions_come_back_from_json_and_own_ones_are_refused_in_words():
    images = blobs()
    spec = Spec(eg.transform(images, ["blur", "invert"]), eg.Adam())
    assert from_json(spec.to_json(), {images.fingerprint: images}).key == spec.key
    own = Spec(eg.transform(images, ["blur", brighten(0.5)]), eg.Adam()).to_json()
    assert own["scenario"]["functions"][1].startswith("code <lambda> ")
    with pytest.raises(ScenarioError, match=r"whose code a record does not contain; make the scenario with"):
        from_json(own, {images.fingerprint: images})


def test_a_run_on_own_functions_is_the_same_twice():
    scenario = eg.transform(blobs(3), [lambda x: x, lambda x: x.flip(-1)])
    first, second = (eg.run(scenario, eg.Adam(), net=eg.MLP(8), training=eg.Training(epochs=1)) for _ in range(2))
    assert (first.key, first.accuracy) == (second.key, second.accuracy)


def test_the_kind_is_read_off_the_data():
    assert categorize_tasks(eg.transform(blobs(3, train=100), ["none", "invert"]).tasks(0)).kind == "domain"


@pytest.mark.parametrize(
    ("functions", "words"),
    [
        (["none"], "one function per task, two or more"),
        ("blur", "functions 'blur': give one function per task"),
        (["none", "bluur"], "bluur.*blur.*or give a function on tensors"),
        (["none", 3], "function.*3.*none, invert, blur, noise"),
    ],
)
def test_wrong_functions_are_refused(functions, words):
    with pytest.raises(ScenarioError, match=words):
        eg.transform(blobs(), functions)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x[:, :, 1:], r"returned \(160, 1, 5, 6\) for images \(160, 1, 6, 6\)"),
        (lambda x: 3, "returned int for images"),
        (lambda x: x / 0, "NaN or infinite"),
    ],
)
def test_wrong_results_are_refused(function, words):
    with pytest.raises(ScenarioError, match=words):
        eg.transform(blobs(), ["none", function]).tasks(0)


RNG = np.random.default_rng()
CALLS = []


def draws_by_itself(x):
    return x * float(RNG.random())


def counts_its_calls(x):
    CALLS.append(1)
    return x * (len(CALLS) % 2)


@pytest.mark.parametrize("function", [draws_by_itself, counts_its_calls])
def test_a_function_that_gives_other_images_when_called_again_is_refused(function):
    """Two runs of one key would learn from different images."""
    with pytest.raises(ScenarioError, match="gives other images when it is called again"):
        eg.transform(blobs(2), ["none", function]).tasks(0)
