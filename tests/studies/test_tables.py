"""Tables: cells from records, by hand, with numbers of the published tables."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from record_helpers import record_of, records_of

from engram.runs.records import Record
from engram.studies.catalog import built_in_study, full_name, places_of_settings, results_of, tables_with
from engram.studies.table import Cell, make_cells
from engram.workbench import records_of_study

SHARED = Path(__file__).parents[3] / "shared/paper/published.json"
TABLES = [f"table{i}" for i in (2, 3, 4, 5, 6)]


def records(place: str, *values: float | None, **others) -> list[Record]:
    """Runs of a cell: `table2 sgd domain`."""
    table, row, column = place.split()
    return records_of(built_in_study(table).setting(row, column), *values, **others)


def cells(table: str, given=(), rows=(), columns=()) -> list[Cell]:
    return make_cells(results_of(built_in_study(table), given), rows, columns)


def one(table: str, row: str, column: str, *given: Record) -> Cell:
    (cell,) = cells(table, given, [row], [column])
    return cell


def published(table: str) -> dict[str, dict[str, object]]:
    """The numbers as the reference writes them."""
    rows = built_in_study(table).rows
    return {
        name: {c: mean if spread is None else [mean, spread] for c, (mean, spread) in row.published.items()}
        for name, row in rows.items()
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([63.2], "agrees"),
        ([64.30], "agrees"),  # 1.10 off, the band is 1.1012
        ([64.31], "higher"),  # 1.11 off
        ([62.09], "lower"),
        ([63.5, 63.8, 64.1], "agrees"),  # mean 0.60 off, the band is 0.6166
        ([63.52, 63.82, 64.12], "higher"),  # mean 0.62 off
    ],
)
def test_a_cell_of_table_2(values, expected):
    """SGD, domain: 63.20 ± 0.35 published."""
    cell = one("table2", "sgd", "domain", *records("table2 sgd domain", *values))
    assert cell.verdict == expected
    assert (cell.paper, cell.paper_std, cell.n) == (63.2, 0.35, len(values))
    assert cell.ours == pytest.approx(sum(values) / len(values))


def test_the_spread_shown_is_the_population_s():
    cell = one("table2", "sgd", "domain", *records("table2 sgd domain", 62.9, 63.2, 63.5))
    assert cell.std == pytest.approx(0.06**0.5)  # √((0.09 + 0 + 0.09) / 3)
    assert cell.ours == pytest.approx(63.2)


def test_a_cell_without_records_is_missing():
    cell = one("table2", "sgd", "domain")
    assert (cell.verdict, cell.ours, cell.std, cell.n, cell.failed) == ("missing", None, None, 0, 0)


def test_records_of_other_settings_do_not_count():
    setting = built_in_study("table2").setting("sgd", "domain")
    others = [
        *records("table2 sgd class", 63.2),
        *records("table3 sgd domain", 63.2),
        *records("table2 adam domain", 63.2),
        record_of(setting.with_values({"training.lr": 0.02}), 63.2),
        record_of(setting.with_values({"net.hidden": [400]}), 63.2),
        record_of(setting.with_values({"scenario.held_out": 0.1}), 63.2),
        Record("own", "split-mnist/domain", "sgd", 0, {}, "done", average_accuracy=63.2),
    ]
    assert one("table2", "sgd", "domain", *others).n == 0
    assert one("table2", "sgd", "domain", *others, record_of(setting, 63.0)).ours == 63.0


def test_what_is_only_measured_does_not_matter_for_a_cell():
    (looked,) = records("table2 sgd domain", 63.2)
    looked.spec["evaluation"] = {"evaluate_every": 5, "forward_transfer": True}
    looked.spec |= {"seed": 0, "threads": 2}
    assert one("table2", "sgd", "domain", looked).n == 1


def test_a_value_that_is_a_default_can_be_stated_or_not():
    """Every value of a spec is recorded; a setting has those that differ."""
    (plain,) = records("table2 sgd domain", 63.2)
    plain.spec["training"] |= {"momentum": 0.0, "weight_decay": 0, "drop_last": False}
    plain.spec["scenario"] |= {"classes_per_task": 2, "order": "fixed", "held_out": 0}
    assert one("table2", "sgd", "domain", plain).n == 1


def test_runs_that_failed_or_diverged_are_counted_apart():
    place = "table2 sgd domain"
    given = [
        *records(place, 63.0, 63.4),
        *records(place, None, status="diverged", start=2),
        *records(place, None, None, status="failed", start=3),
    ]
    cell = one("table2", "sgd", "domain", *given)
    assert (cell.n, cell.failed, cell.verdict) == (2, 3, "agrees")
    assert cell.ours == pytest.approx(63.2)


def test_only_failures_are_missing():
    cell = one("table2", "sgd", "domain", *records("table2 sgd domain", None, status="failed"))
    assert (cell.verdict, cell.n, cell.failed) == ("missing", 0, 1)


def test_a_run_recorded_twice_counts_once_by_its_last_record():
    place = "table2 sgd domain"
    failed, done = records(place, None, status="failed"), records(place, 63.2)
    cell = one("table2", "sgd", "domain", *failed, *done, *done)
    assert (cell.n, cell.failed) == (1, 0)


def test_a_run_that_succeeded_is_not_undone_by_a_later_failure():
    """Two machines' records put together, in either order."""
    place = "table2 sgd domain"
    cell = one("table2", "sgd", "domain", *records(place, 63.2), *records(place, None, status="failed"))
    assert (cell.n, cell.failed) == (1, 0)


