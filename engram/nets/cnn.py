"""The convolutional network of the paper's long queue (its Table 7)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d

from engram.nets.net import HeadInit, Layer, Net, Shape, check_head_init, initialize_heads

KERNEL, DENSE = 5, 256
CONVOLUTIONS = ((10, 2, True), (20, 2, True), (40, 0, False), (70, 2, False))
"""Maps, padding and whether pooling by 2 follows. The paddings are those that the printed activation sizes force:
28 → 14 → 7 → 3 → 3."""
LEAST = 20
"""Pixels that an image needs on each side for the third convolution to fit."""


@dataclass(frozen=True)
class CNN(Net):
    """Four convolutions of 5×5 with 10, 20, 40 and 70 maps and a dense layer of 256, ReLU after each; no dropout.

    The dense layer takes what images of any shape leave: 630 values of 28×28 pixels, 1120 of 32×32.
    """

    heads: HeadInit = "random"
    """Initial output layer: PyTorch's default, or all zeros (as in Zenke et al.)."""

    def __post_init__(self) -> None:
        check_head_init(self.heads)

    def build(self, shape: Shape, outputs: int) -> CNNNet:
        net = CNNNet(shape, outputs)
        initialize_heads(net.outputs, self.heads)
        return net

    def layers(self, shape: Shape, outputs: int) -> list[Layer]:
        layers = []
        channels = shape[0]
        for (maps, padding, pooled), (convolved, left) in zip(CONVOLUTIONS, feature_maps(shape), strict=True):
            parameters = maps * channels * KERNEL**2 + maps
            layers.append(Layer(f"convolution {KERNEL}×{KERNEL}, pad {padding}, ReLU", convolved, parameters))
            if pooled:
                layers.append(Layer("max-pooling 2×2", left, 0))
            channels = maps
        inputs = math.prod(feature_maps(shape)[-1][1])
        layers.append(Layer("linear, ReLU", (DENSE,), inputs * DENSE + DENSE))
        return [*layers, Layer("outputs", (outputs,), DENSE * outputs + outputs)]


def check_shape(shape: Shape) -> None:
    if len(shape) != 3:
        raise ValueError(f"net cnn takes images, and the data are arrays of {'×'.join(map(str, shape))}; give net mlp")
    if min(shape[1:]) < LEAST:
        raise ValueError(
            f"images of {shape[1]}×{shape[2]} pixels are too small for net cnn; it takes {LEAST}×{LEAST} or more"
        )


def feature_maps(shape: Shape) -> list[tuple[Shape, Shape]]:
    """(maps, height, width) after each convolution, and after the pooling that may follow it."""
    check_shape(shape)
    _, height, width = shape
    sizes: list[tuple[Shape, Shape]] = []
    for maps, padding, pooled in CONVOLUTIONS:
        height, width = (side + 2 * padding - KERNEL + 1 for side in (height, width))
        convolved = (maps, height, width)
        if pooled:
            height, width = height // 2, width // 2
        sizes.append((convolved, (maps, height, width)))
    return sizes


class CNNNet(nn.Module):
    """The network that `CNN` describes."""

    output_layer = "outputs"

    def __init__(self, shape: Shape, outputs: int) -> None:
        super().__init__()
        check_shape(shape)
        self.shape = shape
        self.convolutions = nn.ModuleList()
        channels = shape[0]
        for maps, padding, _ in CONVOLUTIONS:
            layer = nn.Conv2d(channels, maps, KERNEL, padding=padding)
            # activations follow the weights' layout: a step takes three quarters of the time, by pooling above all
            layer.weight.data = layer.weight.data.contiguous(memory_format=torch.channels_last)
            self.convolutions.append(layer)
            channels = maps
        self.dense = nn.Linear(math.prod(feature_maps(shape)[-1][1]), DENSE)
        self.outputs = nn.Linear(DENSE, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, pixels) → (batch, outputs)"""
        x = x.view(len(x), *self.shape)
        for convolution, (_, _, pooled) in zip(self.convolutions, CONVOLUTIONS, strict=True):
            x = convolution(x)
            if pooled:  # before ReLU, which the maximum commutes with: a quarter of the work
                x = max_pool2d(x, 2)
            x = torch.relu(x)
        out: Tensor = self.outputs(torch.relu(self.dense(x.flatten(1))))
        return out
