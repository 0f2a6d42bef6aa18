"""Locks: files that one process at a time holds. The operating system frees the locks of a process that dies."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engram.core import durable
from engram.core.system import can_remove_open_files, lock_file

ATTEMPTS = 100
"""How often creating a lock file is tried if other processes keep removing its folder."""


@dataclass(frozen=True)
class Lock:
    """A lock file, open and held, and the folders that were created for it."""

    path: Path
    held: int
    made: frozenset[Path]

    def release(self, also: Iterable[Path] = ()) -> None:
        """Remove the lock file, then the folders that were created for it and those in `also`, if they are empty."""
        if not can_remove_open_files():
            os.close(self.held)
        with suppress(PermissionError):  # Windows: another process has it open, and holds or awaits it
            self.path.unlink(missing_ok=True)
        remove_empty({*self.made, *also})
        if can_remove_open_files():
            os.close(self.held)  # last: a process that waits for it then starts over and creates its own folders


def acquire(path: Path, busy: Callable[[], bool]) -> Lock | None:
    """Acquire a lock.

    If another process holds it, `busy` is called and says whether to wait; if not, the result is None. If an OSError
    is raised, the folders created so far are removed.
    """
    made: set[Path] = set()
    attempts = 0
    while True:
        try:
            made |= {folder for folder in path.parents if not folder.exists()}
            path.parent.mkdir(parents=True, exist_ok=True)
            held = durable.DISK.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0))
        except OSError as error:
            if error.errno == errno.ELOOP and path.is_symlink():  # what it points to is not ours to create or lock
                error = OSError(errno.ELOOP, "it is a symbolic link; remove it", str(path))
            attempts += 1
            if isinstance(error, FileNotFoundError | FileExistsError) and attempts < ATTEMPTS:
                continue  # another process has just removed a folder that it had created
            remove_empty(made)
            raise error from None
        try:
            if not lock_file(held, wait=False):
                if not busy():
                    os.close(held)
                    return None
                lock_file(held)
            if os.path.samestat(os.fstat(held), path.stat()):
                return Lock(path, held, frozenset(made))
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(held)
            raise
        os.close(held)  # the previous holder has removed this file, so it no longer locks anything


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove those of the folders that are empty."""
    for folder in sorted(folders, reverse=True):  # innermost first
        with suppress(OSError):  # not empty, or already removed
            folder.rmdir()
