"""The learner: a network with one output layer, its optimiser, and the rule of which outputs are active."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from engram.core.ranges import Log
from engram.core.streams import stream
from engram.core.validation import check_values
from engram.learning.optimizer import Optimizer, accepted_options
from engram.scenarios.task import Batch, Data, Tasks

Params = list[Tensor]
aten = torch.ops.aten
MEAN, NOTHING_IGNORED = 1, -100
"""nll_loss's reduction, and the label that it would leave out."""


@dataclass(frozen=True)
class Training:
    """How long and how each task is trained: by epochs, or by steps."""

    epochs: int = 4
    """Passes over a task's data."""
    steps: int = 0
    """Optimiser steps a task, reshuffling when the data are used up; 0: by epochs."""
    batch: int = 128
    """Images a step."""
    optimizer: str = "adam"
    """Any optimiser of torch.optim, in lower case."""
    lr: Annotated[float, Log(1e-4, 1e-1)] = 1e-3
    """Learning rate, constant."""
    momentum: float = 0.0
    """For optimisers that have it."""
    weight_decay: float = 0.0
    """For optimisers that have it."""
    drop_last: bool = False
    """Leave out a pass's last batch where it is not full."""
    reset_optimizer: bool = False
    """Start each task with a fresh optimiser state."""

    def __post_init__(self) -> None:
        check_values(self)
        for name, least in (("epochs", 1), ("steps", 0), ("batch", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} {getattr(self, name)} is out of range; give a whole number, {least} or more")
        for name in ("momentum", "weight_decay"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} {getattr(self, name)} is out of range; give 0 or more")
        if not 0 < self.lr < float("inf"):
            raise ValueError(f"lr {self.lr} is out of range; give a number above 0")
        accepted_options(self.optimizer, self.momentum, self.weight_decay)

    def passes(self, images: int) -> int:
        """Batches in one pass."""
        full, rest = divmod(images, self.batch)
        return full if self.drop_last and full else full + (rest > 0)

    def steps_for(self, images: int) -> int:
        """Optimiser steps that a task of so many images takes."""
        return self.steps or self.epochs * self.passes(images)


def batches(data: Data, training: Training, rng: torch.Generator, skip_passes: int = 0) -> Iterator[Batch]:
    """The one stream of shuffled batches, by epochs or by steps."""
    left = training.steps_for(len(data))
    per_pass = training.passes(len(data))
    done = 0
    while left > 0:
        order = data.order(rng, training.batch)
        done += 1
        if done <= skip_passes:
            left -= per_pass
            continue
        for indices in torch.split(order.to(data.device), training.batch)[: min(per_pass, left)]:
            yield data.batch(indices)
            left -= 1


@contextmanager
def in_eval_mode(net: nn.Module) -> Iterator[None]:
    """Layers that behave otherwise in training (dropout, batch norm) are as at test time inside the block."""
    modes = [(module, module.training) for module in net.modules()]
    net.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


class Learner:
    """A network being trained on the tasks of a scenario."""

    def __init__(self, net: nn.Module, tasks: Tasks, training: Training, seed: int, device: torch.device) -> None:
        self.net = net.to(device)
        self.tasks = tasks
        self.training = training
        self.seed = seed
        self.device = device
        self.task = 0
        """Index of the task at hand."""
        self.steps = 0
        """Optimiser steps so far, those of helpers (a generator, say) included."""
        self.params: Params = [p for p in self.net.parameters() if p.requires_grad]
        self.one = torch.ones((), device=device)
        self.watch: Callable[[float], None] = lambda _: None
        """Told the mean loss now and then by methods that train something beside the network."""
        self.new_optimizer()

    def new_optimizer(self) -> None:
        t = self.training
        self.optimizer = Optimizer(self.params, t.optimizer, t.lr, t.momentum, t.weight_decay)

    def logits(self, x: Tensor) -> Tensor:
        """(batch, pixels) → (batch, all outputs)"""
        out: Tensor = self.net(x)
        return out

    def active(self, task: int) -> slice:
        """The outputs in play for a task: its own head, those seen so far, or all."""
        return self.tasks.active(task, self.task)

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy, each sample over its active outputs."""
        return self.loss_of(self.logits(batch.x), batch)

    def loss_of(self, logits: Tensor, batch: Batch) -> Tensor:
        """The same, from logits that were computed already."""
        if self.tasks.kind != "task" or len(batch.tasks) == 1:
            outputs = self.active(batch.tasks[0])
            start = outputs.start
            return cross_entropy(logits[:, outputs], batch.y - start if start else batch.y)
        heads = [self.active(task) for task in batch.tasks]
        sizes = {head.stop - head.start for head in self.tasks.heads}
        if len(sizes) == 1:  # equal heads: pick each sample's own
            (size,) = sizes
            own = logits.view(len(logits), -1, size)[torch.arange(len(batch.t), device=batch.t.device), batch.t]
            return cross_entropy(own, batch.y - size * batch.t)
        total = logits.new_zeros(())
        for task, head in zip(batch.tasks, heads, strict=True):
            here = (batch.t == task).nonzero().squeeze(1)
            if len(here):
                own = logits.index_select(0, here)[:, head]
                total = total + cross_entropy(own, batch.y.index_select(0, here) - head.start, reduction="sum")
        return total / len(batch.y)

    @torch.no_grad()
    def predict(self, batch: Batch, mask: bool = True) -> Tensor:
        """The likeliest of each sample's active outputs; without a mask, of all (a task's head is known anyway)."""
        logits = self.logits(batch.x)
        if self.tasks.kind != "task":
            outputs = self.active(batch.tasks[0]) if mask else slice(0, self.tasks.outputs)
            return logits[:, outputs].argmax(1) + outputs.start
        guess = torch.zeros_like(batch.y)
        for task in batch.tasks:
            head = self.active(task)
            guess = torch.where(batch.t == task, logits[:, head].argmax(1) + head.start, guess)
        return guess

    def loss_and_gradients(self, batch: Batch) -> tuple[Tensor, Params]:
        """Of the plain loss, leaving p.grad alone; in closed form where the network has one."""
        losses: list[Tensor] = []

        def delta(logits: Tensor) -> Tensor:
            loss, gradient = self.loss_and_delta(logits, batch)
            losses.append(loss)
            return gradient

        gradients = self.gradients_from(batch.x, delta)
        return losses[0], gradients

    def gradients_from(self, x: Tensor, delta: Callable[[Tensor], Tensor]) -> Params:
        """Of any function of the outputs, given its gradient at the logits; in closed form where there is one."""
        closed_form = getattr(self.net, "gradients", None)
        if closed_form is not None:
            gradients: Params = closed_form(x, delta)
            return gradients
        with torch.enable_grad():
            logits = self.logits(x)
        found = torch.autograd.grad(logits, self.params, delta(logits.detach()), allow_unused=True)
        return [torch.zeros_like(p) if g is None else g for p, g in zip(self.params, found, strict=True)]

    def loss_and_delta(self, logits: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss and its gradient at the logits, by the kernels that autograd would call."""
        if self.tasks.kind == "task" and len(batch.tasks) > 1:
            with torch.enable_grad():
                logits = logits.detach().requires_grad_()
                loss = self.loss_of(logits, batch)
                (gradient,) = torch.autograd.grad(loss, logits)
            return loss.detach(), gradient
        outputs = self.active(batch.tasks[0])
        y = batch.y - outputs.start if outputs.start else batch.y
        logs = torch.log_softmax(logits[:, outputs], 1)
        loss, weight = aten.nll_loss_forward(logs, y, None, MEAN, NOTHING_IGNORED)
        gradient = aten.nll_loss_backward(self.one, logs, y, None, MEAN, NOTHING_IGNORED, weight)
        gradient = aten._log_softmax_backward_data(gradient, logs, 1, logs.dtype)
        if gradient.shape == logits.shape:
            return loss, gradient
        everywhere = torch.zeros_like(logits)
        everywhere[:, outputs] = gradient
        return loss, everywhere

    def gradients(self, batch: Batch) -> Params:
        """Of the plain loss, leaving p.grad alone."""
        return self.loss_and_gradients(batch)[1]

    def frozen(self) -> Learner:
        """A copy as at test time, without gradients and without an optimiser's state: a teacher."""
        twin = copy.copy(self)
        twin.net = copy.deepcopy(self.net).requires_grad_(False).eval()
        twin.params = []
        del twin.optimizer
        return twin

    def rng(self, purpose: str) -> torch.Generator:
        """The random stream of this run, task and purpose."""
        return stream(self.seed, purpose, self.task)
