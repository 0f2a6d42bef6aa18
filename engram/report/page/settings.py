"""Settings: records gathered by all of their spec but the seed, and what can be read off several of them."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engram.runs.records import Record, setting_of, supersedes, well_typed

ASIDE = ("seed", "threads", "device", "evaluation.")
"""What a setting's values do not depend on, or only in their last bits."""


@dataclass(frozen=True)
class Setting:
    """A scenario, a method and all other values, and its runs: one a seed."""

    scenario: str
    method: str
    label: str | None
    """The published setting that it is, where it is one."""
    runs: tuple[Record, ...]

    @property
    def spec(self) -> dict[str, Any]:
        return {name: value for name, value in self.runs[0].spec.items() if name != "seed"}

    @property
    def id(self) -> str:
        """Names it, also after more runs have come."""
        if self.label and not self.trial:
            return self.label
        return hashlib.sha256(canonical(self.runs[0]).encode()).hexdigest()[:12]

    @property
    def trial(self) -> bool:
        """Of a search: it was run to choose values, not to be reported."""
        return self.runs[0].search.get("stage") == "trial"

    @property
    def done(self) -> list[Record]:
        return [run for run in self.runs if run.status == "done" and run.average_accuracy is not None]

    @property
    def accuracies(self) -> dict[int, float]:
        """Average accuracy by seed."""
        return {run.seed: run.average_accuracy for run in self.done if run.average_accuracy is not None}

    @property
    def mean(self) -> float | None:
        values = self.accuracies.values()
        return statistics.fmean(values) if values else None

    @property
    def std(self) -> float | None:
        """The population's, as in print."""
        values = self.accuracies.values()
        return statistics.pstdev(values) if values else None

    @property
    def kept(self) -> int | None:
        """Bytes kept across a boundary."""
        return sum(self.done[0].memory.get("kept", {}).values()) if self.done else None


def sound(record: Record) -> bool:
    """Whether a record holds what its names say, and of a search what it was scored on; records are made by anyone."""
    scenario = record.spec.get("scenario") if well_typed(record) else None
    return well_typed(record) and (record.search == {} or (isinstance(scenario, dict) and "held_out" in scenario))


def canonical(record: Record) -> str:
    """Equal for the runs of one setting; trials of a search are apart from what is reported."""
    stage = "trial" if record.search.get("stage") == "trial" else ""
    return f"{record.preset or setting_of(record)} {stage}"


def gather(records: Sequence[Record]) -> list[Setting]:
    """The settings in the order of their first records; a seed counts once, and so does a run that got its label
    later."""
    found: dict[str, dict[int, Record]] = {}
    labelled = {record.key for record in records if record.preset}
    for record in records:
        if record.preset is None and record.key in labelled:
            continue
        runs = found.setdefault(canonical(record), {})
        if supersedes(record, runs.get(record.seed)):
            runs[record.seed] = record
    return [
        Setting(
            scenario=next(iter(runs.values())).scenario,
            method=next(iter(runs.values())).method,
            label=next(iter(runs.values())).preset,
            runs=tuple(runs[seed] for seed in sorted(runs)),
        )
        for runs in found.values()
    ]


def values(setting: Setting) -> dict[str, Any]:
    """The spec as one level: `method.coef`, `training.lr`; `si.coef` where methods are combined."""
    flat: dict[str, Any] = {}
    for group, fields in setting.spec.items():
        if group == "method" and isinstance(fields, list) and all(isinstance(member, dict) for member in fields):
            for member in fields:
                prefix = "method" if len(fields) == 1 else f"method.{member.get('name')}"
                flat |= {f"{prefix}.{name}": value for name, value in member.items()}
        elif isinstance(fields, dict):
            flat |= {f"{group}.{name}": value for name, value in fields.items()}
        else:
            flat[group] = fields
    return flat


def differences(settings: Sequence[Setting]) -> dict[str, str]:
    """What tells a setting from the published one with its scenario and method, or from all others with them where
    that is not at hand; by its id: `capacity 50, lr 0.01`."""
    families: dict[str, list[Setting]] = {}
    for setting in settings:
        families.setdefault(f"{setting.scenario} {setting.method}", []).append(setting)
    words: dict[str, str] = {}
    for name, family in families.items():
        flat = {setting.id: values(setting) for setting in family}
        others = [flat[name]] if name in flat else list(flat.values())
        words |= {setting: apart(fields, others) for setting, fields in flat.items()}
    return words


def apart(fields: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> str:
    """What some values have that not all others have, in words."""
    telling = [field for field, value in fields.items() if any(other.get(field) != value for other in others)]
    short = {field: "net" if field == "net.name" else field.rpartition(".")[2] for field in telling}
    return ", ".join(f"{name} {shown(fields[field])}" for field, name in short.items())


def shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return " ".join(shown(v) for v in value) if isinstance(value, list) else str(value)


def sensitivities(settings: Sequence[Setting]) -> list[dict[str, Any]]:
    """Settings that differ in one number only, as curves: where they are, and average accuracy against the number."""
    families: dict[tuple[str, str, bool], list[tuple[Setting, dict[str, Any]]]] = {}
    for setting in settings:
        if setting.done:
            flat = {name: v for name, v in values(setting).items() if not name.startswith(ASIDE)}
            families.setdefault((setting.scenario, setting.method, setting.trial), []).append((setting, flat))
    curves = []
    for (scenario, method, _), family in families.items():
        names = dict.fromkeys(name for _, flat in family for name, value in flat.items() if is_number(value))
        for name in names:
            for rest, points in alike_but(name, family).items():
                curves.append(
                    {
                        "scenario": scenario,
                        "method": method,
                        "field": name.partition(".")[2],
                        "apart": rest,
                        "points": [[value, points[value].id] for value in sorted(points)],
                    }
                )
    return curves


def alike_but(name: str, family: Sequence[tuple[Setting, dict[str, Any]]]) -> dict[str, dict[float, Setting]]:
    """Settings that are alike in all but one number, by that number; under what tells such groups from each other."""
    groups: dict[str, dict[float, Setting]] = {}
    for setting, flat in family:
        if is_number(flat.get(name)):
            rest = json.dumps({other: v for other, v in flat.items() if other != name}, sort_keys=True)
            groups.setdefault(rest, {}).setdefault(float(flat[name]), setting)
    curves = {rest: points for rest, points in groups.items() if len(points) > 1}
    fields = {rest: json.loads(rest) for rest in curves}
    return {apart(fields[rest], fields.values()): points for rest, points in curves.items()}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
