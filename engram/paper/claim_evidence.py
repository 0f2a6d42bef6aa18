"""What print and our records say of each comparison that a claim makes: a difference, and p-values. No torch.

A comparison of ours takes the strongest test that its runs allow: the exact paired permutation test where there are
pairs enough for so many comparisons, else a paired t-test from 3 pairs on, else, as with verdicts, the deviations of
print stand in. Where print has no spread, as in Tables 5 and 6, there is no p.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from engram.experiments.records import Record
from engram.experiments.statistics import Summary, needed, paired, summarized, welch
from engram.paper.cells import (
    COPIED,
    QUEUE_TABLES,
    RUNS_COPIED,
    RUNS_IN_PRINT,
    TABLES,
    cells,
    preset_name,
    published,
    runs_by_label,
    taken,
)
from engram.paper.claims import AnyPart, Heads, Part, Place, Trend
from engram.paper.long_queue import NETS, SCENARIOS, Runs, settings
from engram.paper.twin_cells import accuracies

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


def in_print(part: AnyPart) -> Measured:
    """A part in the published numbers."""
    if isinstance(part, Heads):
        return Measured(missing=("numbers: print has figures only",))
    if isinstance(part, Trend):
        rows = [row for row in published()[part.table] if int(row) > 1]
        return trend([published()[part.table][row][part.column] for row in rows])
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


def trend(values: Sequence[float], n: int = 1) -> Measured:
    """Kendall's tau of a series, and its exact p: of all orders, how many have as few pairs out of order."""
    pairs = [(x, y) for i, x in enumerate(values) for y in values[i + 1 :]]
    rising, falling = sum(x < y for x, y in pairs), sum(x > y for x, y in pairs)
    orders = [1]  # orders[k]: how many orders of so many values have k pairs that fall
    for size in range(2, len(values) + 1):
        length = len(orders) + size - 1
        orders = [sum(orders[max(0, k - size + 1) : k + 1]) for k in range(length)]
    against = len(pairs) - max(rising, falling)  # equal values speak for neither
    p = min(1.0, 2 * sum(orders[: against + 1]) / sum(orders))
    return Measured((rising - falling) / len(pairs), (p,), n, "Kendall")


class Ours:
    """Our records, as the claims ask for them."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        self.queue_runs = Runs(records)
        self.runs = {label: accuracies(runs) for label, runs in runs_by_label(records).items()}

    def measured(self, part: AnyPart, family: int) -> Measured:
        """A part in our records, one of so many comparisons."""
        if isinstance(part, Heads):
            return self.heads(part, family)
        if isinstance(part, Trend):
            found = self.column(part.table, part.column)
            return trend(*found) if found else Measured(missing=(f"{part.table} {part.column}",))
        if part.a.table in QUEUE_TABLES:
            return self.queue(part)
        labels = {place: preset_name(*place) for place in (part.a, *part.b)}
        runs = {place: taken(self.runs, label) or {} for place, label in labels.items()}
        missing = tuple(label for place, label in labels.items() if not runs[place])
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
        """Cells of the long queue: their means, for want of common seeds of the best and the worst weight."""
        found = {place: self.cell(place) for place in (part.a, *part.b)}
        missing = tuple(str(place) for place, cell in found.items() if cell is None)
        if missing:
            return Measured(missing=missing)
        a, b = found[part.a], max((found[place] for place in part.b), key=lambda s: s.mean if s else 0.0)
        assert a is not None
        assert b is not None
        if min(a.n, b.n) < LEAST_PAIRS:
            return single(a.mean, b.mean, min(a.n, b.n))
        return Measured(a.mean - b.mean, welched(part, a, b), min(a.n, b.n), "Welch")

    def cell(self, place: Place) -> Summary | None:
        """None where there is none, or where the best and the worst weight are not known because some are untried."""
        if place.table not in TABLES:
            return None
        if place.table in QUEUE_TABLES and self.queue_runs.untried(NETS[place.table], place.column):
            return None
        (found,) = cells(place.table, self.records, [place.row], [place.column])
        return None if found.ours is None else Summary(found.ours, found.std or 0.0, found.n)

    def column(self, table: str, column: str) -> tuple[list[float], int] | None:
        """The means of a column of the long queue, from task 11 on, and the runs behind them."""
        rows = [row for row in published()[table] if int(row) > 1]
        found = [self.cell(Place(table, row, column)) for row in rows]
        whole = [one for one in found if one is not None]
        return ([one.mean for one in whole], whole[0].n) if len(whole) == len(rows) else None

    def heads(self, part: Heads, family: int) -> Measured:
        """Runs of the tables' protocol that differ in their heads alone, paired over weights, networks and seeds."""
        pairs = []
        for scenario, net in product(SCENARIOS.values(), NETS.values()):
            for zero in settings(net, [part.method], ["zero"]):
                ends = [self.runs.get(s.label(scenario), {}) for s in (zero._replace(heads="random"), zero)]
                pairs += [(ends[0][seed], accuracy) for seed, accuracy in ends[1].items() if seed in ends[0]]
        if not pairs:
            return Measured(missing=(f"runs of {part.method} with zero heads on the long queue",))
        random_heads, zero_heads = [r for r, _ in pairs], [z for _, z in pairs]
        if len(pairs) < LEAST_PAIRS:
            return single(statistics.fmean(random_heads), statistics.fmean(zero_heads), len(pairs))
        return over_pairs(random_heads, zero_heads, part.thresholds, family)


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
