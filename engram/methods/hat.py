"""Hard attention to the task."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import torch
from torch import Tensor, nn

from engram.learning.learner import Learner, Params
from engram.learning.method import Log, Method
from engram.methods._gates import GatedNet
from engram.nets.mlp import MLPNet
from engram.scenarios.task import Batch, Task, Tasks

LARGEST = 6.0
"""Embeddings are clipped to ± this."""
LARGEST_EXPONENT = 50.0
"""Of the cosh that compensates the gradient of embeddings."""


@dataclass
class HAT(Method):
    """Hard attention to the task: gates that are learned for each task protect its units later (Serrà et al., 2018)."""

    title = "HAT"
    family = "structural"
    look = ("green", "v", ":")

    sparsity: Annotated[float, Log(0.05, 5)] = 0.75
    """Coefficient of the share of units that the task is the first to use."""
    steepness: Annotated[float, Log(50, 800)] = 400.0
    """s_max: gates are σ(s · embedding); s rises to it within each epoch and has this value at test time."""

    kept = ("embeddings",)
    needs = frozenset({"boundaries", "task identity"})
    gradient_stage = "project"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.sparsity < float("inf"):
            raise ValueError(f"sparsity {self.sparsity} is out of range; give 0 or more")
        if not 1 <= self.steepness < float("inf"):
            raise ValueError(f"steepness {self.steepness} is out of range; give 1 or more")

    def network(self, net: nn.Module, tasks: Tasks) -> nn.Module:
        if not isinstance(net, MLPNet):
            raise ValueError(
                "HAT has gates at every hidden layer and protects the weights between them, which is written for an "
                f"MLP, and the network is {type(net).__name__}; give mlp"
            )
        gated = AttentiveNet(net, tasks, self.steepness)
        self.embeddings = gated.embeddings
        return gated

    def kept_bytes_after(self, net: nn.Module, pixels: int, tasks: int) -> int:
        layers = [m for m in net.modules() if isinstance(m, nn.Linear)][:-1]
        return 4 * tasks * sum(layer.out_features for layer in layers)

    def begin_task(self, learner: Learner, task: Task) -> None:
        net = attentive(learner)
        past = list(range(task.index)) if learner.steps else []
        with torch.no_grad():
            self._used = net.used_by(past)
            self._factors = self.factors(learner, past)
        self._per_epoch = learner.training.steps_per_epoch(len(task.train))
        recipe = learner.training
        plain = recipe.optimizer == "sgd" and not recipe.momentum and not recipe.weight_decay
        self._scales_updates = not plain and bool(past)

    def factors(self, learner: Learner, past: list[int]) -> Params:
        """1 − min(A of the unit, A of its input) for each parameter, A being how much past tasks use a unit.

        All inputs are used. Outputs are used by a past task if they are active for it. An embedding has 1 in the row of
        the current task.
        """
        net = attentive(learner)
        outputs = torch.zeros(learner.tasks.outputs, device=learner.device)
        for task in past:
            outputs[learner.tasks.active(task, task)] = 1
        used = [torch.ones(net.layers[0].in_features, device=learner.device), *self._used, outputs]
        factors: dict[Tensor, Tensor] = {}
        linear = [m for m in net.modules() if isinstance(m, nn.Linear)]
        for layer, (inputs, units) in zip(linear, pairwise(used), strict=True):
            factors[layer.weight] = 1 - torch.minimum(units[:, None], inputs)
            factors[layer.bias] = 1 - units
        for embedding in net.embeddings:
            factors[embedding] = torch.zeros_like(embedding)
            factors[embedding][learner.task] = 1
        return [factors[p] for p in learner.params]

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        net = attentive(learner)
        net.scale = self.scale_at(learner)
        try:
            gates = net.gates_of(learner.task)
            loss = learner.loss(batch)
        finally:
            net.scale = self.steepness
        free = [1 - used for used in self._used]
        room = sum(float(f.sum()) for f in free)
        if not room:  # every unit is used: nothing is left to save
            return loss
        used = torch.stack([(gate * f).sum() for gate, f in zip(gates, free, strict=True)]).sum()
        return loss + self.sparsity * used / room

    def scale_at(self, learner: Learner) -> float:
        """s of the step at hand: from 1/s_max up to s_max, linearly within each epoch."""
        if self._per_epoch < 2:
            return self.steepness
        share = learner.step_of_task % self._per_epoch / (self._per_epoch - 1)
        return 1 / self.steepness + (self.steepness - 1 / self.steepness) * share

    @torch.no_grad()
    def adjust_gradients(self, learner: Learner, batch: Batch) -> None:
        for p, factor in zip(learner.params, self._factors, strict=True):
            assert p.grad is not None
            p.grad.mul_(factor)
        for embedding in self.embeddings:
            assert embedding.grad is not None
            embedding.grad.mul_(compensation(embedding, self.scale_at(learner), self.steepness))
        if self._scales_updates:
            self._before = [p.detach().clone() for p in learner.params]

    @torch.no_grad()
    def after_step(self, learner: Learner, batch: Batch) -> None:
        """What past tasks use is held: moments and weight decay move parameters without a gradient, too."""
        if self._scales_updates:
            for p, before, factor in zip(learner.params, self._before, self._factors, strict=True):
                p.copy_(before + factor * (p - before))
        for embedding in self.embeddings:
            embedding.clamp_(-LARGEST, LARGEST)


class AttentiveNet(GatedNet):
    """A perceptron with an embedding per task and hidden layer, and gates σ(scale · embedding)."""

    def __init__(self, net: nn.Module, tasks: Tasks, scale: float) -> None:
        super().__init__(net, tasks, gates_bias=True)
        self.scale = scale
        self.embeddings = nn.ParameterList([torch.randn(len(tasks), layer.out_features) for layer in self.layers])

    def gates(self, t: Tensor) -> list[Tensor]:
        return [torch.sigmoid(self.scale * embedding[t]) for embedding in self.embeddings]

    def gates_of(self, task: int) -> list[Tensor]:
        """(units,) for each layer."""
        return [torch.sigmoid(self.scale * embedding[task]) for embedding in self.embeddings]

    def used_by(self, past: list[int]) -> list[Tensor]:
        """How much these tasks use each unit at most: (units,) in [0, 1] for each layer."""
        gates = [torch.sigmoid(self.scale * embedding[past]) for embedding in self.embeddings]
        return [gate.amax(0) if past else torch.zeros_like(gate.sum(0)) for gate in gates]


def attentive(learner: Learner) -> AttentiveNet:
    assert isinstance(learner.net, AttentiveNet)
    return learner.net


def compensation(embedding: Tensor, scale: float, steepest: float) -> Tensor:
    """What turns the gradient at σ(s e), which vanishes for large s, into one of the size of s_max σ′(e).

    σ′(z) = 1 / (2 (cosh z + 1)); Serrà et al. 2018, eq. 6.
    """
    steep = torch.cosh((scale * embedding).clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT)) + 1
    return steepest / scale * steep / (torch.cosh(embedding) + 1)
