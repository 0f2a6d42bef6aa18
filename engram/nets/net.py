"""Recipes of networks, which are built for images of some shape and a number of outputs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType, ModuleType
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from engram.core.registry import classes_in
from engram.core.streams import own_global_generators

HeadInit = Literal["random", "zero"]
Shape = tuple[int, ...]
"""The shape of one input: (channels, height, width) of an image, (features,) of a vector."""


class Layer(NamedTuple):
    """A layer of a network, in words."""

    name: str
    activation: tuple[int, ...]
    """What comes out of it for one image: (units,) or (maps, height, width); empty if it is not known."""
    parameters: int


@dataclass(frozen=True)
class Net(ABC):
    """A recipe of a network; its fields are what can be chosen."""

    small: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Values of fields that make it small, for `engram check`."""

    @abstractmethod
    def build(self, shape: Shape, outputs: int) -> nn.Module:
        """The network for images of this shape; draws from PyTorch's global generator."""

    def layers(self, shape: Shape, outputs: int) -> list[Layer]:
        """Its layers in order, in words: by default all that have parameters."""
        return layers_of(build_for_show(self, shape, outputs), math.prod(shape))

    @classmethod
    def recipes_in(cls, module: ModuleType) -> list[type[Net]]:
        """Recipes of the networks in a user's file that are plain PyTorch; see `engram.nets._module`."""
        from engram.nets import _module

        return [] if classes_in(module, cls) else _module.recipes_in(module)  # modules beside a recipe are its parts


def build_for_show(recipe: Net, shape: Shape, outputs: int) -> nn.Module:
    """The network without memory for its parameters, if its code allows that; the caller's generators stay as they
    are."""
    with own_global_generators():
        try:
            with torch.device("meta"):
                return recipe.build(shape, outputs)
        except Exception:  # the code looks at values, which parameters without memory do not have
            return recipe.build(shape, outputs)


def layers_of(net: nn.Module, pixels: int) -> list[Layer]:
    """All layers that have parameters of their own, in the order in which one image passes them.

    A layer that is not called as a module comes last, and its activation is not known.
    """
    owners = {m: name for name, m in net.named_modules() if any(True for _ in m.parameters(recurse=False))}
    activations: dict[nn.Module, tuple[int, ...]] = {}

    def note(module: nn.Module, _: Any, output: Any) -> None:
        activations.setdefault(module, tuple(output.shape[1:]) if isinstance(output, Tensor) else ())

    handles = [module.register_forward_hook(note) for module in owners]
    device = next((p.device for p in net.parameters()), torch.device("cpu"))
    net.eval()
    try:
        # it may need more than images, or look at values, which the meta device does not have
        with suppress(Exception), torch.no_grad(), own_global_generators(), device:
            net(torch.zeros(1, pixels))
    finally:
        for handle in handles:
            handle.remove()
    counted: set[Tensor] = set()
    layers = []
    for module in [*activations, *(m for m in owners if m not in activations)]:
        own = [p for p in module.parameters(recurse=False) if p not in counted]  # a shared one counts once
        counted.update(own)
        name = f"{owners[module]}: {type(module).__name__}".removeprefix(": ")
        layers.append(Layer(name, activations.get(module, ()), sum(p.numel() for p in own)))
    return layers


def check_head_init(heads: str) -> None:
    if heads not in ("random", "zero"):
        raise ValueError(f"heads {heads!r} is unknown; choose from random, zero")


def initialize_heads(layer: nn.Linear, heads: HeadInit) -> None:
    """The output layer before training: PyTorch's default, or all zeros."""
    if heads == "zero":
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
