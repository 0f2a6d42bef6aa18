"""Checkpoints: what an interrupted run goes on from."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import torch

from engram.core.durable import read_whole, write_whole
from engram.core.messages import Say, tell
from engram.learning.state import check_kept
from engram.learning.train import Checkpoint

MARK = b"engram checkpoint 2"
"""What a file of checkpoints begins with; files of version 0.1 have no such line, and are not used."""


FILES = "task-*.pt"
"""What files of checkpoints are called. Nothing else in a folder is read, or removed."""


class Checkpoints:
    """The checkpoints of one run: a folder, named by the run's key, with the latest, written whole or not at all."""

    def __init__(self, folder: Path, say: Say = tell) -> None:
        self.folder, self.say = folder, say
        self.failed = False

    @property
    def key(self) -> str:
        return self.folder.name

    def save(self, checkpoint: Checkpoint) -> None:
        """Writes a checkpoint in place of the one before; where the disk does not take it the run goes on without."""
        self.write(file_name(checkpoint), packed(checkpoint, self.key))

    def write(self, name: str, content: bytes) -> None:
        path = self.folder / name
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            older = [old for old in self.folder.glob(FILES) if not old.is_dir()]  # no parts: another may write one
            write_whole(path, content)
        except OSError as error:
            if not self.failed:
                self.say(f"{path} cannot be written: {error.strerror}; the run continues, but cannot resume there")
            self.failed = True
            return
        for old in older:
            if old != path:
                old.unlink(missing_ok=True)

    def latest(self) -> Checkpoint | None:
        """What an interrupted run left, or None."""
        for path in self.newest_first():
            try:
                return unpacked(read_whole(path), self.key)
            except Exception as error:  # torch.load raises many types
                self.say(f"{path}: not a whole checkpoint of this run ({describe_damage(error)}), ignored")
        return None

    def content(self) -> bytes | None:
        """The newest file as it is, for a machine with the device that it was made on, which this one need not have."""
        return next((path.read_bytes() for path in self.newest_first()), None)

    def newest_first(self) -> list[Path]:
        found = list(self.folder.glob(FILES))
        files = [path for path in found if path.is_file()]
        for path in {*found} - {*files}:  # a pipe would be waited for
            self.say(f"{path}: not a regular file, left aside")
        return sorted(files, key=lambda path: path.stat().st_mtime_ns, reverse=True)


def file_name(checkpoint: Checkpoint) -> str:
    epoch = f"-epoch-{checkpoint['epoch']}" if checkpoint["epoch"] else ""
    step = f"-step-{checkpoint['step']}" if checkpoint.get("step") else ""
    return f"task-{checkpoint['task']}{epoch}{step}.pt"


def packed(checkpoint: Checkpoint, key: str) -> bytes:
    """A checkpoint as the content of a file: a line with the run's key and a hash, then what torch wrote."""
    for kept in checkpoint["method"]:
        check_kept(kept)
    content = io.BytesIO()
    torch.save(checkpoint, content)
    return heading(key, content.getvalue()) + content.getvalue()


def heading(key: str, content: bytes) -> bytes:
    """The first line of a file. The hash is over the key as well, so that no part of a file can change unseen."""
    digest = hashlib.sha256(key.encode() + b"\n" + content).hexdigest()
    return b" ".join([MARK, key.encode(), digest.encode()]) + b"\n"


class DamagedError(ValueError):
    """A file is not what a run with this key wrote."""


def unpacked(file: bytes, key: str) -> Checkpoint:
    """The checkpoint in the content of a file, if it is to the bit what the run with this key wrote."""
    first, _, content = file.partition(b"\n")
    if not first.startswith(MARK):
        raise DamagedError("written by another version, or damaged")
    if first + b"\n" != heading(key, content):
        raise DamagedError("damaged" if key.encode() in first else "of another run")
    checkpoint: Checkpoint = torch.load(io.BytesIO(content), weights_only=True)
    return checkpoint


def describe_damage(error: Exception) -> str:
    return str(error) if isinstance(error, DamagedError) else type(error).__name__
