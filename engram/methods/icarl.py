"""Incremental classifier and representation learning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, normalize, one_hot

from engram.learning.buffer import Rule
from engram.learning.learner import Learner, in_eval_mode
from engram.learning.method import Each
from engram.methods._replay import Reduction, teacher_of
from engram.methods._stored import KeepsImages
from engram.scenarios.task import Batch, Data, Task, Tasks


@dataclass
class ICaRL(KeepsImages):
    """Exemplars of each class, distillation, and prediction by the nearest mean of exemplars (Rebuffi et al., 2017).

    By default as in the code of Buzzega et al. (2020).
    """

    title = "iCaRL"
    family = "rehearsal"
    look = ("black", "P", "-")

    capacity: int = 500
    """Exemplars in all."""
    quota: Literal["seen", "all"] = "seen"
    """What the capacity is divided by: the classes so far, so that old ones give up exemplars; or all classes of the
    scenario (van de Ven et al., 2022)."""
    exemplars: Annotated[Literal["herding", "random"], Each()] = "herding"
    """How the images of a class are selected: such that their mean feature is near the class mean, or at random."""

    reduction: Reduction = "mean"
    """How the loss is reduced over classes: mean, or sum (van de Ven et al., 2022)."""
    temperature: float = 1.0
    """Divisor of the old network's logits in targets, not in predictions; van de Ven et al. (2022): 2."""
    unit_features: bool = False
    """Whether features, and the means of classes, are scaled to length 1 (Rebuffi et al.; van de Ven et al., 2022)."""

    working = ("teacher",)
    needs = frozenset({"boundaries", "past data"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature {self.temperature} is out of range; give a number above 0")

    def rule(self) -> Rule:
        return "per-class"

    def start(self, learner: Learner, tasks: Tasks) -> None:
        if tasks.kind in ("domain", "iid"):
            raise ValueError(
                f"iCaRL needs new classes in every task, and {tasks.kind} learning has none: all targets would come "
                "from the old network; choose kind task or class"
            )
        for task in tasks:
            head = tasks.heads[task.index]
            here = {label for leaf in task.train.leaves() for label in set(leaf.y.tolist())}
            if here != set(range(head.start, head.stop)):
                raise ValueError(
                    f"iCaRL needs tasks of new classes alone, and in task {task.index + 1} classes return or are "
                    "missing: their targets would come from the old network; choose a scenario without repetition"
                )
        if self.capacity < tasks.outputs:
            raise ValueError(f"capacity {self.capacity} is below the {tasks.outputs} classes; give one image per class")
        super().start(learner, tasks)

    def begin_task(self, learner: Learner, task: Task) -> None:
        self.teacher = teacher_of(learner)

    def data(self, task: Task) -> Data:
        return task.train + self.buffer.data() if len(self.buffer) else task.train

    def pass_sizes(self, images: Sequence[int]) -> list[int]:
        """At most: how many exemplars there are depends on the number of classes."""
        return [new + min(self.capacity, sum(images[:i])) for i, new in enumerate(images)]

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        """Binary cross-entropy over the classes so far; targets of old classes are the old network's outputs."""
        head = learner.tasks.heads[learner.task]
        targets = one_hot(batch.y, learner.tasks.outputs).to(batch.x)
        if self.teacher is not None:
            with torch.no_grad():
                old = self.teacher.logits(batch.x, batch.t)
            targets[:, : head.start] = torch.sigmoid(old[:, : head.start] / self.temperature)
        logits = learner.logits(batch.x, batch.t)
        loss = binary_cross_entropy_with_logits(logits[:, : head.stop], targets[:, : head.stop])
        return head.stop * loss if self.reduction == "sum" else loss

    def features_of(self, learner: Learner, x: Tensor, t: Tensor | None) -> Tensor:
        features = learner.features(x, t)
        return normalize(features) if self.unit_features else features

    @torch.no_grad()
    def end_task(self, learner: Learner, task: Task) -> None:
        """New classes get their quota; the buffer cuts those of old classes to the same."""
        with in_eval_mode(learner.net):
            parts = [(self.features_of(learner, part.x, part.t), part.y) for part in task.train.chunks()]
        features, labels = (torch.cat(part) for part in zip(*parts, strict=True))
        head = learner.tasks.heads[task.index]
        quota = self.capacity // (head.stop if self.quota == "seen" else learner.tasks.outputs)
        rows = []
        for label in range(head.start, head.stop):
            own = (labels == label).nonzero().squeeze(1)
            order = torch.randperm(len(own), generator=learner.rng("exemplars")).to(own.device)
            if self.exemplars == "herding":
                order = herd(features[own], quota)
            rows.append(own[order[:quota]])
        self.buffer.add(task.train.batch(torch.cat(rows)))

    @torch.no_grad()
    def scores(self, learner: Learner, x: Tensor, task: int | None) -> Tensor:
        """Minus the squared distance to the mean feature of each class's exemplars; −∞ for classes without."""
        held = self.buffer.everything()
        if held is None:
            return super().scores(learner, x, task)
        t = None if task is None else torch.full((len(x),), task, device=x.device)
        known = self.features_of(learner, held.x, held.t)
        members = one_hot(held.y, learner.tasks.outputs).to(known).t()  # (classes, exemplars)
        count = members.sum(1, keepdim=True)
        means = members @ known / count.clamp(min=1)
        means = normalize(means) if self.unit_features else means
        distance = torch.cdist(self.features_of(learner, x, t), means).square()
        return (-distance).masked_fill(count.squeeze(1) == 0, float("-inf"))


def herd(features: Tensor, n: int) -> Tensor:
    """Indices, in order, such that the mean of the first k is as near to the mean of all as a greedy choice gets.

    Rebuffi et al. 2017, algorithm 4: the k-th minimises ‖μ − (f + sum of those before) / k‖.
    """
    chosen: list[int] = []
    mean, summed = features.mean(0), torch.zeros_like(features[0])
    squares = features.square().sum(1)
    for k in range(1, min(n, len(features)) + 1):
        distance = squares - 2 * features @ (k * mean - summed)  # up to a constant, times k²
        distance[chosen] = float("inf")
        best = int(distance.argmin())
        chosen.append(best)
        summed = summed + features[best]
    return torch.tensor(chosen, dtype=torch.long, device=features.device)
