"""Verification: what a repetition comes to, by bands worked out by hand."""

from dataclasses import replace

import pytest
from engram.studies.hsu2018.verify import band, compared, printed_deviation, shuffled

from engram.runs.records import Record


def record(seed: int, value: float | None, label: str | None = "split-mnist/domain sgd", **spec) -> Record:
    status = "done" if value is not None else "diverged"
    accuracy = [[value]] if value is not None else []
    return Record(
        f"key {seed}", "split-mnist/domain", "sgd", seed, {"seed": seed, "lr": 0.01, **spec}, status, accuracy,
        average_accuracy=value, losses=[0.5], preset=label,
    )  # fmt: skip


RUNS = [record(seed, value) for seed, value in enumerate((62.0, 63.0, 64.0, 65.0))]


def test_the_band_is_three_deviations_of_a_difference_by_the_other_seeds():
    assert band(RUNS[0], RUNS) == pytest.approx(3 * 2**0.5)  # of 63, 64, 65: deviation 1
    assert band(RUNS[0], [*RUNS, record(9, 10.0, lr=0.1)]) == pytest.approx(3 * 2**0.5)  # another setting
    assert band(RUNS[0], [record(s, 63.2) for s in range(5)]) == 0.3


def test_print_s_deviation_stands_in_for_few_seeds():
    assert band(RUNS[0], RUNS[:3]) == pytest.approx(3 * 2**0.5 * 0.35)
    assert printed_deviation("split-mnist/class lwf common") == pytest.approx(0.33 * 20**0.5)
    assert printed_deviation("permuted-mnist/class-known ewc searched=100") == 1.04
    assert printed_deviation("split-mnist/class drift") is None
    assert band(record(0, 60.0, label=None), []) == pytest.approx(3 * 2**0.5 * 0.35)  # that of its scenario and method
    assert band(replace(RUNS[0], preset="long-queue/task si coef=1"), []) == 5.0  # print has no spread there


@pytest.mark.parametrize(
    ("again", "verification"),
    [(62.0, "same bits"), (62.1, "within spread"), (66.2, "within spread"), (66.3, "moved"), (57.0, "moved")],
)
def test_same_bits_within_spread_or_moved(again, verification):
    """62 was recorded, and the band is 4.24."""
    found = compared(RUNS[0], record(0, again), RUNS)
    assert found.verification == verification
    assert (found.recorded, found.again, found.seed) == (62.0, again, 0)


def test_equal_accuracies_with_other_losses_are_not_the_same_bits():
    assert compared(RUNS[0], replace(RUNS[0], losses=[0.5000001]), RUNS).verification == "within spread"


def test_a_run_that_breaks_off_has_failed():
    assert compared(RUNS[0], record(0, None), RUNS).verification == "failed"


def test_a_seed_puts_the_same_finished_runs_first():
    given = [*RUNS, record(7, None)]
    assert shuffled(given, seed=1) == shuffled(given, seed=1)
    assert sorted(r.seed for r in shuffled(given, seed=1)) == [0, 1, 2, 3]
    assert len({tuple(r.seed for r in shuffled(given, seed=s)[:2]) for s in range(20)}) > 3
