"""The kind of twenty sequences of data that the code has not seen: natural images, slow change, repetition."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter

import engram as eg
from engram.data.errors import DataError
from engram.scenarios import network_test as network_module
from engram.scenarios.categorize import Category, categorize
from engram.scenarios.distances import stream_test
from engram.scenarios.network_test import network_test

SVHN = Path(__file__).parents[3] / "shared/data/svhn-gray.npz"
N = 600
"""Images per task."""
Tasks = list[tuple[NDArray[Any], NDArray[Any]]]
Draw = Callable[..., tuple[NDArray[Any], NDArray[Any]]]


@cache
def arrays(name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    if name == "svhn":
        if not SVHN.is_file():
            pytest.skip(f"grey SVHN is not prepared: {SVHN} does not exist")
        with np.load(SVHN) as stored:
            return stored["x_train"][:30_000], stored["y_train"][:30_000]
    try:
        images = eg.images("cifar10")
    except DataError as error:
        pytest.skip(f"no place has CIFAR-10: {error}")
    return images.x_train[:20_000], images.y_train[:20_000]


def drawing(name: str) -> Draw:
    """A function that draws N new images of the given labels, equally often, each image once."""
    x, y = arrays(name)
    order = np.random.default_rng(0).permutation(len(y))
    left = {label: iter(order[y[order] == label]) for label in range(10)}

    def draw(labels: tuple[int, ...], n: int = N) -> tuple[NDArray[Any], NDArray[Any]]:
        rows = np.array([next(left[labels[i % len(labels)]]) for i in range(n)])
        return x[rows], y[rows]

    return draw


def pairs_of_classes(draw: Draw) -> Tasks:
    """Domain learning: the first or the second class of a pair; what it is changes, not the label."""
    return [(x, np.searchsorted(pair, y)) for pair in ((1, 2), (3, 4)) for x, y in [draw(pair)]]


def new_classes(draw: Draw) -> Tasks:
    return [draw((1, 2)), draw((3, 4))]


def inverted(draw: Draw) -> Tasks:
    (x1, y1), (x2, y2) = draw((5, 6)), draw((5, 6))
    return [(x1, y1), (255 - x2, y2)]


def blurred(draw: Draw) -> Tasks:
    """A light blur, which takes more images to be seen: house numbers are photographs out of focus."""
    (x1, y1), (x2, y2) = (draw(tuple(range(10)), 1500) for _ in range(2))
    size = (1, 3, 3, 1)[: x2.ndim]
    return [(x1, y1), (uniform_filter(x2, size), y2)]


def redealt(draw: Draw) -> Tasks:
    return [draw(tuple(range(10))) for _ in range(2)]


NATURAL: list[tuple[Callable[[Draw], Tasks], str]] = [
    (pairs_of_classes, "domain"),
    (new_classes, "class"),
    (inverted, "domain"),
    (blurred, "domain"),
    (redealt, "iid"),
]


@pytest.mark.parametrize(("make", "kind"), NATURAL, ids=lambda v: getattr(v, "__name__", v))
@pytest.mark.parametrize("name", ["svhn", "cifar10"])
def test_natural_images(name: str, make: Callable[[Draw], Tasks], kind: str) -> None:
    found = categorize(make(drawing(name)), "single")
    assert found.kind == kind
    if make is pairs_of_classes and name == "svhn":  # the case to which distances alone are blind
        pair = found.pairs[0]
        assert pair.p_distances > 0.001
        assert pair.accuracy is not None
        assert pair.accuracy > 0.8


def cloud(
    seed: int,
    shift: float = 0.0,
    labels: tuple[int, ...] = (0, 1),
    weights: tuple[float, ...] | None = None,
    n: int = 200,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Normal vectors around a centre per class; `shift` moves all of them."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(
        np.repeat(labels, np.round(n * np.array(weights or [1 / len(labels)] * len(labels))).astype(int))
    )
    x = rng.normal(size=(len(y), 8))
    x[:, 0] += y
    x[:, 1] += shift
    return x, y


SYNTHETIC: dict[str, tuple[Callable[[], Tasks], str]] = {
    "slow change of the inputs": (lambda: [cloud(i, shift=0.13 * i) for i in range(6)], "domain"),
    "slowly there and back": (lambda: [cloud(i, shift=0.35 * min(i, 6 - i)) for i in range(7)], "domain"),
    "slow change of the labels": (
        lambda: [cloud(i, weights=(0.9 - 0.2 * i, 0.1 + 0.2 * i)) for i in range(5)], "class",
    ),
    "nothing changes": (lambda: [cloud(i) for i in range(5)], "iid"),
    "classes that come back": (lambda: [cloud(i, labels=((0, 1), (2, 3))[i % 2]) for i in range(4)], "class"),
    "domains that come back": (lambda: [cloud(i, shift=1.5 * (i % 2)) for i in range(4)], "domain"),
    "unequal label sets": (
        lambda: [cloud(0, labels=(0, 1, 2)), cloud(1, labels=(0, 1)), cloud(2, labels=(2,))], "class",
    ),
    "unequal sizes": (lambda: [cloud(0, n=60), cloud(1, n=1500), cloud(2, n=300)], "iid"),
    "one task apart": (lambda: [cloud(i, shift=2.0 * (i == 2)) for i in range(4)], "domain"),
    "heads per task": (lambda: [cloud(i) for i in range(3)], "task"),
}  # fmt: skip


@pytest.mark.parametrize("name", SYNTHETIC)
def test_streams(name: str) -> None:
    make, kind = SYNTHETIC[name]
    assert categorize(make(), "multi" if kind == "task" else "single").kind == kind


def test_slow_change_is_seen_along_the_stream_only() -> None:
    found = categorize(SYNTHETIC["slow change of the inputs"][0](), "single")
    assert not any(pair.x_differs for pair in found.pairs)
    assert found.drift.p_value is not None
    assert found.drift.p_value <= 0.001
    assert found.drift.x[0] == 0
    assert found.drift.x[-1] > 5 * abs(found.drift.x[2])
    assert "differs along the stream" in found.evidence["reasons"]["P(X)"]
    labels = categorize(SYNTHETIC["slow change of the labels"][0](), "single")
    assert not any(pair.y_differs for pair in labels.pairs)
    assert labels.drift.y == pytest.approx([0.2 * i for i in range(5)])
    assert labels.drift.largest_y == pytest.approx(0.8)


def test_classes_that_come_back_are_named() -> None:
    found: Category = categorize(SYNTHETIC["classes that come back"][0](), "single")
    assert found.drift.returning == [0, 1, 2, 3]
    assert "4 classes come back" in found.evidence["reasons"]["repetition"]
    once = categorize([cloud(0, labels=(0, 1)), cloud(1, labels=(0, 2)), cloud(2, labels=(0, 1))], "single")
    assert once.drift.returning == [1]


# The network


def test_false_alarms_keep_the_level() -> None:
    """Measured by benchmarks/false_alarms.py, both tests together: 39 of 1,000 splits of MNIST (300 images a side) at
    level 0.05, none at 0.001."""
    rng, found = np.random.default_rng(3), []
    for _ in range(24):
        x = rng.gamma(1.0, size=(276, 4))
        result = network_test(x[:138], x[138:])
        assert result is not None
        assert result.pairs == 69
        found.append(result.p_value)
    assert sum(p <= 0.05 for p in found) <= 5  # 1.2 expected; 6 or more have a chance of 0.001
    assert min(found) > 0.001
    assert 0.3 < np.mean(found) < 0.75  # 0.5 and a little, with a standard error of 0.06


def test_the_p_value_is_the_binomial_tail_of_the_pairs_that_it_gets_right() -> None:
    from math import comb

    rng = np.random.default_rng(0)
    x1, x2 = rng.normal(size=(100, 5)), 0.5 + rng.normal(size=(100, 5))
    result = network_test(x1, x2)
    assert result is not None
    right = round(result.accuracy * result.pairs)
    tail = sum(comb(result.pairs, k) for k in range(right, result.pairs + 1)) / 2**result.pairs
    assert (result.pairs, result.p_value) == (50, pytest.approx(tail))


def test_the_same_samples_give_the_same_answer_in_any_order_and_leave_the_process_alone() -> None:
    import torch

    rng = np.random.default_rng(0)
    x1, x2 = rng.normal(size=(90, 1, 9, 9)), rng.normal(size=(120, 1, 9, 9))
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    flat = [x.reshape(len(x), -1) for x in (x1, x2)]
    assert network_test(*flat, (1, 9, 9)) == network_test(*flat[::-1], (1, 9, 9)) == network_test(*flat, (1, 9, 9))
    assert torch.equal(state, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads


def test_equal_and_few_images_are_no_evidence() -> None:
    assert network_test(np.ones((60, 4)), np.ones((60, 4))) == (0.5, 0, 1.0)
    few = network_module.FEWEST_IMAGES - 1
    assert network_test(np.zeros((few, 4)), np.ones((900, 4))) is None


def test_places_in_a_stream_without_change_have_uniform_p_values() -> None:
    rng = np.random.default_rng(1)
    p = [stream_test([rng.normal(size=(8, 3)) for _ in range(4)]) for _ in range(100)]
    assert 0.4 < np.mean(p) < 0.6
    assert np.mean(np.array(p) <= 0.1) <= 0.2
