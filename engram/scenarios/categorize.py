"""The kind of a task sequence, measured on its data: the paper's Table 1 as a measurement.

How the columns are decided:

- {Y}: by the heads. Outputs selected by task identity are disjoint label spaces.
- P(Y): by the effect size, between any two tasks. A p-value would call any two large tasks different.
- P(X): for each pair of consecutive tasks by two tests with Holm's correction: a permutation test on distances between
  images, which sees a change of all pixels, and a small network, which sees what images show. Both are exact for any
  sample size. If the distances decide, the network is not trained: it could not change the decision. If no pair
  differs, the same is asked of the stream as a whole, for change that is too slow to be seen from task to task.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations, pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engram.core.messages import count
from engram.scenarios.distances import PERMUTATIONS, energy_distance, stream_test, two_sample_test

TableKind = Literal["task", "domain", "class", "iid"]
"""A row of Table 1. Data cannot show whether the number of classes is known in advance."""
HeadLayout = Literal["single", "multi"]

IMAGE_TEST_ALPHA = 0.001
"""Significance level of the tests on images, for one pair and for the stream. T tasks with the same P(X) are recognised
as such with a probability of at least 1 − T · IMAGE_TEST_ALPHA."""
LABEL_SHIFT = 0.5
"""Label frequencies differ if their total variation distance exceeds this."""
MAX_IMAGES = 1000
"""Largest number of images per task whose distances are compared; time grows with its square. The network sees up to
NETWORK_IMAGES."""
DRIFT_IMAGES = 500
"""Images per task for the drift along the stream."""

TABLE_ROWS: dict[TableKind, tuple[str, str]] = {
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
    """Of the hypothesis that the images of both tasks have the same distribution, corrected for two tests."""
    p_distances: float
    """Of the permutation test on distances alone."""
    accuracy: float | None
    """Share of held-out pairs of images in which a network tells which is of which task; none if it was not needed."""
    p_network: float | None
    """Of the exact binomial test of this accuracy against ½."""
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
class Drift:
    """What was measured along the stream, from the first task to the last."""

    x: list[float] = field(default_factory=list)
    """Energy distance between the images of the first task and those of each task, in units of pixel values."""
    y: list[float] = field(default_factory=list)
    """Total variation distance between the label frequencies of the first task and of each task."""
    largest_y: float = 0.0
    """The largest such distance between any two tasks."""
    p_value: float | None = None
    """Of the hypothesis that images do not depend on their place in the stream, corrected for two tests; none if a pair
    of consecutive tasks differs already, or if there is one pair."""
    accuracy: float | None = None
    """Of a network that tells images of the first half of the tasks from those of the second; none if not needed."""
    returning: list[int] = field(default_factory=list)
    """Classes that come back after tasks without them."""

    @property
    def x_differs(self) -> bool:
        return self.p_value is not None and self.p_value <= IMAGE_TEST_ALPHA

    @property
    def y_differs(self) -> bool:
        return self.largest_y > LABEL_SHIFT


@dataclass(frozen=True)
class Category:
    """The kind of a sequence and its evidence. A change between any two consecutive tasks counts, and so does a slow
    change along the stream."""

    heads: HeadLayout
    pairs: list[Pair]
    images: int = MAX_IMAGES
    """Largest number of images per task whose distances were compared; labels are all compared."""
    drift: Drift = field(default_factory=Drift)
    parts: str = "tasks"
    """What was compared with each other: tasks, or stretches of a stream that is one task."""

    @property
    def x_differs(self) -> bool:
        """P(X₁) ≠ P(X₂)."""
        return any(pair.x_differs for pair in self.pairs) or self.drift.x_differs

    @property
    def y_differs(self) -> bool:
        """P(Y₁) ≠ P(Y₂). Always true with several heads: no label of one space occurs in the other."""
        return self.labels_differ or any(pair.y_differs for pair in self.pairs) or self.drift.y_differs

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
        name, remark = TABLE_ROWS[self.kind]
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
            "drift": asdict(self.drift) | {"x_differs": self.drift.x_differs, "y_differs": self.drift.y_differs},
        }

    def _reasons(self) -> dict[str, str]:
        """One sentence per column of Table 1, and one on what comes back."""
        x, y = (sum(differs) for differs in zip(*((p.x_differs, p.y_differs) for p in self.pairs), strict=True))
        pairs = f"{count(len(self.pairs), 'pair')} of consecutive {self.parts}"
        if self.labels_differ:
            of_y = "differs by definition: the heads are disjoint label spaces"
            of_labels = "differs: outputs are selected by task identity"
        else:
            of_y = (
                f"differs in {y} of {pairs}: a class on one side only, or a total variation distance above "
                f"{LABEL_SHIFT}"
            )
            if not y and self.drift.y_differs:
                of_y += f"; but along the stream, with {self.drift.largest_y:.2f} between two of the {self.parts}"
            of_labels = "same: the tasks share their outputs"
        of_x = f"differs in {x} of {pairs}: two-sample tests, p ≤ {IMAGE_TEST_ALPHA}"
        if self.drift.p_value is not None:
            verb = "differs" if self.drift.x_differs else "does not differ"
            of_x += f"; {verb} along the stream, p = {self.drift.p_value:.2g}"
        reasons = {"P(X)": of_x, "P(Y)": of_y, "{Y}": of_labels}
        if self.drift.returning and not self.labels_differ:
            classes = ", ".join(map(str, self.drift.returning[:10])) + ", …" * (len(self.drift.returning) > 10)
            verb = "1 class comes" if len(self.drift.returning) == 1 else f"{len(self.drift.returning)} classes come"
            reasons["repetition"] = f"{verb} back after {self.parts} without them: {classes}"
        return reasons


def categorize(tasks: Sequence[tuple[ArrayLike, ArrayLike]], heads: HeadLayout) -> Category:
    """Determine the kind of a task sequence from its data alone.

    Args:
        tasks: images (n, ...) and labels (n,) of each task, as the learner sees them.
        heads: "single" if the tasks share their outputs, "multi" if task identity selects them.
            Arrays (n, height, width) and (n, height, width, 3) are pictures, others vectors.

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
    shape = _picture_shape(np.shape(tasks[0][0]) if len(tasks) else ())
    return categorize_samples([Sample(_draw_images(_channels_first(x, shape)), y) for x, y in checked], heads, shape)


