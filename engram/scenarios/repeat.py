"""Repeat: a split whose classes, or whole tasks, come back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from engram.core.streams import stream
from engram.core.validation import is_number
from engram.data.images import Images
from engram.scenarios.kinds import ScenarioError
from engram.scenarios.scenario import check_choice, count_training_images
from engram.scenarios.split import Split

RepeatOrder = Literal["fixed", "shuffled", "numpy", "cyclic"]
MOST_DRAWS = 10_000
"""Empty draws in a row after which the probabilities are taken for a mistake."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Repeat(Split):
    """A split whose classes come back: after its first task, each class is in each later task with a probability.

    The first tasks bring the new classes, as in a split; `length` tasks in all. A class comes back with all its images
    and, but for `task` and `domain`, with its output. If a task without new classes draws none at all, it draws again.
    With the order `cyclic` nothing is drawn: the tasks of the split are repeated in the same order.
    """

    name = "repeating-split"

    order: RepeatOrder = "fixed"  # type: ignore[assignment]
    """fixed, shuffled or numpy: the order in which classes first come, as in a split, and they come back at random;
    cyclic: the tasks of the split, repeated in the same order."""
    length: int = 0
    """Number of tasks; 0: twice as many as the split has."""
    probabilities: tuple[float, ...] = (0.2,)
    """Probability that a class is in a task after its first one: one for all classes, or one for each."""

    def __post_init__(self) -> None:
        super(Split, self).__post_init__()
        check_choice("order", self.order, get_args(RepeatOrder))
        first = len(self.group_sizes())
        if type(self.length) is not int or (self.length and self.length < first):
            raise ScenarioError(
                f"length {self.length!r}: the {first} tasks that bring new classes come first; give {first} or more, "
                f"or 0 for {2 * first}"
            )
        if is_number(self.probabilities):
            object.__setattr__(self, "probabilities", (self.probabilities,))
        p, n = self.probabilities, self.images[0].n_classes
        if not isinstance(p, tuple) or not all(is_number(one) and 0 <= one <= 1 for one in p) or len(p) not in (1, n):
            raise ScenarioError(f"probabilities {p!r}: give one number from 0 to 1, or one for each of the {n} classes")
        if self.order == "cyclic" and p != type(self).probabilities:
            raise ScenarioError(f"probabilities {p!r}: with the order cyclic nothing is drawn; give one of the two")
        if self.order != "cyclic" and not any(p) and self.count > first:
            raise ScenarioError(f"probabilities {p!r}: no class would be in tasks {first + 1} to {self.count}")

    @property
    def count(self) -> int:
        """Number of tasks."""
        return self.length or 2 * len(self.group_sizes())

    def draw_groups(self, seed: int) -> list[list[int]]:
        base = super().draw_groups(seed)
        if self.order == "cyclic":
            return [base[i % len(base)] for i in range(self.count)]
        p = self.class_probabilities()
        groups = []
        for i in range(self.count):
            new, seen = new_and_seen(base, i)
            rng = stream(seed, "repetition", i)
            for _ in range(MOST_DRAWS):
                draws = torch.rand(len(p), generator=rng, dtype=torch.float64).numpy() < p
                if drawn := [*new, *(label for label in seen if draws[label])]:
                    break
            else:
                raise ScenarioError(f"task {i + 1} drew no class {MOST_DRAWS} times; give larger probabilities")
            groups.append(drawn)
        return groups

    def class_probabilities(self) -> NDArray[np.float64]:
        """The probability of each label."""
        return np.broadcast_to(np.array(self.probabilities, np.float64), self.images[0].n_classes)

    def sizes(self) -> list[int]:
        counts, p = count_training_images(self, self.images[0]), self.class_probabilities()
        base = self.labels_of_tasks(list(range(len(counts))))
        sizes = []
        for i in range(self.count):
            new, seen = new_and_seen(base, i)
            if self.order == "cyclic":
                sizes.append(float(counts[base[i % len(base)]].sum()))
            else:  # on average
                sizes.append(float(counts[new].sum() + (counts[seen] * p[seen]).sum()))
        if self.kind == "iid":
            sizes = [sum(sizes) / len(sizes)] * len(sizes)
        return [round(size) for size in sizes]


def new_and_seen(base: list[list[int]], task: int) -> tuple[list[int], list[int]]:
    """(labels that a task brings, labels of tasks before it that may come back)."""
    new = base[task] if task < len(base) else []
    return new, sorted({label for group in base[:task] for label in group} - set(new))


def repeat(images: Images, **options: Any) -> Repeat:
    """Create a split whose classes or tasks come back; the options are the fields of `Repeat`."""
    return Repeat(images=(images,), **options)
