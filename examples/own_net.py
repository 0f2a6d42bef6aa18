"""A network of your own: a perceptron with layer normalisation and a choice of activation.

engram run split-mnist/class ewc --net own-net --file examples/own_net.py --width 100 --activation gelu
"""

import math
from dataclasses import dataclass
from typing import Literal

from torch import nn

import engram as eg


@dataclass(frozen=True)
class Normalized(eg.Net):
    """Two hidden layers, each normalised before its activation."""

    width: int = 200
    """Units per hidden layer."""
    activation: Literal["relu", "gelu"] = "relu"
    """What follows each normalisation."""

    def build(self, shape, outputs):
        act = {"relu": nn.ReLU, "gelu": nn.GELU}[self.activation]
        pixels, w = math.prod(shape), self.width
        hidden = [nn.Linear(pixels, w), nn.LayerNorm(w), act(), nn.Linear(w, w), nn.LayerNorm(w), act()]
        return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(w, outputs))