Watch = Callable[[int, int], None]


class Sample(NamedTuple):
    """What is looked at of one task."""

    x: NDArray[np.float64]
    """(n, values): images in random order."""
    y: NDArray[np.int64]
    """(m,): all labels of the task; a sample would miss some of many classes."""


def categorize_samples(
    tasks: Sequence[Sample],
    heads: HeadLayout,
    shape: tuple[int, ...] = (),
    images: int | None = None,
    parts: str = "tasks",
    watch: Watch = lambda done, of: None,
) -> Category:
    """Determine the kind from samples of each task.

    Args:
        tasks: the samples.
        heads: as for `categorize`.
        shape: (channels, height, width) of the images, if they are pictures.
        images: number of images per task whose distances are compared.
        parts: what the samples are of, in words.
        watch: told after each comparison how many are done and how many there are.
    """
    if len(tasks) < 2:
        raise ValueError(f"a kind is what changes between tasks: give two tasks or more, not {len(tasks)}")
    most = images or MAX_IMAGES
    pairs = []
    for number, (one, other) in enumerate(pairwise(tasks), start=1):
        pairs.append(_compare(number, one, other, shape, most))
        watch(number, len(tasks) - 1)
    decided = len(pairs) == 1 or any(pair.x_differs for pair in pairs)
    return Category(heads, pairs, most, _measure_drift(tasks, shape, decided), parts)


def _picture_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """(channels, height, width) of arrays (n, height, width) or (n, height, width, 3); nothing for others."""
    if len(shape) == 3:
        return (1, *shape[1:])
    return (3, *shape[1:3]) if len(shape) == 4 and shape[3] == 3 else ()


