"""Blend: neighbouring tasks overlap, and the learner is not told where one ends and the next begins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from engram.core.streams import stream
from engram.core.validation import is_number
from engram.scenarios.kinds import ScenarioError
from engram.scenarios.permute import Permute
from engram.scenarios.queue import Queue
from engram.scenarios.rotate import Rotate
from engram.scenarios.scenario import Scenario
from engram.scenarios.split import Split
from engram.scenarios.stream import Plan, Stream, cut_into_batches
from engram.scenarios.task import Tasks
from engram.scenarios.transform import Transform


@dataclass(frozen=True)
class Overlap(Stream):
    """Shows tasks that overlap. Every image is shown once per epoch of its task."""

    width: float
    seed: int

    def plan(self, tasks: Tasks, lengths: Sequence[int], batch: int, drop_last: bool = False) -> Plan:
        task_of_sample = draw_tasks(lengths, self.width, self.seed)
        rows, before = torch.empty_like(task_of_sample), 0
        for task, length in zip(tasks, lengths, strict=True):
            n, rng = len(task.train), stream(self.seed, "blend order", task.index)
            epochs = [torch.randperm(n, generator=rng) for _ in range(math.ceil(length / n))]
            rows[task_of_sample == task.index] = before + torch.cat(epochs)[:length]
            before += n
        sizes = cut_into_batches(len(rows), batch, drop_last)
        ends = tuple(min(math.ceil(end / batch), len(sizes)) for end in accumulate(lengths))
        return Plan(rows[: sum(sizes)], sizes, ends)


def draw_tasks(lengths: Sequence[int], width: float, seed: int) -> Tensor:
    """The task of each sample of a stream, (samples,).

    The overlap of two tasks is centred on their boundary and is `width` times the shorter one long. In it the
    probability of the later task rises linearly from 0 to 1: two samples at the same distance from the boundary change
    places with probability ½ − distance / overlap, so that each task keeps exactly its number of samples.
    """
    found = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    for i, ((here, following), end) in enumerate(zip(pairwise(lengths), accumulate(lengths), strict=False)):
        overlap = width * min(here, following)
        distance = torch.arange(max(0, math.ceil((overlap - 1) / 2)), dtype=torch.float64) + 0.5
        drawn = torch.rand(len(distance), generator=stream(seed, "blend", i), dtype=torch.float64)
        swapped = (drawn < 0.5 - distance / overlap).nonzero().squeeze(1)
        found[end - 1 - swapped] = i + 1
        found[end + swapped] = i
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class Blurred:
    """What blurred recipes add to the recipe that they inherit from as well."""

    width: float = 0.5
    """Overlap of neighbouring tasks, as a share of the shorter one; 0: tasks follow each other sharply, but the learner
    is not told where."""

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]
        if not is_number(self.width) or not 0 <= self.width <= 1:
            raise ScenarioError(f"width {self.width!r} is out of range; give a share from 0 to 1")

    def tasks(self, seed: int = 0, device: torch.device | str = "cpu") -> Tasks:
        tasks: Tasks = super().tasks(seed, device)  # type: ignore[misc]
        return replace(tasks, stream=Overlap(self.width, seed))


@dataclass(frozen=True, eq=False, kw_only=True)
class BlurrySplit(Blurred, Split):
    """Split tasks that overlap, without boundaries."""

    name = "blurry-split"


@dataclass(frozen=True, eq=False, kw_only=True)
class BlurryPermute(Blurred, Permute):
    """Permuted tasks that overlap, without boundaries."""

    name = "blurry-permuted"
    make = "blurry-permuted"


@dataclass(frozen=True, eq=False, kw_only=True)
class BlurryRotate(Blurred, Rotate):
    """Rotated tasks that overlap, without boundaries."""

    name = "blurry-rotated"


@dataclass(frozen=True, eq=False, kw_only=True)
class BlurryTransform(Blurred, Transform):
    """Transformed tasks that overlap, without boundaries."""

    name = "blurry-transformed"


@dataclass(frozen=True, eq=False, kw_only=True)
class BlurryQueue(Blurred, Queue):
    """Datasets one after the other whose tasks overlap, without boundaries."""

    name = "blurry-queue"


RECIPES: dict[type[Scenario], type[Scenario]] = {
    cls.__mro__[2]: cls for cls in (BlurrySplit, BlurryPermute, BlurryRotate, BlurryTransform, BlurryQueue)
}
"""Each recipe, and the one that blurs it."""


def blend(scenario: Scenario, width: float = Blurred.width) -> Scenario:
    """The scenario with tasks that overlap, shown to a learner that is not told where one ends and the next begins.

    Args:
        scenario: What `engram.split`, `engram.rotate` and the like return.
        width: Overlap of neighbouring tasks, as a share of the shorter one, from 0 to 1.
    """
    if isinstance(scenario, Blurred):
        return replace(scenario, width=width)  # type: ignore[call-arg]
    if type(scenario) not in RECIPES:
        raise ScenarioError(
            f"{type(scenario).__name__} cannot be blended; give one of {', '.join(c.__name__ for c in RECIPES)}. A "
            "recipe of your own is blurred by a class that inherits from engram.scenarios.blend.Blurred and from it"
        )
    values: dict[str, Any] = {f.name: getattr(scenario, f.name) for f in fields(scenario)}
    return RECIPES[type(scenario)](**values, width=width)  # type: ignore[call-arg]
