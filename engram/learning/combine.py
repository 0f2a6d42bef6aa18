"""Several methods at once: rehearsal with a penalty, say."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from engram.learning.learner import Learner
from engram.learning.method import Method
from engram.scenarios.task import Batch, Data, Task, Tasks

SOLE = ("network", "curriculum", "data", "loss", "scores")
"""Hooks that return something: at most one member may override each of them."""
STAGE_ORDER = ("read", "add", "project")
"""The order in which members adjust gradients."""


def combine(methods: Sequence[Method]) -> Method:
    """One method that does what all of these do; refused if two of them override the same hook of `SOLE`."""
    for method in methods if isinstance(methods, list | tuple) else [methods]:
        if not isinstance(method, Method):
            raise TypeError(
                f"method {method!r} is not a method; give an instance, such as engram.EWC(coef=600), or several"
            )
    members = tuple(member for method in methods for member in method.members())
    if not members:
        raise ValueError("no method was given; give one or more")
    if len({type(member) for member in members}) < len(members):
        names = ", ".join(type(member).__name__ for member in members)
        raise ValueError(f"{names}: a method is given twice; a combination has each once")
    return members[0] if len(members) == 1 else Combined(members)


class Combined(Method):
    """Members act in their order, on gradients in that of their `gradient_stage`; at most one of them decides on
    network, curriculum, data, loss and scores each."""

    def __init__(self, methods: tuple[Method, ...]) -> None:
        self._members = methods
        self._by_stage = sorted(methods, key=lambda member: STAGE_ORDER.index(member.gradient_stage))
        if untrained := [type(m).__name__ for m in methods if not m.gradient_steps]:
            raise ValueError(f"{untrained[0]} does not train the network and cannot be combined with other methods")
        self._sole = {}
        for hook in SOLE:
            deciding = [m for m in methods if getattr(type(m), hook) is not getattr(Method, hook)]
            if len(deciding) > 1:
                names = " and ".join(type(m).__name__ for m in deciding)
                raise ValueError(f"{names} cannot be combined: each decides on the {hook}")
            self._sole[hook] = deciding[0] if deciding else methods[0]
        # instance attributes; a plain method has them on its class
        self.needs = frozenset().union(*(m.needs for m in methods))  # type: ignore[misc]
        shared = [one for one in methods[0].target_kinds if all(one in m.target_kinds for m in methods)]
        self.target_kinds = tuple(shared)  # type: ignore[misc]
        optimizers = sorted({m.optimizer for m in methods} - {Method.optimizer})
        if len(optimizers) > 1:
            raise ValueError(
                f"{' and '.join(optimizers)}: these methods cannot be combined, each has its own optimiser"
            )
        self.optimizer = optimizers[0] if optimizers else Method.optimizer  # type: ignore[misc]
        self.networks = max(m.networks for m in methods)  # type: ignore[misc]
        whole = all(m.checkpoints == "epoch" for m in methods)
        self.checkpoints = "epoch" if whole else "task"  # type: ignore[misc]

    def members(self) -> Sequence[Method]:
        return self._members

    @property
    def plain_loss(self) -> bool:
        return self._sole["loss"].plain_loss

    def needs_boundaries(self) -> bool:
        return any(member.needs_boundaries() for member in self._members)

    def kept_bytes(self, net: nn.Module, pixels: int) -> int:
        return sum(member.kept_bytes(net, pixels) for member in self._members)

    def kept_bytes_after(self, net: nn.Module, pixels: int, tasks: int) -> int:
        return sum(member.kept_bytes_after(net, pixels, tasks) for member in self._members)

    def network(self, net: nn.Module, tasks: Tasks) -> nn.Module:
        return self._sole["network"].network(net, tasks)

    def curriculum(self, tasks: Tasks) -> Sequence[Task]:
        return self._sole["curriculum"].curriculum(tasks)

    def data(self, task: Task) -> Data:
        return self._sole["data"].data(task)

    def pass_sizes(self, images: Sequence[int]) -> list[int]:
        return self._sole["data"].pass_sizes(images)

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        return self._sole["loss"].loss(learner, batch)

    def start(self, learner: Learner, tasks: Tasks) -> None:
        for member in self._members:
            member.start(learner, tasks)

    def begin_task(self, learner: Learner, task: Task) -> None:
        for member in self._members:
            member.begin_task(learner, task)

    def adjust_gradients(self, learner: Learner, batch: Batch) -> None:
        for member in self._by_stage:
            member.adjust_gradients(learner, batch)

    def after_step(self, learner: Learner, batch: Batch) -> None:
        for member in self._members:
            member.after_step(learner, batch)

    def end_task(self, learner: Learner, task: Task) -> None:
        for member in self._members:
            member.end_task(learner, task)

    def scores(self, learner: Learner, x: Tensor, task: int | None) -> Tensor:
        return self._sole["scores"].scores(learner, x, task)

    def samples(self, learner: Learner, n: int) -> Tensor | None:
        drawn = (member.samples(learner, n) for member in self._members)
        return next((images for images in drawn if images is not None), None)
