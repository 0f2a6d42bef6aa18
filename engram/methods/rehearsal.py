"""Naive rehearsal: random images of past tasks are kept and trained on with the new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn

from engram.learning.learner import Learner
from engram.learning.method import Each, Method
from engram.scenarios.task import Data, Joined, Pixels, Scaling, Task, Tasks


@dataclass
class Rehearsal(Method):
    """A buffer of random images, equally many of each past task. Paper row: "Naive rehearsal".

    The default of 1100 images is the paper's: as many floats as one copy of the hidden weights and one importance
    each, 2 · (1024 · 400 + 400 · 400), rounded.
    """

    title = "Naive rehearsal"
    family = "rehearsal"
    look = ("green", "o", "-")
    target_kinds = ("classes", "values", "labels")
    equal_memory = True

    capacity: int = 1100
    """Images in the buffer, for the whole sequence. Not searched: methods are compared at equal memory."""
    mixing: Annotated[Literal["shuffled", "balanced"], Each()] = "shuffled"
    """New images and the repeated buffer in one shuffled stream (the authors' code), or half of every batch from
    each (the paper's text; an epoch then has each new image once)."""

    kept = ("pixels", "labels", "owners", "scalings")
    uncounted = ("owners", "scalings")
    needs = frozenset({"boundaries", "past data"})
    replays = True
    sized_by_budget = True
    storage: ClassVar[torch.dtype] = torch.float32
    """How pixels are stored."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.capacity, int) or self.capacity < 1:
            raise ValueError(f"capacity {self.capacity} is out of range; give 1 image or more")

    def start(self, learner: Learner, tasks: Tasks) -> None:
        if self.mixing == "balanced":
            check_halves(learner.training.batch)
        if self.storage == torch.uint8:
            for task in tasks:
                task.train.one_scaling()
        self.pixels: list[Tensor] = []  # a slot each: (images, pixels)
        self.labels: list[Tensor] = []
        self.owners: list[int] = []
        self.scalings: list[tuple[list[float], list[float]]] = []

    def data(self, task: Task) -> Data:
        if not self.filled():
            return task.train
        if self.mixing == "balanced":
            return HalfAndHalf(task.train, self.memory())
        return task.train + max(len(task.train) // self.capacity, 1) * self.memory()

    def pass_sizes(self, images: Sequence[int]) -> list[int]:
        found: list[int] = []
        stored: list[int] = []  # a slot each
        for new in images:
            if not sum(stored):
                found.append(new)
            else:
                mixed = new + max(new // self.capacity, 1) * sum(stored)
                found.append(2 * new if self.mixing == "balanced" else mixed)
            share = min(new, self.capacity // (len(stored) + self.slots()))
            stored = [min(n, share) for n in stored] + [share] * self.slots()
        return found

    def memory(self) -> Data:
        """The buffer as data."""
        return Joined(self.filled())

    def filled(self) -> list[Pixels]:
        """The slots that hold images, as data each."""
        slots = zip(self.pixels, self.labels, self.owners, self.scalings, strict=True)
        return [
            Pixels(
                x,
                y if y.is_floating_point() else y.long(),
                owner,
                Scaling(*(torch.tensor(part, device=x.device) for part in scaling)),
            )
            for x, y, owner, scaling in slots
            if len(x)
        ]

    def end_task(self, learner: Learner, task: Task) -> None:
        """Every task gets its share: older ones give up their last images, of which any are as random as any."""
        rng = learner.rng("buffer")
        share = min(len(task.train), self.capacity // self.slots_sharing(learner))
        self.pixels = [x[:share].clone() for x in self.pixels]
        self.labels = [y[:share].clone() for y in self.labels]
        for _ in range(self.slots()):
            rows = torch.randperm(len(task.train), generator=rng)[:share].to(learner.device)
            batch = task.train.batch(rows)
            self.pixels.append(task.train.pixels(rows) if self.storage == torch.uint8 else batch.x)
            self.labels.append(batch.y if batch.y.is_floating_point() else batch.y.to(torch.int16))
            self.owners.append(task.index)
            scale, shift = next(task.train.leaves()).scaling
            self.scalings.append((scale.tolist(), shift.tolist()))

    def slots_sharing(self, learner: Learner) -> int:
        """Slots among which the buffer is shared out at the end of a task: all that there are then."""
        return len(self.pixels) + self.slots()

    def slots(self) -> int:
        """Parts of the buffer that each task gets, drawn independently."""
        return 1

    def kept_bytes(self, net: nn.Module, pixels: int) -> int:
        return self.capacity * self.image_bytes(pixels)

    def fit_budget(self, budget: int, tasks: Tasks) -> Rehearsal:
        slots = len(tasks) * self.slots()
        scales = slots * 2 * tasks.shape[0] * torch.float32.itemsize  # each slot keeps how its pixels are scaled
        images = max(0, budget - scales) // self.image_bytes(tasks.stored_values)
        if images < slots:
            raise ValueError(f"memory_budget {budget:,} leaves room for {images} images; {slots} or more are needed")
        return replace(self, capacity=images)

    @classmethod
    def image_bytes(cls, pixels: int) -> int:
        """Bytes that one image takes in the buffer, its label included."""
        return pixels * cls.storage.itemsize + torch.int16.itemsize


class HalfAndHalf(Joined):
    """Each epoch has the new data once; every batch is half new, half drawn from the memory at random."""

    def __init__(self, new: Data, memory: Data) -> None:
        super().__init__((new, memory))
        self.new, self.memory = new, memory

    def __len__(self) -> int:
        return 2 * len(self.new)

    def order(self, rng: torch.Generator, batch: int) -> Tensor:
        check_halves(batch)
        new = torch.randperm(len(self.new), generator=rng)
        old = torch.randint(len(self.memory), (len(new),), generator=rng) + len(self.new)
        halves = zip(torch.split(new, batch // 2), torch.split(old, batch // 2), strict=True)
        return torch.cat([half for pair in halves for half in pair])


def check_halves(batch: int) -> None:
    if batch < 2:
        raise ValueError(f"batch {batch}: half of it comes from the memory, so give 2 or more")
