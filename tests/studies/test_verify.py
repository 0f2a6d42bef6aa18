"""Verification: what a repetition comes to, by bands worked out by hand."""

from dataclasses import replace

import pytest
from record_helpers import record_of

from engram.runs.records import Record
from engram.runs.setting import Setting, group_by_setting, setting_of_record
from engram.studies.catalog import built_in_study
from engram.studies.verify import band_between_runs, published_deviation, shuffle_finished, verify_record

SGD = built_in_study("table2").setting("sgd", "domain")


def record(seed: int, value: float | None, setting: Setting = SGD) -> Record:
    status = "done" if value is not None else "diverged"
    return record_of(setting, value, seed, status=status, losses=[0.5])


def band(one: Record, records: list[Record]) -> float:
    return band_between_runs(one, setting_of_record(one), group_by_setting(records))


RUNS = [record(seed, value) for seed, value in enumerate((62.0, 63.0, 64.0, 65.0))]


def test_the_band_is_three_deviations_of_a_difference_by_the_other_seeds():
    assert band(RUNS[0], RUNS) == pytest.approx(3 * 2**0.5)  # of 63, 64, 65: deviation 1
    other = SGD.with_values({"training.lr": 0.1})
    assert band(RUNS[0], [*RUNS, record(9, 10.0, other)]) == pytest.approx(3 * 2**0.5)  # another setting
    assert band(RUNS[0], [record(s, 63.2) for s in range(5)]) == 0.3


def test_the_published_deviation_stands_in_for_few_seeds():
    two, four = built_in_study("table2"), built_in_study("table4")
    assert band(RUNS[0], RUNS[:3]) == pytest.approx(3 * 2**0.5 * 0.35)
    assert published_deviation(two.setting("lwf", "class", "common")) == pytest.approx(0.33 * 20**0.5)
    assert published_deviation(four.setting("ewc", "permuted/known").with_values({"method.coef": 100.0})) == 1.04
    assert published_deviation(Setting("split-mnist/class", "drift")) is None
    queue = built_in_study("table5")
    assert published_deviation(Setting("long-queue/task", "adam")) is None  # no published spread there
    assert queue.band == 5.0
    assert band(record(0, 60.0, Setting("long-queue/task", "adam")), []) == 5.0


@pytest.mark.parametrize(
    ("again", "verification"),
    [(62.0, "same bits"), (62.1, "within spread"), (66.2, "within spread"), (66.3, "moved"), (57.0, "moved")],
)
def test_same_bits_within_spread_or_moved(again, verification):
    """62 was recorded, and the band is 4.24."""
    found = verify_record(RUNS[0], record(0, again), RUNS)
    assert found.verification == verification
    assert (found.recorded, found.again, found.seed) == (62.0, again, 0)


def test_equal_accuracies_with_other_losses_are_not_the_same_bits():
    assert verify_record(RUNS[0], replace(RUNS[0], losses=[0.5000001]), RUNS).verification == "within spread"


def test_a_run_that_breaks_off_has_failed():
    assert verify_record(RUNS[0], record(0, None), RUNS).verification == "failed"


def test_a_seed_puts_the_same_finished_runs_first():
    given = [*RUNS, record(7, None)]
    assert shuffle_finished(given, seed=1) == shuffle_finished(given, seed=1)
    assert sorted(r.seed for r in shuffle_finished(given, seed=1)) == [0, 1, 2, 3]
    assert len({tuple(r.seed for r in shuffle_finished(given, seed=s)[:2]) for s in range(20)}) > 3


def test_what_changes_bits_is_named_if_they_differ():
    """Variables that choose kernels, torch, and the processor; nothing if the bits are the same."""
    was = replace(RUNS[0], environment={"torch": "2.6", "cpu": "A", "variables": {"MKL_CBWR": "COMPATIBLE"}})
    here = {"torch": "2.6", "cpu": "B", "variables": {"ATEN_CPU_CAPABILITY": "avx2"}}
    again = replace(was, losses=[0.4], environment=here)
    assert verify_record(was, again, RUNS).differs == (
        "ATEN_CPU_CAPABILITY was not set, here it is avx2",
        "MKL_CBWR was COMPATIBLE, here it is not set",
        "cpu was A, here it is B",
    )
    assert verify_record(was, replace(was, environment=here), RUNS).differs == ()
