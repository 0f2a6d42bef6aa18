"""Replay of stored images: what methods with a buffer share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from engram.learning.buffer import Buffer, Rule, Storage, image_bytes
from engram.learning.learner import Learner
from engram.learning.method import Method
from engram.scenarios.task import Batch, Task, Tasks


@dataclass
class KeepsImages(Method):
    """Keeps images in a buffer."""

    capacity: int = 200
    """Images in the buffer. Not searched: methods are compared at equal memory."""
    store: Storage = "uint8"
    """How pixels are stored; uint8 loses nothing of an 8-bit source."""

    kept: ClassVar[tuple[str, ...]] = ("buffer",)
    needs = frozenset({"past data"})
    replays = True
    sized_by_budget = True
    keeps_logits: ClassVar[bool] = False
    """Whether the logits of each image are kept with it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_image_count("capacity", self.capacity)

    def rule(self) -> Rule:
        """Which images stay in the buffer."""
        return "reservoir"

    def extra(self, outputs: int) -> dict[str, int]:
        """Name and width of what is kept with each image."""
        return {"logits": outputs} if self.keeps_logits else {}

    def start(self, learner: Learner, tasks: Tasks) -> None:
        self.buffer = Buffer(learner, self.capacity, self.rule(), self.store, self.extra(tasks.outputs))

    def kept_bytes(self, net: nn.Module, pixels: int) -> int:
        outputs = output_layer_of(net)[1] if self.keeps_logits else 0
        return self.capacity * image_bytes(pixels, self.store, sum(self.extra(outputs).values()))

    def fit_budget(self, budget: int, tasks: Tasks) -> Self:
        image = image_bytes(tasks.stored_values, self.store, sum(self.extra(tasks.outputs).values()))
        if budget < image:
            raise ValueError(f"memory_budget {budget:,} leaves room for no image, which takes {image:,} bytes")
        return replace(self, capacity=budget // image)


@dataclass
class StoredReplay(KeepsImages):
    """Goes over some images of its buffer at every step; the buffer is a reservoir of the stream."""

    replay: int = 128
    """Images per draw from the buffer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_image_count("replay", self.replay)

    def after_step(self, learner: Learner, batch: Batch) -> None:
        """The batch is offered after its step: it is never in its own replay."""
        self.buffer.add(batch)


def images_per_class(capacity: int, tasks: Tasks) -> int:
    """Images of each class if all classes of all tasks have equally many; refused if there is no room for one each."""
    if not tasks.only_classes:
        raise ValueError("memory 'per-class' is for classes, and the targets of a task are not; choose another memory")
    classes = sum(len(task.classes) for task in tasks)
    if capacity < classes:
        raise ValueError(f"capacity {capacity} is below the {classes} classes of all tasks; give one image per class")
    return capacity // classes


def draw_per_class(learner: Learner, task: Task, capacity: int) -> Batch:
    """Random images of each class of a task, as many as `images_per_class` says."""
    share, rng = images_per_class(capacity, learner.tasks), learner.rng("memory")
    y = torch.cat([leaf.y for leaf in task.train.leaves()]).cpu()
    rows = [
        here[torch.randperm(len(here), generator=rng)[:share]]
        for here in ((y == label).nonzero().squeeze(1) for label in sorted(set(y.tolist())))
    ]
    return task.train.batch(torch.cat(rows).to(learner.device))


def take_another_step(learner: Learner, loss: Tensor) -> None:
    """A further step of the optimiser, within the step at hand."""
    learner.optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    learner.clip_gradients()
    learner.optimizer.step()


def check_image_count(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"{name} {value} is out of range; give 1 image or more")


def output_layer_of(net: nn.Module) -> tuple[int, int]:
    """(inputs, outputs) of a network's output layer: the one that it names, or its last nn.Linear."""
    named = getattr(net, "output_layer", None)
    layers = [net.get_submodule(named)] if named else [m for m in net.modules() if isinstance(m, nn.Linear)]
    if not layers or not hasattr(layers[-1], "out_features"):
        raise ValueError(
            f"the size of the output layer of {type(net).__name__} is not known; let the network name it, "
            'as in output_layer = "head"'
        )
    return int(layers[-1].in_features), int(layers[-1].out_features)  # type: ignore[arg-type]


def check_coefficients(**values: float) -> None:
    """Refuses a coefficient below 0, or one that is not finite."""
    for name, value in values.items():
        if not 0 <= value < float("inf"):
            raise ValueError(f"{name} {value} is out of range; give 0 or more")


def check_shares(**values: float) -> None:
    """Refuses a share outside [0, 1]."""
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise ValueError(f"{name} {value} is out of range; give 0 to 1")


def join_batches(new: Batch, old: Batch | None) -> Batch:
    """The union of two batches, new images first."""
    if old is None:
        return new
    x, y, t = (torch.cat([getattr(new, name), getattr(old, name)]) for name in ("x", "y", "t"))
    return Batch(x, y, t, tuple(sorted({*new.tasks, *old.tasks})))


def active_outputs(learner: Learner, batch: Batch) -> Tensor:
    """(batch, all outputs): which outputs are active for each sample."""
    tasks = batch.tasks if learner.tasks.kind == "task" else batch.tasks[:1]
    active = torch.zeros(len(learner.tasks), learner.tasks.outputs, dtype=torch.bool, device=batch.t.device)
    for task in tasks:
        active[task, learner.active(task)] = True
    if learner.unseen:
        active[:, list(learner.unseen)] = False
    rows = batch.t if learner.tasks.kind == "task" else torch.full_like(batch.t, tasks[0])
    return active[rows]


def losses_of(learner: Learner, logits: Tensor, batch: Batch) -> Tensor:
    """(batch,): the cross-entropy of each sample over its active outputs."""
    masked = logits.masked_fill(~active_outputs(learner, batch), float("-inf"))
    return cross_entropy(masked, batch.y, reduction="none")
