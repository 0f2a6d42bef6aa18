"""A loss that is cut off from the network."""

from dataclasses import dataclass

import engram as eg


@dataclass
class LossWithoutGradient(eg.Method):
    """A loss that is cut off from the network."""

    def loss(self, learner, batch):
        return learner.loss(batch).detach()
