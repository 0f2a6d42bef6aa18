"""Verification: a recorded run that was run again, and whether it came to the same. No torch."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from engram.runs.defaults import describe_setting
from engram.runs.records import Record
from engram.runs.setting import Setting, SettingRuns, group_by_setting, setting_of_record
from engram.studies.catalog import built_in_study, study_names
from engram.studies.verdict import LEAST_BAND, LEAST_RUNS, run_deviation

Verification = Literal["same bits", "within spread", "moved", "failed"]
BAND_WITHOUT_SPREAD = 5.0
"""Points within which two runs may differ if nothing is known of their spread."""


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
    differs: tuple[str, ...] = ()
    """If the bits differ: what of the machine does that changes bits under the same key."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def shuffle_finished(records: Sequence[Record], seed: int) -> list[Record]:
    """The finished runs in a random order: the first ones are picked."""
    done = [record for record in records if record.status == "done" and record.average_accuracy is not None]
    return random.Random(seed).sample(done, len(done))


def verify_record(record: Record, again: Record, records: Sequence[Record]) -> Again:
    """What became of a record that was run again, by the spread of its setting in these records or as published."""
    assert record.average_accuracy is not None
    setting = setting_of_record(record)
    width = band_between_runs(record, setting, group_by_setting(records))
    verification: Verification
    if again.average_accuracy is None:
        verification = "failed"
    elif (again.accuracy, again.losses) == (record.accuracy, record.losses):
        verification = "same bits"
    else:
        near = abs(again.average_accuracy - record.average_accuracy) <= width
        verification = "within spread" if near else "moved"
    return Again(
        record.key, describe_setting(setting), record.seed, record.average_accuracy, again.average_accuracy, width,
        verification,
        () if verification == "same bits" else differences_of_machines(record.environment, again.environment),
    )  # fmt: skip


def differences_of_machines(recorded: Mapping[str, Any], here: Mapping[str, Any]) -> tuple[str, ...]:
    """What was another when a run was recorded, as far as bits depend on it: variables, versions, the processor."""
    if not here:  # it failed before anything ran
        return ()
    then, now = recorded.get("variables", {}), here.get("variables", {})
    found = [
        f"{name} was {then.get(name, 'not set')}, here it is {now.get(name, 'not set')}"
        for name in sorted({*then, *now})
        if then.get(name) != now.get(name)
    ]
    for name in ("torch", "cpu"):
        if name in recorded and recorded[name] != here.get(name):
            found.append(f"{name} was {recorded[name]}, here it is {here.get(name)}")
    return tuple(found)


def band_between_runs(record: Record, setting: Setting, groups: dict[Setting, SettingRuns]) -> float:
    """Three standard deviations of the difference of two runs: by the other seeds if there are 3 or more, else as
    published."""
    runs = groups.get(setting)
    others = [value for seed, value in runs.accuracies.items() if seed != record.seed] if runs else []
    deviation = statistics.stdev(others) if len(others) >= LEAST_RUNS else published_deviation(setting)
    return BAND_WITHOUT_SPREAD if deviation is None else max(LEAST_BAND, 3 * math.sqrt(2) * deviation)


def published_deviation(setting: Setting) -> float | None:
    """Of a single run of a row with this method, in a column with this scenario; None if no paper has one."""
    for name in study_names():
        study = built_in_study(name)
        for column in study.columns.values():
            row = study.rows.get(setting.method)
            spread = row.published.get(column.name, (0.0, None))[1] if row else None
            if column.scenario == setting.scenario and row is not None and spread is not None:
                return run_deviation(spread, row.spread or study.spread)
    return None
