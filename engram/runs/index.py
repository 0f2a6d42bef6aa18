"""Indexes of large files of records: what tables need of each record, so that 100,000 are read within a second.

The JSON lines are the truth; an index (SQLite, a hidden file beside them) is derived from them. It is brought up to
date when the file has grown, made anew if it does not fit or is damaged, and not needed if it cannot be written. An
index counts only for the very file that it was made from: one that was copied or unpacked with its records does not.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from engram.core import durable
from engram.core.messages import Say
from engram.core.system import lock_file
from engram.runs.indexed import CHANGING, INDEX_COLUMNS, INDEX_FORMAT, Chunk, SharedTexts, texts_of_rows
from engram.runs.records import Record, sound_record

LEAST_SIZE = 200_000
"""Bytes from which on a file has an index: about 100 records, which take a hundredth of a second to read."""
RECORDS_PER_CHUNK = 20_000
"""Records per row of the index; each row is checked as a whole."""
SETTLED = 2_000_000_000
"""Nanoseconds after which a file's time tells whether it was changed: clocks of file systems are coarse."""


@dataclass
class ReadState:
    """How far a file was read."""

    inode: int = 0
    size: int = 0
    """Bytes, up to the end of a line."""
    changed: int = 0
    """The file's time of change, in nanoseconds; 0 if the file may change without a new time."""
    digest: str = ""
    lines: int = 0
    bad: list[int] = field(default_factory=list)
    """Numbers of lines that are not whole records."""


