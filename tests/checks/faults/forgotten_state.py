"""Fault 3: a counter that later tasks need is not named in `kept`."""

from dataclasses import dataclass

import torch

from engram import Method


@dataclass
class ForgottenState(Method):
    """Keeps the mean image, and forgets to say that it also keeps how many images that is."""

    kept = ("mean",)

    def start(self, learner, tasks):
        self.mean = torch.zeros(tasks.shape).flatten()
        self.seen = 0

    def kept_bytes(self, net, pixels):
        return 4 * pixels

    def after_step(self, learner, batch):
        self.seen += len(batch.y)
        self.mean += (batch.x.flatten(1).mean(0) - self.mean) * len(batch.y) / self.seen
