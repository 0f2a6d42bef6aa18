"""Blend: neighbouring tasks overlap, and the learner is not told where one ends and the next begins."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor

from engram.core.registry import SCENARIOS
from engram.core.streams import stream
from engram.core.validation import is_number
from engram.scenarios.kinds import ScenarioError
from engram.scenarios.scenario import Scenario
from engram.scenarios.stream import Plan, Stream, cut_into_batches
from engram.scenarios.task import Tasks


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
    """Neighbouring tasks overlap, and the learner is not told where one ends and the next begins."""

    prefix: ClassVar[str] = "blurry-"
    requires: ClassVar[str] = "boundaries"
    """What a recipe has to have, so that it can be blurred."""
    boundaries: ClassVar[bool] = False
    varies: ClassVar[type[Scenario]]
    """The recipe that is blurred."""

    width: float = 0.5
    """Overlap of neighbouring tasks, as a share of the shorter one; 0: tasks follow each other sharply, but the learner
    is not told where."""

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]
        if not is_number(self.width) or not 0 <= self.width <= 1:
            raise ScenarioError(f"width {self.width!r} is out of range; give a share from 0 to 1")

    def tasks(self, seed: int = 0, device: torch.device | str = "cpu") -> Tasks:
        tasks: Tasks = super().tasks(seed, device)  # type: ignore[misc]
        if tasks.stream is not None:
            raise ScenarioError(f"{SCENARIOS.name_of(self.varies)} is a stream without boundaries already")
        return replace(tasks, stream=Overlap(self.width, seed))

    def __reduce__(self) -> tuple[Any, ...]:
        """Its class is made, not written: a copy, also in another process, is blended anew."""
        return create_blurred, (self.varies, values_of_fields(self))

    @classmethod
    def variant_of(cls, recipe: type[Scenario]) -> type[Scenario]:
        """The class of a recipe whose tasks are those of another one, and overlap."""
        return make_blurred(recipe)


@cache
def make_blurred(recipe: type[Scenario]) -> type[Scenario]:
    """The class that blurs a recipe: the recipe's own fields and kinds, and a width."""
    name = SCENARIOS.name_of(recipe)
    if not recipe.boundaries:
        raise ScenarioError(f"{name} is a stream without boundaries already; it cannot be blended")
    if any(f.name == "width" for f in fields(recipe)):
        raise ScenarioError(f"{name} has a field width of its own; give it another name, so that it can be blended")
    blurry = f"{SCENARIOS.prefix}{name}"
    stated = {"__module__": __name__, "__doc__": Blurred.__doc__, "varies": recipe, "name": blurry}
    made = type(f"{Blurred.__name__}{recipe.__name__}", (Blurred, recipe), stated)
    return dataclass(frozen=True, eq=False, kw_only=True)(made)


def create_blurred(recipe: type[Scenario], values: Mapping[str, Any]) -> Scenario:
    """A blurred recipe with these values of its fields."""
    return make_blurred(recipe)(**values)


def values_of_fields(scenario: Any) -> dict[str, Any]:
    return {f.name: getattr(scenario, f.name) for f in fields(scenario)}


def blend(scenario: Scenario, width: float = Blurred.width) -> Scenario:
    """The scenario with tasks that overlap, shown to a learner that is not told where one ends and the next begins.

    Args:
        scenario: What `engram.split`, `engram.rotate` and the like return, or a recipe of your own.
        width: Overlap of neighbouring tasks, as a share of the shorter one, from 0 to 1.
    """
    if isinstance(scenario, Blurred):
        return replace(scenario, width=width)  # type: ignore[call-arg]
    if not isinstance(scenario, Scenario):
        raise ScenarioError(f"{reprlib.repr(scenario)} is not a scenario; give engram.split(images), say")
    return create_blurred(type(scenario), {**values_of_fields(scenario), "width": width})
