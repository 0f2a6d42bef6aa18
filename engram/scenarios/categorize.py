"""The kind of a task sequence, measured on its data: the paper's Table 1 as a measurement.

How the columns are decided for each pair of consecutive tasks:

- {Y}: by the heads. Outputs selected by task identity are disjoint label spaces.
- P(Y): by the effect size. A p-value would call any two large tasks different.
- P(X): by a permutation test on distances between images. It has no parameters and is exact for any sample size.

A pair of tasks of 32×32 pixels takes 1.3 s on one core with 2,000 images per task, 0.4 s with 1,000.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

TableKind = Literal["task", "domain", "class", "iid"]
"""A row of Table 1. Data cannot show whether the number of classes is known in advance."""
HeadLayout = Literal["single", "multi"]

IMAGE_TEST_ALPHA = 0.001
"""Significance level of the test on images, for one pair. T tasks with the same P(X) are recognised as such with a
probability of at least 1 − (T − 1) · IMAGE_TEST_ALPHA."""
LABEL_SHIFT = 0.5
"""Label frequencies differ if their total variation distance exceeds this."""
MAX_IMAGES = 2000
"""Largest number of images per task that are compared; time grows with its square. The hardest case that we measured,
ten random classes of grey CIFAR-100 against ten others, is detected in 50, 81 and 94 % of 16 draws with 500, 1,000 and
2,000 images; two classes against two others always, with 500."""
PERMUTATIONS = 1999
"""At least 2/IMAGE_TEST_ALPHA − 1. Two statistics share one p-value, so two rearrangements may tie for the best."""

ROWS: dict[TableKind, tuple[str, str]] = {
    "iid": ("non-incremental", ""),
    "domain": ("incremental domain", "S"),
    "class": ("incremental class", "S"),
    "task": ("incremental task", "M, I"),
}
"""Name and remark in Table 1: S single-headed, M multi-headed, I task identity given at test time too."""


@dataclass(frozen=True)
class Pair:
    """What was measured between two consecutive tasks."""

    tasks: tuple[int, int]
    """Their numbers in the sequence, from 1."""
    energy: float
    """Unbiased estimate of the energy distance between the images, in units of pixel values; about 0 if they have the
    same distribution, so it can be negative."""
    spread: float
    """Mean distance within the second task minus that within the first."""
    p_value: float
    """Of the hypothesis that the images of both tasks have the same distribution."""
    total_variation: float
    """Distance between the label frequencies: 0 if equal, 1 if no class is in common."""
    classes_only_in_first: list[int]
    classes_only_in_second: list[int]

    @property
    def x_differs(self) -> bool:
        return self.p_value <= IMAGE_TEST_ALPHA

    @property
    def y_differs(self) -> bool:
        one_sided = self.classes_only_in_first or self.classes_only_in_second
        return bool(one_sided) or self.total_variation > LABEL_SHIFT


@dataclass(frozen=True)
class Category:
    """The kind of a sequence and its evidence. A change between any two consecutive tasks counts."""

    heads: HeadLayout
    pairs: list[Pair]
    images: int = MAX_IMAGES
    """Largest number of images per task that were compared; labels are all compared."""

    @property
    def x_differs(self) -> bool:
        """P(X₁) ≠ P(X₂)."""
        return any(pair.x_differs for pair in self.pairs)

    @property
    def y_differs(self) -> bool:
        """P(Y₁) ≠ P(Y₂). Always true with several heads: no label of one space occurs in the other."""
        return self.labels_differ or any(pair.y_differs for pair in self.pairs)

    @property
    def labels_differ(self) -> bool:
        """{Y₁} ≠ {Y₂}: disjoint label spaces, selected by task identity."""
        return self.heads == "multi"

    @property
    def task_identity_at_test(self) -> bool:
        """Whether a prediction needs task identity, to select a head."""
        return self.heads == "multi"

    @property
    def kind(self) -> TableKind:
        if self.labels_differ:
            return "task"
        if self.y_differs:
            return "class"
        return "domain" if self.x_differs else "iid"

    @property
    def row(self) -> dict[str, str]:
        """The sequence as a row of Table 1, by column heading.

        The marks are measured. They differ from the published ones if the table does not list such a sequence: the
        same images with new labels are a class sequence without a mark at P(X).
        """
        name, remark = ROWS[self.kind]
        return {
            "learning scenario": name,
            "P(X₁) ≠ P(X₂)": "✓" if self.x_differs else "",
            "P(Y₁) ≠ P(Y₂)": "✓" if self.y_differs else "",
            "{Y₁} ≠ {Y₂}": "✓" if self.labels_differ else "",
            "remark": remark,
        }

    @property
    def evidence(self) -> dict[str, Any]:
        """All measurements and conclusions, ready for JSON."""
        return {
            "kind": self.kind,
            "heads": self.heads,
            "x_differs": self.x_differs,
            "y_differs": self.y_differs,
            "labels_differ": self.labels_differ,
            "task_identity_at_test": self.task_identity_at_test,
            "reasons": self._reasons(),
            "row": self.row,
            "rules": {
                "alpha": IMAGE_TEST_ALPHA,
                "total_variation": LABEL_SHIFT,
                "images": self.images,
                "permutations": PERMUTATIONS,
            },
            "pairs": [
                asdict(pair)
                | {"tasks": list(pair.tasks), "x_differs": pair.x_differs}
                | {"y_differs": self.labels_differ or pair.y_differs}
                for pair in self.pairs
            ],
        }

    def _reasons(self) -> dict[str, str]:
        """One sentence per column of Table 1."""
        count, x = len(self.pairs), sum(pair.x_differs for pair in self.pairs)
        y = sum(pair.y_differs for pair in self.pairs)
        if self.labels_differ:
            of_y = "differs by definition: the heads are disjoint label spaces"
            of_labels = "differs: outputs are selected by task identity"
        else:
            of_y = (
                f"differs in {y} of {count} pairs of consecutive tasks: a class on one side only, or a total "
                f"variation distance above {LABEL_SHIFT}"
            )
            of_labels = "same: the tasks share their outputs"
        of_x = f"differs in {x} of {count} pairs of consecutive tasks: two-sample test, p ≤ {IMAGE_TEST_ALPHA}"
        return {"P(X)": of_x, "P(Y)": of_y, "{Y}": of_labels}


def categorize(tasks: Sequence[tuple[ArrayLike, ArrayLike]], heads: HeadLayout) -> Category:
    """Determine the kind of a task sequence from its data alone.

    Args:
        tasks: images (n, ...) and labels (n,) of each task, as the learner sees them.
        heads: "single" if the tasks share their outputs, "multi" if task identity selects them.

    Returns:
        The kind with its evidence. The result is deterministic.
    """
    if heads not in get_args(HeadLayout):
        raise ValueError(f"heads is {heads!r}; choose 'single' (shared outputs) or 'multi' (outputs per task)")
    checked = [_check_task(number, x, y) for number, (x, y) in enumerate(tasks, start=1)]
    for number, (x, _) in enumerate(checked, start=1):
        if x.shape[1] != checked[0][0].shape[1]:
            raise ValueError(
                f"task {number} has {x.shape[1]} values per image and task 1 has {checked[0][0].shape[1]}; "
                "resize all images to one size first"
            )
    return categorize_samples([(_draw_images(x), y) for x, y in checked], heads)


def categorize_samples(
    tasks: list[tuple[NDArray[np.float64], NDArray[np.int64]]], heads: HeadLayout, images: int = MAX_IMAGES
) -> Category:
    """Determine the kind from samples of images (n, pixels), n ≤ `images`, and from all labels (m,) of each task: a
    sample would miss some of many classes."""
    if len(tasks) < 2:
        raise ValueError(f"a kind is what changes between tasks: give two tasks or more, not {len(tasks)}")
    return Category(heads, list(_compare(tasks)), images)


def _check_task(number: int, x: ArrayLike, y: ArrayLike) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """One task's images as (n, pixels) and labels as (n,); raises if they are wrong."""
    images, labels = np.asarray(x), np.asarray(y)
    if images.ndim == 0 or images.size == 0:
        raise ValueError(f"task {number} has no images; expected an array (n, ...), got shape {images.shape}")
    if labels.ndim != 1:
        raise ValueError(f"task {number}: labels have shape {labels.shape}; expected one class number per image, (n,)")
    if len(images) != len(labels):
        raise ValueError(f"task {number} has {len(images)} images and {len(labels)} labels; give one label per image")
    if images.dtype.kind not in "biuf" or labels.dtype.kind not in "biuf":
        raise ValueError(f"task {number}: images are {images.dtype} and labels {labels.dtype}; expected numbers")
    if not np.isfinite(images).all():
        raise ValueError(f"task {number}: some pixels are NaN or infinite")
    if labels.dtype.kind == "f" and not (np.isfinite(labels) & (labels == np.round(labels))).all():
        raise ValueError(f"task {number}: some labels are NaN, infinite or not whole; expected class numbers")
    return images.reshape(len(images), -1), labels.astype(np.int64)


