"""Queueing: several image sets one after the other, each brought to one shape and split into tasks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engram.core.streams import stream
from engram.data import Images
from engram.scenarios.scenario import Scenario, check_normalize, dealt, prepare, training_counts, view
from engram.scenarios.task import ScenarioError, Task, Tasks

Order = Literal["fixed", "shuffled"]
Fit = Literal["resize", "crop"]
LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue (ITU-R 601)."""


class Group(NamedTuple):
    """The classes of one task: which set, and which of its labels."""

    images: int
    labels: slice


@dataclass(frozen=True, eq=False, kw_only=True)
class Queue(Scenario):
    """Image sets in a row; each task gets some of the classes of one of them.

    All images are made grey (luma), brought to one size, rounded to 8 bits and normalised set by set. Outputs are
    numbered along the queue. `task`: every task has a head, a slice of the outputs. `class`: one head that grows with
    the classes seen. `domain`: one head, and an image's output is its class's place within its task: of sets with the
    same labels, with `classes_per_task="all"`, its label. `iid`: all classes in every task.
    """

    make = "queue"

    pad: int = 0
    """Black pixels added on each side once the images have one size."""
    classes_per_task: int | Literal["all"] = 2
    """Classes of each task; all: each set is one task."""
    order: Order = "fixed"
    """Tasks as the sets are listed, or shuffled by the run's seed; each keeps its classes."""
    size: int = 28
    """Pixels on each side that all images are brought to."""
    fit: Fit = "resize"
    """How: antialiased bilinear resizing, or the centre of the image is cut out (a smaller one gets a black border)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, choices in (("order", get_args(Order)), ("fit", get_args(Fit))):
            if getattr(self, name) not in choices:
                raise ScenarioError(f"{name} {getattr(self, name)!r} is unknown; choose from {', '.join(choices)}")
        if not isinstance(self.size, int) or not 1 <= self.size <= 512:
            raise ScenarioError(f"size {self.size} is out of range; give 1 to 512 pixels")
        if self.normalize is not None and self.normalize != "train":
            check_normalize(self.normalize, [1])
        if not self.images:
            raise ScenarioError("a queue needs image sets; give one or more")
        object.__setattr__(self, "images", told_apart(self.images))
        if len(self.groups()) < 2:
            raise ScenarioError(f"classes_per_task {self.classes_per_task}: a scenario has two or more tasks")

    def groups(self) -> list[Group]:
        """The tasks' classes, as listed."""
        found = []
        for i, images in enumerate(self.images):
            n, k = images.n_classes, self.classes_per_task
            if k == "all":
                k = n
            if not isinstance(k, int) or k < 1 or n % k:
                common = math.gcd(*(images.n_classes for images in self.images))
                fits = [str(d) for d in range(1, common + 1) if common % d == 0]
                raise ScenarioError(
                    f"classes_per_task {self.classes_per_task}: the {n} classes of {images.name} do not make such "
                    f"tasks; give all, or a number that divides every set's: {', '.join(fits)}"
                )
            found += [Group(i, slice(first, first + k)) for first in range(0, n, k)]
        return found

    def sizes(self) -> list[int]:
        counts = [training_counts(images, self.held_out) for images in self.images]
        sizes = [round(float(counts[group.images][group.labels].sum())) for group in self.groups()]
        if self.kind == "iid" or self.order == "shuffled":  # on average
            return [round(sum(sizes) / len(sizes))] * len(sizes)
        return sizes

    def deal(self, seed: int, device: torch.device | str = "cpu") -> Tasks:
        sets = [fitted(images.unseal(), self.size, self.fit) for images in self.images]
        if self.held_out:
            sets = [images.seal() for images in sets]
        prepared = [prepare(self, images, device) for images in sets]
        groups = self.groups()
        if self.order == "shuffled":
            groups = [groups[i] for i in torch.randperm(len(groups), generator=stream(seed, "order")).tolist()]
        tasks, heads, outputs = [], [], 0
        for i, (which, labels) in enumerate(groups):
            first = 0 if self.kind == "domain" else outputs
            train, test, scaling = prepared[which]
            to_learn, to_test = (
                view(part, rows := part.of_classes(labels), part.y[rows] - labels.start + first, i, scaling, what)
                for part, what in ((train, "training data"), (test, "test data"))
            )
            tasks.append(Task(i, to_learn, to_test, self.images[which].classes[labels]))
            heads.append(slice(first, first + labels.stop - labels.start))
            outputs = max(outputs, heads[-1].stop)
        shape = (1, self.size + 2 * self.pad, self.size + 2 * self.pad)
        if self.kind == "iid":
            return dealt(tasks, seed, tuple(name for task in tasks for name in task.classes), shape)
        return Tasks(tuple(tasks), self.kind, tuple(heads), outputs, shape)


