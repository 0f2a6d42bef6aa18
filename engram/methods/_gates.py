"""Hidden units that are switched on and off by the task: what methods with gates share."""

from __future__ import annotations

import math
from abc import abstractmethod

from torch import Tensor, nn
from torch.nn.functional import linear

from engram.learning.learner import parameter_of_task
from engram.nets._start import find_output_layer
from engram.scenarios.task import Tasks


class GatedLinear(nn.Linear):
    """A linear layer whose units are multiplied by gates, before or after the bias is added."""

    gate: Tensor | None = None  # (batch, units), while its network is called
    gates_bias: bool = True

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs) → (batch, units)"""
        if self.gate is None:
            return super().forward(x)
        if x.ndim != 2:
            raise ValueError(
                f"a layer that is gated gets {tuple(x.shape)}; gates are for networks whose linear layers get one row "
                "per image; give mlp"
            )
        if self.gates_bias or self.bias is None:
            return self.gate * super().forward(x)
        return self.gate * linear(x, self.weight) + self.bias


class GatedNet(nn.Module):
    """A network with gates at its hidden linear layers, which keep their parameters."""

    def __init__(self, net: nn.Module, tasks: Tasks, gates_bias: bool) -> None:
        super().__init__()
        name, output = find_output_layer(net, math.prod(tasks.shape))
        self.output_layer = f"net.{name}"
        self.net = net
        self.takes_task = parameter_of_task(net) is not None
        hidden = [(name, m) for name, m in net.named_modules() if type(m) is nn.Linear and m is not output]
        # a tuple: they belong to `net`, which registers them
        self.layers = tuple(replace_by_gated(net, name, layer, gates_bias) for name, layer in hidden)
        if not self.layers:
            raise ValueError(
                f"gates are for hidden nn.Linear layers, and the network {type(net).__name__} has none; give mlp or cnn"
            )

    @abstractmethod
    def gates(self, t: Tensor) -> list[Tensor]:
        """(batch, units) for each gated layer, given the task of each sample."""

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """(batch, …), (batch,) → (batch, outputs)"""
        for layer, gate in zip(self.layers, self.gates(t), strict=True):
            layer.gate = gate
        try:
            out: Tensor = self.net(x, t) if self.takes_task else self.net(x)
        finally:
            for layer in self.layers:
                layer.gate = None
        return out


def replace_by_gated(net: nn.Module, name: str, layer: nn.Linear, gates_bias: bool) -> GatedLinear:
    """Puts a gated layer with the same parameters in the place of a linear one."""
    gated = GatedLinear(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
    gated.weight, gated.bias = layer.weight, layer.bias
    gated.gates_bias = gates_bias
    above, _, last = name.rpartition(".")
    setattr(net.get_submodule(above), last, gated)
    return gated
