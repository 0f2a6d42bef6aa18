"""ResNet-18 (He et al., 2016) in the form that is common for small images such as CIFAR's."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d

from engram.nets.convnet import check_width
from engram.nets.net import HeadInit, Net, Shape, check_head_init, initialize_heads

STRIDES = (1, 2, 2, 2)
"""Of the first block of each stage; every stage has twice the maps of the one before."""


@dataclass(frozen=True)
class ResNet18(Net):
    """A first convolution of 3×3 without pooling, then four stages of two basic blocks; batch normalisation throughout.

    11.17 million parameters with three channels and 10 outputs. GEM's slim form (Lopez-Paz & Ranzato, 2017) has width
    20. Layers start as PyTorch starts them.
    """

    small = MappingProxyType({"width": 4})

    width: int = 64
    """Maps of the first stage."""
    heads: HeadInit = "random"
    """Initial output layer: PyTorch's default, or all zeros (as in Zenke et al.)."""

    def __post_init__(self) -> None:
        check_head_init(self.heads)
        check_width(self.width)

    def build(self, shape: Shape, outputs: int) -> nn.Module:
        net = ResNet18Module(shape, outputs, self.width)
        initialize_heads(net.outputs, self.heads)
        return net


class BasicBlock(nn.Module):
    """Two convolutions of 3×3 beside a shortcut, which is a convolution of 1×1 if the shape changes."""

    def __init__(self, inputs: int, maps: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, maps, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(maps)
        self.conv2 = nn.Conv2d(maps, maps, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(maps)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != maps:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, maps, 1, stride, bias=False), nn.BatchNorm2d(maps))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, height, width) → (batch, maps, height/stride, width/stride)"""
        inner = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(inner + self.shortcut(x))


class ResNet18Module(nn.Module):
    """The network that `ResNet18` describes."""

    output_layer = "outputs"

    def __init__(self, shape: Shape, outputs: int, width: int) -> None:
        super().__init__()
        self.shape = shape
        self.conv = nn.Conv2d(shape[0], width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        blocks, inputs = [], width
        for stage, stride in enumerate(STRIDES):
            maps = width * 2**stage
            blocks += [BasicBlock(inputs, maps, stride), BasicBlock(maps, maps, 1)]
            inputs = maps
        self.blocks = nn.Sequential(*blocks)
        self.outputs = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, pixels) or (batch, channels, height, width) → (batch, outputs)"""
        x = torch.relu(self.norm(self.conv(x.view(len(x), *self.shape))))
        out: Tensor = self.outputs(adaptive_avg_pool2d(self.blocks(x), 1).flatten(1))
        return out