def _channels_first(x: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Flat pictures (n, height · width · channels) with the channels in front."""
    if len(shape) != 3 or shape[0] == 1:
        return x
    channels, height, width = shape
    return x.reshape(len(x), height, width, channels).transpose(0, 3, 1, 2).reshape(len(x), -1)


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
    """At most NETWORK_IMAGES images of a task in random order; always the same ones."""
    from engram.scenarios.network_test import NETWORK_IMAGES

    # Seeded by content: an image and its rotated copy in the next task are rarely both drawn. Such pairs make two
    # samples look more similar than their distributions are.
    rng = np.random.default_rng(zlib.crc32(x[:100].astype(np.float64).tobytes()))
    return x[rng.permutation(len(x))[:NETWORK_IMAGES]].astype(np.float64)


def _compare(number: int, one: Sample, other: Sample, shape: tuple[int, ...], images: int) -> Pair:
    energy, spread, p_distances = two_sample_test(one.x[:images], other.x[:images])
    p_value, accuracy, p_network = _add_network(p_distances, one.x, other.x, shape)
    return Pair(
        tasks=(number, number + 1),
        energy=energy,
        spread=spread,
        p_value=p_value,
        p_distances=p_distances,
        accuracy=accuracy,
        p_network=p_network,
        total_variation=total_variation(one.y, other.y),
        classes_only_in_first=np.setdiff1d(one.y, other.y).tolist(),
        classes_only_in_second=np.setdiff1d(other.y, one.y).tolist(),
    )


def _add_network(
    p_distances: float, x1: NDArray[np.float64], x2: NDArray[np.float64], shape: tuple[int, ...]
) -> tuple[float, float | None, float | None]:
    """(corrected p-value, accuracy, p-value of the network): the smaller of two p-values counts twice (Holm, 1979)."""
    from engram.scenarios.network_test import network_test

    if 2 * p_distances <= IMAGE_TEST_ALPHA:
        return 2 * p_distances, None, None
    found = network_test(x1, x2, shape)
    if found is None:
        return min(1.0, 2 * p_distances), None, None
    return min(1.0, 2 * min(p_distances, found.p_value)), found.accuracy, found.p_value


def _measure_drift(tasks: Sequence[Sample], shape: tuple[int, ...], decided: bool) -> Drift:
    """The change along the stream; tested only if the pairs have not `decided` that P(X) changes."""
    x, y = [task.x[:DRIFT_IMAGES] for task in tasks], [task.y for task in tasks]
    p_value = accuracy = None
    if not decided:
        first, last = _halves(tasks)
        p_value, accuracy, _ = _add_network(stream_test([task.x for task in tasks]), first, last, shape)
    return Drift(
        x=[0.0, *(energy_distance(x[0], later) for later in x[1:])],
        y=[total_variation(y[0], later) for later in y],
        largest_y=max(total_variation(a, b) for a, b in combinations(y, 2)),
        p_value=p_value,
        accuracy=accuracy,
        returning=_find_returning(y),
    )


def _halves(tasks: Sequence[Sample]) -> list[NDArray[np.float64]]:
    """Images of the first and of the last half of the tasks, as many of each task, in random order."""
    from engram.scenarios.network_test import NETWORK_IMAGES

    half, rng = len(tasks) // 2, np.random.default_rng(0)
    parts = [
        np.concatenate([task.x[: NETWORK_IMAGES // half] for task in side]) for side in (tasks[:half], tasks[-half:])
    ]
    return [part[rng.permutation(len(part))] for part in parts]


def _find_returning(labels: Sequence[NDArray[np.int64]]) -> list[int]:
    """Classes that are in a task, not in a later one, and again in one after that."""
    sets = [set(np.unique(y).tolist()) for y in labels]
    seen: set[int] = set()
    absent: set[int] = set()
    returning: set[int] = set()
    for present in sets:
        returning |= present & absent
        absent = (absent | (seen - present)) - present
        seen |= present
    return sorted(returning)


def total_variation(y1: NDArray[np.int64], y2: NDArray[np.int64]) -> float:
    """Half the sum over classes of the absolute difference in frequency."""
    classes = np.union1d(y1, y2)
    # In integers up to the one division, so that a distance of exactly one half is not above it.
    counts1, counts2 = (np.bincount(np.searchsorted(classes, y), minlength=len(classes)) for y in (y1, y2))
    return float(np.abs(counts1 * len(y2) - counts2 * len(y1)).sum() / (2 * len(y1) * len(y2)))
