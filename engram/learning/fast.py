"""Faster paths that end in the bits of the reference path, and the rules for when they apply.

The reference path is what `train` and `Learner` show: `loss.backward()` through autograd, then `step()` of torch.optim.
Here are closed-form gradients of the MLP, and fused optimiser steps without torch's bookkeeping. Both are chosen
automatically; `tests/learning/test_fast.py` holds them equal to the reference path, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.modules import module as torch_modules
from torch.optim import optimizer as torch_optimizer

from engram.learning.precision import Precision
from engram.nets.mlp import MLPNet
from engram.scenarios.task import Batch

if TYPE_CHECKING:
    from engram.learning.learner import Learner

aten = torch.ops.aten
MEAN, NOTHING_IGNORED = 1, -100
"""nll_loss's reduction, and the label that it would leave out."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
STATE = {"adam": ("exp_avg", "exp_avg_sq"), "adagrad": ("sum",), "sgd": ()}
"""What the fused kernels keep for each parameter, besides the step count."""


# closed-form gradients ------------------------------------------------------------------------------------------------


def has_closed_form(net: nn.Module) -> TypeGuard[MLPNet]:
    """Whether the network is exactly engram's MLP, with nothing attached to it that the closed form would bypass."""
    return (
        type(net) is MLPNet
        and not any(getattr(torch_modules, f"_global{hooks}") for hooks in HOOKS)
        and is_untouched(net)
        and all(type(layer) is nn.Linear and is_untouched(layer) for layer in net.children())
    )


def is_untouched(module: nn.Module) -> bool:
    """Without hooks, without a `forward` of its own, and with parameters that are all trained."""
    values = vars(module)
    return (
        not any(values[hooks] for hooks in HOOKS)
        and "forward" not in values
        and all(
            p is not None and p.requires_grad and not p._backward_hooks and not p._post_accumulate_grad_hooks
            for p in values["_parameters"].values()
        )
    )


@torch.no_grad()
def layer_gradients(
    net: MLPNet, x: Tensor, delta: Callable[[Tensor], Tensor], precision: Precision = "fp32"
) -> list[tuple[Tensor, Tensor]]:
    """What back-propagation leaves at each layer: its input, and the loss's gradient at its output.

    `delta` gives the gradient at the logits. A weight's gradient is then gradientᵀ · input, and squared per-sample
    gradients are (gradient²)ᵀ · input². It calls the kernels that autograd calls, without its bookkeeping.
    """
    layers: list[tuple[Tensor, Tensor]] = [(layer.weight, layer.bias) for layer in net.layers]
    inputs = [x]
    if precision == "bf16":  # one cast per step
        layers = [(weight.bfloat16(), bias.bfloat16()) for weight, bias in layers]
        inputs = [x.bfloat16()]
    for weight, bias in layers[:-1]:
        inputs.append(torch.relu_(linear(inputs[-1], weight, bias)))
    logits = linear(inputs[-1], *layers[-1])
    g = delta(logits) if precision == "fp32" else delta(logits.float()).bfloat16()
    pairs = [(inputs[-1], g)]
    for below, above in reversed(list(pairwise(range(len(layers))))):
        g = aten.threshold_backward(g.mm(layers[above][0]), inputs[above], 0)
        pairs.append((inputs[below], g))
    return pairs[::-1]


def gradients_from(
    net: MLPNet, x: Tensor, delta: Callable[[Tensor], Tensor], precision: Precision = "fp32"
) -> list[Tensor]:
    """Of every parameter, in the order of `parameters()`, in their type."""
    pairs = layer_gradients(net, x, delta, precision)
    found = [gradient for a, g in pairs for gradient in (g.t().mm(a), g.sum(0))]
    return found if precision == "fp32" else [gradient.float() for gradient in found]


def loss_and_gradients(learner: Learner, net: MLPNet, batch: Batch) -> tuple[Tensor, list[Tensor]]:
    """The learner's own loss and its gradients."""
    losses: list[Tensor] = []

    def delta(logits: Tensor) -> Tensor:
        loss, gradient = loss_and_delta(learner, logits, batch)
        losses.append(loss)
        return gradient

    gradients = gradients_from(net, batch.x, delta, learner.precision)
    return losses[0], gradients


