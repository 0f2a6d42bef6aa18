"""Which cells moved between two sets of records, and which methods of one set differ. Works without torch."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import Any

from engram.analysis.statistics import Paired, corrected, paired
from engram.runs.records import Record, setting_of, supersedes


@dataclass(frozen=True)
class Runs:
    """Runs that differ in their seeds alone."""

    scenario: str
    method: str
    settings: dict[str, Any]
    """Everything else that defines them: `training.lr`, `ewc.coef`, …"""
    by_seed: dict[int, Record] = field(default_factory=dict)
    """A success stays."""

    @property
    def values(self) -> dict[int, float]:
        """Average accuracy of each finished run, by seed."""
        return {
            seed: r.average_accuracy
            for seed, r in self.by_seed.items()
            if r.status == "done" and r.average_accuracy is not None
        }

    def against(self, other: Runs) -> Paired:
        """The paired test of the other's runs against these, over common seeds."""
        mine, its = self.values, other.values
        seeds = sorted(mine.keys() & its.keys())
        return paired([mine[s] for s in seeds], [its[s] for s in seeds])


def grouped(records: Sequence[Record]) -> list[Runs]:
    """Records by all that defines them but the seed, in the order in which they begin."""
    found: dict[str, Runs] = {}
    for record in records:
        cell = found.setdefault(setting_of(record), Runs(record.scenario, record.method, flat(record.spec)))
        if supersedes(record, cell.by_seed.get(record.seed)):
            cell.by_seed[record.seed] = record
    return list(found.values())


def flat(spec: dict[str, Any]) -> dict[str, Any]:
    """A record's spec as one level of names and values, without the seed."""
    found: dict[str, Any] = {}
    for group, values in spec.items():
        if group == "method":
            for member in values:
                found |= {f"{member['name']}.{name}": value for name, value in member.items() if name != "name"}
        elif isinstance(values, dict):
            found |= {f"{group}.{name}": value for name, value in values.items()}
        elif group != "seed":
            found[group] = values
    return found


def labels(found: Sequence[Runs]) -> list[str]:
    """A name for each cell within its scenario: the method, and what tells it from other cells of that method."""
    names = []
    for cell in found:
        others = [c for c in found if (c.scenario, c.method) == (cell.scenario, cell.method)]
        every = {name for c in others for name in c.settings}
        varying = sorted(n for n in every if any(c.settings.get(n) != cell.settings.get(n) for c in others))
        words = [f"{n.removeprefix(f'{cell.method}.')} {cell.settings.get(n)}" for n in varying]
        names.append(" ".join([cell.method, *([f"({', '.join(words)})"] if words else [])]))
    return names


@dataclass(frozen=True)
class Difference:
    """One cell in two sets of records."""

    scenario: str
    cell: str
    a: float | None
    """Mean average accuracy over the common seeds; over all its runs where there are none."""
    b: float | None
    runs_a: int
    runs_b: int
    same: int
    """Common seeds whose accuracies are equal to the bit."""
    changed: dict[str, tuple[Any, Any]]
    """Settings that differ, where the cell is the only one of its method on both sides."""
    test: Paired | None
    lost: int = 0
    """Seeds that are done in A and diverged or failed in B."""
    gained: int = 0
    """The other way round."""
    only_in: str | None = None
    """A or B, where the other side has no such cell."""

    @property
    def verdict(self) -> str:
        """What may be said of the seeds that are done on both sides; nothing where there would be some but for runs
        that are lost or gained."""
        if self.test is None:
            return f"only in {self.only_in}"
        if self.test.n == 0 and (self.lost or self.gained):
            return ""
        return "same bits" if 0 < self.test.n == self.same else self.test.word

    @property
    def word(self) -> str:
        said = [f"{n} {what}" for n, what in ((self.lost, "no longer done"), (self.gained, "done now")) if n]
        return ", ".join([*said, *([self.verdict] if self.verdict else [])])

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "test": self.test.to_json() if self.test else None, "word": self.word}


def differences(a: Sequence[Record], b: Sequence[Record]) -> list[Difference]:
    """Every cell of both sets, tested over common seeds, with Holm's correction over all that can show anything."""
    pairs = matched(grouped(a), grouped(b))
    names = labels([ours or theirs for ours, theirs in pairs if ours or theirs])  # type: ignore[misc]
    found = [compared(name, ours, theirs) for name, (ours, theirs) in zip(names, pairs, strict=True)]
    tests = iter(corrected([d.test for d in found if d.test]))
    return [replace(d, test=next(tests)) if d.test else d for d in found]


def matched(a: Sequence[Runs], b: Sequence[Runs]) -> list[tuple[Runs | None, Runs | None]]:
    """The cells of both sides side by side: of the same settings, or of the same keys (a field may have been added
    since), or, where each side has one left of a scenario and method, those two."""
    pairs: list[tuple[Runs | None, Runs | None]] = []
    left_a, left_b = list(a), list(b)
    rules = (
        lambda x, y: x.settings == y.settings,
        lambda x, y: bool(keys(x) & keys(y)),
        lambda x, y: [sum(same_name(x, c) for c in side) for side in (left_a, left_b)] == [1, 1],
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


def same_name(x: Runs, y: Runs) -> bool:
    return (x.scenario, x.method) == (y.scenario, y.method)


def keys(cell: Runs) -> set[str]:
    return {record.key for record in cell.by_seed.values()}


def compared(name: str, a: Runs | None, b: Runs | None) -> Difference:
    one = a or b
    assert one is not None
    of_a, of_b = (cell.values if cell else {} for cell in (a, b))
    common = sorted(of_a.keys() & of_b.keys())
    mean_a, mean_b = (statistics.fmean([v[s] for s in common or v]) if v else None for v in (of_a, of_b))
    same, changed, lost, gained = 0, {}, 0, 0
    if a and b:
        lost = len(of_a.keys() & b.by_seed.keys() - of_b.keys())
        gained = len(of_b.keys() & a.by_seed.keys() - of_a.keys())
        same = sum(a.by_seed[s].accuracy == b.by_seed[s].accuracy for s in common)
        if not keys(a) & keys(b):
            names = sorted(a.settings.keys() | b.settings.keys())
            both = {n: (a.settings.get(n), b.settings.get(n)) for n in names}
            changed = {n: values for n, values in both.items() if values[0] != values[1]}
    test = a.against(b) if a and b else None
    only_in = None if test else "A" if a else "B"
    return Difference(
        one.scenario, name, mean_a, mean_b, len(of_a), len(of_b), same, changed, test, lost, gained, only_in
    )


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
    """Pairwise tests between the methods of each scenario over common seeds, b less a, with Holm's correction over the
    pairs of the scenario; `against` one method instead of all pairs. Trials of a search do not count."""
    found = grouped([r for r in records if r.search.get("stage") != "trial"])
    named = list(zip(labels(found), found, strict=True))
    results = []
    for scenario in dict.fromkeys(cell.scenario for cell in found):
        here = [(name, cell) for name, cell in named if cell.scenario == scenario and cell.values]
        pairs = [
            (x, y) if against is None or x[1].method == against else (y, x)
            for x, y in combinations(here, 2)
            if against is None or (x[1].method == against) != (y[1].method == against)
        ]
        tests = corrected([a.against(b) for (_, a), (_, b) in pairs])
        results += [Between(scenario, a, b, test) for ((a, _), (b, _)), test in zip(pairs, tests, strict=True)]
    return results
