"""Split: each task gets some of the classes of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, get_args

import numpy as np
import torch

from engram.core.streams import stream
from engram.data.images import Images
from engram.scenarios.kinds import Kind, ScenarioError
from engram.scenarios.scenario import (
    ImagePart,
    Scenario,
    check_choice,
    count_training_images,
    mix_tasks,
    prepare_images,
    view_rows,
)
from engram.scenarios.task import Pixels, Task, Tasks

ClassOrder = Literal["fixed", "shuffled", "numpy"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Split(Scenario):
    """Each task gets some of the classes of one dataset.

    Outputs are numbered in class order. `task`: each task has its own head, a slice of the outputs. `class`: one head
    that grows with the classes seen. `domain`: one head; the output of an image is the position of its class within
    its task. `iid`: each task has all classes.
    """

    name = "split"

    classes_per_task: int | tuple[int, ...] | Literal["all"] = 2
    """Number of classes per task: one number for all tasks, or a list."""
    order: ClassOrder = "fixed"
    """Class order: as in the dataset; shuffled by the run's seed; or numpy, where class c comes at the place
    `numpy.random.RandomState(seed).permutation(classes)[c]`, as published runs with known seeds had it."""

    groups: tuple[tuple[int, ...], ...] = ()
    """Labels of each task, instead of `classes_per_task`: any order, any sizes; a class in several groups comes back
    with all its images, and a class in none is left out. If the order is shuffled, labels are permuted."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("order", self.order, get_args(ClassOrder))
        self.group_sizes()

    def group_sizes(self) -> list[int]:
        """Number of classes per task."""
        (images,) = self.images
        n, k = images.n_classes, self.classes_per_task
        if self.groups:
            check_groups(self.groups, images)
            return [len(group) for group in self.groups]
        if not isinstance(k, tuple):
            if type(k) is not int or k < 1 or n % k or n == k:
                fits = [d for d in range(1, n) if n % d == 0]
                raise ScenarioError(
                    f"classes_per_task {k}: the {n} classes of {images.name} cannot be split into two or more such "
                    f"tasks; give one of {', '.join(map(str, fits))}, or a list that adds up to {n}"
                )
            return [k] * (n // k)
        if len(k) < 2 or any(type(one) is not int or one < 1 for one in k) or sum(k) != n:
            raise ScenarioError(
                f"classes_per_task {' '.join(map(str, k))}: give two or more numbers above 0 that add up "
                f"to the {n} classes of {images.name}"
            )
        return list(k)

    def labels_of_tasks(self, order: list[int]) -> list[list[int]]:
        """The labels of each task, if the classes come in this order."""
        if self.groups:
            return [[order[label] for label in group] for group in self.groups]
        sizes = self.group_sizes()
        return [order[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]

    def draw_groups(self, seed: int) -> list[list[int]]:
        """The labels of each task that this seed draws."""
        order = list(range(self.images[0].n_classes))
        if self.order == "shuffled":
            order = torch.randperm(len(order), generator=stream(seed, "order")).tolist()
        elif self.order == "numpy":
            order = np.argsort(np.random.RandomState(seed).permutation(len(order))).tolist()
        return self.labels_of_tasks(order)

    def sizes(self) -> list[int]:
        groups = self.labels_of_tasks(list(range(self.images[0].n_classes)))
        counts = count_training_images(self, self.images[0])
        sizes = [float(counts[group].sum()) for group in groups]
        if self.kind == "iid":
            return [round(sum(sizes) / len(sizes))] * len(sizes)
        if self.order != "fixed":  # on average
            return [round(float(counts.sum()) * len(group) / len(counts)) for group in groups]
        return [round(size) for size in sizes]

    def tasks(self, seed: int = 0, device: torch.device | str = "cpu") -> Tasks:
        (images,) = self.images
        train, test, scaling = prepare_images(self, images, device)
        groups = self.draw_groups(seed)
        outputs = number_outputs(groups, self.kind)

        def data_of(part: ImagePart, what: str, task: int) -> Pixels:
            rows = [part.rows_of_class(label) for label in groups[task]]
            y = [np.full(len(r), output) for r, output in zip(rows, outputs[task], strict=True)]
            # in the dataset's order, so that the first images are of all classes
            at = np.argsort(np.concatenate(rows), kind="stable")
            return view_rows(part, np.concatenate(rows)[at], np.concatenate(y)[at], task, scaling, what)

        tasks = tuple(
            Task(
                i,
                data_of(train, "training data", i),
                data_of(test, "test data", i),
                tuple(images.classes[label] for label in group),
            )
            for i, group in enumerate(groups)
        )
        shape = images.padded_shape(self.pad)
        if self.kind == "iid":
            seen = dict.fromkeys(label for group in groups for label in group)
            return mix_tasks(tasks, seed, tuple(images.classes[label] for label in seen), shape)
        return Tasks(tasks, self.kind, heads_of(outputs, self.kind), max(map(max, outputs)) + 1, shape)


def number_outputs(groups: Sequence[Sequence[int]], kind: Kind) -> list[list[int]]:
    """The output of each class of each task: its position in the task (`domain`), a new one for each class of each
    task (`task`), or else one per class, by first occurrence."""
    if kind == "domain":
        return [list(range(len(group))) for group in groups]
    if kind == "task":
        ends = accumulate(len(group) for group in groups)
        return [list(range(end - len(group), end)) for group, end in zip(groups, ends, strict=True)]
    number: dict[int, int] = {}
    return [[number.setdefault(label, len(number)) for label in group] for group in groups]


def heads_of(outputs: Sequence[Sequence[int]], kind: Kind) -> tuple[slice, ...]:
    """The slice of outputs that each task has. A growing head ends where the classes seen so far end, even if a task
    has old classes only."""
    ends = accumulate((max(own) + 1 for own in outputs), max)
    grows = kind in ("class", "class-known")
    return tuple(slice(min(own), end if grows else max(own) + 1) for own, end in zip(outputs, ends, strict=True))


def check_groups(groups: object, images: Images) -> None:
    """Raise unless these are two or more lists of labels, without repetition inside a list."""
    if not isinstance(groups, tuple) or not all(isinstance(group, tuple) and group for group in groups):
        raise ScenarioError(f"groups {groups!r}: give a list of labels for each task, as in [[3, 5], [0, 9, 5]]")
    if len(groups) < 2:
        raise ScenarioError(f"groups {groups!r}: a scenario needs two or more tasks")
    for number, group in enumerate(groups, start=1):
        for label in group:
            if type(label) is not int or not 0 <= label < images.n_classes:
                raise ScenarioError(
                    f"groups: {label!r} of task {number} is not a label of {images.name}; give 0 to "
                    f"{images.n_classes - 1}"
                )
        if len(set(group)) < len(group):
            raise ScenarioError(f"groups: task {number} names a class twice: {', '.join(map(str, group))}")


def split(images: Images, **options: Any) -> Split:
    """Create a scenario in which each task gets some of the classes; the options are the fields of `Split`."""
    return Split(images=(images,), **options)
