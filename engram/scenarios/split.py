"""Splitting: each task gets some of the classes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, get_args

import numpy as np
import torch

from engram.core.streams import stream
from engram.data import Images
from engram.scenarios.scenario import Part, Scenario, dealt, prepare, training_counts, view
from engram.scenarios.task import ScenarioError, Task, Tasks

Order = Literal["fixed", "shuffled"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Split(Scenario):
    """Each task gets some of the classes of one image set.

    Outputs are numbered along the class order. `task`: every task has a head, a slice of the outputs. `class`:
    one head that grows with the classes seen. `domain`: one head, and an image's output is its class's place
    within its task. `iid`: all classes in every task.
    """

    make = "split"

    classes_per_task: int | tuple[int, ...] | Literal["all"] = 2
    """Classes of each task: one number for all, or a list."""
    order: Order = "fixed"
    """Class order: as in the set, or shuffled by the run's seed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order not in get_args(Order):
            raise ScenarioError(f"order {self.order!r} is unknown; choose from {', '.join(get_args(Order))}")
        self.groups()

    def groups(self) -> list[int]:
        """How many classes each task has."""
        (images,) = self.images
        n, k = images.n_classes, self.classes_per_task
        if not isinstance(k, tuple):
            if type(k) is not int or k < 1 or n % k or n == k:
                fits = [d for d in range(1, n) if n % d == 0]
                raise ScenarioError(
                    f"classes_per_task {k}: the {n} classes of {images.name} do not make two or more such tasks; "
                    f"give one of {', '.join(map(str, fits))}, or a list that adds up to {n}"
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
        counts = training_counts(self.images[0], self.held_out)
        if self.kind == "iid":
            return [round(float(counts.sum()) / len(groups))] * len(groups)
        if self.order == "shuffled":  # on average
            return [round(float(counts.sum()) * g / sum(groups)) for g in groups]
        ends = list(accumulate(groups))
        return [round(float(counts[end - g : end].sum())) for g, end in zip(groups, ends, strict=True)]

    def deal(self, seed: int, device: torch.device | str = "cpu") -> Tasks:
        (images,) = self.images
        train, test, scaling = prepare(self, images, device)
        order = list(range(images.n_classes))
        if self.order == "shuffled":
            order = torch.randperm(images.n_classes, generator=stream(seed, "order")).tolist()
        groups = self.groups()
        ends = list(accumulate(groups))
        shared = self.kind == "domain"

        def part_of(part: Part, what: str, task: int) -> Any:
            first = ends[task] - groups[task]
            rows = [part.of_class(label) for label in order[first : ends[task]]]
            outputs = [np.full(len(r), i if shared else first + i) for i, r in enumerate(rows)]
            # in the set's own order, so that the first images are of all classes
            at = np.argsort(np.concatenate(rows), kind="stable")
            return view(part, np.concatenate(rows)[at], np.concatenate(outputs)[at], task, scaling, what)

        tasks = tuple(
            Task(
                i,
                part_of(train, "training data", i),
                part_of(test, "test data", i),
                tuple(images.classes[label] for label in order[end - g : end]),
            )
            for i, (g, end) in enumerate(zip(groups, ends, strict=True))
        )
        channels, height, width = images.shape
        shape = (channels, height + 2 * self.pad, width + 2 * self.pad)
        if self.kind == "iid":
            return dealt(tasks, seed, tuple(images.classes[label] for label in order), shape)
        heads = tuple(slice(0, g) if shared else slice(end - g, end) for g, end in zip(groups, ends, strict=True))
        return Tasks(tasks, self.kind, heads, max(groups) if shared else images.n_classes, shape)


def split(images: Images, **options: Any) -> Split:
    """A scenario in which each task gets some of the classes; options are the fields of `Split`."""
    return Split(images=(images,), **options)
