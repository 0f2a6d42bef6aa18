"""A coefficient without an annotation, which is no field."""

from dataclasses import dataclass

import engram as eg


@dataclass
class NoAnnotation(eg.Method):
    """A coefficient without an annotation, which is no field."""

    coef = 1.0

    def loss(self, learner, batch):
        return self.coef * learner.loss(batch)
