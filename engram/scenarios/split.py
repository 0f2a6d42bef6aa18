"""Split: each task gets some of the classes of a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, get_args

import numpy as np
import torch

from engram.core.streams import stream
from engram.data import Images
from engram.scenarios.kinds import ScenarioError
from engram.scenarios.scenario import (
    ImagePart,
    Order,
    Scenario,
    check_choice,
    count_training_images,
    mix_tasks,
    prepare_images,
    view_rows,
)
from engram.scenarios.task import Pixels, Task, Tasks


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
    order: Order = "fixed"
    """Class order: as in the dataset, or shuffled by the run's seed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("order", self.order, get_args(Order))
        self.groups()

    def groups(self) -> list[int]:
        """Number of classes per task."""
        (images,) = self.images
        n, k = images.n_classes, self.classes_per_task
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

    def sizes(self) -> list[int]:
        groups = self.groups()
        counts = count_training_images(self.images[0], self.held_out)
        if self.kind == "iid":
            return [round(float(counts.sum()) / len(groups))] * len(groups)
        if self.order == "shuffled":  # on average
            return [round(float(counts.sum()) * g / sum(groups)) for g in groups]
        ends = list(accumulate(groups))
        return [round(float(counts[end - g : end].sum())) for g, end in zip(groups, ends, strict=True)]

    def tasks(self, seed: int = 0, device: torch.device | str = "cpu") -> Tasks:
        (images,) = self.images
        train, test, scaling = prepare_images(self, images, device)
        order = list(range(images.n_classes))
        if self.order == "shuffled":
            order = torch.randperm(images.n_classes, generator=stream(seed, "order")).tolist()
        groups = self.groups()
        ends = list(accumulate(groups))
        shared = self.kind == "domain"

        def data_of(part: ImagePart, what: str, task: int) -> Pixels:
            first = ends[task] - groups[task]
            rows = [part.rows_of_class(label) for label in order[first : ends[task]]]
            outputs = [np.full(len(r), i if shared else first + i) for i, r in enumerate(rows)]
            # in the dataset's order, so that the first images are of all classes
            at = np.argsort(np.concatenate(rows), kind="stable")
            return view_rows(part, np.concatenate(rows)[at], np.concatenate(outputs)[at], task, scaling, what)

        tasks = tuple(
            Task(
                i,
                data_of(train, "training data", i),
                data_of(test, "test data", i),
                tuple(images.classes[label] for label in order[end - g : end]),
            )
            for i, (g, end) in enumerate(zip(groups, ends, strict=True))
        )
        channels, height, width = images.shape
        shape = (channels, height + 2 * self.pad, width + 2 * self.pad)
        if self.kind == "iid":
            return mix_tasks(tasks, seed, tuple(images.classes[label] for label in order), shape)
        heads = tuple(slice(0, g) if shared else slice(end - g, end) for g, end in zip(groups, ends, strict=True))
        return Tasks(tasks, self.kind, heads, max(groups) if shared else images.n_classes, shape)


def split(images: Images, **options: Any) -> Split:
    """Create a scenario in which each task gets some of the classes; the options are the fields of `Split`."""
    return Split(images=(images,), **options)
