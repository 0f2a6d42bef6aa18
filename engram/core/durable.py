"""Durable files: what stays after a crash, or after the power fails.

Everything that must stay goes through `DISK`. Tests put another one in its place, whose n-th call fails.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Disk:
    """The calls of the system that can fail half-way through a change."""

    def open(self, path: Path, flags: int) -> int:
        return os.open(path, flags | getattr(os, "O_BINARY", 0), 0o666)

    def write(self, file: int, content: memoryview) -> int:
        """How much of the content was written."""
        return os.write(file, content)

    def sync(self, file: int) -> None:
        os.fsync(file)

    def rename(self, old: Path, new: Path) -> None:
        """A file of the new name is replaced."""
        old.replace(new)


DISK = Disk()


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """A file as the system counts it: unbuffered, so that what does not fit fails when it is written."""
    file = DISK.open(path, flags)
    try:
        yield file
    finally:
        os.close(file)


def write_all(file: int, content: bytes) -> None:
    """Write the content, and wait until it is on the disk."""
    left = memoryview(content)
    while left:
        left = left[DISK.write(file, left) :]
    DISK.sync(file)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in place of another, whole or not at all: under a name of its own first, then renamed."""
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        with opened(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
            write_all(file, content)
        DISK.rename(part, path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def read_whole(path: Path) -> bytes:
    """The content of a file."""
    with opened(path, os.O_RDONLY) as file, os.fdopen(file, "rb", closefd=False) as reader:
        return reader.read()


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk: a new or renamed file is otherwise lost if the power fails."""
    with suppress(OSError), opened(folder, os.O_RDONLY) as handle:  # some file systems, and Windows, cannot
        DISK.sync(handle)
