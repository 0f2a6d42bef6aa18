"""Fault 1: what is computed depends on a file that the key does not show."""

from dataclasses import dataclass
from pathlib import Path

from engram import L2


@dataclass
class FileNotInKey(L2):
    """L2 whose coefficient is in a file beside it."""

    def start(self, learner, tasks):
        self.coef = float(Path(__file__).with_name("coefficient.txt").read_text())
        super().start(learner, tasks)
