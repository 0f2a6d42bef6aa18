"""Fault 7: more is kept than is declared."""

from dataclasses import dataclass

import torch

from engram import Method


@dataclass
class UndeclaredMemory(Method):
    """Declares ten images and keeps all of a task."""

    kept = ("images",)
    needs = frozenset({"boundaries", "past data"})

    def start(self, learner, tasks):
        self.images = torch.zeros(0)

    def kept_bytes(self, net, pixels):
        return 10 * 4 * pixels

    def end_task(self, learner, task):
        self.images = task.train.batch(torch.arange(len(task.train))).x
