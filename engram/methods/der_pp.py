"""Dark experience replay++."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from engram.learning.learner import Learner
from engram.learning.method import Log
from engram.methods._stored import check_coefficients
from engram.methods.der import DER
from engram.scenarios.task import Batch


@dataclass
class DERpp(DER):
    """Dark experience replay++: images are replayed with the logits and the labels that they had.

    Buzzega et al., 2020.
    """

    title = "DER++"
    family = "rehearsal"
    look = ("blue", "v", "--")

    beta: Annotated[float, Log(0.1, 2)] = 1.0
    """Coefficient of the cross-entropy on replayed labels."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_coefficients(beta=self.beta)

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        loss = super().loss(learner, batch)
        if self.beta == 0 or (old := self.buffer.draw(self.replay)) is None:  # a second, independent draw
            return loss
        return loss + self.beta * learner.loss(old)
