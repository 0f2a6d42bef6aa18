"""A loss that is not returned."""

from dataclasses import dataclass

import engram as eg


@dataclass
class NoLoss(eg.Method):
    """A loss that is not returned."""

    def loss(self, learner, batch):
        learner.loss(batch)
