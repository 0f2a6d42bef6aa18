"""What the published numbers and our records say of each comparison: a difference, and p-values. No torch.

A comparison of ours takes the strongest test that its runs allow: the exact paired permutation test if there are pairs
enough for so many comparisons, else a paired t-test from 3 pairs on, else, as with verdicts, the published standard
deviations stand in. A table without a published spread has no p on the published side; ours has Welch's test there,
from 3 runs on.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engram.analysis.statistics import Summary, paired_test, pairs_needed, summarize, welch
from engram.runs.records import Record
from engram.runs.setting import group_by_setting
from engram.studies.catalog import built_in_study, results_of, study_names
from engram.studies.claims import Comparison, Place
from engram.studies.study import Spread
from engram.studies.table import CellRuns, Groups, Results
from engram.studies.verdict import LEAST_RUNS

STAND_IN, NO_SPREAD = "published deviation", "no spread"


@dataclass(frozen=True)
class Measured:
    """What a comparison comes to on one side, published or ours."""

    difference: float | None = None
    p: tuple[float, ...] = ()
    """One per threshold, two-sided; none if there is no spread, or nothing to test."""
    n: int = 0
    """Pairs, or the fewer of the runs of the two."""
    test: str = ""
    missing: tuple[str, ...] = ()
    """What would have to be run."""
    notes: tuple[str, ...] = ()
    """What stands in for what was published."""


def published_side(part: Any) -> Measured:
    """A comparison in the published numbers."""
    if not isinstance(part, Comparison):
        return Measured(missing=("numbers: the paper has figures only",))
    best = max(part.b, key=lambda place: published(part.paper, place)[0])
    (a, spread_a), (b, spread_b) = published(part.paper, part.a), published(part.paper, best)
    if spread_a is None or spread_b is None:
        return without_spread(a, b, 1)
    of_a = published_summary(a, spread_a, spread_of(part.paper, part.a))
    of_b = published_summary(b, spread_b, spread_of(part.paper, best))
    return Measured(a - b, welch_tests(part, of_a, of_b), min(of_a.n, of_b.n), "Welch")


def published(paper: str, place: Place) -> tuple[float, float | None]:
    return built_in_study(f"{paper}/{place.table}").rows[place.row].published[place.column]


def spread_of(paper: str, place: Place) -> Spread:
    study = built_in_study(f"{paper}/{place.table}")
    return study.rows[place.row].spread or study.spread


def published_summary(mean: float, value: float, spread: Spread) -> Summary:
    """Mean and population standard deviation of so many published runs."""
    return Summary(mean, value * math.sqrt(spread.runs - 1) if spread.kind == "sem" else value, spread.runs)


def welch_tests(part: Any, a: Summary, b: Summary) -> tuple[float, ...]:
    found = [welch(replace(a, mean=a.mean - threshold), b) for threshold in part.thresholds]
    return tuple(p for p in found if p is not None)


def without_spread(a: float, b: float, n: int) -> Measured:
    """Two numbers of which no spread is known."""
    return Measured(a - b, (), n, NO_SPREAD)


class OurSide:
    """Our records, as the claims of a paper ask for them."""

    def __init__(self, paper: str, records: Iterable[Record] | Groups) -> None:
        groups = records if isinstance(records, Mapping) else group_by_setting(records)
        self.tables: dict[str, Results] = {
            name.rpartition("/")[2]: results_of(built_in_study(name), groups)
            for name in study_names()
            if name.startswith(f"{paper}/")
        }

    def measure(self, part: Any, family: int) -> Measured:
        """A comparison in our records, one of so many tests."""
        if not isinstance(part, Comparison):
            return self.measure_pairs(part, family)
        runs = {place: self.tables[place.table].cell_runs(place.row, place.column) for place in (part.a, *part.b)}
        missing = tuple(str(place) for place, found in runs.items() if not found.values or not found.complete)
        notes = tuple(dict.fromkeys(note for found in runs.values() for note in stand_in_notes(found)))
        if missing:
            return Measured(missing=missing, notes=notes)
        best = max(part.b, key=lambda place: statistics.fmean(runs[place].values.values()))
        found = self.compare(part, best, runs[part.a], runs[best], family)
        return replace(found, notes=notes)

    def compare(self, part: Comparison, best: Place, a: CellRuns, b: CellRuns, family: int) -> Measured:
        n = min(len(a.values), len(b.values))
        if any(published(part.paper, place)[1] is None for place in (part.a, best)):  # runs need not be paired
            of_a, of_b = summarize(list(a.values.values())), summarize(list(b.values.values()))
            if n < LEAST_RUNS:
                return without_spread(of_a.mean, of_b.mean, n)
            return Measured(of_a.mean - of_b.mean, welch_tests(part, of_a, of_b), n, "Welch")
        common = sorted(a.values.keys() & b.values.keys())
        if len(common) >= LEAST_RUNS:
            return over_pairs([a.values[s] for s in common], [b.values[s] for s in common], part.thresholds, family)
        ours = [stand_in_summary(part.paper, p, list(r.values.values())) for p, r in ((part.a, a), (best, b))]
        return Measured(ours[0].mean - ours[1].mean, welch_tests(part, *ours), n, STAND_IN)

    def measure_pairs(self, part: Any, family: int) -> Measured:
        """A comparison whose pairs the paper's own Python finds."""
        pairs, behind = part.pairs(self.tables)
        if not pairs:
            return Measured(missing=(f"runs of {part.method} for {part.text}",))
        a, b = [x for x, _ in pairs], [y for _, y in pairs]
        if len(pairs) < LEAST_RUNS:
            found = without_spread(statistics.fmean(a), statistics.fmean(b), len(pairs))
        else:
            found = over_pairs(a, b, part.thresholds, family)
        return replace(found, notes=tuple(part.remarks(behind)))


def stand_in_notes(runs: CellRuns) -> list[str]:
    """What there is to say of runs that are not quite what was published."""
    return [note for note in runs.notes if "stand in" in note or "sub-sampled" in note or "re-cropped" in note]


def over_pairs(a: Sequence[float], b: Sequence[float], thresholds: Sequence[float], family: int) -> Measured:
    """A paired test of a − b against thresholds: exact if so many pairs can show something in so many comparisons."""
    differences = [x - y for x, y in zip(a, b, strict=True)]
    exact = len(differences) >= pairs_needed(family)
    found = []
    for threshold in thresholds:
        if exact:
            found.append(paired_test([threshold] * len(differences), differences).p)
        else:  # a t-test of the differences is Welch's against a number without a spread
            p = welch(summarize(differences), Summary(threshold, 0.0, len(differences)))
            assert p is not None
            found.append(p)
    mean = statistics.fmean(differences)
    return Measured(mean, tuple(found), len(differences), "paired permutation" if exact else "paired t")


def stand_in_summary(paper: str, place: Place, values: Sequence[float]) -> Summary:
    """Our mean with the published standard deviation of a run, and the published degrees of freedom."""
    mean, spread = statistics.fmean(values), spread_of(paper, place)
    value = published(paper, place)[1]
    assert value is not None
    runs = spread.runs
    if spread.kind == "sem":
        return Summary(mean, value * math.sqrt(runs * (runs - 1) / len(values)), runs)
    return Summary(mean, value * math.sqrt(runs / len(values)), runs)
