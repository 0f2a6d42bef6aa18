"""Tests of significance against counts by hand and against SciPy."""

import itertools
import math
import random
import statistics
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from engram.analysis.statistics import (
    Summary,
    correct_tests,
    holm,
    paired_interval,
    paired_test,
    pairs_needed,
    summarize,
    welch,
)


def test_three_pairs_by_hand():
    """Differences 1, 2, 3: of the 8 patterns of signs only +++ and −−− have a sum of 6 or more away from 0."""
    found = paired_test([0, 0, 0], [1, 2, 3])
    assert (found.difference, found.n, found.p, found.least) == (2.0, 3, 2 / 8, 2 / 8)
    # 3 + 2 − 1 = 4 away from 0: +++, ++− with the 1 turned, and their negatives
    assert paired_test([0, 0, 0], [-1, 2, 3]).p == 4 / 8


@pytest.mark.parametrize("seed", range(20))
def test_equal_sums_stay_equal_where_runs_differ_by_a_few_test_images(seed):
    """Averages over ten tasks of 10,000 images: they are rounded by more than what so small differences are."""
    rng, images = random.Random(seed), [2, 1, 2, 2, -1, 1, 1, -1, 2, 1]
    a, b = [], []
    for more in images:
        right = [rng.randrange(9000, 9990) for _ in range(10)]
        a.append(statistics.fmean(n / 100 for n in right))
        b.append(statistics.fmean(n / 100 for n in [right[0] + more, *right[1:]]))
    sums = map(sum, itertools.product(*((n, -n) for n in images)))
    assert paired_test(a, b).p == sum(abs(s) >= sum(images) for s in sums) / 1024 > 0.05


@pytest.mark.parametrize("n", [4, 7, 10, 13])
def test_it_is_scipy_s_exact_permutation_test(n):
    rng = np.random.default_rng(n)
    a, b = rng.normal(0, 1, n), rng.normal(0.6, 1, n)
    known = stats.permutation_test(
        (a, b), lambda x, y, axis: np.mean(x - y, axis=axis), permutation_type="samples", vectorized=True
    )
    assert paired_test(a, b).p == pytest.approx(known.pvalue, abs=1e-12)


def test_more_pairs_than_can_be_counted_are_drawn():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 1, 40), rng.normal(0.4, 1, 40)
    found = paired_test(a, b)
    assert 0.001 < found.p < 0.9
    # with 40 pairs the distribution of the sum is normal enough: mean 0, variance Σ d²
    d = b - a
    normal = 2 * stats.norm.sf(abs(d.sum()) / math.sqrt((d**2).sum()))
    assert found.p == pytest.approx(normal, abs=0.01)
    assert paired_test(a, b).p == found.p  # the same every time
    assert paired_test(np.zeros(40), np.ones(40)).p == 1 / 100_001  # none drawn at random is as far, but the found one


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=7))
def test_p_is_the_share_of_sign_patterns(d):
    """Tenths, so that equal sums differ in their last bits; zeros and ties included."""
    values = [x / 10 for x in d]
    far = sum(
        abs(sum(s * x for s, x in zip(signs, d, strict=True))) >= abs(sum(d))
        for signs in itertools.product((1, -1), repeat=len(d))
    )
    found = paired_test([0.0] * len(d), values)
    assert found.p == pytest.approx(far / 2 ** len(d))
    assert found.least <= found.p


@pytest.mark.parametrize(("n", "can"), [(1, False), (3, False), (5, False), (6, True), (10, True)])
def test_few_pairs_cannot_show_anything_and_it_says_so(n, can):
    """The best case of n pairs is 2 of 2^n patterns: 0.0625 for 5, 0.03125 for 6."""
    found = paired_test([0.0] * n, [50.0 + i for i in range(n)])
    assert found.p == found.least == 2 / 2**n
    assert found.shown is found.can_show is can
    assert found.word == (
        "higher" if can else f"too few pairs: {n} can give no p below {2 / 2**n:.3g}, 6 or more could"
    )


def test_pairs_that_are_equal_do_not_help():
    found = paired_test([1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 15, 16, 17])
    assert found.p == found.least == 2 / 2**3
    assert paired_test([1, 2], [1, 2]).word == "equal"
    assert paired_test([], []).word == "no common seed"
    assert paired_test([0] * 8, [-1, -2, -3, -4, -5, -6, -7, -8]).word == "lower"
    assert paired_test([0] * 8, [1, -1, 1, -1, 1, -1, 1, -1]).word == "not shown"


