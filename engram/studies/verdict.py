"""Verdicts: whether our numbers agree with the published ones, and how far they may differ by chance. No torch."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

from engram.studies.study import Spread

Verdict = Literal["agrees", "higher", "lower", "missing"]
LEAST_BAND = 0.3
"""Points within which two means always agree."""
LEAST_RUNS = 3
"""Runs from which on their own standard deviation counts."""


def run_deviation(published_spread: float, spread: Spread) -> float:
    """The standard deviation of a single published run."""
    return published_spread * math.sqrt(spread.runs) if spread.kind == "sem" else published_spread


def band_around(
    values: Sequence[float], published_spread: float | None, spread: Spread, fixed: float | None = None
) -> float | None:
    """How far from the published mean a mean of our runs may lie by chance, in points; None if nothing is known."""
    n = len(values)
    if published_spread is None:
        if fixed is not None or n < LEAST_RUNS:
            return fixed
        ours = statistics.stdev(values)
        return max(LEAST_BAND, 3 * math.sqrt(ours**2 / n + ours**2 / spread.runs))
    deviation = run_deviation(published_spread, spread)
    error = published_spread if spread.kind == "sem" else published_spread / math.sqrt(spread.runs)
    ours = min(statistics.stdev(values), 3 * deviation) if n >= LEAST_RUNS else deviation
    return max(LEAST_BAND, 3 * math.sqrt(ours**2 / max(n, 1) + error**2))


def judge(ours: float | None, published: float | None, band: float | None) -> Verdict | None:
    """What may be said of our mean; None if there is nothing to compare it with."""
    if published is None:
        return None
    if ours is None:
        return "missing"
    if band is None:
        return None
    if abs(ours - published) <= band:
        return "agrees"
    return "higher" if ours > published else "lower"