def test_the_later_of_two_runs_counts_where_other_code_made_it():
    """A changed protocol changes keys: what is run anew takes the place of what was there."""
    place = "table2 sgd domain"
    (old,), (again,) = records(place, 60.0), records(place, 61.0)
    (new,) = [replace(r, key="new") for r in records(place, 63.2)]
    (broken,) = [replace(r, key="newer") for r in records(place, None, status="failed")]
    assert one("table2", "sgd", "domain", old, again).ours == 60.0
    assert one("table2", "sgd", "domain", old, new, broken).ours == 63.2


@pytest.mark.parametrize(
    ("row", "column", "telling"),
    [
        ("adam", "domain", False),  # 0 from itself
        ("sgd", "domain", True),  # 63.20 − 55.16 = 8.04, band 1.10
        ("sgd", "class", False),  # 19.71 − 19.46 = 0.25, band 0.3
        ("l2", "class", False),  # 22.52 − 19.71 = 2.81, band 3·1.08·√1.1 = 3.40
        ("ewc", "domain", False),  # 58.85 − 55.16 = 3.69, band 3·2.59·√1.1 = 8.15
        ("lwf", "class", False),  # 24.17 − 19.71 = 4.46, band 3·0.33·√21 = 4.54
        ("dgr", "class", True),
        ("offline", "task", True),  # 99.52 − 93.46 = 6.06, band 0.50
    ],
)
def test_telling_before_any_run(row, column, telling):
    assert one("table2", row, column).telling is telling


def test_more_runs_make_a_cell_telling():
    """L2, class: with ten runs of deviation 1 the band is 3·√(0.1 + 1.08²/10) = 1.40, below 2.81."""
    values = [22.52 + x for x in (0.9487, -0.9487) * 5]  # sample deviation 1.0
    cell = one("table2", "l2", "class", *records("table2 l2 class", *values))
    assert cell.telling
    assert cell.verdict == "agrees"


def test_cells_come_in_the_published_order():
    rows = ["adam", "sgd", "adagrad", "l2", "rehearsal", "rehearsal-c", "ewc", "online-ewc", "si", "mas"]
    found = cells("table2")
    assert list(dict.fromkeys(cell.row for cell in found)) == [*rows, "lwf", "gem", "dgr", "rtf", "offline"]
    assert [cell.column for cell in found[:3]] == ["task", "domain", "class"]
    assert len(found) == len(cells("table3")) == 45
    four = cells("table4")
    assert list(dict.fromkeys(cell.row for cell in four)) == rows
    assert [cell.column for cell in four[:4]] == ["split/unknown", "split/known", "permuted/unknown", "permuted/known"]
    chosen = cells("table2", [], rows=["ewc", "adam"], columns=["class", "task"])
    assert [(c.row, c.column) for c in chosen] == [
        ("adam", "task"), ("adam", "class"), ("ewc", "task"), ("ewc", "class"),
    ]  # fmt: skip


def test_table_4_takes_its_unknown_columns_from_the_runs_of_tables_2_and_3():
    two, three, four = (built_in_study(f"table{i}") for i in (2, 3, 4))
    for row in four.rows:
        assert four.setting(row, "split/unknown") == two.setting(row, "class")
        assert four.setting(row, "permuted/unknown") == three.setting(row, "class")
    assert tables_with(two.setting("si", "class")) == ["hsu2018/table2 si class", "hsu2018/table4 si split/unknown"]
    assert tables_with(two.setting("si", "class").with_values({"method.coef": 7.0})) == []
    places = [place for found in places_of_settings().values() for place in found if place.startswith("hsu2018")]
    assert len(places) == 45 + 45 + 4 * 10 + 3  # Tables 2 to 4; GEM's whole memory is three settings more
    cell = one("table4", "adam", "permuted/known", *records("table4 adam permuted/known", 42.0))
    assert (cell.paper, cell.paper_std, cell.n, cell.verdict) == (42.32, 3.22, 1, "agrees")


