"""Locks: files that one process at a time holds. The system frees the lock of a process that dies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ATTEMPTS = 100
"""To make a folder that other processes remove meanwhile."""


@dataclass(frozen=True)
class Lock:
    """A lock file, open and held, and the folders that had to be made for it."""

    path: Path
    held: int
    made: frozenset[Path]

    def release(self, also: Iterable[Path] = ()) -> None:
        """The file goes, and so do folders that were made for it, and others that are named, where they are empty."""
        self.path.unlink(missing_ok=True)
        remove_empty({*self.made, *also})
        os.close(self.held)  # last: who waits for it begins anew, with folders of its own


def acquire(path: Path, busy: Callable[[], bool]) -> Lock | None:
    """The lock, or None where another has it and `busy` says not to wait. An OSError leaves no folder behind."""
    import fcntl  # POSIX alone has it

    made: set[Path] = set()
    attempts = 0
    while True:
        try:
            made |= {folder for folder in path.parents if not folder.exists()}
            path.parent.mkdir(parents=True, exist_ok=True)
            held = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            attempts += 1
            if isinstance(error, FileNotFoundError | FileExistsError) and attempts < ATTEMPTS:
                continue  # another process has just removed what it had made
            remove_empty(made)
            raise
        try:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not busy():
                    os.close(held)
                    return None
                fcntl.flock(held, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(held), path.stat()):
                return Lock(path, held, frozenset(made))
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(held)
            raise
        os.close(held)  # whoever had it has removed this file meanwhile: it is nobody's lock


def remove_empty(folders: Iterable[Path]) -> None:
    for folder in sorted(folders, reverse=True):  # the innermost first
        with suppress(OSError):  # not empty, or gone
            folder.rmdir()
