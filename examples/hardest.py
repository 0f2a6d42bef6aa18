"""Replay of the hardest images: those with the largest loss in a larger draw from the buffer."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

import engram as eg


@dataclass
class Hardest(eg.Method):
    """Experience replay of those images in a draw that the network gets most wrong."""

    capacity: int = 200
    """Images in the buffer."""
    candidates: int = 128
    """Images per draw."""
    replay: int = 32
    """Images of the draw that are replayed: those with the largest loss."""

    kept = ("buffer",)
    needs = frozenset({"past data"})

    def start(self, learner: eg.Learner, tasks: eg.Tasks) -> None:
        self.buffer = eg.Buffer(learner, self.capacity)

    def loss(self, learner: eg.Learner, batch: eg.Batch) -> Tensor:
        loss = learner.loss(batch)
        old = self.buffer.draw(self.candidates)
        if old is None:  # the first step
            return loss
        with torch.no_grad():
            logs = torch.log_softmax(learner.logits(old.x, old.t), 1)  # (candidates, outputs)
            hardest = logs.gather(1, old.y[:, None]).squeeze(1).argsort()[: self.replay]
        return loss + learner.loss(old.take(hardest))

    def after_step(self, learner: eg.Learner, batch: eg.Batch) -> None:
        self.buffer.add(batch)

    def kept_bytes(self, net: nn.Module, pixels: int) -> int:
        return self.capacity * (pixels + 4)  # 8-bit pixels, and two bytes each for the label and the task
