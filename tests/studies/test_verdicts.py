"""Verdicts: bands by hand, from numbers of the published tables."""

import pytest

from engram.studies.catalog import built_in_study
from engram.studies.study import Spread
from engram.studies.verdict import band_around, judge

STD, SEM = Spread("std", 10), Spread("sem", 20)


@pytest.mark.parametrize(
    ("spread", "published", "values", "expected"),
    [
        # three runs or more: their own deviation. s = 0.3: 3·√(0.09/3 + 0.35²/10) = 3·√0.04225
        (STD, 0.35, [62.9, 63.2, 63.5], 0.616644),
        # fewer: the published one. 3·√(0.1225/1 + 0.01225), 3·√(0.1225/2 + 0.01225)
        (STD, 0.35, [63.2], 1.101249),
        (STD, 0.35, [10.0, 90.0], 0.813327),
        (STD, 0.35, [], 1.101249),
        # never more than 3 times the published one. s = 10 counts as 1.05: 3·√(1.1025/3 + 0.01225)
        (STD, 0.35, [50.0, 60.0, 70.0], 1.848716),
        # a standard error: the deviation of a run is √20 times it
        (SEM, 1.26, [70.0], 17.322136),  # 3·√(20·1.26² + 1.26²)
        (STD, 1.26, [70.0], 3.964497),  # 3·√(1.26² + 1.26²/10)
        (SEM, 1.26, [69.0, 71.0, 73.0, 71.0], 4.504265),  # s² = 8/3: 3·√(8/12 + 1.5876)
        (SEM, 0.1, [60.0, 70.0, 80.0], 2.343075),  # s = 10 counts as 3·√20·0.1: 3·√(1.8/3 + 0.01)
        # never less than 0.3
        (STD, 0.04, [19.4, 19.5, 19.6], 0.3),  # 3·√(0.01/3 + 0.00016) = 0.177
        (STD, 0.04, [19.46] * 10, 0.3),
        # other numbers of published runs: 3·√(0.1225 + 0.1225/5)
        (Spread("std", 5), 0.35, [63.2], 1.150217),
    ],
)
def test_band(spread, published, values, expected):
    assert band_around(values, published, spread) == pytest.approx(expected, abs=2e-6)


def test_without_a_published_spread_ours_stands_in_from_three_runs_on():
    """s = 2, published of 10 runs: 3·√(4/3 + 4/10); no cap."""
    assert band_around([60.0, 62.0, 64.0], None, STD) == pytest.approx(3 * (4 / 3 + 4 / 10) ** 0.5)
    assert band_around([60.0, 62.0], None, STD) is None
    assert band_around([60.0] * 5, None, STD) == 0.3
    assert band_around([60.0, 62.0, 64.0], None, STD, fixed=5.0) == 5.0
    assert band_around([], None, STD, fixed=5.0) == 5.0


@pytest.mark.parametrize(
    ("table", "row", "spread"),
    [
        ("table2", "sgd", STD), ("table2", "lwf", SEM), ("table2", "dgr", SEM), ("table3", "rtf", SEM),
        ("table3", "gem", STD), ("table4", "ewc", STD),
    ],
)  # fmt: skip
def test_copied_rows_have_a_standard_error(table, row, spread):
    study = built_in_study(table)
    assert (study.rows[row].spread or study.spread) == spread
    assert (built_in_study("table5").band, built_in_study("table6").band, study.band) == (5.0, 5.0, None)


@pytest.mark.parametrize(
    ("ours", "expected"),
    [(None, "missing"), (50.0, "agrees"), (50.5, "agrees"), (50.51, "higher"), (49.5, "agrees"), (49.4, "lower")],
)
def test_verdict(ours, expected):
    assert judge(ours, 50.0, 0.5) == expected


def test_there_is_no_verdict_without_a_published_number_or_a_band():
    assert judge(50.0, None, None) is None
    assert judge(50.0, 50.0, None) is None
    assert judge(None, 50.0, None) == "missing"
