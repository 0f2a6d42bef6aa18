"""Dark experience replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor
from torch.nn.functional import mse_loss

from engram.learning.learner import Learner
from engram.learning.method import Log
from engram.methods._stored import StoredReplay, check_coefficients
from engram.scenarios.task import Batch


@dataclass
class DER(StoredReplay):
    """Dark experience replay: images are replayed with the logits that they had (Buzzega et al., 2020)."""

    title = "DER"
    family = "rehearsal"
    look = ("blue", "^", "-")

    alpha: Annotated[float, Log(0.1, 2)] = 0.5
    """Coefficient of the distance to the stored logits (mean over outputs)."""

    keeps_logits = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_coefficients(alpha=self.alpha)

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        logits = learner.logits(batch.x, batch.t)
        self._logits = logits.detach()
        return self.add_distance(learner, learner.loss_of(logits, batch))

    def add_distance(self, learner: Learner, loss: Tensor) -> Tensor:
        """The loss and the weighted distance to the stored logits of a draw; the loss alone if nothing is stored."""
        if self.alpha == 0 or (old := self.buffer.draw(self.replay)) is None:
            return loss
        return loss + self.alpha * mse_loss(learner.logits(old.x, old.t), old.extra["logits"])

    def after_step(self, learner: Learner, batch: Batch) -> None:
        self.buffer.add(batch, logits=self._logits)  # from before the step
