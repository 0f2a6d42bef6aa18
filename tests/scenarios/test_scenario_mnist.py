"""Split and Permuted MNIST have the sizes, labels and pixels that the paper's code gives them."""

import numpy as np
import pytest
import torch
from helpers import everything

import engram as eg
from engram.scenarios.task import pool

pytestmark = pytest.mark.mnist


def test_images_of_each_digit(mnist):
    assert np.bincount(mnist.y_train).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(mnist.y_test).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.mark.parametrize("kind", ["task", "domain", "class"])
def test_images_of_each_split_task(split_mnist, kind):
    tasks = split_mnist[kind]
    assert [len(task.train) for task in tasks] == [12665, 12089, 11263, 12183, 11800]
    assert [len(task.test) for task in tasks] == [2115, 2042, 1874, 1986, 1983]
    assert [task.classes for task in tasks] == [("0", "1"), ("2", "3"), ("4", "5"), ("6", "7"), ("8", "9")]


@pytest.mark.parametrize("kind", ["task", "domain", "class"])
def test_images_of_each_permuted_task(permuted_mnist, kind):
    assert [(len(task.train), len(task.test)) for task in permuted_mnist[kind]] == 10 * [(60_000, 10_000)]


def test_steps_of_a_run(split_mnist, permuted_mnist):
    split, permuted = eg.Training(epochs=4, batch=128), eg.Training(epochs=10, batch=128)
    tasks = split_mnist["class"]
    assert [split.steps_per_epoch(len(task.train)) for task in tasks] == [99, 95, 88, 96, 93]
    assert sum(split.steps_for(len(task.train)) for task in tasks) == 1_884
    assert split.steps_for(len(pool(tasks).train)) == 1_876
    tasks = permuted_mnist["class"]
    assert sum(permuted.steps_for(len(task.train)) for task in tasks) == 46_900
    assert permuted.steps_for(len(pool(tasks).train)) == 46_880


@pytest.mark.parametrize(
    ("kind", "split", "permuted"),
    [("task", 574_410, 2_126_100), ("domain", 571_202, 2_036_010), ("class", 574_410, 2_126_100)],
)
def test_parameters_of_the_networks(split_mnist, permuted_mnist, kind, split, permuted):
    for hidden, tasks, count in ((400, split_mnist[kind], split), (1000, permuted_mnist[kind], permuted)):
        net = eg.MLP(hidden, hidden).build(tasks.shape, tasks.outputs)
        assert sum(p.numel() for p in net.parameters()) == count


@pytest.mark.parametrize("part", ["train", "test"])
def test_labels_of_split_mnist(mnist, split_mnist, part):
    digits = torch.from_numpy(mnist.y_train if part == "train" else mnist.y_test)
    for t in range(5):
        raw = digits[(digits == 2 * t) | (digits == 2 * t + 1)]  # in the set's own order
        task, domain, class_ = (getattr(split_mnist[kind][t], part).y for kind in ("task", "domain", "class"))
        assert torch.equal(task - split_mnist["task"].heads[t].start, raw % 2)
        assert torch.equal(domain, raw % 2)  # even → 0, odd → 1
        assert torch.equal(class_, raw)


@pytest.mark.parametrize("part", ["train", "test"])
def test_labels_of_permuted_mnist(mnist, permuted_mnist, part):
    digits = torch.from_numpy(mnist.y_train if part == "train" else mnist.y_test)
    for t in (0, 1, 9):
        task, domain, class_ = (getattr(permuted_mnist[kind][t], part).y for kind in ("task", "domain", "class"))
        assert torch.equal(task - permuted_mnist["task"].heads[t].start, digits)
        assert torch.equal(domain, digits)
        assert torch.equal(class_, digits + 10 * t)


def test_pixels_are_padded_scaled_and_normalised_by_the_paper_s_constants(mnist, split_mnist):
    x = split_mnist["class"][0].train.batch(torch.arange(200)).x
    assert x.shape == (200, 1024)
    framed = x.view(200, 32, 32)
    border = torch.ones(32, 32, dtype=torch.bool)
    border[2:30, 2:30] = False
    assert framed[:, border].unique().item() == pytest.approx(-0.3634, abs=5e-5)  # (0 − 0.1) / 0.2752
    assert x.max().item() == pytest.approx(3.2703, abs=5e-5)  # (1 − 0.1) / 0.2752
    raw = torch.from_numpy(mnist.x_train[mnist.y_train < 2][:200] / 255)
    torch.testing.assert_close(framed[:, 2:30, 2:30].double(), (raw - 0.1) / 0.2752, atol=1e-6, rtol=0)


def test_the_padded_images_have_the_statistics_that_the_constants_are_rounded_from(mnist):
    tasks = eg.permute(mnist, permutations=2, kind="domain", pad=2, normalize="train").tasks(0)
    # a pixel v comes out as (v/255 − mean) / standard deviation, so two pixels give both numbers back
    black, white = (everything_of(tasks, value) for value in (0, 255))
    deviation = 1 / (white - black)
    assert deviation == pytest.approx(0.2752, abs=5e-5)
    assert -black * deviation == pytest.approx(0.1000, abs=5e-5)


def everything_of(tasks, value: int) -> float:
    """What a pixel of this value becomes."""
    data = tasks[0].train
    at = (data.x[:100] == value).nonzero()[0]
    return data.batch(at[:1]).x[0, at[1]].item()


def test_permuted_mnist_moves_the_border_too(permuted_mnist):
    tasks = permuted_mnist["domain"]
    plain, moved = (tasks[t].train.batch(torch.arange(500)).x.view(500, 32, 32) for t in (0, 1))
    black = plain.min()
    assert (plain[:, :2] == black).all()
    assert (moved[:, :2] != black).float().mean() > 0.05  # 15 % of all pixels are not black
    assert torch.equal(plain.view(500, -1).sort(1).values, moved.reshape(500, -1).sort(1).values)


@pytest.mark.parametrize(
    ("kind", "split", "permuted"), [("task", 60.0, 19.0), ("domain", 60.0, 19.0), ("class", 20.0, 10.0)]
)
def test_floor(split_mnist, permuted_mnist, kind, split, permuted):
    assert split_mnist[kind].floor == pytest.approx(split)  # (100 + 4·50) / 5, (100 + 4·0) / 5
    assert permuted_mnist[kind].floor == pytest.approx(permuted)  # (100 + 9·10) / 10, (100 + 9·0) / 10


@pytest.mark.parametrize("held_out", [0.0, 0.1])
def test_sizes_are_those_of_the_dealt_tasks(mnist, held_out):
    scenario = eg.split(mnist, kind="class", held_out=held_out)
    assert scenario.sizes() == [len(task.train) for task in scenario.tasks(0)]


def test_a_holdout_of_mnist_takes_a_tenth_of_each_digit_and_leaves_the_test_part_alone(mnist):
    tasks = eg.permute(mnist, permutations=2, kind="domain").holdout(0.1).tasks(0)
    held = np.bincount(everything_labels(tasks[0].test), minlength=10)
    assert held.tolist() == [592, 674, 596, 613, 584, 542, 592, 626, 585, 595]  # a tenth of each, rounded
    assert len(tasks[0].train) == 60_000 - 5_999
    first = everything(tasks[0].test).x[0]
    assert not any(np.array_equal(first.numpy(), x.ravel() / np.float32(255)) for x in mnist.x_test[:1000])


def everything_labels(data):
    return data.y.numpy()
