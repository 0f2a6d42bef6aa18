"""A hook under a name that no hook has."""

from dataclasses import dataclass

import engram as eg


@dataclass
class UnknownHook(eg.Method):
    """A hook under a name that no hook has."""

    def on_step_end(self, learner, batch):
        self._seen = len(batch)