def told_apart(sets: Sequence[Images]) -> tuple[Images, ...]:
    """The sets with a name each, since records name them: a second `own` becomes `own-2`."""
    content = Counter(images.fingerprint for images in sets)
    if max(content.values()) > 1:
        twice = next(images.name for images in sets if content[images.fingerprint] > 1)
        raise ScenarioError(f"image set {twice} is in the queue twice; each class occurs once")
    found: list[Images] = []
    for images in sets:
        name, number = images.name, 1
        while name in {other.name for other in found}:
            number += 1
            name = f"{images.name}-{number}"
        found.append(images if name == images.name else images.rename(name))
    return tuple(found)


@lru_cache(maxsize=8)
def fitted(images: Images, size: int, fit: Fit) -> Images:
    """The set in grey and in this size. Kept, because every run of a sweep needs the same."""
    if images.shape == (1, size, size):
        return images
    parts = [one_shape(x, size, fit) for x in (images.x_train, images.x_test)]
    return Images(parts[0], images.y_train, parts[1], images.y_test, images.classes, images.name, images.note)


def one_shape(x: NDArray[np.uint8], size: int, fit: Fit) -> NDArray[np.uint8]:
    """(n, height, width[, 3]) → (n, size, size), in pieces so that the floats stay few."""
    out = np.empty((len(x), size, size), np.uint8)
    for start in range(0, len(x), 2000):
        grey = luma(torch.from_numpy(np.ascontiguousarray(x[start : start + 2000])))
        out[start : start + 2000] = (resized(grey, size) if fit == "resize" else cropped(grey, size)).numpy()
    return out


def luma(x: Tensor) -> Tensor:
    """(n, height, width[, 3]) → (n, height, width), 8-bit."""
    return x if x.ndim == 3 else rounded(x.float() @ torch.tensor(LUMA))


def resized(x: Tensor, size: int) -> Tensor:
    """(n, height, width) → (n, size, size): a triangle filter along each axis, widened where the image shrinks."""
    if tuple(x.shape[1:]) == (size, size):
        return x
    return rounded(triangle(x.shape[1], size) @ x.float() @ triangle(x.shape[2], size).t())


def triangle(old: int, new: int) -> Tensor:
    """(new, old): what each old pixel adds to each new one; rows sum to 1."""
    scale = old / new
    centre = (torch.arange(new, dtype=torch.float64) + 0.5) * scale
    distance = (torch.arange(old) + 0.5 - centre[:, None]).abs() / max(scale, 1.0)
    weight = (1 - distance).clamp(min=0)
    return (weight / weight.sum(1, keepdim=True)).float()


def cropped(x: Tensor, size: int) -> Tensor:
    """(n, height, width) → (n, size, size): the centre."""
    for axis in (1, 2):
        side = x.shape[axis]
        if side >= size:
            x = x.narrow(axis, (side - size) // 2, size)
        else:
            before = (size - side) // 2
            border = [before, size - side - before]
            x = torch.nn.functional.pad(x, [0, 0, *border] if axis == 1 else border)
    return x


def rounded(x: Tensor) -> Tensor:
    """To 8 bits, halves upwards: exact halves are common, so they must not depend on the last bit of a sum."""
    return (x + 0.5005).floor_().clamp_(0, 255).to(torch.uint8)


def queue(images: Sequence[Images], **options: Any) -> Queue:
    """A scenario of several image sets in a row; options are the fields of `Queue`."""
    return Queue(images=tuple(images) if isinstance(images, Iterable) else (images,), **options)
