"""Permuting: every task has all classes, with the pixels in an order of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from engram.core.streams import stream
from engram.core.validation import check_values
from engram.data import Images
from engram.scenarios.scenario import Part, Scenario, dealt, prepare, training_counts, view
from engram.scenarios.task import Pixels, ScenarioError, Task, Tasks


@dataclass(frozen=True, eq=False, kw_only=True)
class Permute(Scenario):
    """Every task has all classes of one image set, with the pixels permuted in its own way.

    The permutation acts on the padded image, border included; all channels of a pixel go together. `task`:
    a head of all classes for each task. `domain`: one head for all. `class`: each permuted class is a new one.
    `iid`: every task has all permutations.
    """

    make = "permute"

    permutations: int = 10
    """Number of tasks."""
    identity_first: bool = True
    """The first task's pixels stay where they are."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.permutations) is not int or self.permutations < 2:
            raise ScenarioError(
                f"permutations {self.permutations!r}: a scenario has two or more tasks; give a whole number"
            )
        check_values(self)

    def sizes(self) -> list[int]:
        return [int(training_counts(self.images[0], self.held_out).sum())] * self.permutations

    def deal(self, seed: int, device: torch.device | str = "cpu") -> Tasks:
        (images,) = self.images
        train, test, scaling = prepare(self, images, device)
        channels, height, width = images.shape
        shape = (channels, height + 2 * self.pad, width + 2 * self.pad)
        n, k = shape[1] * shape[2], images.n_classes
        shared = self.kind in ("domain", "iid")

        def data_of(part: Part, what: str, task: int, permutation: torch.Tensor | None) -> Pixels:
            outputs = part.y[part.rows] + (0 if shared else k * task)
            return view(part, part.rows, outputs, task, scaling, what, permutation)

        tasks = []
        for i in range(self.permutations):
            permutation = None
            if i > 0 or not self.identity_first:
                pixel = torch.randperm(n, generator=stream(seed, "permutation", i))
                permutation = (pixel + n * torch.arange(channels)[:, None]).flatten().to(device)
            tasks.append(
                Task(
                    i,
                    data_of(train, "training data", i, permutation),
                    data_of(test, "test data", i, permutation),
                    images.classes,
                )
            )
        if self.kind == "iid":
            return dealt(tasks, seed, images.classes, shape)
        heads = tuple(slice(0, k) if shared else slice(k * i, k * (i + 1)) for i in range(self.permutations))
        return Tasks(tuple(tasks), self.kind, heads, k if shared else k * self.permutations, shape)


def permute(images: Images, **options: Any) -> Permute:
    """A scenario of permuted images; options are the fields of `Permute`."""
    return Permute(images=(images,), **options)
