"""Silent workers: a run of which nothing is heard for long is named, and given up if that was asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from engram.core.messages import duration

NAMED_AFTER = 600.0
"""Seconds without a report after which a worker is named on the screen."""


@dataclass
class Silence:
    """When each worker was last heard of: stopped and hung processes report nothing, and do not end."""

    timeout: float | None = None
    """Seconds without a report after which a worker is replaced; None: never."""
    named_after: float = NAMED_AFTER
    heard: dict[Any, float] = field(default_factory=dict)
    named: set[Any] = field(default_factory=set)

    def hear(self, who: Any) -> None:
        """It has begun to work, or reported something."""
        self.heard[who] = time.monotonic()
        self.named.discard(who)

    def forget(self, who: Any) -> None:
        """It no longer has anything to report."""
        self.heard.pop(who, None)
        self.named.discard(who)

    def next_look(self) -> float | None:
        """Seconds until somebody may have been silent for too long; None if nobody can be."""
        due = [then + self.named_after for who, then in self.heard.items() if who not in self.named]
        if self.timeout is not None:
            due += [then + self.timeout for then in self.heard.values()]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def to_name(self) -> Iterator[tuple[Any, str]]:
        """Those that have just been silent for long, and for how long: once per silence."""
        for who, silent in self._silent_for(self.named_after):
            if who not in self.named:
                self.named.add(who)
                yield who, duration(silent)

    def to_replace(self) -> Iterator[tuple[Any, str]]:
        """Those that are to be replaced, and how long nothing was heard of them."""
        if self.timeout is not None:
            yield from ((who, duration(silent)) for who, silent in self._silent_for(self.timeout))

    def _silent_for(self, seconds: float) -> list[tuple[Any, float]]:
        now = time.monotonic()
        return [(who, now - then) for who, then in self.heard.items() if now - then >= seconds]
