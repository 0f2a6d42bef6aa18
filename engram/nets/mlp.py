"""The multi-layer perceptron."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from engram.nets.net import HeadInit, Layer, Net, Shape, check_head_init, initialize_heads

Init = Literal["torch", "xavier"]


@dataclass(frozen=True, init=False)
class MLP(Net):
    """Linear layers with ReLU between them, PyTorch's default initialisation: `MLP(400, 400)`."""

    hidden: tuple[int, ...] = (400, 400)
    """Sizes of the hidden layers."""
    heads: HeadInit = "random"
    """Initial output layer: PyTorch's default, or all zeros (as in Zenke et al.)."""
    init: Init = "torch"
    """Initial layers: PyTorch's default, or weights uniform within ±√(6 / (inputs + outputs)) and biases 0 (Glorot &
    Bengio, 2010)."""

    def __init__(self, *hidden: int, heads: HeadInit = "random", init: Init = "torch") -> None:
        sizes = hidden or (400, 400)
        if not all(isinstance(size, int) and size > 0 for size in sizes):
            raise ValueError(f"hidden {' '.join(map(str, sizes))}: layer sizes are whole numbers above 0")
        check_head_init(heads)
        object.__setattr__(self, "hidden", sizes)
        if init not in get_args(Init):
            raise ValueError(f"init {init!r} is unknown; choose from {', '.join(get_args(Init))}")
        object.__setattr__(self, "heads", heads)
        object.__setattr__(self, "init", init)

    def build(self, shape: Shape, outputs: int) -> MLPNet:
        net = MLPNet((math.prod(shape), *self.hidden, outputs))
        if self.init == "xavier":
            for layer in net.layers:
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)
        initialize_heads(net.layers[-1], self.heads)
        return net

    def layers(self, shape: Shape, outputs: int) -> list[Layer]:
        sizes = (math.prod(shape), *self.hidden, outputs)
        hidden = [Layer("linear, ReLU", (b,), a * b + b) for a, b in pairwise(sizes[:-1])]
        return [*hidden, Layer("outputs", (outputs,), sizes[-2] * outputs + outputs)]


class MLPNet(nn.Module):
    """The network that `MLP` describes."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        for i, (a, b) in enumerate(pairwise(sizes), 1):
            self.add_module(f"layer{i}", nn.Linear(a, b))

    @property
    def layers(self) -> list[nn.Linear]:
        return list(self.children())  # type: ignore[arg-type]

    @property
    def output_layer(self) -> str:
        """The name of the layer whose output is the network's."""
        return f"layer{len(self._modules)}"

    def forward(self, x: Tensor) -> Tensor:
        """(batch, pixels) or (batch, channels, height, width) → (batch, outputs)"""
        out: Tensor = self.layers[-1](self.features(x))
        return out

    def features(self, x: Tensor) -> Tensor:
        """(batch, pixels) or (batch, channels, height, width) → (batch, last hidden)"""
        x = x.flatten(1)
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return x


def hidden_layers(net: nn.Module) -> tuple[int, ...]:
    """Sizes of a perceptron's hidden layers; refused for other networks."""
    perceptron = getattr(net, "classifier", net)  # of a network that replays through feedback
    if not isinstance(perceptron, MLPNet) or len(perceptron.layers) < 2:
        raise ValueError(
            f"a generator mirrors the hidden layers of an MLP, and the network is {type(net).__name__}; give mlp"
        )
    return tuple(layer.out_features for layer in perceptron.layers[:-1])
