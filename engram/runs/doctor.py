"""The doctor: damage in a folder of records and checkpoints, found and mended. Of all that is changed a copy stays."""

from __future__ import annotations

import json
import os
import shutil
import statistics
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from engram.core.durable import opened, read_whole, write_all
from engram.core.locks import remove_empty
from engram.core.registry import METHODS, NETS
from engram.core.system import lock_file
from engram.data.images import Images
from engram.data.sets import CATALOG
from engram.runs.checkpoints import describe_damage, unpacked
from engram.runs.records import Record, record_files, sound_record
from engram.runs.setting import OWN_CODE
from engram.runs.spec import Spec, from_json

COPIES = "before-doctor"
"""The folder for copies, numbered; their names end in `.kept`, so that nothing reads them as records."""
CLOSE = 1e-6
"""Points by which a recorded average may differ from the mean of its matrix; both come from the same floats."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: where, what, and what mends it."""

    where: str
    what: str
    remedy: str
    """What --fix does; empty if there is nothing to do by itself."""
    mend: Callable[[], None] | None = field(default=None, compare=False)


class Doctor:
    """Examines a folder; what it finds can be mended as long as no process is at work there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records = self.unknown_keys = self.unfinished = 0
        self.finished: set[str] = set()
        self.kept: Path | None = None
        """Where copies are, if there are any."""

    def examine(self) -> list[Finding]:
        """All findings: records first, since what they say decides which checkpoints are orphans."""
        found = [finding for file in record_files(self.folder) for finding in self.examine_file(file)]
        return found + list(self.examine_checkpoints())

    def examine_file(self, file: Path) -> list[Finding]:
        """Torn lines, duplicates, keys and averages that do not agree with the rest of their record."""
        bad: dict[int, str] = {}
        seen: dict[str, int] = {}
        lines = lines_of(read_whole(file))
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            record = sound_record(line.decode(errors="replace").removeprefix("\ufeff"))
            if record is None:
                bad[number] = "not a whole record"
                continue
            self.records += 1
            if problem := self.examine_record(record):
                bad[number] = problem
            elif record.status != "failed":
                if record.key in seen:
                    bad[number] = f"run {record.key} is recorded in line {seen[record.key]} already"
                seen.setdefault(record.key, number)
        self.finished |= seen.keys()
        remedy = "remove the line; if it was a run, the same command makes it again"
        to_take = {number: lines[number - 1] for number in bad}
        mend = lambda: self.take_out(file, to_take)  # noqa: E731 (all lines of a file at once)
        return [
            Finding(f"{file}, line {number}", what, remedy, mend if number == max(bad) else None)
            for number, what in bad.items()
        ]

    def examine_record(self, record: Record) -> str:
        """What does not agree inside a record; empty if all does."""
        key = recompute_key(record)
        self.unknown_keys += key is None
        if key is not None and key != record.key:
            return f"its key is {record.key}, but its spec has the key {key}"
        if record.status == "done" and record.accuracy and record.average_accuracy is not None:
            mean = statistics.fmean(record.accuracy[-1])
            if abs(mean - record.average_accuracy) > CLOSE:
                return f"its average accuracy is {record.average_accuracy:g}, but its matrix gives {mean:g}"
        return ""

    def examine_checkpoints(self) -> Iterator[Finding]:
        """Checkpoints that are damaged or not needed any more, and what killed processes have left."""
        folder = self.folder / "checkpoints"
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.is_dir() and not path.is_symlink():
                yield from self.examine_run(path)
            elif path.suffix == ".lock" and not is_held(path):
                yield self.removal(path, "a lock that nobody holds")
        with suppress(OSError):
            if folder.is_dir() and not any(folder.iterdir()):
                yield Finding(str(folder), "empty", "remove it", folder.rmdir)

    def examine_run(self, path: Path) -> Iterator[Finding]:
        """The checkpoints of one run."""
        if is_held(path.with_name(f"{path.name}.lock")):
            return  # it runs now
        if path.name in self.finished:
            yield self.removal(path, "checkpoints of a run that is recorded")
            return
        whole = 0
        for file in sorted(path.iterdir()):
            if file.suffix != ".pt":
                yield self.removal(file, "part of a checkpoint that was not finished")
                continue
            if not file.is_file():
                yield self.removal(file, "not a regular file")
                continue
            try:
                unpacked(read_whole(file), path.name)
                whole += 1
            except Exception as error:  # torch.load raises many types
                yield self.removal(file, f"not a whole checkpoint of this run ({describe_damage(error)})")
        self.unfinished += whole > 0
        if not any(path.iterdir()):
            yield Finding(str(path), "no checkpoint in it", "remove it", lambda: remove_empty({path, path.parent}))

    def removal(self, path: Path, what: str) -> Finding:
        return Finding(str(path), what, "remove it", lambda: self.remove(path))

    def remove(self, path: Path) -> None:
        """Move a file or folder to where copies are kept."""
        target = self.copy_place(path)
        shutil.move(path, target)
        remove_empty({path.parent, path.parent.parent} - {self.folder})

    def take_out(self, file: Path, bad: dict[int, bytes]) -> None:
        """Rewrite a file of records without some of its lines, in place, while everybody else waits for its lock.

        A line that is another one by now stays.

        Another file in its place would lose what a process appends that has opened this one.
        """
        with opened(file, os.O_RDWR) as handle:
            lock_file(handle)
            content = read_whole(file)
            with opened(self.copy_place(file), os.O_WRONLY | os.O_CREAT | os.O_EXCL) as copy:
                write_all(copy, content)
            kept = [line for number, line in enumerate(lines_of(content), 1) if bad.get(number) != line]
            os.ftruncate(handle, 0)
            os.lseek(handle, 0, os.SEEK_SET)
            write_all(handle, b"".join(line + b"\n" for line in kept if line.strip()))

    def copy_place(self, path: Path) -> Path:
        """Where a copy of a file goes."""
        if self.kept is None:
            numbers = (self.folder / f"{COPIES}-{n}" for n in range(1, 10_000))
            self.kept = next(path for path in numbers if not path.exists())
        target = self.kept / f"{path.relative_to(self.folder)}.kept"
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    def busy(self) -> list[str]:
        """The keys of runs that a process is at work on."""
        return [lock.stem for lock in sorted((self.folder / "checkpoints").glob("*.lock")) if is_held(lock)]


def lines_of(content: bytes) -> list[bytes]:
    return content.split(b"\n")


def is_held(lock: Path) -> bool:
    """Whether a process holds a lock; a lock file that is not there is held by nobody."""
    if not lock.is_file() or lock.is_symlink():
        return False
    with opened(lock, os.O_RDWR) as handle:
        return not lock_file(handle, wait=False)


def recompute_key(record: Record) -> str | None:
    """The key that a record's spec has; None if that needs code or data that are not here."""
    parts = [record.spec.get("scenario", {}), record.spec.get("net", {}), *record.spec.get("method", [])]
    names = [member.get("name") for member in record.spec.get("method", [])]
    known = all(name in METHODS for name in names) and record.spec.get("net", {}).get("name") in NETS
    if not known or any(OWN_CODE in part for part in parts):
        return None
    text = json.dumps({**record.spec, "seed": 0})  # in its order: that of the datasets of a queue counts
    if text not in _SPECS:
        try:
            _SPECS[text] = from_json(json.loads(text), stand_in_images(record.spec["scenario"]["images"]))
        except (ValueError, KeyError, TypeError, OSError):
            _SPECS[text] = None
    spec = _SPECS[text]
    return replace(spec, seed=record.seed).key if spec else None


_SPECS: dict[str, Spec | None] = {}
"""Specs with seed 0, by their JSON: records that differ by their seeds share one."""


def stand_in_images(names: dict[str, Any]) -> dict[str, Images]:
    """Datasets of so many classes that say they are those of a spec: a key depends on nothing else of them."""
    found = {}
    for value, (name, fingerprint) in enumerate(names.items()):
        if name in CATALOG:
            y = np.arange(len(CATALOG[name].classes))
            x = np.full((len(y), 2, 2), value + 2, np.uint8)
            images = Images(x, y, x + 128, y, CATALOG[name].classes, name)
            object.__setattr__(images, "_hash", fingerprint)
            found[fingerprint] = images
    return found
