"""Records: what finished runs left, one line of JSON each. Reads and writes without torch."""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from engram.core.messages import Say, tell

RECORDED_METRICS = (
    "average_accuracy", "average_incremental_accuracy", "forgetting", "backward_transfer", "forward_transfer",
    "pooled_accuracy",
)  # fmt: skip


@dataclass
class Record:
    """One finished run: one scenario, one method, one seed."""

    key: str
    """Names the run's spec."""
    scenario: str
    method: str
    seed: int
    spec: dict[str, Any]
    status: str
    """`done`, `diverged` or `failed`."""
    accuracy: list[list[float]] = field(default_factory=list)
    """`accuracy[i][j]`: percent on task j after task i."""
    average_accuracy: float | None = None
    forgetting: float | None = None
    backward_transfer: float | None = None
    average_incremental_accuracy: float | None = None
    forward_transfer: float | None = None
    pooled_accuracy: float | None = None
    losses: list[float] = field(default_factory=list)
    curve: list[dict[str, float]] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0
    memory: dict[str, dict[str, int]] = field(default_factory=dict)
    search: dict[str, Any] = field(default_factory=dict)
    """Of a search's runs: `stage` (trial or final), `selected_on` (holdout or test), and the `point` of the grid."""
    environment: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    """The traceback, where the run failed."""
    reused: bool = field(default=False, compare=False)
    """Whether it was read rather than run; not written."""

    def to_json(self) -> str:
        """One line; fields that hold nothing are left out."""
        values = asdict(self)
        del values["reused"]
        kept = {name: value for name, value in values.items() if value not in (None, [], {})}
        return json.dumps({"accuracy": [], "memory": {}, "forgetting": None, "average_accuracy": None, **kept})

    @classmethod
    def from_json(cls, line: str) -> Record:
        values = json.loads(line)
        known = {f.name for f in fields(cls)} - {"reused"}
        return cls(**{name: value for name, value in values.items() if name in known})


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


def offline_of(record: Record, others: Iterable[Record]) -> Record | None:
    """The offline run that intransigence is measured against: of the same scenario, network and seed, and not a trial
    of a search."""
    return next(
        (
            other
            for other in others
            if (other.method, other.status, other.seed) == ("offline", "done", record.seed)
            and other.search.get("stage") != "trial"
            and all(other.spec.get(part) == record.spec.get(part) for part in ("scenario", "net"))
        ),
        None,
    )


class UnwritableError(OSError):
    """The disk does not take what a sweep cannot do without."""

    def __init__(self, what: str, path: Path, error: OSError) -> None:
        super().__init__(
            f"{what} cannot be written to {path}: {error.strerror or error}. What was recorded before is kept; "
            "when that is mended, the same command goes on from there"
        )


def record_files(place: Path) -> list[Path]:
    """The files of records in a folder, at any depth, in the order of their names; a file is itself one."""
    return [place] if place.is_file() else sorted(place.rglob("*.jsonl"))


def read_records(*places: Path, say: Say = tell) -> list[Record]:
    """The records of files and folders, in order; a line that is not a record (torn by a crash) is reported and
    skipped. A place that does not exist has none."""
    found: list[Record] = []
    for file in dict.fromkeys(file for place in places for file in record_files(place)):
        found += parse_records(file.read_text(encoding="utf-8", errors="replace"), file, 1, say)
    return found


def parse_records(text: str, path: Path, first: int, say: Say) -> list[Record]:
    """The records in a piece of a file that begins with line `first`."""
    records: list[Record] = []
    for number, line in enumerate(text.split("\n"), first):
        if not line.strip():
            continue
        try:
            record = Record.from_json(line)
        except (ValueError, RecursionError, TypeError, AttributeError):
            record = None
        if record is not None and well_typed(record):
            records.append(record)
        else:
            say(f"{path}, line {number}: not a whole record, skipped")
    return records


def well_typed(record: Record) -> bool:
    """Whether a record holds what its names say; files are written by anyone."""
    return (
        all(isinstance(text, str) for text in (record.key, record.scenario, record.method, record.status))
        and isinstance(record.seed, int)
        and all(isinstance(d, dict) for d in (record.spec, record.environment, record.search, record.memory))
        and all(v is None or is_finite_number(v) for v in (getattr(record, name) for name in RECORDED_METRICS))
        and all(is_finite_number(value) for value in (record.steps, record.seconds))
        and isinstance(record.accuracy, list)
        and all(isinstance(row, list) and are_finite_numbers(row) for row in record.accuracy)
        and isinstance(record.curve, list)
        and all(isinstance(at, dict) for at in record.curve)
        and isinstance(record.spec.get("method", []), list)
        and all(isinstance(member, dict) for member in record.spec.get("method", []))
        and isinstance(record.environment.get("data", {}), dict)
        and (record.search == {} or is_search_note(record.search))
        and all(
            isinstance(parts, dict) and all(isinstance(size, int) for size in parts.values())
            for parts in record.memory.values()
        )
    )


def is_search_note(search: dict[str, Any]) -> bool:
    """Whether it says what part in a search a run had."""
    return isinstance(search.get("point"), dict) and all(
        isinstance(search.get(name), str) for name in ("stage", "selected_on")
    )


def is_finite_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def are_finite_numbers(values: list[Any]) -> bool:
    """The same of a whole list, in C: a folder of records holds hundreds of thousands of accuracies."""
    return set(map(type, values)) <= {int, float} and all(map(math.isfinite, values))


def append_record(path: Path, record: Record) -> None:
    """Adds a record, whole or not at all as far as readers can see, and waits until it is on the disk."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b", buffering=0) as file:  # what does not fit fails here, not when the file is closed
            fcntl.flock(file, fcntl.LOCK_EX)
            size = file.seek(0, os.SEEK_END)
            torn = b""
            if size:
                file.seek(size - 1)
                torn = b"" if file.read(1) == b"\n" else b"\n"  # a crash left half a line: keep away from it
            left = memoryview(torn + record.to_json().encode() + b"\n")
            try:
                while left:
                    left = left[file.write(left) :]
                os.fsync(file.fileno())
            except OSError:
                file.truncate(size)
                raise
    except OSError as error:
        what = f"the record of {record.scenario} {record.method}, seed {record.seed},"
        raise UnwritableError(what, path, error) from error
