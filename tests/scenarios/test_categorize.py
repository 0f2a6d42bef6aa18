"""The kind is measured on data that the code has never seen; the test on images keeps its level and has power."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.ndimage import rotate
from scipy.spatial.distance import cdist
from scipy.stats import kstest
from sklearn.datasets import load_digits

from engram.scenarios import categorize as module
from engram.scenarios import distances
from engram.scenarios import network_test as network_module
from engram.scenarios.categorize import Sample, categorize, categorize_samples, total_variation
from engram.scenarios.distances import two_sample_test

Tasks = list[tuple[NDArray[Any], NDArray[Any]]]

_bunch = load_digits()
_order = np.random.default_rng(0).permutation(len(_bunch.target))
# A margin, so that turning a digit does not cut it off: that would be much easier to see.
DIGITS = np.pad(_bunch.images[_order], ((0, 0), (2, 2), (2, 2)))
LABELS = _bunch.target[_order]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def turned(x: NDArray[Any], degrees: float) -> NDArray[Any]:
    return rotate(x, degrees, axes=(1, 2), reshape=False, order=1)


def permuted(x: NDArray[Any], seed: int) -> NDArray[Any]:
    flat = x.reshape(len(x), -1)
    return flat[:, rng(seed).permutation(flat.shape[1])]


def blobs(classes: list[int], shift: float = 0.0, n: int = 120, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Gaussian clouds, one per class, with centres 3 apart; `shift` moves all of them."""
    y = np.repeat(classes, n)
    x = rng(seed).normal(size=(len(y), 10))
    x[:, 0] += 3 * y
    x[:, 1] += shift
    return x, y


def parts(k: int) -> Tasks:
    return list(zip(np.array_split(DIGITS, k), np.array_split(LABELS, k), strict=True))


def pairs_of_digits() -> Tasks:
    members = [np.isin(LABELS, (a, a + 1)) for a in range(0, 10, 2)]
    return [(DIGITS[of], LABELS[of]) for of in members]


