"""Maximally interfered retrieval."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engram.learning.learner import Learner
from engram.methods._stored import StoredReplay, check_image_count, losses_of
from engram.scenarios.task import Batch


@dataclass
class MIR(StoredReplay):
    """Maximally interfered retrieval: replays images that the current step would harm most (Aljundi et al., 2019)."""

    title = "MIR"
    family = "rehearsal"
    look = ("red", "^", "--")

    replay: int = 10
    """Images replayed per step: of the candidates, those whose loss a step on the new batch would raise most."""
    candidates: int = 50
    """Images drawn per step: of past tasks, or of the whole stream if the learner is not told where tasks end."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_image_count("candidates", self.candidates)

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        drawn = self.buffer.draw(self.candidates, past=learner.told)
        if drawn is None:
            return learner.loss(batch)
        rows = interference(learner, batch, drawn).topk(min(self.replay, len(drawn.y))).indices
        return learner.loss(batch) + learner.loss(drawn.take(rows))


@torch.no_grad()
def interference(learner: Learner, batch: Batch, drawn: Batch) -> Tensor:
    """How much a plain gradient step on the batch would raise the loss of each drawn image."""
    before = losses_of(learner, learner.logits(drawn.x, drawn.t), drawn)
    weights = [p.clone() for p in learner.params]
    for p, gradient in zip(learner.params, learner.gradients(batch), strict=True):
        p.sub_(gradient, alpha=learner.lr)
    after = losses_of(learner, learner.logits(drawn.x, drawn.t), drawn)
    for p, weight in zip(learner.params, weights, strict=True):
        p.copy_(weight)
    return after - before
