"""A network per task."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from engram.learning.learner import Learner
from engram.learning.memory import bytes_of
from engram.learning.method import Method
from engram.methods._stored import output_layer_of
from engram.nets.mlp import MLPNet
from engram.scenarios.task import Task, Tasks

Weights = dict[str, Tensor]


@dataclass
class Separate(Method):
    """A network per task, each trained on its own task alone; task identity chooses one (van de Ven et al., 2022).

    Nothing can be forgotten, and nothing is transferred.
    """

    title = "Separate networks"
    family = "structural"
    look = ("black", "D", ":")

    layers: tuple[int, ...] = ()
    """Hidden layers of each network; empty: those of --net. The 2022 paper has 100 and 100."""

    kept = ("stored", "owner")
    working = ("initial",)
    needs = frozenset({"boundaries", "task identity"})

    def __post_init__(self) -> None:
        super().__post_init__()
        self.layers = tuple(self.layers)
        if not all(type(size) is int and size > 0 for size in self.layers):
            raise ValueError(f"layers {self.layers}: layer sizes are whole numbers above 0")

    def network(self, net: nn.Module, tasks: Tasks) -> nn.Module:
        if not self.layers:
            return net
        if not isinstance(net, MLPNet):
            raise ValueError(
                f"layers {self.layers} are those of an MLP, and the network is {type(net).__name__}; give mlp, or no "
                "layers"
            )
        return MLPNet((math.prod(tasks.shape), *self.layers, tasks.outputs))

    def start(self, learner: Learner, tasks: Tasks) -> None:
        self.initial: Weights = copy.deepcopy(learner.net.state_dict())
        self.stored: dict[int, Weights] = {}
        self.owner = -1
        """The task whose network the learner has; `stored` has those of all tasks before."""

    def kept_bytes_after(self, net: nn.Module, pixels: int, tasks: int) -> int:
        if self.layers:
            with torch.device("meta"):
                net = MLPNet((pixels, *self.layers, output_layer_of(net)[1]))
        return (tasks - 1) * bytes_of(net)

    def begin_task(self, learner: Learner, task: Task) -> None:
        """The network and its optimiser begin anew."""
        if self.owner >= 0:
            self.stored[self.owner] = copy.deepcopy(learner.net.state_dict())
            learner.net.load_state_dict(self.initial)
            learner.new_optimizer()
        self.owner = task.index

    @torch.no_grad()
    def scores(self, learner: Learner, x: Tensor, task: int | None) -> Tensor:
        """By the network of the task; by one as it starts if the task has not begun."""
        assert task is not None
        if task == self.owner:
            return super().scores(learner, x, task)
        inputs = learner.inputs(x, torch.full((len(x),), task, device=x.device))
        found: Tensor = functional_call(learner.net, self.stored.get(task, self.initial), inputs)
        return found
