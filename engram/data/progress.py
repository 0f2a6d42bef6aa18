"""What is said while files are fetched."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

Say = Callable[[str], None]


def tell(message: str) -> None:
    """The default `say`: one line on stderr."""
    print(message, file=sys.stderr)


class Progress:
    """What pooch calls while it downloads: a bar on a terminal, a line a quarter elsewhere, nothing if small."""

    SMALL = 5_000_000  # bytes

    def __init__(self, name: str, say: Say) -> None:
        self.name, self.say = name, say
        self.total = self.done = 0
        self.bar: Any = None

    def update(self, n: int) -> None:
        before, self.done = self.done, min(self.done + n, self.total)
        if self.total < self.SMALL:
            return
        if self.say is tell and sys.stderr.isatty():
            if self.bar is None:
                from rich.console import Console
                from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn
                from rich.progress import Progress as Bar

                columns = ("{task.description}", BarColumn(), DownloadColumn(), TimeRemainingColumn())
                self.bar = Bar(*columns, console=Console(stderr=True), transient=True)
                self.bar.add_task(self.name, total=self.total)
                self.bar.start()
            self.bar.update(0, completed=self.done)
        elif 4 * before // self.total < 4 * self.done // self.total:
            self.say(f"{self.name}: {self.done / 1e6:.0f} of {self.total / 1e6:.0f} MB")

    def reset(self) -> None:
        """Pooch's end of a download: it counts from nothing to all at once, which says nothing new."""
        self.done = self.total

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
