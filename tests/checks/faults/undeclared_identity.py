"""Fault 6: task identity is used at test time and not declared."""

from dataclasses import dataclass

from engram import Method


@dataclass
class UndeclaredIdentity(Method):
    """Scales its outputs by the number of the task."""

    def scores(self, learner, x, task):
        return learner.logits(x) * (1 + task)
