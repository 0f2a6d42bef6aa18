"""Where commands write: results to standard output, progress and remarks to standard error."""

import os
import sys
from pathlib import Path
from typing import TextIO

from rich.console import Console

from engram.cli import WrongCallError, leave_stderr, leave_stdout

WIDE = 150
"""Columns if there is no terminal to ask: wide enough that tables in logs are not folded."""


class Screen(Console):
    """A console whose reader may leave: a closed pager is not an error."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        leave_stdout()
        raise SystemExit(0)


class Remarks(Console):
    """A console for progress and remarks: if nobody reads them any more, the work goes on in silence."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        leave_stderr()


def writable(folder: Path) -> Path:
    """The folder, refused if nothing can be written to it; it is made when there is something to write."""
    below = (folder.absolute(), *folder.absolute().parents)
    nearest = next(path for path in below if os.path.exists(path))  # noqa: PTH110 (Path's raises below a closed folder)
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        why = "cannot be written to" if nearest.is_dir() else "is not a folder"
        raise WrongCallError(f"nothing can be written to the folder {folder}: {nearest} {why}")
    return folder


def width(stream: TextIO | None) -> int | None:
    """None if the terminal tells; a stream that was closed before we began is None itself."""
    return None if stream and stream.isatty() else WIDE


OUT = Screen(highlight=False, width=width(sys.stdout))
ERR = Remarks(highlight=False, stderr=True, width=width(sys.stderr))