def test_pairs_must_be_pairs():
    with pytest.raises(ValueError, match="zip"):
        paired_test([1, 2], [1])


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=6))
def test_holm_rejects_what_the_procedure_rejects(thousandths):
    """Step down: the k-th smallest is held against α / (tests left); after the first that fails all are kept."""
    p = [value / 1000 for value in thousandths]
    for alpha in (0.05, 0.2):
        rejected = set()
        for left, i in zip(range(len(p), 0, -1), sorted(range(len(p)), key=p.__getitem__), strict=True):
            if not p[i] * left < alpha:
                break
            rejected.add(i)
        assert {i for i, adjusted in enumerate(holm(p)) if adjusted < alpha} == rejected


def test_what_can_show_nothing_does_not_make_it_harder_for_the_others():
    eight = paired_test([0.0] * 8, [1.0] * 8)  # 2 / 256
    three = paired_test([0.0] * 3, [1.0] * 3)
    equal = paired_test([1.0] * 8, [1.0] * 8)
    found = correct_tests([eight, three, equal, equal, eight])
    assert [test.adjusted for test in found] == [2 * 2 / 256, None, None, None, 2 * 2 / 256]
    assert [test.shown for test in found] == [True, False, False, False, True]
    assert [test.family for test in found] == [2, 1, 1, 1, 2]


def test_ten_pairs_are_too_few_for_many_tests_and_it_says_so():
    """28 pairs of 8 methods over ten seeds: the best case is 28 · 2 / 1024 = 0.0547."""
    found = correct_tests([paired_test([0.0] * 10, [1.0] * 10)] * 28)
    assert {test.word for test in found} == {
        "too few pairs for 28 tests: 10 can give no p below 0.0547, 11 or more could"
    }
    assert {test.word for test in correct_tests([paired_test([0.0] * 11, [1.0] * 11)] * 28)} == {"higher"}


@pytest.mark.parametrize(("tests", "pairs"), [(1, 6), (2, 7), (13, 10), (20, 10), (26, 11), (91, 12)])
def test_pairs_needed(tests, pairs):
    assert pairs_needed(tests) == pairs
    assert tests * 2 / 2**pairs < 0.05 <= tests * 2 / 2 ** (pairs - 1)


@pytest.mark.parametrize("seed", range(5))
def test_welch_is_scipy_s(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(90, 1, 10), rng.normal(91, 3, 4 + seed)
    known = stats.ttest_ind(a, b, equal_var=False).pvalue
    assert welch(summarize(a.tolist()), summarize(b.tolist())) == pytest.approx(known, rel=1e-9)


def test_welch_without_spread_or_without_runs():
    assert welch(Summary(90, 0, 10), Summary(90, 0, 10)) == 1.0
    assert welch(Summary(90, 0, 10), Summary(91, 0, 10)) == 0.0
    assert welch(Summary(90, 1, 10), Summary(95, 0, 1)) is None


def test_it_works_without_torch():
    code = "import sys, engram.analysis.statistics as s; s.paired_test([1], [3]); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_interval_of_six_pairs_is_from_the_least_difference_to_the_largest():
    """Of 64 parts into which the means of subsets divide the line, the two outer ones are 3.1 percent."""
    zeros = [0.0] * 6
    assert paired_interval(zeros, [3, 1, 4, 1.5, 9, 2.6]) == (1.0, 9.0)
    assert paired_interval(zeros[:5], [3, 1, 4, 1.5, 9]) is None  # 2/32 is above 5 percent


@given(st.lists(st.sampled_from([-3.0, -1.5, 0.0, 0.5, 1.0, 2.25, 4.0]), min_size=6, max_size=12))
def test_the_interval_contains_0_exactly_if_the_test_shows_nothing(differences):
    zeros = [0.0] * len(differences)
    interval = paired_interval(zeros, differences)
    assert interval is not None
    assert (interval[0] <= 0 <= interval[1]) == (paired_test(zeros, differences).p >= 0.05)


def test_the_interval_of_many_pairs_is_near_student_s():
    rng = random.Random(1)
    b = [rng.gauss(1, 2) for _ in range(60)]
    found = paired_interval([0.0] * 60, b)
    assert found == pytest.approx(stats.ttest_1samp(b, 0).confidence_interval(0.95), abs=0.05)
