"""Experience replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from engram.learning.learner import Learner
from engram.learning.method import Each
from engram.methods._stored import StoredReplay, join_batches
from engram.scenarios.task import Batch


@dataclass
class ER(StoredReplay):
    """Experience replay: next to each batch, images from a reservoir (Ratcliff, 1990; Chaudhry et al., 2019).

    As in the code of Buzzega et al. (2020).
    """

    title = "ER"
    family = "rehearsal"
    look = ("green", "^", "-")
    target_kinds = ("classes", "values", "labels")

    mixing: Annotated[Literal["union", "sum"], Each()] = "union"
    """The loss: its mean over new and replayed images together, or the sum of the two means."""

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        old = self.buffer.draw(self.replay)
        if self.mixing == "union" or old is None:
            return learner.loss(join_batches(batch, old))
        return learner.loss(batch) + learner.loss(old)
