"""Online EWC: elastic weight consolidation with one running sum of Fisher information."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from engram.learning.learner import Learner, Params
from engram.learning.method import Log
from engram.methods._penalty import FisherPenalty
from engram.scenarios.task import Task


@dataclass
class OnlineEWC(FisherPenalty):
    """Elastic weight consolidation with one running sum of Fisher information (Schwarz et al., 2018).

    Paper row: "Online EWC".
    """

    title = "Online EWC"
    family = "penalty"
    look = ("blue", "o", "-")
    target_kinds = ("classes", "values", "labels")
    equal_memory = True

    coef: Annotated[float, Log(1e-2, 1e4)] = 100.0
    """Coefficient of the penalty; Kirkpatrick's lambda is twice this."""
    decay: float = 1.0
    """Factor of the old Fisher information at each boundary; 1 in the paper."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.decay <= 1:
            raise ValueError(f"decay {self.decay} is out of range; give 0 to 1")

    def importance(self, learner: Learner, task: Task) -> Params:
        new = self.fisher(learner, task)
        return [f.add_(old, alpha=self.decay) for f, old in zip(new, self.weights, strict=True)]
