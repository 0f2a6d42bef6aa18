"""Fault 12: a hook that nothing calls."""

from dataclasses import dataclass

from engram import Method


@dataclass
class MisspeltHook(Method):
    """Means to do something at the end of each task."""

    def end_tasks(self, learner, task):
        learner.new_optimizer()
