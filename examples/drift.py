"""A regulariser of your own: parameters that moved far are held more tightly.

engram run split-mnist/task drift --file examples/drift.py --coef 5
"""

from dataclasses import dataclass

from engram import Learner, Params, QuadraticPenalty, Task


@dataclass
class Drift(QuadraticPenalty):
    """Importance is the squared distance that a parameter has travelled, summed over tasks."""

    coef: float = 5.0
    """Coefficient of the penalty."""

    def importance(self, learner: Learner, task: Task) -> Params:
        moved = zip(self.weights, learner.params, self.centre, strict=True)
        return [old + (p.detach() - start) ** 2 for old, p, start in moved]
