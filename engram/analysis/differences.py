"""Which settings moved between two sets of records, and which methods of one set differ. No torch."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

from engram.analysis.statistics import Paired, correct_tests, paired_test
from engram.core.facts import COMPUTED
from engram.runs.records import Record
from engram.runs.setting import Setting, SettingRuns, content, differs, group_by_setting, show

DATASETS = "scenario.images"
"""Under this name a difference says that the datasets had another content, which no setting states."""


def all_runs(records: Sequence[Record]) -> list[SettingRuns]:
    """The runs of every setting; trials of a search after those that are reported."""
    return [*group_by_setting(records).values(), *group_by_setting(records, trials=True).values()]


def is_trial(runs: SettingRuns) -> bool:
    return any(record.search.get("stage") == "trial" for record in runs.by_seed.values())


def pair_runs(a: SettingRuns, b: SettingRuns) -> Paired:
    """The paired test of b − a over common seeds."""
    of_a, of_b = a.accuracies, b.accuracies
    seeds = sorted(of_a.keys() & of_b.keys())
    return paired_test([of_a[s] for s in seeds], [of_b[s] for s in seeds])


def all_values(setting: Setting) -> dict[str, Any]:
    """The values of a setting, defaults included."""
    return {n: v for n, v in (setting.defaults() | dict(setting.values)).items() if v is not COMPUTED}


def varying_fields(settings: Sequence[Setting]) -> list[str]:
    """The fields in which some settings differ."""
    values = [all_values(setting) for setting in settings]
    names = {name for setting in settings for name in setting.values}
    return sorted(n for n in names if any(differs(v.get(n), values[0].get(n)) for v in values[1:]))


def name_settings(settings: Sequence[Setting]) -> list[str]:
    """A name for each setting within its scenario: the method, and what tells it from others of that method."""
    names = []
    for setting in settings:
        others = [s for s in settings if (s.scenario, s.method) == (setting.scenario, setting.method)]
        words = [f"{n.removeprefix('method.')} {show(setting.value(n))}" for n in varying_fields(others)]
        names.append(" ".join([setting.method, *([f"({', '.join(words)})"] if words else [])]))
    return names


@dataclass(frozen=True)
class Difference:
    """One setting in two sets of records."""

    scenario: str
    cell: str
    a: float | None
    """Mean average accuracy over the common seeds; over all its runs if there are none."""
    b: float | None
    runs_a: int
    runs_b: int
    same: int
    """Common seeds whose accuracies are equal to the bit."""
    changed: dict[str, tuple[Any, Any]]
    """Values that differ, if the setting is the only one of its method on both sides."""
    test: Paired | None
    lost: int = 0
    """Seeds that are done in A and diverged or failed in B."""
    gained: int = 0
    """The other way round."""
    only_in: str | None = None
    """A or B, if the other side has no such setting."""

    @property
    def verdict(self) -> str:
        """What can be said of the seeds that are done on both sides; nothing if there are none because runs were
        lost or gained."""
        if self.test is None:
            return f"only in {self.only_in}"
        if self.test.n == 0 and (self.lost or self.gained):
            return ""
        return "same bits" if 0 < self.test.n == self.same else self.test.word

    @property
    def word(self) -> str:
        words = [f"{n} {what}" for n, what in ((self.lost, "no longer done"), (self.gained, "done now")) if n]
        return ", ".join([*words, *([self.verdict] if self.verdict else [])])

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "test": self.test.to_json() if self.test else None, "word": self.word}


def find_differences(a: Sequence[Record], b: Sequence[Record]) -> list[Difference]:
    """Every setting of both sides, tested over common seeds, with Holm's correction over all that can show anything."""
    pairs = match_runs(all_runs(a), all_runs(b))
    names = name_settings([(of_a or of_b).setting for of_a, of_b in pairs])  # type: ignore[union-attr]
    found = [compare_runs(name, of_a, of_b) for name, (of_a, of_b) in zip(names, pairs, strict=True)]
    tests = iter(correct_tests([d.test for d in found if d.test]))
    return [replace(d, test=next(tests)) if d.test else d for d in found]


