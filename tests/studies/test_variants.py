"""Variants: what they change of their row, and that their settings are told from all others."""

import pytest
from record_helpers import records_of

from engram.runs.setting import Setting
from engram.studies.catalog import built_in_study, results_of, study_names
from engram.studies.table import make_variant_cells

NAMES = study_names()


def differences(a: Setting, b: Setting) -> dict[str, tuple[object, object]]:
    """Where two settings differ, by flat name."""
    names = sorted({*a.values, *b.values, *a.defaults(), *b.defaults()})
    return {name: (a.value(name), b.value(name)) for name in names if a.value(name) != b.value(name)}


@pytest.mark.parametrize("name", NAMES)
def test_variants_are_of_rows_and_columns_that_the_table_has(name):
    study = built_in_study(name)
    for variant in study.variants.values():
        assert variant.row in study.rows
        assert set(variant.columns) <= set(study.columns)
        assert all(set(by_column) == set(variant.columns) for by_column in variant.grid.values())
        assert variant.why


def test_the_variants_of_table_2():
    assert set(built_in_study("table2").variants) == {
        "gem/textbook", "gem/one-slot", "gem/4400", "rehearsal/half-and-half", "rehearsal-c/half-and-half",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("table", "name", "column", "changed"),
    [
        ("table2", "gem/one-slot", "class", {"method.slots_per_task": (2, 1)}),
        ("table2", "gem/4400", "task", {"method.capacity": (1100, 4400)}),
        ("table3", "gem/16000", "task", {"method.capacity": (4000, 16000)}),
        ("table2", "rehearsal/half-and-half", "domain", {"method.mixing": ("shuffled", "balanced")}),
        ("table2", "rehearsal-c/half-and-half", "class", {"method.mixing": ("shuffled", "balanced")}),
        ("table3", "ewc/per-sample", "domain", {"method.estimator": ("batch", "sample")}),
        ("table3", "online-ewc/per-sample", "domain", {"method.estimator": ("batch", "sample")}),
        ("table3", "sgd/text", "task", {"training.lr": (0.01, 0.001)}),
        # one slot is the method's own, and it trains on new data alone
        ("table2", "gem/textbook", "class", {"method.slots_per_task": (2, 1), "method.shares": (None, "so-far")}),
    ],
)
def test_a_variant_is_its_row_but_for_what_it_names(table, name, column, changed):
    study = built_in_study(table)
    (setting,) = study.variant_settings(study.variants[name], column).values()
    row = study.setting(study.variants[name].row, column)
    assert differences(row, setting) == changed
    assert setting.scenario == row.scenario
    assert setting.method == ("gem-textbook" if name == "gem/textbook" else row.method)


@pytest.mark.parametrize(
    ("table", "name", "column", "value", "changed"),
    [
        ("table3", "l2/searched", "class", "0.01", (0.0, 0.01)),
        ("table4", "ewc/searched", "permuted/known", "1000", (10.0, 1000)),
        ("table4", "si/searched", "split/known", "60", (600.0, 60)),
    ],
)
def test_a_searched_variant_tries_coefficients(table, name, column, value, changed):
    study = built_in_study(table)
    settings = study.variant_settings(study.variants[name], column)
    row = study.setting(study.variants[name].row, column)
    assert len(settings) == 3
    assert differences(row, settings[value]) == {"method.coef": changed}


def test_every_setting_of_a_variant_is_told_from_all_rows_and_from_other_variants():
    rows, variants = set(), []
    for name in ("table2", "table3", "table4"):
        study = built_in_study(name)
        rows |= {study.setting(row, column) for row in study.rows for column in study.columns}
        for variant in study.variants.values():
            for column in variant.columns:
                variants += study.variant_settings(variant, column).values()
    assert len(set(variants)) == len(variants) == 5 * 3 * 2 + 2 + 3 + 1 + 2 * 5 * 3
    assert not rows & set(variants)


def test_grids_are_the_row_s_coefficient_times_a_tenth_ten_and_a_hundred():
    count = 0
    for name in ("table3", "table4"):
        study = built_in_study(name)
        for variant in study.variants.values():
            for field, by_column in variant.grid.items():
                for column, values in by_column.items():
                    own = study.setting(variant.row, column).value(f"method.{field}")
                    expected = [own * factor for factor in (0.1, 10, 100)] if own else [0.001, 0.01, 0.1]
                    assert values == pytest.approx(expected)
                    count += 1
    assert count == 1 + 2 * 5


def test_variants_are_found_by_row_or_name_and_refused_with_the_choices():
    study = built_in_study("table3")
    rows, found = study.select_rows(["ewc", "gem/one-slot"], list(study.columns), with_variants=True)
    assert (rows, [variant.name for variant in found]) == (["ewc"], ["gem/one-slot", "ewc/per-sample"])
    rows, found = study.select_rows([], list(study.columns), with_variants=False)
    assert (rows, found) == (list(study.rows), [])
    rows, found = study.select_rows(["gem/one-slot"], list(study.columns), with_variants=False)
    assert (rows, [variant.name for variant in found]) == ([], ["gem/one-slot"])
    with pytest.raises(ValueError, match="did you mean gem/one-slot"):
        study.select_rows(["gem/oneslot"], list(study.columns), with_variants=False)
    with pytest.raises(ValueError, match="variant ewc/per-sample has no column task; choose from domain"):
        study.select_rows(["ewc/per-sample"], ["task"], with_variants=False)


def test_a_variant_is_tested_against_its_row_over_common_seeds():
    """Six pairs, all of one sign: the exact p-value is 2/2⁶; Holm's correction leaves a single test alone."""
    study = built_in_study("table2")
    variant = study.variants["gem/one-slot"]
    (setting,) = study.variant_settings(variant, "class").values()
    row = records_of(study.setting("gem", "class"), *[92.0 + i / 10 for i in range(7)])
    shifted = records_of(setting, *[92.5 + i / 10 for i in range(1, 7)], start=1)
    (cell,) = make_variant_cells(results_of(study, [*row, *shifted]), [variant], ["class"])
    assert (cell.row, cell.column, cell.n, cell.pairs) == ("gem/one-slot", "class", 6, 6)
    assert cell.of_row == pytest.approx(92.3)
    assert cell.difference == pytest.approx(0.5)
    assert cell.p == pytest.approx(2 / 64)
    assert (cell.paper, cell.paper_std) == (92.2, 0.12)


def test_the_best_coefficient_of_a_grid_is_chosen_over_common_seeds():
    study = built_in_study("table4")
    variant, column = study.variants["ewc/searched"], "split/known"
    tried = study.variant_settings(variant, column)
    own = records_of(study.setting("ewc", column), 20.0, 20.0)
    given = [*own, *records_of(tried["60"], 25.0, 25.0, 90.0), *records_of(tried["6000"], 30.0, 28.0)]
    (cell,) = make_variant_cells(results_of(study, given), [variant], [column])
    assert (cell.ours, cell.n) == (29.0, 2)  # seed 2 has 90.0, but only one of the three settings has it
    assert cell.note.endswith("Best coefficient: 6000, of 2 of 3 others run.")
    (cell,) = make_variant_cells(results_of(study, own), [variant], [column])
    assert (cell.ours, cell.n, cell.verdict) == (None, 0, "missing")
