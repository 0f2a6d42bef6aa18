"""GDumb: greedy sampler and dumb learner."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engram.learning.buffer import Rule
from engram.learning.learner import Learner
from engram.methods._stored import KeepsImages
from engram.scenarios.task import Data, Task, Tasks


@dataclass
class GDumb(KeepsImages):
    """For each task the network is trained from scratch, on a class-balanced buffer alone (Prabhu et al., 2020)."""

    title = "GDumb"
    family = "rehearsal"
    look = ("grey", "X", "-.")

    capacity: int = 500
    """Images in the buffer."""
    passes: int = 16
    """How often an epoch goes over the buffer: an epoch of the protocol is long for so few images."""

    working = ("initial",)
    needs = frozenset({"boundaries", "past data"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.passes < 1:
            raise ValueError(f"passes {self.passes} is out of range; give 1 or more")

    def rule(self) -> Rule:
        return "balanced"

    def start(self, learner: Learner, tasks: Tasks) -> None:
        super().start(learner, tasks)
        self.initial = copy.deepcopy(learner.net.state_dict())

    def begin_task(self, learner: Learner, task: Task) -> None:
        """One pass over the task fills the buffer; the network and its optimiser begin anew."""
        order = torch.randperm(len(task.train), generator=learner.rng("stream"))
        for rows in torch.split(order.to(learner.device), 1000):
            self.buffer.add(task.train.batch(rows))
        learner.net.load_state_dict(self.initial)
        learner.new_optimizer()

    def data(self, task: Task) -> Data:
        return self.passes * self.buffer.data()

    def pass_sizes(self, images: Sequence[int]) -> list[int]:
        return [self.passes * min(self.capacity, sum(images[: i + 1])) for i in range(len(images))]
