"""Online EWC: elastic weight consolidation with one running Fisher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from engram.learning.importance import Estimator, Label, check_estimator, fisher
from engram.learning.learner import Learner, Params
from engram.learning.method import Log
from engram.learning.penalty import QuadraticPenalty
from engram.scenarios.task import Task


@dataclass
class OnlineEWC(QuadraticPenalty):
    """Elastic weight consolidation with one running Fisher, centred at the last boundary (Schwarz et al., 2018).

    Paper row: "Online EWC".
    """

    coef: Annotated[float, Log(1e-2, 1e4)] = 100.0
    """Weight of the penalty; Kirkpatrick's lambda is twice this."""
    decay: float = 1.0
    """What the old Fisher is multiplied by at each boundary; the paper keeps all of it."""
    label: Label = "predicted"
    """Whose likelihood the Fisher takes: predicted (the authors' code), true, sampled, or exact (all labels)."""
    estimator: Estimator = "sample"
    """Squared gradients per sample, or per mini-batch as in the authors' permuted-domain scripts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_estimator(self.label, self.estimator)

    def importance(self, learner: Learner, task: Task) -> Params:
        new = fisher(learner, task.train, self.label, self.estimator, learner.training.batch)
        return [f.add_(old, alpha=self.decay) for f, old in zip(new, self.weights, strict=True)]
