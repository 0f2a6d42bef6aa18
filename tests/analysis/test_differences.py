"""Which settings moved between two sets of records, and which methods differ."""

import subprocess
import sys

import pytest

from engram.analysis.differences import (
    DATASETS,
    all_runs,
    between_methods,
    find_differences,
    name_settings,
    varying_fields,
)
from engram.runs.records import Record


def record(seed: int, value: float | None, method: str = "ewc", scenario: str = "split-own/class", **other) -> Record:
    """A run with one task whose accuracy is the average."""
    settings = {"coef": 100.0} | other.pop("settings", {})
    spec = {
        "scenario": {"make": "split", "held_out": 0.0},
        "method": [{"name": method, **settings}],
        "training": {"lr": 0.001},
        "seed": seed,
        "threads": 1,
    }
    values = {"key": f"{scenario} {method} {settings} {seed}", "status": "failed" if value is None else "done", **other}
    accuracy = [] if value is None else [[value]]
    return Record(
        scenario=scenario, method=method, seed=seed, spec=spec, accuracy=accuracy, average_accuracy=value, **values
    )


def runs(values, **other) -> list[Record]:
    return [record(seed, value, **other) for seed, value in enumerate(values)]


TEN = [90.0, 91.0, 92.0, 90.5, 91.5, 92.5, 90.2, 91.2, 92.2, 90.7]


def test_fields_that_vary_are_named_with_their_group():
    other = record(0, 90.0, settings={"coef": 5.0})
    other.spec["training"]["lr"] = 0.5
    first, second = (runs.setting for runs in all_runs([record(3, 90.0), other]))
    assert varying_fields([first, second]) == ["method.coef", "training.lr"]
    assert varying_fields([first, first]) == varying_fields([first]) == []


def test_equal_files_have_the_same_bits():
    (found,) = find_differences(runs(TEN), runs(TEN))
    assert (found.word, found.same, found.test.n, found.test.p) == ("same bits", 10, 10, 1.0)


def test_a_cell_that_rose_in_every_run_moved():
    (found,) = find_differences(runs(TEN), runs([v + 0.5 + i / 10 for i, v in enumerate(TEN)]))
    assert found.word == "higher"
    assert found.test.difference == pytest.approx(0.95)
    assert found.test.p == found.test.adjusted == 2 / 1024
    assert (found.b - found.a) == pytest.approx(0.95)


def test_the_pairs_are_those_of_common_seeds():
    a = [record(seed, 90.0 + seed) for seed in (0, 1, 2, 7)]
    b = [record(seed, 80.0 + seed) for seed in (1, 2, 3, 4, 5)]
    (found,) = find_differences(a, b)
    assert (found.test.n, found.test.difference, found.runs_a, found.runs_b) == (2, -10, 4, 5)
    assert (found.a, found.b) == (91.5, 81.5)
    assert found.word == "too few pairs: 2 can give no p below 0.5, 6 or more could"
    (apart,) = find_differences(a[:1], b)
    assert (apart.word, apart.a, apart.b) == ("no common seed", 90.0, 83.0)


def test_failed_runs_do_not_pair_and_a_retry_counts_once():
    a = [*runs(TEN), record(10, None)]
    b = [*runs(TEN), record(3, None), record(10, 99.0)]
    (found,) = find_differences(a, b)
    assert (found.runs_a, found.runs_b, found.test.n, found.same) == (10, 11, 10, 10)


def test_runs_that_are_no_longer_done_are_not_passed_over():
    six_of_ten = [*runs(TEN[:6]), *(record(seed, None) for seed in range(6, 10))]
    (found,) = find_differences(runs(TEN), six_of_ten)
    assert (found.word, found.lost, found.gained) == ("4 no longer done, same bits", 4, 0)
    (found,) = find_differences(six_of_ten, runs(TEN))
    assert (found.word, found.lost, found.gained) == ("4 done now, same bits", 0, 4)
    (found,) = find_differences(runs(TEN), [record(seed, None) for seed in range(10)])
    assert (found.word, found.test.n, found.b) == ("10 no longer done", 0, None)
    (found,) = find_differences(runs(TEN), [record(seed, None) for seed in range(20, 30)])
    assert found.word == "no common seed"


def test_whole_numbers_and_floats_that_are_equal_are_one_cell():
    """As keys have it: seeds of the command line (100.0) and of a script (100)."""
    mixed = [record(seed, TEN[seed], settings={"coef": 100 if seed > 4 else 100.0}) for seed in range(10)]
    (cell,) = all_runs(mixed)
    assert len(cell.by_seed) == 10
    (found,) = find_differences(runs(TEN), mixed)
    assert (found.word, found.test.n) == ("same bits", 10)


def test_pairs_that_are_equal_show_nothing():
    (found,) = find_differences(runs(TEN[:8]), runs([*TEN[:5], *(v + 1 for v in TEN[5:8])]))
    assert found.word == "too few pairs: 3 of 8 that differ can give no p below 0.25, 6 or more could"


def test_cells_of_one_side_are_named():
    a = [*runs(TEN), *runs(TEN, method="si")]
    b = [*runs(TEN), *runs(TEN, scenario="split-own/task")]
    found = {(d.scenario, d.cell): d.word for d in find_differences(a, b)}
    assert found == {
        ("split-own/class", "ewc"): "same bits",
        ("split-own/class", "si"): "only in A",
        ("split-own/task", "ewc"): "only in B",
    }


def test_a_cell_of_one_side_is_named_though_none_of_its_runs_is_done():
    failed = [record(seed, None, method="si") for seed in range(3)]
    assert [(d.cell, d.word) for d in find_differences([*runs(TEN), *failed], runs(TEN))][1:] == [("si", "only in A")]
    assert [(d.cell, d.word) for d in find_differences(runs(TEN), [*runs(TEN), *failed])][1:] == [("si", "only in B")]


