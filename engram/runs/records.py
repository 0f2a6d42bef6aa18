"""Records: what finished runs left, one line of JSON each. Reads and writes without torch."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from engram.core.durable import opened, read_whole, sync_folder, write_all
from engram.core.facts import ROOT
from engram.core.messages import Say, tell
from engram.core.system import lock_file
from engram.runs.soundness import MAY_HOLD_CONTROL, drop_control, is_sound_record

RESULTS = Path("results")
"""Where commands look for records unless a folder is named."""
PACKAGED = ROOT / "records"
"""Records that come with an installed package: those of `results/` in the checkout it was built from."""
NOT_WRITTEN = frozenset({"reused", "left"})
"""Fields of a record that its line does not have."""


@dataclass
class Record:
    """One finished run: one scenario, one method, one seed."""

    key: str
    """Names the run's spec."""
    scenario: str
    """Its name, such as `split-mnist/class`."""
    method: str
    """Its name; members of a combination are joined by +."""
    seed: int
    """Draws the tasks, the initial weights and the batches."""
    spec: dict[str, Any]
    """Everything that the run depends on; `engram run --spec KEY` repeats it."""
    status: str
    """`done`, `diverged` or `failed`."""
    accuracy: list[list[float]] = field(default_factory=list)
    """`accuracy[i][j]`: percent on task j after task i."""
    average_accuracy: float | None = None
    """Mean of the last row of `accuracy`."""
    forgetting: float | None = None
    """How far earlier tasks fell from their best, mean over all tasks but the last."""
    backward_transfer: float | None = None
    """How later learning changed earlier tasks."""
    average_incremental_accuracy: float | None = None
    """Mean over time of the average accuracy on the tasks seen so far."""
    forward_transfer: float | None = None
    """What a task gains from earlier tasks, if it was measured."""
    pooled_accuracy: float | None = None
    """Accuracy on all test samples of all tasks together."""
    losses: list[float] = field(default_factory=list)
    """Training loss of each task, the mean over its steps."""
    curve: list[dict[str, float]] = field(default_factory=list)
    """Accuracy on the current and on the first task every few steps, if it was measured."""
    steps: int = 0
    """Optimiser steps of the whole run."""
    seconds: float = 0.0
    """Time of the whole run."""
    memory: dict[str, dict[str, int]] = field(default_factory=dict)
    """Bytes by attribute of the method: `kept` across a task boundary, and `working` while it trains."""
    search: dict[str, Any] = field(default_factory=dict)
    """For runs of a search: `stage` (trial or final), `selected_on` (holdout or test), and the `point` of the grid."""
    scores: list[str] = field(default_factory=list)
    """The score of each task, in percent, if not all are accuracies. `accuracy` then has these scores, and
    averages are over them."""
    extra: dict[str, list[list[Any]]] = field(default_factory=dict)
    """Results of metrics on logits, by name: entry [i][j], a number or a list of numbers, on task j after task i."""
    environment: dict[str, Any] = field(default_factory=dict)
    """Versions, commit, processor, threads and the sources of the data."""
    error: str | None = None
    """The traceback, if the run failed."""
    reused: bool = field(default=False, compare=False)
    """Whether it was read rather than run; not written."""
    left: Any = field(default=None, compare=False, repr=False)
    """What the run left beside its record, if it was asked to keep something; in a file of its own."""

    def to_json(self) -> str:
        """One line; fields that hold nothing are left out."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in NOT_WRITTEN}
        kept = {name: value for name, value in values.items() if value not in (None, [], {})}
        return json.dumps({"accuracy": [], "memory": {}, "forgetting": None, "average_accuracy": None, **kept})

    @classmethod
    def from_json(cls, line: str) -> Record:
        """The record in a line, without control characters: its text is shown on terminals."""
        values = json.loads(line)
        if MAY_HOLD_CONTROL.search(line):
            values = drop_control(values)
        known = {f.name for f in fields(cls)} - NOT_WRITTEN
        return cls(**{name: value for name, value in values.items() if name in known})

    @property
    def stated(self) -> str:
        """A text that records share if they differ by their seeds and results alone."""
        return json.dumps([self.scenario, self.method, {**self.spec, "seed": None}])

    @property
    def machine(self) -> dict[str, Any]:
        """What the run was made on; records of an index share it, so that many need not be read one by one."""
        return self.environment

    def part_left(self, name: str) -> Any:
        """A part of what the run left: `net`, `logits`, `targets`, `predictions`, `features`."""
        if self.left is None:
            raise ValueError(
                'this record comes without what its run may have left: give eg.run keep=("net", "logits", "features"), '
                "or read the record with engram.load(key, out=folder)"
            )
        return getattr(self.left, name) if name in ("net", "predictions") else self.left.part(name)

    @property
    def net(self) -> Any:
        """The trained network, if the run kept it."""
        return self.part_left("net")

    @property
    def logits(self) -> Any:
        """`logits[i][j]`: (n, all outputs) for the test samples of task j after task i, if the run kept them."""
        return self.part_left("logits")

    @property
    def targets(self) -> Any:
        """`targets[j]`: what is right for the test samples of task j, if the run kept its logits."""
        return self.part_left("targets")

    @property
    def predictions(self) -> Any:
        """`predictions[i][j]`: the outputs predicted for task j after task i, if the run kept its logits."""
        return self.part_left("predictions")

    @property
    def features(self) -> Any:
        """`features[j]`: the input of the output layer for the test samples of task j at the end, if they were kept."""
        return self.part_left("features")


def canonical(value: Any) -> Any:
    """As it is hashed: 1 and 1.0 are the same, and so are tuples and lists."""
    if isinstance(value, list | tuple):
        return [canonical(v) for v in value]
    if isinstance(value, dict):
        return {name: canonical(v) for name, v in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def supersedes(record: Record, other: Record | None) -> bool:
    """Whether a record counts in the place of an earlier one of its setting and seed, which count once: a success
    stays, until a later one with another key, which other code made."""
    return other is None or other.status != "done" or (record.status == "done" and record.key != other.key)


class UnwritableError(OSError):
    """The disk does not take what a sweep cannot do without."""

    def __init__(self, what: str, path: Path, error: OSError) -> None:
        super().__init__(
            f"{what} cannot be written to {path}: {error.strerror or error}. What was recorded before is kept; "
            "once this is solved, the same command continues from there"
        )


def results_folder(folder: Path) -> Path:
    """The folder; if it is the default one and does not exist here, the records that come with the package."""
    return PACKAGED if folder == RESULTS and not folder.is_dir() and PACKAGED.is_dir() else folder


def record_files(place: Path, say: Say = lambda _: None) -> list[Path]:
    """The files of records in a folder, at any depth, in the order of their names; a file is itself one.

    What has such a name but is not a regular file (an editor's lock, a pipe, a dangling link) is reported and skipped.
    """
    if place.is_file():
        return [place]
    named = sorted(place.rglob("*.jsonl"))
    files = [path for path in named if path.is_file()]
    for path in sorted({*named} - {*files}):
        say(f"{path}: not a regular file, skipped")
    return files


def read_records(*places: Path, say: Say = tell) -> list[Record]:
    """The records of files and folders, in order; a line that is not a record (torn by a crash) is reported and
    skipped, and so is a file in a folder that cannot be read. A place that does not exist has none."""
    from engram.runs.index import IndexedFile, has_index

    found: list[Record] = []
    for file in dict.fromkeys(file for place in places for file in record_files(place, say)):
        try:
            if has_index(file):
                indexed = IndexedFile(file)
                indexed.read(say)
                found += indexed.records
                continue
            text = read_whole(file).decode("utf-8", errors="replace")
        except OSError as error:
            if file in places:  # asked for by name
                raise
            say(f"{file} cannot be read: {error.strerror}; skipped")
            continue
        found += parse_records(text, file, 1, say)
    return found


def parse_records(text: str, path: Path, first: int, say: Say) -> list[Record]:
    """The records in a piece of a file that begins with line `first`."""
    records: list[Record] = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), first):  # some editors write a BOM
        if not line.strip():
            continue
        if record := sound_record(line):
            records.append(record)
        else:
            say(f"{path}, line {number}: not a whole record, skipped")
    return records


def sound_record(line: str) -> Record | None:
    """The record that a line holds; None if it holds none, or one that those who read it could not rely on."""
    try:
        record = Record.from_json(line)
        return record if is_sound_record(record) else None
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def append_record(path: Path, record: Record) -> None:
    """Adds a record, whole or not at all as far as readers can see, and waits until it is on the disk."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT) as file:
            lock_file(file)
            size = os.lseek(file, 0, os.SEEK_END)
            torn = b""
            if size:
                os.lseek(file, size - 1, os.SEEK_SET)
                torn = b"" if os.read(file, 1) == b"\n" else b"\n"  # a crash left half a line: keep away from it
            try:
                write_all(file, torn + record.to_json().encode() + b"\n")
            except OSError:
                os.ftruncate(file, size)
                raise
            if not size:
                sync_folder(path.parent)
    except OSError as error:
        what = f"the record of {record.scenario} {record.method}, seed {record.seed},"
        raise UnwritableError(what, path, error) from error
