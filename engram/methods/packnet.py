"""PackNet: several tasks in the weights of one network."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.func import functional_call

from engram.learning.learner import Learner, Params
from engram.learning.method import Log, Method
from engram.nets._start import find_output_layer
from engram.scenarios.task import Batch, Task, Tasks

MOST = 255
"""Tasks that fit into the byte which names the owner of a weight."""


@dataclass
class PackNet(Method):
    """PackNet: after each task small weights are released for later tasks, and the rest is frozen for good.

    Mallya & Lazebnik, 2018. A task is tested with the weights of itself and of the tasks before it.
    """

    title = "PackNet"
    family = "structural"
    look = ("sky", "s", ":")

    prune: Annotated[float, Log(0.2, 0.95)] = 0.5
    """Share of the weights trained in a task that it releases, the smallest of each layer; 0: the share that gives all
    tasks equally many."""
    tuning: float = 0.5
    """Share of a task's steps that come after the release and train the weights that are left."""

    kept = ("owners",)
    working = ("output_layer",)
    needs = frozenset({"boundaries", "task identity"})
    gradient_stage = "project"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("prune", "tuning"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)} is out of range; give 0 or more, below 1")

    def network(self, net: nn.Module, tasks: Tasks) -> nn.Module:
        self.output_layer = find_output_layer(net, prod(tasks.shape))[0]
        return net

    def start(self, learner: Learner, tasks: Tasks) -> None:
        if len(tasks) > MOST:
            raise ValueError(f"PackNet has a byte per weight for its owner: {len(tasks)} tasks are more than {MOST}")
        self.owners: Params = [torch.zeros_like(p, dtype=torch.uint8) for p in learner.params if is_weight(p)]
        """Of each weight: 0 if it is free, else the number of its task, from 1."""

    def kept_bytes(self, net: nn.Module, pixels: int) -> int:
        return sum(p.numel() for p in net.parameters() if p.requires_grad and is_weight(p))

    def begin_task(self, learner: Learner, task: Task) -> None:
        first = not any(bool(owners.any()) for owners in self.owners)
        own = self.own_outputs(learner)
        owners = iter(self.owners)
        self._open: Params = []
        """Which entries of each parameter this task may change."""
        self._heads: list[bool] = []
        """Whether a parameter has a row for each output."""
        for p in learner.params:
            is_head = own is not None and any(p is q for q in own[0])
            free = next(owners) == 0 if is_weight(p) else torch.full_like(p, first, dtype=torch.bool)
            if is_head and own is not None:
                free = torch.zeros_like(p, dtype=torch.bool)
                free[own[1]] = True
            self._open.append(free)
            self._heads.append(is_head)
        self._held = [p.detach().clone() for p in learner.params]
        self._packed = False
        if not first:  # running statistics are frozen with the biases
            for module in learner.net.modules():
                if getattr(module, "running_mean", None) is not None:
                    module.eval()

    def own_outputs(self, learner: Learner) -> tuple[list[Tensor], slice] | None:
        """(parameters of the output layer, rows of this task's head) if each task has a head of its own."""
        if learner.tasks.kind != "task":
            return None
        layer = learner.net.get_submodule(self.output_layer)
        return list(layer.parameters()), learner.tasks.heads[learner.task]

    @torch.no_grad()
    def adjust_gradients(self, learner: Learner, batch: Batch) -> None:
        for p, free in zip(learner.params, self._open, strict=True):
            assert p.grad is not None
            p.grad.mul_(free)

    @torch.no_grad()
    def after_step(self, learner: Learner, batch: Batch) -> None:
        """What is frozen is put back: moments and weight decay move weights without a gradient, too."""
        for p, free, held in zip(learner.params, self._open, self._held, strict=True):
            p.copy_(torch.where(free, p, held))
        left = learner.steps_of_task - (learner.step_of_task + 1)
        if not self._packed and left <= int(self.tuning * learner.steps_of_task):
            self.pack(learner)

    def end_task(self, learner: Learner, task: Task) -> None:
        if not self._packed:
            self.pack(learner)

    @torch.no_grad()
    def pack(self, learner: Learner) -> None:
        """Releases the smallest of the weights that this task trained, and takes the others."""
        number, tasks = learner.task + 1, len(learner.tasks)
        share = self.prune or (tasks - number) / (tasks - number + 1)
        owners = iter(self.owners)
        for i, p in enumerate(learner.params):
            if not is_weight(p):
                continue
            owner, open_ = next(owners), self._open[i]
            if not self._heads[i]:
                trained = open_.flatten().nonzero().squeeze(1)
                order = p.detach().flatten()[trained].abs().argsort(stable=True)
                released = trained[order[: int(share * len(trained))]]
                left = open_.flatten()
                left[released] = False
                open_ = self._open[i] = left.view(p.shape)
                p.masked_fill_(~open_ & (owner == 0), 0)
            owner[open_] = number
        self._held = [p.detach().clone() for p in learner.params]
        self._packed = True

    @torch.no_grad()
    def scores(self, learner: Learner, x: Tensor, task: int | None) -> Tensor:
        assert task is not None
        number = task + 1
        if not any(bool((owners == number).any()) for owners in self.owners):  # not packed yet: all weights
            return super().scores(learner, x, task)
        owners = iter(self.owners)
        weights: dict[str, Tensor] = {}
        for name, p in learner.net.named_parameters():
            if p.requires_grad and is_weight(p):
                owner = next(owners)
                weights[name] = p * ((owner > 0) & (owner <= number))
        inputs = learner.inputs(x, torch.full((len(x),), task, device=x.device))
        found: Tensor = functional_call(learner.net, weights, inputs)
        return found


def is_weight(p: Tensor) -> bool:
    """Weights have two dimensions or more; biases and the scales of normalisation layers have one."""
    return p.ndim > 1
