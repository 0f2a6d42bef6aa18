"""The folder of a sweep: its records, read once, and who runs what now. Works without torch."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from engram.core import durable
from engram.core.locks import Lock, acquire
from engram.core.messages import Say, tell
from engram.core.system import lock_file
from engram.runs.index import IndexedFile, has_index
from engram.runs.records import Record, UnwritableError, append_record, parse_records, record_files

RECORDS = "records.jsonl"
KEPT = "kept"
"""Folder of what runs leave beside their records."""


class Store:
    """A folder's files of records and its checkpoints, which several drivers may use at once."""

    def __init__(self, folder: Path, say: Say = tell) -> None:
        self.folder, self.say = folder, say
        self._finished: dict[str, Record] = {}
        self._read: dict[Path, tuple[int, int, int]] = {}
        self._said: set[str] = set()

    def finished(self) -> dict[str, Record]:
        """By key, the runs that are recorded and did not fail; reads what was added to the files since the last look.

        Files are read in the order of their names, and the first record of a key counts.
        """
        for path in record_files(self.folder, self._say_once):
            for record in self._new(path):
                if record.status != "failed" and record.key not in self._finished:
                    record.reused = True
                    self._finished[record.key] = record
        return self._finished

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.say(text)

    def _new(self, path: Path) -> list[Record]:
        """The records that a file got since it was last read; none of a file that cannot be read, which is said."""
        if path not in self._read and has_index(path):
            return self._indexed(path)
        inode, offset, lines = self._read.get(path, (0, 0, 1))
        try:
            handle = durable.DISK.open(path, os.O_RDONLY)
        except OSError as error:
            self._say_once(f"{path} cannot be read: {error.strerror}; skipped")
            return []
        with os.fdopen(handle, "rb") as file:
            now = os.fstat(handle)
            if (now.st_ino, now.st_size) == (inode, offset):
                return []
            if now.st_ino != inode or now.st_size < offset:  # another file
                offset, lines = 0, 1
            locked = True
            try:
                lock_file(handle, shared=True)  # nobody is in the middle of a line
            except OSError:  # a file system without locks: a line may be half written
                locked = False
            file.seek(offset)
            text = file.read()
            if not locked:
                text = text[: text.rfind(b"\n") + 1]
        self._read[path] = (now.st_ino, offset + len(text), lines + text.count(b"\n"))
        return parse_records(text.decode(errors="replace"), path, lines, self.say)

    def _indexed(self, path: Path) -> list[Record]:
        """The records of a large file that was not read before."""
        indexed = IndexedFile(path)
        try:
            state = indexed.read(self._say_once)
        except OSError as error:
            self._say_once(f"{path} cannot be read: {error.strerror}; skipped")
            return []
        self._read[path] = (state.inode, state.size, state.lines + 1)
        return indexed.records

    def add(self, record: Record, file: str = RECORDS) -> None:
        """Records a run, after what it leaves is on the disk, unless that was done before (a file could not be read
        then, and can be now); of one that did not fail the checkpoints go."""
        if record.left is not None:
            record.left.write(self.folder, record.key)
        if record.status == "failed" or record.key not in self.finished():
            append_record(self.folder / file, record)
        if record.status != "failed":
            shutil.rmtree(self.checkpoints(record.key), ignore_errors=True)

    def remove_orphans(self) -> None:
        """Remove the checkpoints of runs that are recorded: a process was killed between recording and removing."""
        folder = self.folder / "checkpoints"
        try:
            left = [entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return
        for key in [key for key in left if key in self.finished()]:
            with suppress(UnwritableError):  # a folder that is only read
                if lock := self.lock_run(key):
                    shutil.rmtree(self.checkpoints(key), ignore_errors=True)
                    lock.release()

    def checkpoints(self, key: str) -> Path:
        """Where the checkpoints of a run are."""
        return self.folder / "checkpoints" / key

    def lock_run(self, key: str, *, wait: bool = False) -> RunLock | None:
        """The right to run a key; None if another process (or another part of this one) has it, unless waited for.

        The system takes it back from a process that dies.
        """
        path = self.folder / "checkpoints" / f"{key}.lock"
        try:
            lock = acquire(path, lambda: wait)
        except OSError as error:
            raise UnwritableError("a lock", path, error) from error
        return RunLock(lock) if lock else None


def kept_path(folder: Path, key: str) -> Path:
    """The file of what a run leaves beside its record."""
    return folder / KEPT / f"{key}.pt"


def write_kept(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all, and waits until it is on the disk."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        durable.write_whole(path, content)
    except OSError as error:
        raise UnwritableError("what the run leaves", path, error) from error


class RunLock:
    """The right to run a key, until it is released."""

    def __init__(self, lock: Lock) -> None:
        self.lock = lock

    def release(self) -> None:
        self.lock.release(also=[self.lock.path.parent])  # stays if others are at work, or left checkpoints
