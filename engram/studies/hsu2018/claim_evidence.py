"""What print and our records say of each comparison that a claim makes: a difference, and p-values. No torch.

A comparison of ours takes the strongest test that its runs allow: the exact paired permutation test where there are
pairs enough for so many comparisons, else a paired t-test from 3 pairs on, else, as with verdicts, the deviations of
print stand in. Tables 5 and 6 have no spread in print, so no p; ours has Welch's test there, from 3 runs on.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from engram.analysis.statistics import Summary, needed, paired, summarized, welch
from engram.runs.records import Record
from engram.studies.hsu2018.cells import (
    COPIED,
    QUEUE_TABLES,
    RUNS_COPIED,
    RUNS_IN_PRINT,
    SAMPLED,
    TABLES,
    accuracies,
    cells,
    preset_name,
    published,
    runs_by_label,
    taken,
)
from engram.studies.hsu2018.claims import AnyPart, Heads, Part, Place
from engram.studies.hsu2018.long_queue import NETS, SCENARIOS, Runs, remarks, settings
from engram.studies.hsu2018.notes import SUB_SAMPLED

LEAST_PAIRS = 3
"""For a t-test; below, print's deviations stand in."""
STAND_IN, NO_SPREAD = "print's deviation", "no spread"


@dataclass(frozen=True)
class Measured:
    """What a part comes to on one side, print or ours."""

    difference: float | None = None
    p: tuple[float, ...] = ()
    """One a threshold of the part, two-sided; none where there is no spread, or nothing to test."""
    n: int = 0
    """Pairs, or the fewer of the runs of the two."""
    test: str = ""
    missing: tuple[str, ...] = ()
    """What would have to be run."""
    notes: tuple[str, ...] = ()
    """What stands in for what print has."""


def in_print(part: AnyPart) -> Measured:
    """A part in the published numbers."""
    if isinstance(part, Heads):
        return Measured(missing=("numbers: print has figures only",))
    if part.a.table in QUEUE_TABLES:
        return single(value(part.a), max(value(place) for place in part.b), 1)
    best = max(part.b, key=value)
    a, b = summary(part.a), summary(best)
    found = welched(part, a, b)
    return Measured(a.mean - b.mean, found, min(a.n, b.n), "Welch")


def value(place: Place) -> float:
    """The published mean."""
    found = published()[place.table][place.row][place.column]
    return float(found[0] if isinstance(found, list) else found)


def summary(place: Place) -> Summary:
    """As print gives it; the spread of copied rows is a standard error."""
    mean, spread = published()[place.table][place.row][place.column]
    if place.row in COPIED:
        return Summary(mean, spread * math.sqrt(RUNS_COPIED - 1), RUNS_COPIED)
    return Summary(mean, spread, RUNS_IN_PRINT)


def welched(part: Part, a: Summary, b: Summary) -> tuple[float, ...]:
    found = [welch(replace(a, mean=a.mean - threshold), b) for threshold in part.thresholds]
    return tuple(p for p in found if p is not None)


def single(a: float, b: float, n: int) -> Measured:
    """Two numbers without a spread."""
    return Measured(a - b, (), n, NO_SPREAD)


