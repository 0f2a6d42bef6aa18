"""Permute: each task has all classes, with its own permutation of the pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from engram.core.streams import stream
from engram.core.validation import check_values
from engram.data.images import Images
from engram.scenarios._views import draw_views
from engram.scenarios.kinds import ScenarioError
from engram.scenarios.scenario import Scenario, count_training_images, prepare_images
from engram.scenarios.task import Pixels, Tasks


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
        return [int(count_training_images(self, self.images[0]).sum())] * self.permutations

    def tasks(self, seed: int = 0, device: torch.device | str = "cpu") -> Tasks:
        (images,) = self.images
        channels = images.channels
        n = math.prod(images.padded_shape(self.pad)) // channels

        def permute_task(data: Pixels, task: int) -> Pixels:
            if task == 0 and self.identity_first:
                return data
            pixel = torch.randperm(n, generator=stream(seed, "permutation", task))
            return replace(data, permutation=(pixel + n * torch.arange(channels)[:, None]).flatten().to(device))

        return draw_views(self, prepare_images(self, images, device), self.permutations, permute_task, seed)


def permute(images: Images, **options: Any) -> Permute:
    """Create a scenario of permuted images; the options are the fields of `Permute`."""
    return Permute(images=(images,), **options)
