"""A small convolutional network with batch normalisation."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, max_pool2d

from engram.nets.net import HeadInit, Net, Shape, check_head_init, initialize_heads


@dataclass(frozen=True)
class ConvNet(Net):
    """Three convolutions of 3×3, each with batch normalisation, ReLU and pooling by 2; then the mean over places.

    It takes images of any size. Statistics of the normalisation move with training batches alone.
    """

    width: int = 32
    """Maps of the first convolution; the others have twice and four times as many."""
    dropout: float = 0.0
    """Share of features that is dropped in training, just before the output layer."""
    heads: HeadInit = "random"
    """Initial output layer: PyTorch's default, or all zeros (as in Zenke et al.)."""

    def __post_init__(self) -> None:
        check_head_init(self.heads)
        check_width(self.width)
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout {self.dropout} is out of range; give 0 or more, below 1")

    def build(self, shape: Shape, outputs: int) -> nn.Module:
        net = ConvNetModule(shape, outputs, self.width, self.dropout)
        initialize_heads(net.outputs, self.heads)
        return net


def check_width(width: int) -> None:
    if isinstance(width, bool) or not isinstance(width, int) or width < 1:
        raise ValueError(f"width {width} is out of range; give a whole number, 1 or more")


class ConvNetModule(nn.Module):
    """The network that `ConvNet` describes."""

    output_layer = "outputs"

    def __init__(self, shape: Shape, outputs: int, width: int, dropout: float) -> None:
        super().__init__()
        self.shape = shape
        maps = (shape[0], width, 2 * width, 4 * width)
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1, bias=False) for a, b in pairwise(maps))
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for b in maps[1:])
        self.dropout = nn.Dropout(dropout)
        self.outputs = nn.Linear(maps[-1], outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, pixels) or (batch, channels, height, width) → (batch, outputs)"""
        x = x.view(len(x), *self.shape)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = max_pool2d(torch.relu(norm(convolution(x))), 2, ceil_mode=True)  # (batch, maps, height/2, width/2)
        out: Tensor = self.outputs(self.dropout(adaptive_avg_pool2d(x, 1).flatten(1)))
        return out