def test_unknown_names_are_refused_with_the_choices():
    assert full_name("table2") == full_name("hsu2018/table2") == "hsu2018/table2"
    with pytest.raises(ValueError, match="did you mean table2"):
        full_name("tabel2")
    with pytest.raises(ValueError, match=r"row 'icarl' is unknown; .*choose from adam"):
        cells("table2", rows=["icarl"])
    with pytest.raises(ValueError, match=r"column 'iid' is unknown; .*choose from task, domain, class"):
        cells("table2", columns=["iid"])


@pytest.mark.parametrize(
    ("table", "row", "column", "numbers"),
    [
        ("table2", "adam", "task", (93.46, 2.01)),
        ("table2", "mas", "domain", (68.57, 6.85)),
        ("table2", "rtf", "class", (92.56, 0.21)),
        ("table3", "sgd", "class", (12.82, 0.95)),
        ("table3", "online-ewc", "class", (42.58, 6.50)),
        ("table3", "rehearsal-c", "domain", (96.28, 0.47)),
        ("table4", "ewc", "permuted/known", (91.95, 1.04)),
        ("table4", "rehearsal", "split/known", (89.64, 0.63)),
    ],
)
def test_numbers_of_the_published_tables(table, row, column, numbers):
    cell = one(table, row, column)
    assert (cell.paper, cell.paper_std) == numbers


def test_a_number_of_the_long_queue():
    assert published("table5")["78"]["online-ewc/best"] == 82.06
    assert published("table6")["41"]["si/worst"] == 56.45


def test_published_numbers_are_the_reference_s():
    if not SHARED.exists():
        pytest.skip(f"the reference is not beside this checkout: {SHARED}")

    def numbers(value):
        if isinstance(value, dict) and value.keys() == {"mean", "spread"}:
            return [value["mean"], value["spread"]]
        return {k: numbers(v) for k, v in value.items()} if isinstance(value, dict) else value

    reference = numbers(json.loads(SHARED.read_text()))
    assert {t: published(t) for t in TABLES} == {t: reference[t] for t in TABLES}


def test_whole_memory_fills_gem_s_cell_before_the_sample_that_stands_in():
    row = built_in_study("table3").rows["gem"]
    setting = built_in_study("table3").setting("gem", "class")
    exact = setting.with_values(row.as_published)
    assert (setting.value("method.memory_batch"), exact.value("method.memory_batch")) == (256, 0)
    sampled, whole = records_of(setting, 96.0, 96.4), records_of(exact, 96.8)
    cell = one("table3", "gem", "class", *sampled)
    assert (cell.ours, cell.n) == (pytest.approx(96.2), 2)
    assert "sub-sampled: a step uses 256 images" in cell.note
    cell = one("table3", "gem", "class", *sampled, *whole)
    assert (cell.ours, cell.n) == (96.8, 1)
    assert "sub-sampled" not in cell.note
    failed = records_of(exact, None, status="diverged")
    cell = one("table3", "gem", "class", *sampled, *failed)
    assert (cell.verdict, cell.n, cell.failed) == ("lower", 2, 0)  # a run that failed hides none that finished
    cell = one("table3", "gem", "class", *failed)
    assert (cell.verdict, cell.failed) == ("missing", 1)
    missing = one("table3", "gem", "class")
    assert "no runs are recorded" in missing.note
    assert "sub-sampled" not in missing.note
    assert one("table2", "gem", "class", *records("table2 gem class", 92.0)).note.count("sub-sampled") == 0


def test_a_table_in_another_precision_is_filled_by_runs_of_that_precision_alone() -> None:
    table, plain = built_in_study("table2"), records("table2 sgd domain", 63.0, 63.2, 63.1)
    in_bf16 = table.with_precision("bf16")
    setting = in_bf16.setting("sgd", "domain")
    assert setting == table.setting("sgd", "domain").with_values({"training.precision": "bf16"})
    (of_fp32,) = make_cells(results_of(in_bf16, plain), ["sgd"], ["domain"])
    assert (of_fp32.n, of_fp32.verdict) == (0, "missing")
    (cell,) = make_cells(results_of(in_bf16, [*plain, *records_of(setting, 70.0, 70.2)]), ["sgd"], ["domain"])
    assert (cell.n, cell.ours, cell.verdict) == (2, pytest.approx(70.1), "higher")
    assert table.with_precision("fp32") is table
    files = [records_of_study(one, Path("results")).name for one in (table, in_bf16)]
    assert files == ["table2.jsonl", "table2-bf16.jsonl"]
