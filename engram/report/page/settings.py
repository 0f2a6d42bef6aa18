"""Settings with their runs, and what can be read off several of them."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from engram.analysis.differences import all_values, varying_fields
from engram.core.validation import is_number
from engram.report.selection import usual_setting
from engram.runs.records import Record
from engram.runs.setting import Setting, SettingRuns, differs, group_by_setting, show


@dataclass(frozen=True)
class PageSetting:
    """A setting as the page shows it."""

    runs: SettingRuns
    trial: bool = False
    """Of a search: it was run to choose values, not to be reported."""

    @property
    def setting(self) -> Setting:
        return self.runs.setting

    @property
    def id(self) -> str:
        return setting_id(self.setting, self.trial)

    @property
    def name(self) -> tuple[str, str]:
        return (self.setting.scenario, self.setting.method)

    @cached_property
    def is_usual(self) -> bool:
        """Whether it is the default of its scenario and method."""
        return not self.trial and self.setting == usual_setting(*self.name)

    @property
    def spec(self) -> dict[str, Any]:
        return {name: value for name, value in self.runs.records[0].spec.items() if name != "seed"}

    @property
    def mean(self) -> float | None:
        values = self.runs.accuracies.values()
        return statistics.fmean(values) if values else None

    @property
    def std(self) -> float | None:
        """The population's, as in papers."""
        values = self.runs.accuracies.values()
        return statistics.pstdev(values) if values else None


def setting_id(setting: Setting, trial: bool = False) -> str:
    """A short name that stays the same when more runs come."""
    return hashlib.sha256(f"{setting.id}{' trial' if trial else ''}".encode()).hexdigest()[:12]


def gather_settings(records: Sequence[Record]) -> list[PageSetting]:
    """The settings: defaults first, then the others, then the trials of searches."""
    reported = [PageSetting(runs) for runs in group_by_setting(records).values()]
    trials = [PageSetting(runs, trial=True) for runs in group_by_setting(records, trials=True).values()]
    return [*sorted(reported, key=lambda setting: not setting.is_usual), *trials]


def describe_settings(settings: Sequence[PageSetting]) -> dict[str, str]:
    """id → what tells a setting from the default one of its scenario and method, or, if that has no runs, from all
    others of them: `capacity 50, lr 0.01`."""
    groups: dict[tuple[str, str], list[PageSetting]] = {}
    for setting in settings:
        groups.setdefault(setting.name, []).append(setting)
    words: dict[str, str] = {}
    for group in groups.values():
        values = {one.id: all_values(one.setting) for one in group}
        usual = [values[one.id] for one in group if one.is_usual]
        fields = varying_fields([one.setting for one in group])
        for name, own in values.items():
            words[name] = what_differs({n: own[n] for n in fields if n in own}, usual or list(values.values()))
    return words


def what_differs(values: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> str:
    """Those of some values that not all others have, in words."""
    rest = list(others)
    fields = [field for field, value in values.items() if any(differs(other.get(field), value) for other in rest)]
    names = {field: "net" if field == "net.name" else field.rpartition(".")[2] for field in fields}
    return ", ".join(f"{name} {show(values[field])}" for field, name in names.items())


def sensitivity_curves(settings: Sequence[PageSetting]) -> list[dict[str, Any]]:
    """Settings that differ in one number only, as curves of average accuracy against that number."""
    groups: dict[tuple[str, str, bool], list[PageSetting]] = {}
    for setting in settings:
        if setting.runs.done:
            groups.setdefault((*setting.name, setting.trial), []).append(setting)
    curves = []
    for (scenario, method, _), group in groups.items():
        fields = varying_fields([one.setting for one in group])
        values = [(one, {n: v for n, v in all_values(one.setting).items() if n in fields}) for one in group]
        for field in (f for f in fields if any(is_finite(flat.get(f)) for _, flat in values)):
            for rest, points in alike_but(field, values).items():
                curves.append(
                    {
                        "scenario": scenario,
                        "method": method,
                        "field": field.partition(".")[2],
                        "apart": rest,
                        "points": [[value, points[value].id] for value in sorted(points)],
                    }
                )
    return curves


def alike_but(
    field: str, settings: Sequence[tuple[PageSetting, dict[str, Any]]]
) -> dict[str, dict[float, PageSetting]]:
    """Settings that are alike in all but one number, by that number; under what tells such groups from each other."""
    groups: dict[str, dict[float, PageSetting]] = {}
    for setting, values in settings:
        if is_finite(values.get(field)):
            rest = json.dumps({other: v for other, v in values.items() if other != field}, sort_keys=True, default=str)
            groups.setdefault(rest, {}).setdefault(float(values[field]), setting)
    curves = {rest: points for rest, points in groups.items() if len(points) > 1}
    fields = {rest: json.loads(rest) for rest in curves}
    return {what_differs(fields[rest], fields.values()): points for rest, points in curves.items()}


def is_finite(value: Any) -> bool:
    return is_number(value) and math.isfinite(value)
