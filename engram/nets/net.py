"""What describes a network: a recipe that is built for images of some shape and a number of outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import nn

HeadInit = Literal["random", "zero"]
Shape = tuple[int, int, int]
"""(channels, height, width) of an image."""


class Layer(NamedTuple):
    """A step of a network, for people."""

    name: str
    activation: tuple[int, ...]
    """What comes out of it for one image: (units,) or (maps, height, width)."""
    parameters: int


@dataclass(frozen=True)
class Net(ABC):
    """A recipe of a network; its fields are what can be chosen."""

    @abstractmethod
    def build(self, shape: Shape, outputs: int) -> nn.Module:
        """The network for images of this shape; draws from PyTorch's global generator."""

    @abstractmethod
    def layers(self, shape: Shape, outputs: int) -> list[Layer]:
        """Its steps in order, known without building it."""


def check_head_init(heads: str) -> None:
    if heads not in ("random", "zero"):
        raise ValueError(f"heads {heads!r} is unknown; choose from random, zero")


def initialize_heads(layer: nn.Linear, heads: HeadInit) -> None:
    """The output layer before training: PyTorch's default, or all zeros."""
    if heads == "zero":
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