def match_runs(
    a: Sequence[SettingRuns], b: Sequence[SettingRuns]
) -> list[tuple[SettingRuns | None, SettingRuns | None]]:
    """The settings of both sides in pairs: equal ones, those with common keys (a field may have been added since),
    and, if each side has one left of a scenario and method, those two."""
    pairs: list[tuple[SettingRuns | None, SettingRuns | None]] = []
    left_a, left_b = list(a), list(b)
    rules: tuple[Callable[[SettingRuns, SettingRuns], bool], ...] = (
        lambda x, y: x.setting == y.setting,
        lambda x, y: bool(keys(x) & keys(y)),
        lambda x, y: [sum(same_name(x, other) for other in side) for side in (left_a, left_b)] == [1, 1],
    )
    for rule in rules:
        for x in list(left_a):
            y = next((y for y in left_b if same_name(x, y) and rule(x, y)), None)
            if y is not None:
                pairs.append((x, y))
                left_a.remove(x)
                left_b.remove(y)
    order = {id(x): i for i, x in enumerate(a)}
    both = sorted(pairs, key=lambda pair: order[id(pair[0])])
    return [*both, *((x, None) for x in left_a), *((None, y) for y in left_b)]


def same_name(x: SettingRuns, y: SettingRuns) -> bool:
    return (x.setting.scenario, x.setting.method, is_trial(x)) == (y.setting.scenario, y.setting.method, is_trial(y))


def keys(runs: SettingRuns) -> set[str]:
    return {record.key for record in runs.by_seed.values()}


def compare_runs(name: str, a: SettingRuns | None, b: SettingRuns | None) -> Difference:
    one = a or b
    assert one is not None
    of_a, of_b = (runs.accuracies if runs else {} for runs in (a, b))
    common = sorted(of_a.keys() & of_b.keys())
    mean_a, mean_b = (statistics.fmean([v[s] for s in common or v]) if v else None for v in (of_a, of_b))
    same, changed, lost, gained = 0, {}, 0, 0
    if a and b:
        lost = len(of_a.keys() & b.by_seed.keys() - of_b.keys())
        gained = len(of_b.keys() & a.by_seed.keys() - of_a.keys())
        same = sum(a.by_seed[s].accuracy == b.by_seed[s].accuracy for s in common)
        changed = {} if keys(a) & keys(b) else find_changes(a, b)
    test = pair_runs(a, b) if a and b else None
    only_in = None if test else "A" if a else "B"
    return Difference(
        one.setting.scenario, name, mean_a, mean_b, len(of_a), len(of_b), same, changed, test, lost, gained, only_in
    )


def find_changes(a: SettingRuns, b: SettingRuns) -> dict[str, tuple[Any, Any]]:
    """What differs between the settings, and the content of the datasets if it does."""
    of_a, of_b = all_values(a.setting), all_values(b.setting)
    changed = {name: (of_a.get(name), of_b.get(name)) for name in varying_fields([a.setting, b.setting])}
    if content(a.records[0]) != content(b.records[0]):
        images_a, images_b = (r.records[0].spec.get("scenario", {}).get("images") for r in (a, b))
        changed[DATASETS] = (images_a, images_b)
    return changed


@dataclass(frozen=True)
class Between:
    """Two methods of one scenario."""

    scenario: str
    a: str
    b: str
    test: Paired

    def to_json(self) -> dict[str, Any]:
        return {"scenario": self.scenario, "a": self.a, "b": self.b, **self.test.to_json()}


def between_methods(records: Sequence[Record], against: str | None = None) -> list[Between]:
    """Pairwise tests of b − a between the methods of each scenario over common seeds, with Holm's correction over the
    pairs of the scenario; `against`: one method instead of all pairs. Trials of a search do not count."""
    found = list(group_by_setting(records).values())
    named = list(zip(name_settings([runs.setting for runs in found]), found, strict=True))
    results = []
    for scenario in dict.fromkeys(runs.setting.scenario for runs in found):
        here = [(name, runs) for name, runs in named if runs.setting.scenario == scenario and runs.accuracies]
        pairs = [
            (x, y) if against is None or x[1].setting.method == against else (y, x)
            for x, y in combinations(here, 2)
            if against is None or (x[1].setting.method == against) != (y[1].setting.method == against)
        ]
        tests = correct_tests([pair_runs(a, b) for (_, a), (_, b) in pairs])
        results += [Between(scenario, a, b, test) for ((a, _), (b, _)), test in zip(pairs, tests, strict=True)]
    return results
