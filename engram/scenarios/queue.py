"""Queue: several datasets one after the other, in one image size, each split into tasks."""

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
from engram.data.arrays import Arrays
from engram.data.images import Images
from engram.scenarios.kinds import ScenarioError
from engram.scenarios.scenario import (
    Order,
    Scenario,
    check_choice,
    check_normalize,
    count_training_images,
    mix_tasks,
    prepare_images,
    view_rows,
)
from engram.scenarios.task import Task, Tasks

Fit = Literal["resize", "crop"]
LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue (ITU-R 601)."""


class TaskClasses(NamedTuple):
    """The classes of one task: the index of the dataset, and which of its labels."""

    dataset: int
    labels: slice


@dataclass(frozen=True, eq=False, kw_only=True)
class Queue(Scenario):
    """Datasets one after the other; each task gets some of the classes of one of them.

    All images are converted to grey (luma), brought to one size and rounded to 8 bits; each dataset is normalised by
    itself. Outputs are numbered along the queue. `task`: each task has its own head, a slice of the outputs. `class`:
    one head that grows with the classes seen. `domain`: one head; the output of an image is the position of its class
    within its task, which is its label if `classes_per_task="all"`. `iid`: each task has all classes.
    """

    name = "queue"
    several_datasets = True
    any_targets = True

    pad: int = 0
    """Black pixels added on each side after the images were brought to one size."""
    classes_per_task: int | Literal["all"] = 2
    """Number of classes per task; all: each dataset is one task."""
    order: Order = "fixed"
    """Order of the tasks: as the datasets are listed, or shuffled by the run's seed; each task keeps its classes."""
    size: int = 28
    """Height and width of all images, in pixels."""
    fit: Fit = "resize"
    """How images are brought to this size: by antialiased bilinear resizing, or by cropping the centre (smaller images
    get a black border)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("order", self.order, get_args(Order))
        check_choice("fit", self.fit, get_args(Fit))
        if not isinstance(self.size, int) or not 1 <= self.size <= 512:
            raise ScenarioError(f"size {self.size} is out of range; give 1 to 512 pixels")
        if self.normalize is not None and self.normalize != "train":
            check_normalize(self.normalize, [1])
        if not self.images:
            raise ScenarioError("a queue needs datasets; give one or more")
        if len({isinstance(dataset.unseal(), Arrays) for dataset in self.images}) > 1:
            raise ScenarioError("a queue has either images or other arrays: one network cannot take both")
        if self.has_arrays and len({dataset.shape for dataset in self.images}) > 1:
            shapes = ", ".join(f"{dataset.name} {dataset.shape}" for dataset in self.images)
            raise ScenarioError(f"the arrays of a queue must have one shape: {shapes}")
        object.__setattr__(self, "images", give_unique_names(self.images))
        if len(self.groups()) < 2:
            raise ScenarioError(f"classes_per_task {self.classes_per_task}: a scenario needs two or more tasks")

    @property
    def has_arrays(self) -> bool:
        """Whether the data are not pictures, and so are not resized."""
        return isinstance(self.images[0].unseal(), Arrays)

    def groups(self) -> list[TaskClasses]:
        """The classes of each task, in the order of the datasets. Values and labels are one task each."""
        groups = []
        for i, images in enumerate(self.images):
            n, k = images.n_classes, self.classes_per_task
            if k == "all" or images.targets != "classes":
                k = n
            if not isinstance(k, int) or k < 1 or n % k:
                common = math.gcd(*(one.n_classes for one in self.images if one.targets == "classes"))
                divisors = [str(d) for d in range(1, common + 1) if common % d == 0]
                raise ScenarioError(
                    f"classes_per_task {self.classes_per_task}: the {n} classes of {images.name} cannot be split into "
                    f"such tasks; give all, or a number that divides those of every dataset: {', '.join(divisors)}"
                )
            groups += [TaskClasses(i, slice(first, first + k)) for first in range(0, n, k)]
        return groups

    def sizes(self) -> list[int]:
        counts = [count_training_images(self, images) for images in self.images]
        whole = [images.targets != "classes" for images in self.images]
        sizes = [
            round(float(counts[which][slice(None) if whole[which] else labels].sum()))
            for which, labels in self.groups()
        ]
        if self.kind == "iid" or self.order == "shuffled":  # on average
            return [round(sum(sizes) / len(sizes))] * len(sizes)
        return sizes

    def tasks(self, seed: int = 0, device: torch.device | str = "cpu") -> Tasks:
        sets = [images.unseal() for images in self.images]
        if not self.has_arrays:
            sets = [fit_images(images, self.size, self.fit) for images in sets]
        if self.held_out:
            sets = [images.seal() for images in sets]
        prepared = [prepare_images(self, images, device) for images in sets]
        groups = self.groups()
        if self.order == "shuffled":
            groups = [groups[i] for i in torch.randperm(len(groups), generator=stream(seed, "order")).tolist()]
        tasks, heads, outputs = [], [], 0
        for i, (which, labels) in enumerate(groups):
            first = 0 if self.kind == "domain" else outputs
            train, test, scaling = prepared[which]
            data = []
            targets = self.images[which].targets
            for part, what in ((train, "training data"), (test, "test data")):
                rows = part.rows_of_classes(labels) if targets == "classes" else part.rows
                y = part.y[rows] - labels.start + first if targets == "classes" else part.y[rows]
                data.append(view_rows(part, rows, self.widen(y), i, scaling, what))
            tasks.append(Task(i, data[0], data[1], self.images[which].classes[labels], targets=targets))
            heads.append(slice(first, first + labels.stop - labels.start))
            outputs = max(outputs, heads[-1].stop)
        side = self.size + 2 * self.pad
        shape = self.images[0].shape if self.has_arrays else (1, side, side)
        if self.kind == "iid":
            return mix_tasks(tasks, seed, tuple(name for task in tasks for name in task.classes), shape)
        return Tasks(tuple(tasks), self.kind, tuple(heads), outputs, shape)

    def widen(self, y: NDArray[Any]) -> NDArray[Any]:
        """Targets in the one form that all tasks share: outputs as they are if all tasks have classes, else floats in
        as many columns as the widest target has."""
        widths = [1 if images.targets == "classes" else images.n_classes for images in self.images]
        if all(images.targets == "classes" for images in self.images):
            return y
        found = np.zeros((len(y), max(widths)), np.float32)
        columns = y.reshape(len(y), -1)
        found[:, : columns.shape[1]] = columns
        return found


def give_unique_names(sets: Sequence[Images]) -> tuple[Images, ...]:
    """Give each dataset its own name, because records name them: a second `own` becomes `own-2`."""
    content = Counter(images.fingerprint for images in sets)
    if max(content.values()) > 1:
        twice = next(images.name for images in sets if content[images.fingerprint] > 1)
        raise ScenarioError(f"dataset {twice} is in the queue twice; each class may occur once")
    unique: list[Images] = []
    for images in sets:
        name, number = images.name, 1
        while name in {other.name for other in unique}:
            number += 1
            name = f"{images.name}-{number}"
        unique.append(images if name == images.name else images.rename(name))
    return tuple(unique)


@lru_cache(maxsize=8)
def fit_images(images: Images, size: int, fit: Fit) -> Images:
    """The dataset in grey and in this size. Cached, because all runs of a sweep need the same."""
    if images.shape == (1, size, size):
        return images
    parts = [fit_pixels(x, size, fit) for x in (images.x_train, images.x_test)]
    names = (images.classes, images.name, images.note, images.targets)
    return Images(parts[0], images.y_train, parts[1], images.y_test, *names)


def fit_pixels(x: NDArray[np.uint8], size: int, fit: Fit) -> NDArray[np.uint8]:
    """(n, height, width[, 3]) → (n, size, size), in pieces to keep the float copies small."""
    out = np.empty((len(x), size, size), np.uint8)
    for start in range(0, len(x), 2000):
        grey = to_grey(torch.from_numpy(x[start : start + 2000].copy()))
        out[start : start + 2000] = (resize(grey, size) if fit == "resize" else crop(grey, size)).numpy()
    return out


def to_grey(x: Tensor) -> Tensor:
    """(n, height, width[, 3]) → (n, height, width), 8-bit."""
    return x if x.ndim == 3 else round_to_bytes(x.float() @ torch.tensor(LUMA))


def resize(x: Tensor, size: int) -> Tensor:
    """(n, height, width) → (n, size, size): a triangle filter along each axis, widened if the image shrinks."""
    if tuple(x.shape[1:]) == (size, size):
        return x
    return round_to_bytes(triangle_filter(x.shape[1], size) @ x.float() @ triangle_filter(x.shape[2], size).t())


def triangle_filter(old: int, new: int) -> Tensor:
    """(new, old): the weight of each old pixel in each new one; rows sum to 1."""
    scale = old / new
    centre = (torch.arange(new, dtype=torch.float64) + 0.5) * scale
    distance = (torch.arange(old) + 0.5 - centre[:, None]).abs() / max(scale, 1.0)
    weight = (1 - distance).clamp(min=0)
    return (weight / weight.sum(1, keepdim=True)).float()


def crop(x: Tensor, size: int) -> Tensor:
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


def round_to_bytes(x: Tensor) -> Tensor:
    """Round to 8 bits, halves upwards: exact halves are common and must not depend on the last bit of a sum."""
    return (x + 0.5005).floor_().clamp_(0, 255).to(torch.uint8)


def queue(images: Sequence[Images], **options: Any) -> Queue:
    """Create a scenario of several datasets one after the other; the options are the fields of `Queue`."""
    return Queue(images=tuple(images) if isinstance(images, Iterable) else (images,), **options)
