"""Fault 4: a random stream that begins again at every step."""

from dataclasses import dataclass

import torch

from engram import Method
from engram.core.streams import stream


@dataclass
class RestartedStream(Method):
    """Plain training on noisy images, with the same noise at every step."""

    def loss(self, learner, batch):
        rng = stream(learner.seed, "noise", learner.task)
        return learner.loss(batch._replace(x=batch.x + 0.1 * torch.randn(batch.x.shape, generator=rng)))
