"""Context-dependent gating."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from engram.learning.learner import Learner
from engram.learning.method import Log, Method
from engram.methods._gates import GatedNet
from engram.scenarios.task import Tasks


@dataclass
class XdG(Method):
    """Context-dependent gating: each task uses its own random part of the hidden units (Masse et al., 2018).

    As in the code of van de Ven et al. (2022).
    """

    title = "XdG"
    family = "structural"
    look = ("orange", "v", ":")

    share: Annotated[float, Log(0.3, 0.95)] = 0.8
    """Share of each hidden layer's units that is switched off in a task."""
    gate_bias: bool = False
    """Whether gates silence a unit altogether. If not, they multiply its weighted input before the bias is added (the
    2022 code), so that a unit that is off still passes on its bias."""

    working = ("gates",)
    needs = frozenset({"task identity"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.share < 1:
            raise ValueError(f"share {self.share} is out of range; give 0 or more, below 1")

    def network(self, net: nn.Module, tasks: Tasks) -> nn.Module:
        return RandomlyGated(net, tasks, self.gate_bias)

    def start(self, learner: Learner, tasks: Tasks) -> None:
        """Draws the gates of all tasks, layer by layer. They follow from the seed, so that nothing is kept."""
        assert isinstance(learner.net, RandomlyGated)
        rng, sizes = learner.rng("gates"), [layer.out_features for layer in learner.net.layers]
        self.gates = [torch.ones(len(tasks), size) for size in sizes]
        for task in range(len(tasks)):
            for gates, size in zip(self.gates, sizes, strict=True):
                gates[task, torch.randperm(size, generator=rng)[: int(self.share * size)]] = 0
        self.gates = [gates.to(learner.device) for gates in self.gates]
        learner.net.by_task = self.gates


class RandomlyGated(GatedNet):
    """A network with fixed gates."""

    by_task: list[Tensor]  # (tasks, units) for each gated layer

    def gates(self, t: Tensor) -> list[Tensor]:
        return [gates[t] for gates in self.by_task]