def _draw_images(x: NDArray[Any]) -> NDArray[np.float64]:
    """At most MAX_IMAGES random images of a task; always the same ones."""
    if len(x) > MAX_IMAGES:
        # Seeded by content: an image and its rotated copy in the next task are rarely both drawn. Such pairs
        # make two samples look more similar than their distributions are.
        seed = zlib.crc32(x[:100].tobytes())
        x = x[np.random.default_rng(seed).choice(len(x), MAX_IMAGES, replace=False)]
    return x.astype(np.float64)


def _compare(tasks: list[tuple[NDArray[np.float64], NDArray[np.int64]]]) -> Iterator[Pair]:
    for number, ((x1, y1), (x2, y2)) in enumerate(pairwise(tasks), start=1):
        energy, spread, p_value = two_sample_test(x1, x2)
        yield Pair(
            tasks=(number, number + 1),
            energy=energy,
            spread=spread,
            p_value=p_value,
            total_variation=total_variation(y1, y2),
            classes_only_in_first=np.setdiff1d(y1, y2).tolist(),
            classes_only_in_second=np.setdiff1d(y2, y1).tolist(),
        )


def total_variation(y1: NDArray[np.int64], y2: NDArray[np.int64]) -> float:
    """Half the sum over classes of the absolute difference in frequency."""
    classes = np.union1d(y1, y2)
    # In integers up to the one division, so that a distance of exactly one half is not above it.
    counts1, counts2 = (np.bincount(np.searchsorted(classes, y), minlength=len(classes)) for y in (y1, y2))
    return float(np.abs(counts1 * len(y2) - counts2 * len(y1)).sum() / (2 * len(y1) * len(y2)))


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
