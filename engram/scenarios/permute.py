"""Permute: each task has all classes, with its own permutation of the pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from engram.core.streams import stream
from engram.core.validation import check_values
from engram.data import Images
from engram.scenarios.kinds import ScenarioError
from engram.scenarios.scenario import ImagePart, Scenario, count_training_images, mix_tasks, prepare_images, view_rows
from engram.scenarios.task import Pixels, Task, Tasks


@dataclass(frozen=True, eq=False, kw_only=True)
class Permute(Scenario):
    """Each task has all classes of one dataset, with its own permutation of the pixels.

    The padded image is permuted, including its border; the channels of a pixel stay together. `task`: each task has a
    head of all classes. `domain`: one head for all tasks. `class`: each permuted class is a new class. `iid`: each
    task has all permutations.
    """

    name = "permuted"
    make = "permute"

    permutations: int = 10
    """Number of tasks."""
    identity_first: bool = True
    """Whether the first task keeps the original order of the pixels."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.permutations) is not int or self.permutations < 2:
            raise ScenarioError(
                f"permutations {self.permutations!r}: a scenario needs two or more tasks; give a whole number"
            )
        check_values(self)

    def sizes(self) -> list[int]:
        return [int(count_training_images(self.images[0], self.held_out).sum())] * self.permutations

    def tasks(self, seed: int = 0, device: torch.device | str = "cpu") -> Tasks:
        (images,) = self.images
        train, test, scaling = prepare_images(self, images, device)
        channels, height, width = images.shape
        shape = (channels, height + 2 * self.pad, width + 2 * self.pad)
        n, k = shape[1] * shape[2], images.n_classes
        shared = self.kind in ("domain", "iid")

        def data_of(part: ImagePart, what: str, task: int, permutation: torch.Tensor | None) -> Pixels:
            outputs = part.y[part.rows] + (0 if shared else k * task)
            return view_rows(part, part.rows, outputs, task, scaling, what, permutation)

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
            return mix_tasks(tasks, seed, images.classes, shape)
        heads = tuple(slice(0, k) if shared else slice(k * i, k * (i + 1)) for i in range(self.permutations))
        return Tasks(tuple(tasks), self.kind, heads, k if shared else k * self.permutations, shape)


def permute(images: Images, **options: Any) -> Permute:
    """Create a scenario of permuted images; the options are the fields of `Permute`."""
    return Permute(images=(images,), **options)
