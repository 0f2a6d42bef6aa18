"""Significance: whether two sets of runs differ by more than chance. Plain numbers; works without torch."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

ALPHA = 0.05
"""What counts as shown: an adjusted p below this."""
EXACT = 20
"""Pairs up to which all sign patterns are counted; beyond, so many are drawn:"""
DRAWN = 100_000
DIGITS = 9
"""Of differences in percent: what lies below is the rounding of accuracies near 100, and would part equal sums."""


@dataclass(frozen=True)
class Paired:
    """A paired sign-flip permutation test of b − a over common seeds, two-sided."""

    difference: float
    """Mean of b − a."""
    n: int
    """Pairs."""
    p: float
    """Share of the sign patterns of the differences whose mean is as far from 0 as the one found."""
    least: float
    """The smallest p that these pairs could give, whatever their signs: 2 to the power of 1 − pairs that differ."""
    adjusted: float | None = None
    """p after Holm's correction; None where the test is alone, or left out because it can show nothing."""
    family: int = 1
    """Tests that it was corrected with, itself included."""
    moved: int = 0
    """Pairs that differ at all."""

    @property
    def can_show(self) -> bool:
        """Whether so many pairs can give a p below ALPHA at all."""
        return self.least < ALPHA

    @property
    def shown(self) -> bool:
        return (self.p if self.adjusted is None else self.adjusted) < ALPHA

    @property
    def word(self) -> str:
        """What may be said of it."""
        if self.n == 0:
            return "no common seed"
        if self.least == 1 and self.difference == 0:
            return "equal"
        if self.shown:
            return "higher" if self.difference > 0 else "lower"
        if self.least * self.family >= ALPHA:
            of = f" for {self.family} tests" if self.family > 1 else ""
            least = f"{min(1.0, self.least * self.family):.3g}"
            pairs = f"{self.n}" if self.moved == self.n else f"{self.moved} of {self.n} that differ"
            return f"too few pairs{of}: {pairs} can give no p below {least}, {pairs_needed(self.family)} or more could"
        return "not shown"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "word": self.word}


def paired_test(a: Sequence[float], b: Sequence[float]) -> Paired:
    """Tests whether b differs from a, pair by pair. Under the null each difference is as likely as its negative.

    Exact up to 20 pairs, beyond by 100,000 patterns from a fixed seed, the found one counted among them.
    """
    differences = [round(y - x, DIGITS) for x, y in zip(a, b, strict=True)]
    moved = [d for d in differences if d != 0]
    if not moved:
        return Paired(0.0, len(differences), 1.0, 1.0)
    mean = statistics.fmean(differences)
    least = 2.0 ** (1 - len(moved)) if len(moved) <= EXACT else 1 / (DRAWN + 1)
    return Paired(mean, len(differences), sign_flip(moved), least, moved=len(moved))


def sign_flip(differences: Sequence[float]) -> float:
    """Share of the sign patterns whose sum is at least as far from 0 as that of these differences."""
    import numpy as np

    d = np.asarray(differences, dtype=np.float64)
    size = np.abs(d).sum()
    far = abs(d.sum()) - 1e-12 * size  # equal sums stay equal, however they were rounded
    if len(d) <= EXACT:
        sums = d[:1]  # the first sign is fixed: a pattern and its negative are as far from 0
        for one in d[1:]:
            sums = np.concatenate([sums + one, sums - one])
        return float((np.abs(sums) >= far).mean())
    rng = np.random.default_rng(0)
    count = 0
    for _ in range(10):  # in pieces, to stay small
        signs = rng.integers(0, 2, (DRAWN // 10, len(d)), dtype=np.int8) * 2 - 1
        count += int((np.abs(signs @ d) >= far).sum())
    return (count + 1) / (DRAWN + 1)


def paired_interval(a: Sequence[float], b: Sequence[float]) -> tuple[float, float] | None:
    """The mean differences b − a that `paired_test` does not reject at ALPHA: an interval of confidence, which contains
    0 exactly if p is not below ALPHA. None if there are too few pairs to exclude anything.

    Its ends are the k-th smallest and the k-th largest mean over a subset of the differences (Hartigan, 1969): all
    subsets up to 20 pairs, beyond so many from a fixed seed.
    """
    import numpy as np

    d = np.array([round(y - x, DIGITS) for x, y in zip(a, b, strict=True)])
    subsets = 2 ** len(d) if len(d) <= EXACT else DRAWN
    k = math.ceil(ALPHA * subsets / 2) - 1
    if k < 1:
        return None
    if len(d) <= EXACT:
        sums, sizes = np.zeros(1), np.zeros(1)
        for one in d:
            sums, sizes = np.concatenate([sums, sums + one]), np.concatenate([sizes, sizes + 1])
        means = sums[1:] / sizes[1:]  # the first subset is empty
    else:
        members = np.random.default_rng(0).integers(0, 2, (DRAWN - 1, len(d)), dtype=np.int8)
        means = members @ d / members.sum(1).clip(1)
    ordered = np.partition(means, [k - 1, len(means) - k])
    return float(ordered[k - 1]), float(ordered[len(means) - k])


def pairs_needed(tests: int = 1) -> int:
    """Pairs from which on so many tests can show anything after Holm's correction: 6 for one, 10 for 20."""
    return next(n for n in range(1, 64) if tests * 2.0 ** (1 - n) < ALPHA)


def holm(p: Sequence[float]) -> list[float]:
    """p-values adjusted so that with ALPHA a wrong claim among all of them is that unlikely (Holm, 1979)."""
    adjusted = [0.0] * len(p)
    least = 0.0
    for rank, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        least = max(least, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = least
    return adjusted


def correct_tests(tests: Sequence[Paired]) -> list[Paired]:
    """The tests of one family with adjusted p-values.

    Those that cannot get below ALPHA whatever they find are no part of the family (Tarone, 1990): runs that are equal
    to the bit, and too few pairs, do not make it harder to show something of the others.
    """
    family = [i for i, test in enumerate(tests) if test.can_show]
    found = list(tests)
    for i, p in zip(family, holm([tests[i].p for i in family]), strict=True):
        found[i] = replace(tests[i], adjusted=p, family=len(family))
    return found


@dataclass(frozen=True)
class Summary:
    """What print gives of some runs."""

    mean: float
    std: float
    """The population's deviation, as everywhere here and in print."""
    n: int


def summarize(values: Sequence[float]) -> Summary:
    return Summary(statistics.fmean(values), statistics.pstdev(values), len(values))


def welch(a: Summary, b: Summary) -> float | None:
    """Two-sided p of Welch's t-test that two means are the same, for runs that are not paired; None under 2 runs."""
    if min(a.n, b.n) < 2:
        return None
    va, vb = a.std**2 / (a.n - 1), b.std**2 / (b.n - 1)  # squared standard errors, from the population's deviation
    if va + vb == 0:
        return 1.0 if a.mean == b.mean else 0.0
    from scipy.special import stdtr

    t = abs(b.mean - a.mean) / math.sqrt(va + vb)
    freedom = (va + vb) ** 2 / (va**2 / (a.n - 1) + vb**2 / (b.n - 1))  # Welch–Satterthwaite
    return float(2 * stdtr(freedom, -t))
