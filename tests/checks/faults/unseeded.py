"""Fault 2: noise from a generator that nobody seeds."""

from dataclasses import dataclass

import numpy as np
import torch

from engram import Method


@dataclass
class Unseeded(Method):
    """Plain training on noisy images."""

    def loss(self, learner, batch):
        noise = torch.from_numpy(np.random.default_rng().normal(size=tuple(batch.x.shape))).float()
        return learner.loss(batch._replace(x=batch.x + 0.1 * noise))
