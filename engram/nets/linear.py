"""One linear layer: softmax regression on pixels or features."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import nn

from engram.nets.net import HeadInit, Net, Shape, check_head_init, initialize_heads


@dataclass(frozen=True)
class Linear(Net):
    """The output layer alone: for features of another network, and as a floor for deeper ones."""

    heads: HeadInit = "random"
    """Initial output layer: PyTorch's default, or all zeros (as in Zenke et al.)."""

    def __post_init__(self) -> None:
        check_head_init(self.heads)

    def build(self, shape: Shape, outputs: int) -> nn.Module:
        layer = nn.Linear(math.prod(shape), outputs)
        initialize_heads(layer, self.heads)
        return nn.Sequential(nn.Flatten(), layer)
