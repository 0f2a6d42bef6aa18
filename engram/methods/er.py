"""Experience replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from engram.learning.buffer import Rule
from engram.learning.learner import Learner
from engram.learning.method import Each
from engram.methods._replay import share_of_now
from engram.methods._stored import StoredReplay, draw_per_class, images_per_class, join_batches
from engram.scenarios.task import Batch, Task, Tasks


@dataclass
class ER(StoredReplay):
    """Experience replay: next to each batch, images from a reservoir (Ratcliff, 1990; Chaudhry et al., 2019).

    As in the code of Buzzega et al. (2020).
    """

    title = "ER"
    family = "rehearsal"
    look = ("green", "^", "-")
    target_kinds = ("classes", "values", "labels")

    mixing: Annotated[Literal["union", "sum", "by-task"], Each()] = "union"
    """The loss: its mean over new and replayed images together, the sum of the two means, or the two means weighted by
    1/t and 1 − 1/t in the t-th task (van de Ven et al., 2022)."""
    memory: Literal["reservoir", "per-class"] = "reservoir"
    """reservoir: a uniform sample of the stream; per-class: random images of each class at the end of its task, an
    equal number of all classes of the scenario (van de Ven et al., 2022)."""

    needs = frozenset({"past data"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.memory == "per-class" or self.mixing == "by-task":
            self.needs = frozenset({"boundaries", "past data"})  # type: ignore[misc]

    def rule(self) -> Rule:
        return "reservoir" if self.memory == "reservoir" else "per-task"

    def start(self, learner: Learner, tasks: Tasks) -> None:
        if self.memory == "per-class":
            images_per_class(self.capacity, tasks)
        super().start(learner, tasks)

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        old = self.buffer.draw(self.replay)
        if self.mixing == "union" or old is None:
            return learner.loss(join_batches(batch, old))
        if self.mixing == "sum":
            return learner.loss(batch) + learner.loss(old)
        return share_of_now(learner) * learner.loss(batch) + (1 - share_of_now(learner)) * learner.loss(old)

    def after_step(self, learner: Learner, batch: Batch) -> None:
        if self.memory == "reservoir":
            super().after_step(learner, batch)

    def end_task(self, learner: Learner, task: Task) -> None:
        if self.memory == "per-class":
            self.buffer.add(draw_per_class(learner, task, self.capacity))
