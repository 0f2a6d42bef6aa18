"""Verification: a recorded run that was run again, and whether it came to the same. No torch."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from engram.runs.records import Record
from engram.studies.hsu2018.cells import BAND_WITHOUT_SPREAD, COPIED, LEAST_BAND, RUNS_COPIED, TABLES, published

Verification = Literal["same bits", "within spread", "moved", "failed"]


@dataclass(frozen=True)
class Again:
    """A record and its repetition."""

    key: str
    what: str
    seed: int
    recorded: float
    """Average accuracy."""
    again: float | None
    band: float
    """Points within which two runs of this setting differ by chance."""
    verification: Verification

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def shuffled(records: Sequence[Record], seed: int) -> list[Record]:
    """The finished runs in a random order: the first ones are picked."""
    done = [record for record in records if record.status == "done" and record.average_accuracy is not None]
    return random.Random(seed).sample(done, len(done))


def compared(record: Record, again: Record, records: Sequence[Record]) -> Again:
    """What became of a record that was run again, by the spread of its setting in these records or in print."""
    assert record.average_accuracy is not None
    width = band(record, records)
    verification: Verification
    if again.average_accuracy is None:
        verification = "failed"
    elif (again.accuracy, again.losses) == (record.accuracy, record.losses):
        verification = "same bits"
    else:
        near = abs(again.average_accuracy - record.average_accuracy) <= width
        verification = "within spread" if near else "moved"
    return Again(
        record.key, what(record), record.seed, record.average_accuracy, again.average_accuracy, width, verification
    )  # fmt: skip


def what(record: Record) -> str:
    """The label of a run's setting, else its scenario and method."""
    return record.preset or f"{record.scenario} {record.method}"


def band(record: Record, records: Sequence[Record]) -> float:
    """Three deviations of the difference of two runs: by the other seeds where there are 3 or more, else by print."""
    others = [
        other.average_accuracy
        for other in records
        if other.average_accuracy is not None and other.seed != record.seed and setting(other) == setting(record)
    ]
    deviation = statistics.stdev(others) if len(others) >= 3 else printed_deviation(what(record))
    return BAND_WITHOUT_SPREAD if deviation is None else max(LEAST_BAND, 3 * math.sqrt(2) * deviation)


def setting(record: Record) -> dict[str, Any]:
    """All that a run depends on but its seed."""
    return {name: value for name, value in record.spec.items() if name != "seed"}


def printed_deviation(label: str) -> float | None:
    """Of a single run in the cell that a label belongs to (a twin, or other values: its row's); None where print has
    none, as on the long queue."""
    scenario, _, rest = label.partition(" ")
    row = rest.partition(" ")[0]
    for table, (_, columns) in TABLES.items():
        for column, of in columns.items():
            found = published()[table].get(row, {}).get(column)
            if of == scenario and isinstance(found, list):
                return float(found[1]) * (math.sqrt(RUNS_COPIED) if row in COPIED else 1.0)
    return None
