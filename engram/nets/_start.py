"""What a network starts from: weights of a file, and which of its parameters are trained."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from engram.core.streams import own_global_generators
from engram.nets._weights import read_weights, weights_hash
from engram.nets.net import Layer, Net, Shape

Freeze = Literal["none", "backbone"]


@dataclass(frozen=True)
class Start:
    """Pre-trained weights, and what stays as it is."""

    weights: str = ""
    """A file of weights, .safetensors or a state dict; empty: random weights. An output layer of another size keeps its
    random weights."""
    freeze: Freeze = "none"
    """backbone: only the output layer is trained; the rest is fixed, and behaves as at test time."""

    def __post_init__(self) -> None:
        if self.freeze not in ("none", "backbone"):
            raise ValueError(f"freeze {self.freeze!r} is unknown; choose from none, backbone")

    @property
    def content(self) -> str:
        """A hash of the file of weights; empty if there is none."""
        return weights_hash(self.weights) if self.weights else ""

    def apply(self, net: nn.Module, shape: Shape) -> None:
        name, layer = find_output_layer(net, math.prod(shape))
        if self.weights:
            load_weights(net, read_weights(self.weights), name, self.weights)
        if self.freeze == "backbone":
            net.requires_grad_(False).eval()
            layer.requires_grad_(True).train()


@dataclass(frozen=True)
class StartedNet(Net):
    """A recipe whose networks start from something."""

    recipe: Net
    begin: Start

    def build(self, shape: Shape, outputs: int) -> nn.Module:
        net = self.recipe.build(shape, outputs)
        self.begin.apply(net, shape)
        return net

    def layers(self, shape: Shape, outputs: int) -> list[Layer]:
        return self.recipe.layers(shape, outputs)


def find_output_layer(net: nn.Module, pixels: int) -> tuple[str, nn.Module]:
    """(name, layer): what the network names in `output_layer`, else the nn.Linear whose output is the network's."""
    if named := getattr(net, "output_layer", None):
        return named, net.get_submodule(named)
    names: dict[nn.Module, str] = {
        module: name for name, module in net.named_modules() if isinstance(module, nn.Linear)
    }
    calls: list[tuple[nn.Module, Tensor]] = []
    handles = [m.register_forward_hook(lambda m, _, output: calls.append((m, output))) for m in names]
    modes = [(module, module.training) for module in net.modules()]
    net.eval()
    try:
        with torch.no_grad(), own_global_generators():
            logits = net(torch.zeros(1, pixels))
    finally:
        for handle in handles:
            handle.remove()
        for module, training in modes:
            module.training = training
    found = [module for module, output in calls if output is logits]
    if len(found) != 1:
        raise ValueError(
            f"{type(net).__name__} has no output layer: its output is not that of an nn.Linear; let the network name "
            'the layer whose output it returns, as in output_layer = "head"'
        )
    return names[found[0]], found[0]


def load_weights(net: nn.Module, weights: dict[str, Tensor], output_layer: str, path: str) -> None:
    """Puts weights into a network. Those of its output layer may be missing or of another shape, no others."""
    own = net.state_dict()
    prefix = f"{output_layer}." if output_layer else ""
    fitting = {name: value for name, value in weights.items() if name in own and value.shape == own[name].shape}
    head = {name for name in own if name.startswith(prefix)}
    if not head <= set(fitting):  # all of the layer, or nothing
        fitting = {name: value for name, value in fitting.items() if name not in head}
    missing = [name for name in own if name not in fitting and name not in head]
    unknown = [name for name in weights if name not in own and not name.startswith(prefix or "\0")]
    if missing or unknown:
        what = f"{missing[0]} is missing or has another shape" if missing else f"the network has no {unknown[0]}"
        raise ValueError(
            f"weights {path} do not fit {type(net).__name__}: {what} ({len(missing) + len(unknown)} such); give the "
            "file that was written for this network and its fields"
        )
    net.load_state_dict(fitting, strict=False)