def test_averages_that_are_equal_over_other_accuracies_are_equal_and_not_the_same_bits():
    other = runs(TEN)
    for one in other:
        one.accuracy = [[one.average_accuracy - 1, one.average_accuracy + 1]]
    (found,) = find_differences(runs(TEN), other)
    assert (found.word, found.same) == ("equal", 0)


def test_cells_with_other_settings_are_told_apart():
    a = [*runs(TEN), *runs(TEN, settings={"coef": 5.0})]
    b = [*runs(TEN), *runs([v - 1 for v in TEN], settings={"coef": 5.0})]
    assert [(d.cell, d.word) for d in find_differences(a, b)] == [
        ("ewc (coef 100)", "same bits"),
        ("ewc (coef 5)", "lower"),
    ]


def test_the_one_cell_of_a_method_may_have_got_other_settings():
    (found,) = find_differences(runs(TEN), runs([v + 2 for v in TEN], settings={"coef": 600.0}))
    assert found.changed == {"method.coef": (100.0, 600.0)}
    assert found.word == "higher"


def test_a_field_that_was_added_since_changes_nothing_where_keys_are_the_same():
    old = runs(TEN)
    new = runs(TEN, settings={"decay": 1.0})
    for one, other in zip(old, new, strict=True):
        other.key = one.key
    (found,) = find_differences(old, new)
    assert (found.word, found.changed) == ("same bits", {})


def test_holm_counts_the_cells_that_moved_at_all():
    """40 cells are the same to the bit; two moved, each with the best p of ten pairs."""
    still = [r for i in range(40) for r in runs(TEN, method=f"m{i}")]
    moved = [r for name in ("x", "y") for r in runs([v + 1 for v in TEN], method=name)]
    before = [r for name in ("x", "y") for r in runs(TEN, method=name)]
    found = find_differences(still + before, still + moved)
    assert [d.word for d in found] == ["same bits"] * 40 + ["higher"] * 2
    assert found[-1].test.adjusted == 2 * 2 / 1024


def test_datasets_of_another_content_are_a_change():
    other = runs([v + 1 for v in TEN])
    for one in other:
        one.key += " other"
        one.spec["scenario"]["images"] = {"own": "sha256:1"}
    (found,) = find_differences(runs(TEN), other)
    assert found.changed == {DATASETS: (None, {"own": "sha256:1"})}


def test_trials_are_matched_with_trials():
    trials = runs(TEN, search={"stage": "trial"})
    assert [d.word for d in find_differences([*runs(TEN), *trials], trials)] == ["same bits", "only in A"]


def test_json_has_what_the_table_has():
    (found,) = find_differences(runs(TEN[:3]), runs([v + 1 for v in TEN[:3]]))
    told = found.to_json()
    assert told.keys() >= {"scenario", "cell", "a", "b", "runs_a", "runs_b", "same", "changed", "test", "word"}
    assert told["test"]["p"] == told["test"]["least"] == 0.25
    assert told["word"].startswith("too few pairs: 3 can give no p below 0.25")


# Between methods


def test_methods_of_a_scenario_are_tested_in_pairs():
    records = [
        *runs(TEN, method="adam"),
        *runs([v + 1 for v in TEN], method="si"),
        *runs([v - 1 + 0.1 * i for i, v in enumerate(TEN)], method="mas"),
        *runs([99.0, 98.0], method="adam", scenario="split-own/task"),
        *runs([99.5, 98.5], method="si", scenario="split-own/task"),
    ]
    found = {(b.scenario, b.a, b.b): b.test for b in between_methods(records)}
    assert list(found) == [
        ("split-own/class", "adam", "si"),
        ("split-own/class", "adam", "mas"),
        ("split-own/class", "si", "mas"),
        ("split-own/task", "adam", "si"),
    ]
    first = found["split-own/class", "adam", "si"]
    assert (first.difference, first.p, first.adjusted, first.word) == (pytest.approx(1), 2 / 1024, 6 / 1024, "higher")
    assert found["split-own/class", "si", "mas"].word == "lower"
    assert found["split-own/task", "adam", "si"].word.startswith("too few pairs: 2")


def test_against_one_method_there_are_fewer_tests():
    records = [*runs([v + 1 for v in TEN], method="si"), *runs(TEN, method="adam"), *runs(TEN, method="l2")]
    found = between_methods(records, against="adam")
    assert [(b.a, b.b) for b in found] == [("adam", "si"), ("adam", "l2")]
    assert [b.test.adjusted for b in found] == [2 / 1024, None]  # l2 is equal: no test at all
    assert [b.test.word for b in found] == ["higher", "equal"]
    assert found[0].to_json()["p"] == 2 / 1024


def test_trials_of_a_search_are_no_results():
    trials = runs(TEN, method="sgd", search={"stage": "trial"})
    finals = runs([v + 1 for v in TEN], method="sgd", search={"stage": "final"}, settings={"coef": 1.0})
    found = between_methods([*runs(TEN, method="adam"), *trials, *finals])
    assert [(b.a, b.b) for b in found] == [("adam", "sgd")]
    assert found[0].test.difference == pytest.approx(1)


def test_names_say_what_tells_settings_apart():
    found = all_runs([record(0, 90.0), record(0, 90.0, settings={"coef": 1.0}), record(0, 90.0, method="si")])
    assert name_settings([runs.setting for runs in found]) == ["ewc (coef 100)", "ewc (coef 1)", "si"]


def test_it_works_without_torch():
    code = "import sys, engram.analysis.differences, engram.search.ledger; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
