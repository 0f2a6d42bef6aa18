"""Classifiers on features of a network that is not trained: what they share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from engram.learning.learner import Learner, in_eval_mode
from engram.learning.method import Method
from engram.methods._stored import output_layer_of
from engram.scenarios.task import Batch, Tasks


@dataclass
class FrozenFeatures(Method):
    """Adds up statistics of the features of each image, once, and classifies by them. No gradient is taken.

    Sums are kept in double precision, so that the order in which images come does not matter.
    """

    on: Literal["features", "inputs"] = "features"
    """What is classified: the input of the network's output layer, or the network's input itself."""

    gradient_steps = False

    def start(self, learner: Learner, tasks: Tasks) -> None:
        with in_eval_mode(learner.net), torch.no_grad():  # also finds out whether the network has features
            x = torch.zeros(2, *tasks.shape, device=learner.device).flatten(1)
            width = self.features(learner, x, torch.zeros(2, dtype=torch.long, device=x.device)).shape[1]
        self.counts = torch.zeros(tasks.outputs, dtype=torch.long, device=learner.device)
        self.begin_sums(learner, width, tasks.outputs)

    @torch.no_grad()
    def after_step(self, learner: Learner, batch: Batch) -> None:
        members = one_hot(batch.y, len(self.counts))  # (batch, outputs)
        self.add_to_sums(self.features(learner, batch.x, batch.t), batch.y, members)
        self.counts += members.sum(0)
        vars(self).pop("_classifier", None)

    @torch.no_grad()
    def scores(self, learner: Learner, x: Tensor, task: int | None) -> Tensor:
        """−∞ for classes that have not been seen."""
        t = None if task is None else torch.full((len(x),), task, device=x.device)
        if not hasattr(self, "_classifier"):
            self._classifier = self.solve()
        rated = self.rate(self.features(learner, x, t), *self._classifier)
        return rated.masked_fill(self.counts == 0, float("-inf"))

    def features(self, learner: Learner, x: Tensor, t: Tensor | None) -> Tensor:
        """(batch, …) → (batch, width), as at test time."""
        if self.on == "inputs":
            return x.flatten(1).to(sum_type(x.device))
        with in_eval_mode(learner.net):
            return learner.features(x, t).flatten(1).to(sum_type(x.device))

    def width(self, net: nn.Module, pixels: int) -> int:
        """Of the features."""
        return output_layer_of(net)[0] if self.on == "features" else pixels

    @abstractmethod
    def begin_sums(self, learner: Learner, width: int, outputs: int) -> None:
        """Makes what is kept, before the first image."""

    @abstractmethod
    def add_to_sums(self, features: Tensor, y: Tensor, members: Tensor) -> None:
        """Adds a batch. `members` is y as one-hot rows; `counts` are those before the batch."""

    @abstractmethod
    def solve(self) -> tuple[Tensor, ...]:
        """The classifier that follows from the sums."""

    @abstractmethod
    def rate(self, features: Tensor, *classifier: Tensor) -> Tensor:
        """(batch, outputs): the larger, the likelier."""


def sum_type(device: torch.device) -> torch.dtype:
    """Double precision, except on Apple's GPUs, which have none."""
    return torch.float32 if device.type == "mps" else torch.float64