class Ours:
    """Our records, as the claims ask for them."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        self.queue_runs = Runs(records)
        self.by_label = runs_by_label(records)

    def measured(self, part: AnyPart, family: int) -> Measured:
        """A part in our records, one of so many comparisons, with what stands in for what print has."""
        if isinstance(part, Heads):
            return self.heads(part, family)
        if part.a.table in QUEUE_TABLES:
            return self.queue(part)
        labels = {place: preset_name(*place) for place in (part.a, *part.b)}
        behind = {place: taken(self.by_label, label) for place, label in labels.items()}
        found = self.compared(part, {place: accuracies(runs) for place, runs in behind.items()}, family)
        return replace(found, notes=substitutes(run for runs in behind.values() for run in runs.values()))

    def compared(self, part: Part, runs: Mapping[Place, dict[int, float]], family: int) -> Measured:
        """Cells that have a spread in print, from their accuracies by seed."""
        missing = tuple(preset_name(*place) for place, found in runs.items() if not found)
        if missing:
            return Measured(missing=missing)
        best = max(part.b, key=lambda place: statistics.fmean(runs[place].values()))
        a, b = runs[part.a], runs[best]
        common = sorted(a.keys() & b.keys())
        if len(common) >= LEAST_PAIRS:
            return over_pairs([a[s] for s in common], [b[s] for s in common], part.thresholds, family)
        ours = [stand_in(place, list(runs[place].values())) for place in (part.a, best)]
        difference = ours[0].mean - ours[1].mean
        return Measured(difference, welched(part, *ours), min(len(a), len(b)), STAND_IN)

    def queue(self, part: Part) -> Measured:
        """Cells of the long queue, from their means and deviations as the table has them; runs are not paired."""
        found = {place: self.cell(place) for place in (part.a, *part.b)}
        missing = tuple(str(place) for place, cell in found.items() if cell is None)
        if missing:
            return Measured(missing=missing)
        a, b = found[part.a], max((found[place] for place in part.b), key=lambda s: s.mean if s else 0.0)
        assert a is not None
        assert b is not None
        shown = [self.queue_runs.column(NETS[place.table], place.column) for place in found]
        notes = substitutes(run for one in shown for run in one.runs)
        if min(a.n, b.n) < LEAST_PAIRS:
            return replace(single(a.mean, b.mean, min(a.n, b.n)), notes=notes)
        return Measured(a.mean - b.mean, welched(part, a, b), min(a.n, b.n), "Welch", notes=notes)

    def cell(self, place: Place) -> Summary | None:
        """None where there is none, or where the best and the worst weight are not known because some are untried."""
        if place.table not in TABLES:
            return None
        if place.table in QUEUE_TABLES and self.queue_runs.untried(NETS[place.table], place.column):
            return None
        (found,) = cells(place.table, self.records, [place.row], [place.column])
        return None if found.ours is None else Summary(found.ours, found.std or 0.0, found.n)

    def heads(self, part: Heads, family: int) -> Measured:
        """Runs of the tables' protocol that differ in their heads alone, paired over weights, networks and seeds."""
        pairs: list[tuple[float, float]] = []
        behind: list[Record] = []
        for scenario, net in product(SCENARIOS.values(), NETS.values()):
            for zero in settings(net, [part.method], ["zero"]):
                runs = [self.by_label.get(s.label(scenario), {}) for s in (zero._replace(heads="random"), zero)]
                a, b = map(accuracies, runs)
                pairs += [(a[seed], accuracy) for seed, accuracy in b.items() if seed in a]
                behind += runs[1].values()
        if not pairs:
            return Measured(missing=(f"runs of {part.method} with zero heads on the long queue",))
        random_heads, zero_heads = [r for r, _ in pairs], [z for _, z in pairs]
        if len(pairs) < LEAST_PAIRS:
            found = single(statistics.fmean(random_heads), statistics.fmean(zero_heads), len(pairs))
        else:
            found = over_pairs(random_heads, zero_heads, part.thresholds, family)
        return replace(found, notes=substitutes(behind))


def substitutes(runs: Iterable[Record]) -> tuple[str, ...]:
    """What there is to say of runs that are not quite what print has."""
    found = list(runs)
    sampled = [f"GEM on Permuted MNIST is {SUB_SAMPLED}"] if any(run.preset in SAMPLED for run in found) else []
    return (*sampled, *remarks(found))


def over_pairs(a: Sequence[float], b: Sequence[float], thresholds: Sequence[float], family: int) -> Measured:
    """A paired test of a − b against thresholds: exact where so many comparisons can be shown by so many pairs."""
    differences = [x - y for x, y in zip(a, b, strict=True)]
    exact = len(differences) >= needed(family)
    found = []
    for threshold in thresholds:
        if exact:
            found.append(paired([threshold] * len(differences), differences).p)
        else:  # a t-test of the differences is Welch's against a number that has no spread
            p = welch(summarized(differences), Summary(threshold, 0.0, len(differences)))
            assert p is not None
            found.append(p)
    mean = statistics.fmean(differences)
    return Measured(mean, tuple(found), len(differences), "paired permutation" if exact else "paired t")


def stand_in(place: Place, values: Sequence[float]) -> Summary:
    """Our mean with print's deviation of a run, as so many runs of ours would have it, and print's freedom."""
    mean, spread = statistics.fmean(values), published()[place.table][place.row][place.column][1]
    if place.row in COPIED:
        return Summary(mean, spread * math.sqrt(RUNS_COPIED * (RUNS_COPIED - 1) / len(values)), RUNS_COPIED)
    return Summary(mean, spread * math.sqrt(RUNS_IN_PRINT / len(values)), RUNS_IN_PRINT)
