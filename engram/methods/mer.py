"""Meta-experience replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from engram.learning.learner import Learner, Params
from engram.learning.method import Log
from engram.methods._stored import StoredReplay, check_image_count, check_shares, join_batches, take_another_step
from engram.scenarios.task import Batch


@dataclass
class MER(StoredReplay):
    """Meta-experience replay: several steps on replayed images, each taken in part by Reptile (Riemer et al., 2019).

    As in the code of Buzzega et al. (2020).
    """

    title = "MER"
    family = "rehearsal"
    look = ("red", "v", "-.")

    draws: int = 3
    """Draws from the buffer, and steps, per batch of the stream."""
    beta: Annotated[float, Log(0.01, 1)] = 1.0
    """Share of each of these steps that is taken (β)."""
    gamma: Annotated[float, Log(0.1, 1)] = 1.0
    """Share of all of them together that is taken (γ)."""

    optimizer = "sgd"  # a share of a step is a share of its gradient

    def __post_init__(self) -> None:
        super().__post_init__()
        check_image_count("draws", self.draws)
        check_shares(beta=self.beta, gamma=self.gamma)

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        self._batches = [join_batches(batch, self.buffer.draw(self.replay)) for _ in range(self.draws)]
        self._before = weights_of(learner) if min(self.beta, self.gamma) < 1 else []
        return learner.loss(self._batches[0])

    def after_step(self, learner: Learner, batch: Batch) -> None:
        """The other steps of the batch; then the buffer sees it."""
        take_share(learner, self._before, self.beta)
        for joined in self._batches[1:]:
            start = weights_of(learner) if self.beta < 1 else []
            take_another_step(learner, learner.loss(joined))
            take_share(learner, start, self.beta)
        take_share(learner, self._before, self.gamma)
        super().after_step(learner, batch)


def weights_of(learner: Learner) -> Params:
    return [p.detach().clone() for p in learner.params]


@torch.no_grad()
def take_share(learner: Learner, start: Params, share: float) -> None:
    """Reptile (Nichol et al., 2018): θ ← start + share · (θ − start)."""
    if share < 1:
        for p, old in zip(learner.params, start, strict=True):
            p.copy_(torch.lerp(old, p, share))
