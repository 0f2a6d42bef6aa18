"""Cells: bands and verdicts by hand, from numbers of the printed tables."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from engram.studies.hsu2018.cells import band, cells, preset_name, published, table_name, verdict

from engram.runs.records import Record

SHARED = Path(__file__).parents[3] / "shared/paper/published.json"


def records(preset: str, *values: float | None, status: str = "done", start: int = 0) -> list[Record]:
    return [
        Record(f"{preset} {seed}", "", "", seed, {}, status, average_accuracy=value, preset=preset)
        for seed, value in enumerate(values, start)
    ]


def one(table: str, row: str, column: str, *given: Record):
    (cell,) = cells(table, given, [row], [column])
    return cell


@pytest.mark.parametrize(
    ("row", "spread", "values", "expected"),
    [
        # three runs or more: their own deviation. s = 0.3: 3·√(0.09/3 + 0.35²/10) = 3·√0.04225
        ("sgd", 0.35, [62.9, 63.2, 63.5], 0.616644),
        # fewer: the published one. 3·√(0.1225/1 + 0.01225), 3·√(0.1225/2 + 0.01225)
        ("sgd", 0.35, [63.2], 1.101249),
        ("sgd", 0.35, [10.0, 90.0], 0.813327),
        ("sgd", 0.35, [], 1.101249),
        # never more than 3 times the published one. s = 10 counts as 1.05: 3·√(1.1025/3 + 0.01225)
        ("sgd", 0.35, [50.0, 60.0, 70.0], 1.848716),
        # copied rows: the spread is a standard error, their deviation √20 times it
        ("lwf", 1.26, [70.0], 17.322136),  # 3·√(20·1.26² + 1.26²)
        ("dgr", 1.26, [70.0], 17.322136),
        ("rtf", 1.26, [70.0], 17.322136),
        ("gem", 1.26, [70.0], 3.964497),  # 3·√(1.26² + 1.26²/10): not copied
        ("lwf", 1.26, [69.0, 71.0, 73.0, 71.0], 4.504265),  # s² = 8/3: 3·√(8/12 + 1.5876)
        ("lwf", 0.1, [60.0, 70.0, 80.0], 2.343075),  # s = 10 counts as 3·√20·0.1: 3·√(1.8/3 + 0.01)
        # never less than 0.3
        ("sgd", 0.04, [19.4, 19.5, 19.6], 0.3),  # 3·√(0.01/3 + 0.00016) = 0.177
        ("sgd", 0.04, [19.46] * 10, 0.3),
        # no spread in print
        ("adam", None, [60.0], 5.0),
    ],
)
def test_band(row, spread, values, expected):
    assert band(row, spread, values) == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize(
    ("ours", "expected"),
    [(None, "missing"), (50.0, "agrees"), (50.5, "agrees"), (50.51, "higher"), (49.5, "agrees"), (49.4, "lower")],
)
def test_verdict(ours, expected):
    assert verdict(ours, 50.0, 0.5) == expected


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
    """SGD, domain: 63.20 ± 0.35 in print."""
    cell = one("table2", "sgd", "domain", *records("split-mnist/domain sgd", *values))
    assert cell.verdict == expected
    assert (cell.paper, cell.paper_std, cell.n) == (63.2, 0.35, len(values))
    assert cell.ours == pytest.approx(sum(values) / len(values))


def test_the_spread_shown_is_the_population_s():
    cell = one("table2", "sgd", "domain", *records("split-mnist/domain sgd", 62.9, 63.2, 63.5))
    assert cell.std == pytest.approx(0.06**0.5)  # √((0.09 + 0 + 0.09) / 3)
    assert cell.ours == pytest.approx(63.2)


def test_a_cell_without_records_is_missing():
    cell = one("table2", "sgd", "domain")
    assert (cell.verdict, cell.ours, cell.std, cell.n, cell.failed) == ("missing", None, None, 0, 0)


def test_records_of_other_presets_and_of_none_do_not_count():
    others = [
        *records("split-mnist/class sgd", 63.2),
        *records("permuted-mnist/domain sgd", 63.2),
        Record("own", "split-mnist/domain", "sgd", 0, {}, "done", average_accuracy=63.2),
    ]
    assert one("table2", "sgd", "domain", *others).n == 0


def test_runs_that_failed_or_diverged_are_counted_apart():
    preset = "split-mnist/domain sgd"
    given = [
        *records(preset, 63.0, 63.4),
        *records(preset, None, status="diverged", start=2),
        *records(preset, None, None, status="failed", start=3),
    ]
    cell = one("table2", "sgd", "domain", *given)
    assert (cell.n, cell.failed, cell.verdict) == (2, 3, "agrees")
    assert cell.ours == pytest.approx(63.2)


def test_only_failures_are_missing():
    cell = one("table2", "sgd", "domain", *records("split-mnist/domain sgd", None, status="failed"))
    assert (cell.verdict, cell.n, cell.failed) == ("missing", 0, 1)


def test_a_run_recorded_twice_counts_once_by_its_last_record():
    preset = "split-mnist/domain sgd"
    failed, done = records(preset, None, status="failed"), records(preset, 63.2)
    cell = one("table2", "sgd", "domain", *failed, *done, *done)
    assert (cell.n, cell.failed) == (1, 0)


def test_a_run_that_succeeded_is_not_undone_by_a_later_failure():
    """Two machines' records put together, in either order."""
    preset = "split-mnist/domain sgd"
    cell = one("table2", "sgd", "domain", *records(preset, 63.2), *records(preset, None, status="failed"))
    assert (cell.n, cell.failed) == (1, 0)


