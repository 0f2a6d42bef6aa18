"""Progress of downloads."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from engram.core.messages import Say, tell


class DownloadProgress:
    """The progress bar that pooch updates.

    On a terminal it is a bar, elsewhere one line per quarter of the file. Small files show nothing.
    """

    SMALL = 5_000_000  # bytes

    def __init__(self, name: str, say: Say, check: Callable[[int], None] = lambda _: None) -> None:
        self.name, self.say, self.check = name, say, check
        self.total = self.done = self.received = 0
        self.bar: Any = None

    def update(self, n: int) -> None:
        """Called by pooch for each piece that has arrived; `check` may end the download by raising."""
        self.received += n
        self.check(self.received)
        before, self.done = self.done, min(self.done + n, self.total)
        if self.total < self.SMALL:
            return
        if self.say is tell and sys.stderr.isatty():
            if self.bar is None:
                from rich.console import Console
                from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

                columns = ("{task.description}", BarColumn(), DownloadColumn(), TimeRemainingColumn())
                self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
                self.bar.add_task(self.name, total=self.total)
                self.bar.start()
            self.bar.update(0, completed=self.done)
        elif 4 * before // self.total < 4 * self.done // self.total:
            self.say(f"{self.name}: {self.done / 1e6:.0f} of {self.total / 1e6:.0f} MB")

    def reset(self) -> None:
        """Called by pooch at the end of a download. It then counts from 0 to the total once more: ignore that."""
        self.done, self.check = self.total, lambda _: None

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
