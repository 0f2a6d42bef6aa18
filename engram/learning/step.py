"""One step of training, and what guards it: finite losses, seeded layers, a freshly drawn network."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from engram.core.streams import own_global_generators, seed_global_generators, seed_of
from engram.learning import fast
from engram.learning.augment import check_augmentable
from engram.learning.learner import Learner, Training
from engram.learning.method import Method
from engram.learning.on_network import places_on
from engram.learning.precision import check_precision
from engram.learning.state import UndeclaredStateError, modes
from engram.nets._start import StartedNet
from engram.nets.net import Net
from engram.scenarios.task import Batch, Task, Tasks

CHECK_EVERY = 50
"""Steps between two looks at whether the loss is still finite (each look waits for the device)."""


class DivergedError(ArithmeticError):
    """The loss, or a weight, is no longer finite."""


def new_learner(tasks: Tasks, method: Method, net: Net, training: Training, seed: int, device: torch.device) -> Learner:
    """A learner with a freshly drawn network."""
    check_augmentable(training.augment, tasks)
    check_precision(training.precision, device)
    with own_global_generators(device):
        seed_global_generators(seed_of(seed, "init"), device)
        asked = net.build(tasks.shape, tasks.outputs)
        before, places = count_parameters(asked), places_on(asked)
        module = method.network(asked, tasks)
        check_start_is_used(net, asked, module, method)
        learner = Learner(module, tasks, training, seed, device)
        learner.network_replaced = module is not asked or count_parameters(module) != before
        learner.network_places = places if module is asked else places_on(module)
        seed_layers(learner, "start")
        method.start(learner, tasks)
    return learner


def check_start_is_used(net: Net, asked: nn.Module, module: nn.Module, method: Method) -> None:
    """Refuses a method that trains another network than the one whose weights were given or frozen."""
    if isinstance(net, StartedNet) and not {id(p) for p in asked.parameters()} <= {id(p) for p in module.parameters()}:
        names = "+".join(type(member).__name__ for member in method.members())
        what = f"weights {net.begin.weights}" if net.begin.weights else f"freeze {net.begin.freeze}"
        raise ValueError(f"{what} would have no effect: {names} trains another network than the one it is for")


def network_facts(learner: Learner) -> dict[str, Any]:
    """Class and size of the network that is trained."""
    return {"class": type(learner.net).__name__, "parameters": count_parameters(learner.net)}


def count_parameters(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def training_of_task(method: Method, training: Training, number: int) -> Training:
    """How a task is trained, the first being number 0. A method without gradient steps sees every image once."""
    if method.gradient_steps:
        return training.for_task(number)
    return replace(training, epochs=1, steps=0, drop_last=False)


def seed_layers(learner: Learner, when: str) -> None:
    """Seeds the global generators, which dropout and augmentation draw from, by a stream of their own.

    Each epoch has its own, so that a run which is resumed after an epoch draws what it would have drawn.
    """
    seed_global_generators(seed_of(learner.seed, f"layers, {when}", learner.task), learner.device)


def take_step(learner: Learner, method: Method, batch: Batch) -> Tensor:
    """One step of training on a batch; its loss, 0 if the network is not trained."""
    if not method.gradient_steps:
        method.after_step(learner, batch)
        return torch.zeros((), device=learner.device)
    learner.apply_schedule()
    augmented = learner.augment(batch)
    with learner.step_precision():
        loss = backward(learner, method, augmented)
    method.adjust_gradients(learner, augmented)
    learner.clip_gradients()
    learner.optimizer.step()
    method.after_step(learner, batch)  # images as they are: what it stores can be augmented anew
    return loss


def backward(learner: Learner, method: Method, batch: Batch) -> Tensor:
    """Fills the gradients of the method's loss, zeros for parameters that it does not depend on, and returns it.

    A parameter that was frozen meanwhile has none, so that no momentum moves it.
    """
    if method.plain_loss and fast.has_closed_form(learner.net):
        return fast.backward(learner, learner.net, batch)
    before = batch.x._version
    loss = method.loss(learner, batch)
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
        raise TypeError(explain_loss(method, loss))
    if batch.x._version != before:
        names = "+".join(type(member).__name__ for member in method.members())
        raise ValueError(f"{names}.loss changes batch.x in place, which later hooks get too; let it work on a copy")
    if learner.training.label_smoothing and not learner.smooths:
        raise ValueError(
            f"label_smoothing {learner.training.label_smoothing} would have no effect: the method has a loss of its "
            "own, which does not smooth labels; leave it out"
        )
    learner.optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    for p in learner.params:
        if p.grad is None and p.requires_grad:
            p.grad = torch.zeros_like(p)
    return loss.detach()


def explain_loss(method: Method, loss: Any) -> str:
    """What is wrong with a loss that has no gradient."""
    if not isinstance(loss, Tensor):
        what = "nothing" if loss is None else f"a {type(loss).__name__}"
    elif loss.numel() != 1:
        what = f"a tensor of shape {tuple(loss.shape)}"
    else:
        what = "a tensor without a gradient"
    names = "+".join(type(member).__name__ for member in method.members())
    return (
        f"{names}.loss returned {what}: return one number as a tensor that depends on the network's parameters, such "
        "as learner.loss(batch), without .item() and .detach()"
    )


def end_task(learner: Learner, method: Method, task: Task) -> None:
    """The method's hook. One that leaves layers as at test time would train all later tasks so."""
    before = modes(learner.net)
    method.end_task(learner, task)
    if modes(learner.net) != before:
        names = "+".join(type(member).__name__ for member in method.members())
        raise UndeclaredStateError(
            f"{names}.end_task leaves the network's layers in another mode, in which later tasks would be trained; put "
            "it back (learner.net.train()), or change the mode in begin_task if that is meant"
        )


def finite(total: Tensor) -> float:
    """The summed loss, which is never finite again after one loss that is not."""
    value = float(total)
    if not math.isfinite(value):
        raise DivergedError
    return value


def check_weights(learner: Learner) -> None:
    """Raises if a parameter is no longer finite."""
    if not all(bool(torch.isfinite(p).all()) for p in learner.params):
        raise DivergedError