def two_classes(share: float, n: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The blobs 0 and 1, with this share of class 1."""
    ones = round(share * n)
    x, y = blobs([0, 1], n=n, seed=seed)
    keep = np.concatenate([np.arange(n - ones), np.arange(n, n + ones)])
    return x[keep], y[keep]


SEQUENCES: dict[str, tuple[Callable[[], Tasks], str, str, str]] = {
    # name: tasks, heads, kind, marks of P(X) P(Y) {Y}
    "blobs split": (lambda: [blobs([0, 1]), blobs([2, 3], seed=1)], "single", "class", "xy-"),
    "blobs split, heads": (lambda: [blobs([0, 1]), blobs([2, 3], seed=1)], "multi", "task", "xyl"),
    "blobs shifted": (lambda: [blobs([0, 1]), blobs([0, 1], shift=1.0, seed=1)], "single", "domain", "x--"),
    "blobs twice": (lambda: [blobs([0, 1]), blobs([0, 1], seed=1)], "single", "iid", "---"),
    "blobs changed at the end": (
        lambda: [blobs([0, 1], seed=s) for s in range(3)] + [blobs([0, 1], shift=1.0, seed=9)],
        "single",
        "domain",
        "x--",
    ),
    "digits turned": (
        lambda: [(turned(x, 15 * i), y) for i, (x, y) in enumerate(parts(3))],
        "single",
        "domain",
        "x--",
    ),
    "the same digits turned": (
        lambda: [(DIGITS, LABELS), (turned(DIGITS, 15), LABELS)],
        "single",
        "domain",
        "x--",
    ),
    "digits split": (pairs_of_digits, "single", "class", "xy-"),
    "digits split, heads": (pairs_of_digits, "multi", "task", "xyl"),
    "digits split, heads, relabelled": (
        lambda: [(x, y % 2) for x, y in pairs_of_digits()],
        "multi",
        "task",
        "xyl",
    ),
    "digits split, relabelled": (lambda: [(x, y % 2) for x, y in pairs_of_digits()], "single", "domain", "x--"),
    "digits with new names": (
        lambda: [(x, y + 10 * i) for i, (x, y) in enumerate(parts(2))],
        "single",
        "class",
        "-y-",
    ),
    "digits, labels exchanged": (lambda: [parts(2)[0], (parts(2)[1][0], 9 - parts(2)[1][1])], "single", "iid", "---"),
    "digits in halves": (lambda: parts(2), "single", "iid", "---"),
    "digits in fifths": (lambda: parts(5), "single", "iid", "---"),
    "the same digits twice": (lambda: [(DIGITS, LABELS)] * 2, "single", "iid", "---"),
    "digits permuted": (lambda: [(permuted(DIGITS, s), LABELS) for s in range(3)], "single", "domain", "x--"),
    "digits permuted, offset": (
        lambda: [(permuted(DIGITS, s), LABELS + 10 * s) for s in range(3)],
        "single",
        "class",
        "xy-",
    ),
    "digits permuted, heads": (lambda: [(permuted(DIGITS, s), LABELS) for s in range(3)], "multi", "task", "xyl"),
    "digits with noise": (
        lambda: [parts(2)[0], (parts(2)[1][0] + rng().normal(size=(898, 12, 12)), parts(2)[1][1])],
        "single",
        "domain",
        "x--",
    ),
    "an image set without a class": (
        lambda: [(DIGITS[LABELS > 0], LABELS[LABELS > 0]), parts(1)[0]],
        "single",
        "class",
        "xy-",
    ),
    "0.9 against 0.1": (lambda: [two_classes(0.9, 200, 0), two_classes(0.1, 200, 1)], "single", "class", "xy-"),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_the_kind_and_its_marks(name: str) -> None:
    tasks, heads, kind, marks = SEQUENCES[name]
    found = categorize(tasks(), heads)  # type: ignore[arg-type]
    assert found.kind == kind
    measured = zip("xyl", (found.x_differs, found.y_differs, found.labels_differ), strict=True)
    assert "".join(letter if mark else "-" for letter, mark in measured) == marks
    assert found.task_identity_at_test == (heads == "multi")


def test_moderate_imbalance_is_not_a_new_label_distribution() -> None:
    found = categorize([two_classes(0.5, 200, 0), two_classes(0.7, 200, 1)], "single")
    assert found.pairs[0].total_variation == 0.2
    assert not found.y_differs


@pytest.mark.parametrize(("share", "differs"), [(0.74, False), (0.75, False), (0.76, True)])
def test_label_frequencies_differ_above_a_total_variation_of_one_half(share: float, differs: bool) -> None:
    found = categorize([two_classes(0.25, 100, 0), two_classes(share, 100, 1)], "single")
    assert found.y_differs == differs
    assert found.pairs[0].total_variation == round(share - 0.25, 2)


def test_total_variation_of_unequal_sizes_by_hand() -> None:
    # 2/3, 1/3, 0 against 1/6, 1/6, 4/6
    assert total_variation(np.array([4, 4, 7]), np.array([4, 7, 9, 9, 9, 9])) == pytest.approx(2 / 3)
    assert total_variation(np.array([0] * 3 + [1] * 7), np.array([0] * 30 + [1] * 70)) == 0


def test_a_class_on_one_side_only_is_named() -> None:
    first, second = categorize([blobs([0, 1]), blobs([1, 5]), blobs([1, 5])], "single").pairs
    assert (first.tasks, first.classes_only_in_first, first.classes_only_in_second) == ((1, 2), [0], [5])
    assert (second.tasks, second.classes_only_in_first, second.classes_only_in_second) == ((2, 3), [], [])


def test_rows_are_those_of_the_published_table() -> None:
    halves, split = parts(2), pairs_of_digits()
    rows = [
        categorize(halves, "single").row,
        categorize([(x, y % 2) for x, y in split], "single").row,
        categorize(split, "single").row,
        categorize(split, "multi").row,
    ]
    assert [tuple(row.values()) for row in rows] == [
        ("non-incremental", "", "", "", ""),
        ("incremental domain", "✓", "", "", "S"),
        ("incremental class", "✓", "✓", "", "S"),
        ("incremental task", "✓", "✓", "✓", "M, I"),
    ]


def test_evidence_survives_json_and_says_why_labels_of_heads_differ() -> None:
    found = categorize([(x, y % 2) for x, y in pairs_of_digits()], "multi")
    evidence = json.loads(json.dumps(found.evidence))
    assert evidence == found.evidence
    assert evidence["kind"] == "task"
    assert "by definition" in evidence["reasons"]["P(Y)"]
    assert len(evidence["pairs"]) == 4
    assert evidence["pairs"][0]["total_variation"] < 0.1
    assert evidence["pairs"][0]["y_differs"]


# The test on images


def test_statistics_are_the_textbook_means_of_distances() -> None:
    x, y = rng().normal(size=(7, 3)), 100 + rng(1).normal(size=(12, 3))
    within_x, within_y = cdist(x, x).sum() / (7 * 6), cdist(y, y).sum() / (12 * 11)
    energy, spread, _ = two_sample_test(x, y)
    assert energy == pytest.approx(2 * cdist(x, y).mean() - within_x - within_y)
    assert spread == pytest.approx(within_y - within_x)


def test_several_strips_give_the_same_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distances, "PERMUTATIONS", 3)
    distances._rearrangements.cache_clear()
    x, y = rng().normal(size=(400, 2)), rng(1).normal(size=(801, 2))
    energy, _, _ = two_sample_test(x, y)
    distances._rearrangements.cache_clear()
    expected = 2 * cdist(x, y).mean() - cdist(x, x).sum() / (400 * 399) - cdist(y, y).sum() / (801 * 800)
    assert energy == pytest.approx(expected)


@pytest.mark.parametrize(("n", "m"), [(15, 15), (8, 40)])
def test_p_values_are_uniform_if_nothing_differs(n: int, m: int) -> None:
    draws = rng(5)
    p = [two_sample_test(draws.gamma(1.0, size=(n, 4)), draws.gamma(1.0, size=(m, 4)))[2] for _ in range(600)]
    assert kstest(p, "uniform").pvalue > 0.01
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=0.025)
    assert np.sum(np.array(p) <= module.IMAGE_TEST_ALPHA) <= 4  # 0.6 expected; 5 or more have a chance of 0.0004


def test_random_samples_of_digits_are_rarely_told_apart() -> None:
    draws, flat, rejected = rng(6), DIGITS.reshape(len(DIGITS), -1), 0
    for _ in range(100):
        some = draws.permutation(len(flat))[:100]
        rejected += two_sample_test(flat[some[:30]], flat[some[30:]])[2] <= module.IMAGE_TEST_ALPHA
    assert rejected <= 1


@pytest.mark.parametrize(
    ("change", "n"),
    [
        (lambda x: turned(x, 15), 50),
        (lambda x: turned(x, 5), 100),
        (lambda x: x + rng(2).normal(size=x.shape), 400),  # the energy distance alone misses this at 800
        (lambda x: x + 0.5, 400),  # of 16
        (lambda x: 0.9 * x, 200),
        (lambda x: x[:, :, ::-1], 100),
    ],
    ids=["turned by 15", "turned by 5", "noise", "brightness", "contrast", "mirrored"],
)
def test_small_changes_of_digits_are_seen(change: Callable[[NDArray[Any]], NDArray[Any]], n: int) -> None:
    for seed in range(3):
        some = rng(seed).permutation(len(DIGITS))
        x, changed = DIGITS[some[:n]].reshape(n, -1), change(DIGITS[some[n : 2 * n]]).reshape(n, -1)
        assert two_sample_test(x, changed)[2] <= module.IMAGE_TEST_ALPHA


@pytest.mark.parametrize("n", [30, 1000])
@pytest.mark.parametrize("scale", [0.7, 1.4])
def test_a_small_sample_beside_a_large_one_is_told_apart_by_scale(n: int, scale: float) -> None:
    x, y = scale * rng().normal(size=(n, 20)), rng(1).normal(size=(1030 - n, 20))
    assert two_sample_test(x, y)[2] <= module.IMAGE_TEST_ALPHA


@pytest.mark.parametrize("offset", [0.0, 1e9])
@pytest.mark.parametrize("factor", [1e-150, 1.0, 1e150])
def test_units_and_offsets_of_pixels_change_nothing(offset: float, factor: float) -> None:
    x, y = rng().normal(size=(40, 5)), 1 + rng(1).normal(size=(50, 5))
    plain, moved = two_sample_test(x, y), two_sample_test(factor * (offset + x), factor * (offset + y))
    assert moved[2] == pytest.approx(plain[2], abs=0.002)
    assert moved[0] == pytest.approx(factor * plain[0], rel=1e-4)


def test_equal_images_are_no_evidence() -> None:
    x = np.full((20, 30), 0.1)
    assert two_sample_test(x, x[:5]) == (0.0, 0.0, 1.0)
    images = rng().normal(size=(60, 30))
    assert two_sample_test(images, images.copy())[2] > 0.5


def test_the_order_of_two_tasks_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_IMAGES", 500)  # fewer than there are, so that the draw is in it
    one, other = blobs([0, 1], n=800), blobs([0, 1], shift=0.2, n=300, seed=1)
    (there,), (back,) = categorize([one, other], "single").pairs, categorize([other, one], "single").pairs
    assert (there.energy, there.p_value, there.spread) == (back.energy, back.p_value, -back.spread)
    assert (there.accuracy, there.p_network) == (back.accuracy, back.p_network)
    assert 0.001 < there.p_distances < 0.9  # so that the equality says something


def test_the_same_call_gives_the_same_answer_and_draws_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_module, "NETWORK_IMAGES", 200)
    tasks = [blobs([0, 1]), blobs([0, 1], seed=1)]
    once = categorize(tasks, "single")
    assert categorize(tasks, "single") == once
    drawn = module._draw_images(np.arange(1000)[:, None])
    assert len(np.unique(drawn)) == 200
    assert drawn.mean() == pytest.approx(500, abs=60)  # from all of it; the standard error is 18


def test_the_type_of_the_arrays_does_not_matter_and_their_shape_only_to_the_network() -> None:
    tasks = [(x[:150], y[:150]) for x, y in parts(2)]
    found = categorize(tasks, "single")
    lists = [(x.astype(np.uint8).tolist(), y.astype(np.float32)) for x, y in tasks]
    assert [pair.p_distances for pair in categorize(lists, "single").pairs] == [
        pair.p_distances for pair in found.pairs
    ]
    flat = categorize([(x.reshape(len(x), -1), y) for x, y in tasks], "single")
    assert [pair.p_distances for pair in flat.pairs] == [pair.p_distances for pair in found.pairs]
    assert flat.kind == found.kind


X, Y = np.zeros((4, 2, 2)), np.zeros(4, int)


@pytest.mark.parametrize(
    ("tasks", "heads", "words"),
    [
        ([(X, Y)], "single", "two tasks or more, not 1"),
        ([], "multi", "two tasks or more, not 0"),
        ([(X, Y), (X, Y[:3])], "single", "task 2 has 4 images and 3 labels"),
        ([(X[:0], Y[:0]), (X, Y)], "single", "task 1 has no images"),
        ([(X, Y), (X[:, :1], Y)], "single", "task 2 has 2 values per image and task 1 has 4"),
        ([(X, Y), (X * np.nan, Y)], "single", "task 2: some pixels are NaN"),
        ([(X, Y * np.nan), (X, Y)], "single", "task 1: some labels are NaN"),
        ([(X, np.zeros((4, 10))), (X, Y)], "single", r"task 1: labels have shape \(4, 10\)"),
        ([(X, Y), (X, np.array(list("abcd")))], "single", "task 2: images are float64 and labels <U1"),
        ([(X, Y), (X, Y)], "both", "heads is 'both'; choose 'single' .* or 'multi'"),
    ],
)
def test_wrong_arguments_are_refused(tasks: Tasks, heads: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        categorize(tasks, heads)


def test_each_comparison_is_told() -> None:
    rng = np.random.default_rng(0)
    told: list[tuple[int, int]] = []
    samples = [Sample(rng.normal(size=(40, 3)), np.arange(40) % 2) for _ in range(4)]
    categorize_samples(samples, "single", watch=lambda done, of: told.append((done, of)))
    assert told == [(1, 3), (2, 3), (3, 3)]