def test_the_later_of_two_runs_counts_where_other_code_made_it():
    """A changed protocol changes keys: what is run anew takes the place of what was there."""
    preset = "split-mnist/domain sgd"
    (old,), (again,) = records(preset, 60.0), records(preset, 61.0)
    (new,) = [replace(r, key="new") for r in records(preset, 63.2)]
    (broken,) = [replace(r, key="newer") for r in records(preset, None, status="failed")]
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
    cell = one("table2", "l2", "class", *records("split-mnist/class l2", *values))
    assert cell.telling
    assert cell.verdict == "agrees"


def test_cells_come_in_print_s_order():
    rows = ["adam", "sgd", "adagrad", "l2", "rehearsal", "rehearsal-c", "ewc", "online-ewc", "si", "mas"]
    found = cells("table2", [])
    assert list(dict.fromkeys(cell.row for cell in found)) == [*rows, "lwf", "gem", "dgr", "rtf", "offline"]
    assert [cell.column for cell in found[:3]] == ["task", "domain", "class"]
    assert len(found) == len(cells("table3", [])) == 45
    four = cells("table4", [])
    assert list(dict.fromkeys(cell.row for cell in four)) == rows
    assert [cell.column for cell in four[:4]] == ["split/unknown", "split/known", "permuted/unknown", "permuted/known"]
    chosen = cells("table2", [], rows=["ewc", "adam"], columns=["class", "task"])
    assert [(c.row, c.column) for c in chosen] == [
        ("adam", "task"), ("adam", "class"), ("ewc", "task"), ("ewc", "class"),
    ]  # fmt: skip


def test_table_4_takes_its_unknown_columns_from_the_runs_of_tables_2_and_3():
    assert (
        preset_name("table4", "si", "split/unknown") == preset_name("table2", "si", "class") == "split-mnist/class si"
    )
    assert preset_name("table4", "si", "permuted/unknown") == preset_name("table3", "si", "class")
    cell = one("table4", "adam", "permuted/known", *records("permuted-mnist/class-known adam", 42.0))
    assert (cell.paper, cell.paper_std, cell.n, cell.verdict) == (42.32, 3.22, 1, "agrees")


def test_unknown_names_are_refused_with_the_choices():
    with pytest.raises(ValueError, match="did you mean table2"):
        table_name("tabel2")
    with pytest.raises(ValueError, match="row 'icarl' is not in the table; choose from adam"):
        cells("table2", [], rows=["icarl"])
    with pytest.raises(ValueError, match="column 'iid' is not in the table; choose from task, domain, class"):
        cells("table2", [], columns=["iid"])


@pytest.mark.parametrize(
    ("table", "row", "column", "printed"),
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
def test_numbers_of_the_printed_tables(table, row, column, printed):
    cell = one(table, row, column)
    assert (cell.paper, cell.paper_std) == printed


def test_a_number_of_the_long_queue():
    assert published()["table5"]["78"]["online-ewc/best"] == 82.06
    assert published()["table6"]["41"]["si/worst"] == 56.45


def test_published_numbers_are_the_reference_s():
    if not SHARED.exists():
        pytest.skip(f"the reference is not beside this checkout: {SHARED}")

    def numbers(value):
        if isinstance(value, dict) and value.keys() == {"mean", "spread"}:
            return [value["mean"], value["spread"]]
        return {k: numbers(v) for k, v in value.items()} if isinstance(value, dict) else value

    tables = [f"table{i}" for i in (2, 3, 4, 5, 6)]
    reference = numbers(json.loads(SHARED.read_text()))
    assert {t: published()[t] for t in tables} == {t: reference[t] for t in tables}


def test_whole_memory_fills_gem_s_cell_before_the_sample_that_stands_in():
    label = "permuted-mnist/class gem"
    sampled, whole = records(label, 96.0, 96.4), records(f"{label} whole-memory", 96.8)
    cell = one("table3", "gem", "class", *sampled)
    assert (cell.ours, cell.n) == (pytest.approx(96.2), 2)
    assert "sub-sampled: a step looks at 256 images" in cell.note
    cell = one("table3", "gem", "class", *sampled, *whole)
    assert (cell.ours, cell.n) == (96.8, 1)
    assert "sub-sampled" not in cell.note
    failed = records(f"{label} whole-memory", None, status="diverged")
    cell = one("table3", "gem", "class", *sampled, *failed)
    assert (cell.verdict, cell.n, cell.failed) == ("lower", 2, 0)  # a run that failed hides none that finished
    assert (one("table3", "gem", "class", *failed).verdict, one("table3", "gem", "class", *failed).failed) == (
        "missing",
        1,
    )
    missing = one("table3", "gem", "class")
    assert "no runs are recorded" in missing.note
    assert "sub-sampled" not in missing.note
    assert one("table2", "gem", "class", *records("split-mnist/class gem", 92.0)).note.count("sub-sampled") == 0