class IndexedFile:
    """A file of records, read through its index."""

    def __init__(self, path: Path) -> None:
        self.path, self.place = path, path.with_name(f".{path.name}.index")
        self.state, self.shared = ReadState(), SharedTexts()
        self.records: list[Record] = []
        self.chunks: list[tuple[str, str, str]] = []
        """Of each chunk the two texts, and a digest of both."""

    def read(self, say: Say) -> ReadState:
        """Read all records; what the index does not have yet is added to it, if it can be written."""
        with without_collection(), os.fdopen(durable.DISK.open(self.path, os.O_RDONLY), "rb") as file:
            with suppress(OSError):  # a file system without locks: a line may be half written, and is left for later
                lock_file(file.fileno(), shared=True)
            self.load_index()
            now, started = os.fstat(file.fileno()), time.time_ns()
            if not self.is_current(now):
                begin, digest = self.check_beginning(file, now)
                stored = len(self.chunks)
                self.read_lines(file, digest)
                self.state.inode = now.st_ino
                self.state.changed = now.st_ctime_ns if started - now.st_ctime_ns > SETTLED else 0
                self.save(stored if begin else 0, anew=not begin)
            file.seek(self.state.size)
            self.report(say, file.read())
        return self.state

    def load_index(self) -> None:
        """What the index has, if all of it is as it was written."""
        try:
            if not self.place.is_file():
                return
            with closing(sqlite3.connect(f"file:{self.place}?mode=ro", uri=True, timeout=5)) as base:
                if list(base.execute("SELECT 1 FROM sqlite_master WHERE type IN ('view', 'trigger') LIMIT 1")):
                    return  # not ours: reading a view may take without end
                values = dict(base.execute("SELECT name, value FROM state"))
                if values.pop("format", "") != INDEX_FORMAT:
                    return
                state = ReadState(**json.loads(values["state"]))
                self.chunks = list(base.execute("SELECT quick, rest, digest FROM chunks ORDER BY number"))
            if values["digest"] != digest_of(values["state"], *(digest for *_, digest in self.chunks)):
                raise ValueError("damaged")
            for quick, rest, digest in self.chunks:
                if digest_of(quick, rest) != digest:
                    raise ValueError("damaged")
                self.take(quick, rest)
            self.state = state
        except (sqlite3.Error, ValueError, TypeError, KeyError, OSError):
            self.start_over()

    def start_over(self) -> None:
        self.state, self.shared, self.records, self.chunks = ReadState(), SharedTexts(), [], []

    def is_current(self, now: os.stat_result) -> bool:
        """Whether nothing was written since: by the file's own time, which nobody can set back."""
        return (now.st_ino, now.st_size, now.st_ctime_ns) == (self.state.inode, self.state.size, self.state.changed)

    def check_beginning(self, file: IO[bytes], now: os.stat_result) -> tuple[int, Any]:
        """Where new lines begin, with a hash of all before: 0 if the file begins with other lines than the index."""
        digest = hashlib.sha256()
        if now.st_ino == self.state.inode and now.st_size >= self.state.size > 0:
            left = self.state.size
            while left and (piece := file.read(min(left, 1 << 20))):
                digest.update(piece)
                left -= len(piece)
            if digest.hexdigest() == self.state.digest:
                return self.state.size, digest
        self.start_over()
        file.seek(0)
        return 0, hashlib.sha256()

    def read_lines(self, file: IO[bytes], digest: Any) -> None:
        """Read all whole lines from here on."""
        rows: list[list[Any]] = []
        first = len(self.shared.texts)
        for line in file:
            if not line.endswith(b"\n"):
                file.seek(self.state.size)
                break
            at, self.state.size = self.state.size, self.state.size + len(line)
            self.state.lines += 1
            digest.update(line)
            if not line.strip():
                continue
            record = sound_record(line.decode(errors="replace").removeprefix("\ufeff"))
            if record is None:
                self.state.bad.append(self.state.lines)
                continue
            rows.append(self.row_of(record, at, len(line)))
            if len(rows) == RECORDS_PER_CHUNK:
                first = self.add_chunk(first, rows)
                rows = []
        if rows:
            self.add_chunk(first, rows)
        self.state.digest = digest.hexdigest()

    def row_of(self, record: Record, at: int, length: int) -> list[Any]:
        """What the index keeps of a record, by INDEX_COLUMNS."""
        number = self.shared.number
        own = {name: record.environment[name] for name in CHANGING if name in record.environment}
        machine = {name: value for name, value in record.environment.items() if name not in CHANGING}
        given = {"seed": record.spec["seed"]} if "seed" in record.spec else {}
        spec_seed = None if given == {"seed": record.seed} else given
        made = {
            "at": at, "length": length, "setting": number(record.stated), "spec_seed": spec_seed,
            "computer": number(json.dumps(machine)), "own": own, "sizes": number(json.dumps(record.memory)),
            "bare": not record.extra,
        }  # fmt: skip
        return [made[name] if name in made else getattr(record, name) for name in INDEX_COLUMNS]

    def add_chunk(self, first: int, rows: list[list[Any]]) -> int:
        """Add rows, and the shared texts that are new with them; where further texts begin."""
        quick, rest = texts_of_rows(rows, first=first, shared=self.shared.texts[first:])
        self.chunks.append((quick, rest, digest_of(quick, rest)))
        self.take(quick, rest)
        return len(self.shared.texts)

    def take(self, quick: str, rest: str) -> None:
        """Make records of the rows of a chunk."""
        chunk = Chunk(self.path, self.shared, quick, rest)
        if chunk.quick["first"] == len(self.shared.texts):  # else they were added when it was made
            for text in chunk.quick["shared"]:
                self.shared.number(text)
        self.records += chunk.records()

    def save(self, stored: int, *, anew: bool) -> None:
        """Write the index: all of it under another name first, or what is new into the one that is there."""
        part = self.place.with_name(f"{self.place.name}.{os.getpid()}")
        place = part if anew else self.place
        try:
            part.unlink(missing_ok=True)
            with closing(sqlite3.connect(place, timeout=5)) as base, base:
                base.execute("PRAGMA synchronous = OFF")  # it can be made again
                base.execute("CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT)")
                base.execute(
                    "CREATE TABLE IF NOT EXISTS chunks (number INTEGER PRIMARY KEY, quick TEXT, rest TEXT, digest TEXT)"
                )
                rows = [(number, *self.chunks[number]) for number in range(stored, len(self.chunks))]
                base.executemany("INSERT INTO chunks VALUES (?, ?, ?, ?)", rows)
                state = json.dumps(vars(self.state))
                digest = digest_of(state, *(one for *_, one in self.chunks))
                values = {"format": INDEX_FORMAT, "state": state, "digest": digest}
                base.executemany("REPLACE INTO state VALUES (?, ?)", values.items())
            if anew:
                part.replace(self.place)
        except (sqlite3.Error, OSError):  # a folder that is only read, or another process was faster
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def report(self, say: Say, rest: bytes) -> None:
        """Say which lines are not records, a last one without its end included."""
        torn = [self.state.lines + 1] if rest.strip() else []
        for number in [*self.state.bad, *torn]:
            say(f"{self.path}, line {number}: not a whole record, skipped")


@contextmanager
def without_collection() -> Iterator[None]:
    """No search for cycles meanwhile: records are many objects without any."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def digest_of(*texts: str) -> str:
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=16).hexdigest()


def has_index(path: Path) -> bool:
    """Whether a file is large enough for one."""
    try:
        return path.stat().st_size >= LEAST_SIZE
    except OSError:
        return False