def loss_and_delta(learner: Learner, logits: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """The learner's own loss and its gradient at the logits, by the kernels that autograd would call."""
    several = learner.tasks.kind == "task" and len(batch.tasks) > 1
    if learner.training.label_smoothing or several or learner.unseen or not learner.tasks.only_classes:
        with torch.enable_grad():
            logits = logits.detach().requires_grad_()
            loss = learner.loss_of(logits, batch)
            (gradient,) = torch.autograd.grad(loss, logits)
        return loss.detach(), gradient
    outputs = learner.active(batch.tasks[0])
    y = batch.y - outputs.start if outputs.start else batch.y
    logs = torch.log_softmax(logits[:, outputs], 1)
    loss, weight = aten.nll_loss_forward(logs, y, None, MEAN, NOTHING_IGNORED)
    gradient = aten.nll_loss_backward(learner.one, logs, y, None, MEAN, NOTHING_IGNORED, weight)
    gradient = aten._log_softmax_backward_data(gradient, logs, 1, logs.dtype)
    if gradient.shape == logits.shape:
        return loss, gradient
    everywhere = torch.zeros_like(logits)
    everywhere[:, outputs] = gradient
    return loss, everywhere


def backward(learner: Learner, net: MLPNet, batch: Batch) -> Tensor:
    """Fills the gradients of the learner's own loss and returns it."""
    loss, gradients = loss_and_gradients(learner, net, batch)
    for p, g in zip(learner.params, gradients, strict=True):
        p.grad = g
    return loss


# fused steps ----------------------------------------------------------------------------------------------------------


class FusedStep:
    """The steps of a torch.optim optimiser, with its own fused kernel and state but without its bookkeeping.

    With sgd, adagrad and adam, `step` of torch.optim spends as long in Python as half a kernel call.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, name: str) -> None:
        self.optimizer, self.name = optimizer, name
        self.params: list[Tensor] = list(optimizer.param_groups[0]["params"])
        self.on = True
        self._state: list[list[Tensor]] | None = None
        self._count: Tensor | None = None

    def step(self) -> bool:
        """Takes a step; or leaves it to torch.optim, and says so by False."""
        if not self.on:
            return False
        grads = [p.grad for p in self.params if p.grad is not None]
        if len(grads) < len(self.params) or not self.is_plain():  # step counts may differ from now on: torch keeps them
            self.hand_back()
            self.on = False
            return False
        if self._state is None:
            if STATE[self.name] and not self.optimizer.state:  # torch's first step makes it
                return False
            self._state = [[self.optimizer.state[p][key] for p in self.params] for key in STATE[self.name]]
            self._count = self.optimizer.state[self.params[0]]["step"].clone() if self._state else None
        self.call_kernel(grads, self._state)
        return True

    def is_plain(self) -> bool:
        """Whether nobody has added parameters, or hooks that only torch's own `step` calls."""
        optimizer = self.optimizer
        return len(optimizer.param_groups) == 1 and not (
            optimizer._optimizer_step_pre_hooks
            or optimizer._optimizer_step_post_hooks
            or torch_optimizer._global_optimizer_pre_hooks
            or torch_optimizer._global_optimizer_post_hooks
        )

    def call_kernel(self, grads: list[Tensor], state: list[list[Tensor]]) -> None:
        group = self.optimizer.param_groups[0]
        shared: dict[str, Any] = {"lr": group["lr"], "weight_decay": group["weight_decay"], "maximize": False}
        counts = []
        if self._count is not None:
            self._count += 1
            counts = [self._count] * len(self.params)
        if self.name == "adam":
            beta1, beta2 = group["betas"]
            torch._fused_adam_(
                self.params, grads, state[0], state[1], [], counts,
                beta1=beta1, beta2=beta2, eps=group["eps"], amsgrad=False, **shared,
            )  # fmt: skip
        elif self.name == "adagrad":
            torch._fused_adagrad_(
                self.params, grads, state[0], counts, lr_decay=group["lr_decay"], eps=group["eps"], **shared
            )
        else:
            torch._fused_sgd_(
                self.params, grads, [], momentum=0.0, dampening=0.0, nesterov=False, is_first_step=False, **shared
            )

    def hand_back(self) -> None:
        """Gives torch's own state the step count, which is kept once for all parameters meanwhile."""
        if self._count is not None:
            for p in self.params:
                self.optimizer.state[p]["step"].copy_(self._count)
        self._state = self._count = None
