"""Distances between the images of two tasks, and the permutation test on them."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

PERMUTATIONS = 3999
"""Rearrangements. At least 4 / IMAGE_TEST_ALPHA − 1: half the level is left for each of two tests, and two statistics
share one p-value, so two rearrangements may tie for the best."""
MOST_SEGMENTS = 8
"""Longer streams are cut into so many stretches of consecutive tasks."""
STREAM_IMAGES = 1200
"""Images of the whole stream that are compared with each other."""
STREAM_PERMUTATIONS = 1999


def two_sample_test(x1: NDArray[np.float64], x2: NDArray[np.float64]) -> tuple[float, float, float]:
    """Energy distance, difference in spread, and the p-value of the hypothesis that both samples have one distribution.

    There are two statistics because in many dimensions the energy distance hardly reacts to noise and contrast: they
    increase the distances within one sample, and the distances between the samples stay about halfway. The difference
    in spread detects just that. Each rearrangement of the pooled images is ranked by both statistics and gets the
    better rank; the p-value is the share of rearrangements that rank at least as high as the observed one. That is
    exact for any statistic, any n and any m.

    Args:
        x1: images (n, pixels).
        x2: images (m, pixels).
    """
    from scipy.stats import rankdata  # slow to import, and only needed here

    # Sorted, so that the result does not depend on which task comes first.
    first, second = sorted((x1, x2), key=lambda x: (len(x), x.tobytes()))
    n, m = len(first), len(second)
    inside, across, outside = _sums_of_distances(np.concatenate([first, second]), _rearrangements(n, m))

    # Means over pairs of distinct images: with the zeros of the diagonal, the smaller sample would seem denser.
    # A single image has no pairs; its mean is 0.
    within_first = inside / max(1, n * (n - 1) // 2)
    within_second = outside / max(1, m * (m - 1) // 2)
    energy = 2 * across / (n * m) - within_first - within_second
    spread = within_second - within_first
    # Tied values differ by rounding errors, which are not evidence: all of them get the worst of their ranks.
    unit = (inside + across + outside)[0] / ((n + m) * (n + m - 1) // 2) or 1.0  # the mean distance
    ranks = [rankdata(-np.round(value / unit, 10), method="max") for value in (energy, np.abs(spread))]
    rank = np.minimum(*ranks)  # 1 is the most extreme
    sign = 1 if first is x1 else -1
    return float(energy[0]), float(sign * spread[0]), float(np.mean(rank <= rank[0]))


@lru_cache(maxsize=1)  # most pairs of a sequence have the same sizes
def _rearrangements(n: int, m: int) -> NDArray[np.bool_]:
    """Ways to choose n of n + m images, one per row: the observed one (the first n), then random ones."""
    chosen = np.zeros((PERMUTATIONS + 1, n + m), bool)
    chosen[:, :n] = True
    chosen[1:] = np.random.default_rng(0).permuted(chosen[1:], axis=1)
    chosen.flags.writeable = False
    return chosen


def _sums_of_distances(
    pooled: NDArray[np.float64], chosen: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """For each row of `chosen` (rows, images): sums of distances over the pairs inside, across and outside the choice.

    Works on the lower triangle of the distance matrix in strips: half the products, one strip in memory.
    """
    pooled = pooled - pooled.mean(axis=0)  # a large common offset would cost precision
    scale = np.abs(pooled).max() or 1.0  # squares of finite pixels stay finite
    pooled /= scale
    member = np.ascontiguousarray(chosen.T, dtype=np.float64)  # (images, rows)
    square = np.einsum("ij,ij->i", pooled, pooled)
    inside, row_sums = np.zeros(len(chosen)), np.zeros(len(pooled))
    for start in range(0, len(pooled), 500):
        stop = min(start + 500, len(pooled))
        norms = square[start:stop, None] + square[:stop]
        strip = norms - 2 * pooled[start:stop] @ pooled[:stop].T
        strip[strip < 1e-13 * norms] = 0  # equal images up to rounding
        strip = np.tril(np.sqrt(strip), start - 1)  # (strip, stop): each pair once
        row_sums[start:stop] += strip.sum(axis=1)
        row_sums[:stop] += strip.sum(axis=0)
        inside += np.einsum("ij,ij->j", member[start:stop], strip @ member[:stop])
    touching = row_sums @ member  # pairs inside twice, pairs across once
    across = touching - 2 * inside
    return scale * inside, scale * across, scale * (row_sums.sum() / 2 - inside - across)


def stream_test(tasks: Sequence[NDArray[np.float64]]) -> float:
    """The p-value of the hypothesis that images do not depend on their place in the stream.

    The statistic is the distance covariance (Székely et al., 2007) between an image and the number of its stretch of
    tasks: the sum, over all cuts of the stream in two, of the distances across the cut. Any dependence on the place
    raises it, be it slow, or there and back. The test permutes the places, so it is exact.

    Args:
        tasks: images (n, pixels) of each task, in random order.
    """
    segments = min(len(tasks), MOST_SEGMENTS)
    each = max(2, STREAM_IMAGES // len(tasks))
    pooled = np.concatenate([x[:each] for x in tasks])
    place = np.concatenate([np.full(len(x[:each]), i * segments // len(tasks)) for i, x in enumerate(tasks)])
    rng = np.random.default_rng(0)
    places = np.concatenate([place[None], rng.permuted(np.tile(place, (STREAM_PERMUTATIONS, 1)), axis=1)])
    total = np.zeros(len(places))
    for cut in range(1, segments):
        before = int((place < cut).sum())
        after = len(place) - before
        inside, across, outside = _sums_of_distances(pooled, places < cut)
        energy = 2 * across / (before * after)
        energy -= inside / max(1, before * (before - 1) // 2) + outside / max(1, after * (after - 1) // 2)
        total += energy * before * after / len(place) ** 2
    unit = np.abs(total).max() or 1.0
    rounded = np.round(total / unit, 10)
    return float(np.mean(rounded >= rounded[0]))


def energy_distance(x1: NDArray[np.float64], x2: NDArray[np.float64]) -> float:
    """The unbiased estimate of the energy distance between two samples."""
    chosen = np.zeros((1, len(x1) + len(x2)), bool)
    chosen[:, : len(x1)] = True
    n, m = len(x1), len(x2)
    (inside,), (across,), (outside,) = _sums_of_distances(np.concatenate([x1, x2]), chosen)
    return float(2 * across / (n * m) - inside / max(1, n * (n - 1) // 2) - outside / max(1, m * (m - 1) // 2))
