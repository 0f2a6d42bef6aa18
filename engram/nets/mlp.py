"""The multi-layer perceptron, with its gradients in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from engram.nets.net import Heads, Layer, Net, Shape, check_heads, start_heads


@dataclass(frozen=True, init=False)
class MLP(Net):
    """Linear layers with ReLU between them, PyTorch's default initialisation: `MLP(400, 400)`."""

    hidden: tuple[int, ...] = (400, 400)
    """Sizes of the hidden layers."""
    heads: Heads = "random"
    """Initial output layer: PyTorch's default, or all zeros (Zenke et al.'s habit)."""

    def __init__(self, *hidden: int, heads: Heads = "random") -> None:
        sizes = hidden or (400, 400)
        if not all(isinstance(size, int) and size > 0 for size in sizes):
            raise ValueError(f"hidden {' '.join(map(str, sizes))}: layer sizes are whole numbers above 0")
        check_heads(heads)
        object.__setattr__(self, "hidden", sizes)
        object.__setattr__(self, "heads", heads)

    def build(self, shape: Shape, outputs: int) -> MLPNet:
        net = MLPNet((math.prod(shape), *self.hidden, outputs))
        start_heads(net.layers[-1], self.heads)
        return net

    def layers(self, shape: Shape, outputs: int) -> list[Layer]:
        sizes = (math.prod(shape), *self.hidden, outputs)
        hidden = [Layer("linear, ReLU", (b,), a * b + b) for a, b in pairwise(sizes[:-1])]
        return [*hidden, Layer("outputs", (outputs,), sizes[-2] * outputs + outputs)]


class MLPNet(nn.Module):
    """The network that `MLP` describes."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.layers: list[nn.Linear] = [nn.Linear(a, b) for a, b in pairwise(sizes)]
        for i, layer in enumerate(self.layers):
            self.add_module(f"layer{i + 1}", layer)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, pixels) → (batch, outputs)"""
        return linear(self.features(x), self.layers[-1].weight, self.layers[-1].bias)

    def features(self, x: Tensor) -> Tensor:
        """(batch, pixels) → (batch, last hidden)"""
        for layer in self.layers[:-1]:
            x = torch.relu_(linear(x, layer.weight, layer.bias))
        return x

    @torch.no_grad()
    def taps(self, x: Tensor, delta: Callable[[Tensor], Tensor]) -> list[tuple[Tensor, Tensor]]:
        """What back-propagation leaves at each layer: its input, and the loss's gradient at its output.

        `delta` gives the gradient at the logits. A weight's gradient is then gradientᵀ · input, and squared
        per-sample gradients are (gradient²)ᵀ · input². It calls the kernels that autograd calls, without its
        bookkeeping, so the bits are the same.
        """
        inputs = [x]
        for layer in self.layers[:-1]:
            inputs.append(torch.relu_(linear(inputs[-1], layer.weight, layer.bias)))
        g = delta(linear(inputs[-1], self.layers[-1].weight, self.layers[-1].bias))
        taps = [(inputs[-1], g)]
        for below, above in reversed(list(pairwise(range(len(self.layers))))):
            g = torch.ops.aten.threshold_backward(g.mm(self.layers[above].weight), inputs[above], 0)
            taps.append((inputs[below], g))
        return taps[::-1]

    @torch.no_grad()
    def gradients(self, x: Tensor, delta: Callable[[Tensor], Tensor]) -> list[Tensor]:
        """Of every parameter, in the order of `parameters()`."""
        taps = self.taps(x, delta)
        return [gradient for a, g in taps for gradient in (g.t().mm(a), g.sum(0))]


def hidden_layers(net: nn.Module) -> tuple[int, ...]:
    """Sizes of a perceptron's hidden layers; refused for other networks."""
    if not isinstance(net, MLPNet) or len(net.layers) < 2:
        raise ValueError(
            f"a generator mirrors the hidden layers of an MLP, and the network is {type(net).__name__}; give mlp"
        )
    return tuple(layer.out_features for layer in net.layers[:-1])
