"""Experience replay with asymmetric cross-entropy."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import cross_entropy

from engram.learning.learner import Learner
from engram.methods._stored import StoredReplay, active_outputs
from engram.scenarios.task import Batch, Tasks


@dataclass
class ERACE(StoredReplay):
    """Experience replay in which new images compete with their own batch's classes only (Caccia et al., 2022)."""

    title = "ER-ACE"
    family = "rehearsal"
    look = ("purple", "^", "--")

    def start(self, learner: Learner, tasks: Tasks) -> None:
        if learner.training.label_smoothing:
            raise ValueError("label_smoothing: ER-ACE leaves outputs out of its loss, to which no label can be spread")
        super().start(learner, tasks)

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        old = self.buffer.draw(self.replay)
        if old is None:
            return learner.loss(batch)
        return asymmetric_loss(learner, batch) + learner.loss(old)


def asymmetric_loss(learner: Learner, batch: Batch) -> Tensor:
    """Mean cross-entropy over the outputs that are active and whose class occurs in the batch."""
    logits = learner.logits(batch.x, batch.t)
    outputs = active_outputs(learner, batch)
    present = outputs.new_zeros(outputs.shape[1]).index_fill_(0, batch.y, True)
    return cross_entropy(logits.masked_fill(~(outputs & present), float("-inf")), batch.y)
