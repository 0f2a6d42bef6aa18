"""Tables of one's own: from a frame, a CSV file, records, or a study that is run; with p-values counted by hand."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pandas
import pytest
from helpers import blobs
from record_helpers import record_of, records_of

import engram as eg
from engram.core.registry import METHODS, METRICS
from engram.runs.defaults import default_setting
from engram.runs.records import read_records
from engram.workbench import make_table, read_csv, records_of_study, table_of_lines, table_of_records

A = [70.0, 71.0, 72.0, 73.0, 74.0, 75.0]
B = [71.0, 73.0, 75.0, 77.0, 79.0, 74.0]
"""B − A is 1, 2, 3, 4, 5 and −1."""


def by_hand(differences: list[float]) -> float:
    """The share of all sign patterns whose sum is as far from 0."""
    found = abs(sum(differences))
    sums = [sum(s * abs(d) for s, d in zip(signs, differences, strict=True)) for signs in product((1, -1), repeat=6)]
    return sum(abs(one) >= found for one in sums) / len(sums)


LINES = [
    {"method": method, "scenario": "rooms", "seed": seed, "average_accuracy": value}
    for method, values in (("plain", A), ("mine", B), ("other", [v + 1 for v in A]))
    for seed, value in enumerate(values)
]


def check(table: eg.workbench.StudyTable) -> None:
    cells = {cell.row: cell.to_study_json() for cell in table.cells}
    assert list(cells) == ["plain", "mine", "other"]
    assert (cells["plain"]["mean"], cells["plain"]["n"], cells["plain"]["p"]) == (72.5, 6, None)
    assert cells["plain"]["std"] == pytest.approx((35 / 12) ** 0.5)  # of 70 … 75, the population's
    assert cells["mine"]["difference"] == pytest.approx(14 / 6)
    p = by_hand([1, 2, 3, 4, 5, -1])
    assert p == 6 / 64  # the sum is 14; no minus gives 16, one of two 1s negative gives 14: 3 of 64, and their mirrors
    least = by_hand([1.0] * 6)
    assert least == 2 / 64
    # Holm: the smaller of the two times 2, the larger as it is
    assert (cells["other"]["p"], cells["mine"]["p"]) == (pytest.approx(2 * least), pytest.approx(p))


def test_a_table_of_a_csv_file(tmp_path: Path):
    path = tmp_path / "theirs.csv"
    pandas.DataFrame(LINES).to_csv(path, index=False)
    check(eg.study(str(path), baseline="plain"))


def test_a_table_of_a_frame(tmp_path: Path):
    check(eg.study(pandas.DataFrame(LINES), baseline="plain"))
    renamed = pandas.DataFrame(LINES).rename(
        columns={"method": "who", "scenario": "where", "average_accuracy": "score"}
    )
    check(table_of_lines(renamed.to_dict("records"), rows="who", columns="where", value="score", baseline="plain"))
    frame = eg.study(pandas.DataFrame(LINES), baseline="plain").to_frame()
    assert frame.row.tolist() == ["plain", "mine", "other"]
    assert frame["mean"].tolist()[0] == 72.5


def test_a_table_of_lines_is_written_in_all_forms():
    table = table_of_lines(LINES, baseline="plain")
    assert "72.50" in str(table)
    assert table.to_latex().count(r"\toprule") == 1
    assert len(table.text("csv").strip().splitlines()) == 1 + 3
    assert [cell["row"] for cell in json.loads(table.text("json"))] == ["plain", "mine", "other"]
    assert "| plain" in table.text("markdown")


@pytest.mark.parametrize(
    ("lines", "options", "words"),
    [
        ([], {}, "there are no results"),
        ([{"a": 1}], {}, "rows: none of the columns a is called method or row; name it"),
        (LINES, {"rows": "metod"}, "rows 'metod' is unknown; did you mean method"),
        (LINES, {"baseline": "plan"}, "baseline 'plan' is unknown; did you mean plain"),
        ([LINES[0], LINES[0]], {}, "line 2: plain, rooms has seed 0 twice"),
        ([{**LINES[0], "average_accuracy": "high"}], {}, "line 1 of the results cannot be read"),
        ([{**LINES[0], "average_accuracy": "nan"}], {}, "line 1: average_accuracy is nan; leave out runs without"),
        ([LINES[0], {**LINES[1], "average_accuracy": 1e308}], {}, r"line 2: average_accuracy is 1e\+308"),
        ([{**LINES[0], "seed": "9" * 400}], {}, "line 1 of the results cannot be read"),
        ([{**LINES[0], "seed": 0.5}], {}, "line 1: seed 0.5 is not a whole number"),
    ],
)
def test_lines_that_are_no_results_are_refused(lines, options, words):
    with pytest.raises(ValueError, match=words):
        table_of_lines(lines, **options)


@pytest.mark.parametrize("content", [b"method\n" + b"x" * 200_000, "method\nx\n".encode("utf-16")])
def test_a_file_that_is_not_csv_is_refused_by_name(tmp_path: Path, content: bytes):
    (tmp_path / "lines.csv").write_bytes(content)
    with pytest.raises(ValueError, match=r"lines\.csv is not CSV in UTF-8: "):
        read_csv(tmp_path / "lines.csv")


# Records that belong to no study

SPLIT = [default_setting(f"split-mnist/{kind}", "si") for kind in ("class", "task")]


def test_records_by_method_and_scenario():
    given = [*records_of(SPLIT[0], 20.0, 22.0), *records_of(SPLIT[1], 90.0)]
    given += records_of(default_setting("split-mnist/class", "adam"), 19.0, 19.0, None)
    table = eg.table(given, baseline="adam")
    found = {(c.row, c.column): (c.ours, c.n, c.failed) for c in table.cells}
    assert found == {
        ("si", "split-mnist/class"): (21.0, 2, 0),
        ("si", "split-mnist/task"): (90.0, 1, 0),
        ("adam", "split-mnist/class"): (19.0, 2, 1),
        ("adam", "split-mnist/task"): (None, 0, 0),
    }
    (cell,) = [c for c in table.cells if (c.row, c.column) == ("si", "split-mnist/class")]
    assert (cell.test.difference, cell.test.n) == (2.0, 2)


def test_settings_that_the_parts_do_not_tell_apart_get_rows_of_their_own():
    other = SPLIT[0].with_values({"training.lr": 0.5})
    table = table_of_records([*records_of(SPLIT[0], 20.0), *records_of(other, 30.0), *records_of(SPLIT[1], 90.0)])
    assert {(c.row, c.column): c.ours for c in table.cells if c.n} == {
        ("si (lr 0.001)", "split-mnist/class"): 20.0,
        ("si (lr 0.5)", "split-mnist/class"): 30.0,
        ("si (lr 0.001)", "split-mnist/task"): 90.0,
    }


def test_records_by_a_value():
    settings = [SPLIT[0].with_values({"method.coef": coef}) for coef in (1.0, 10.0)]
    given = [record for i, s in enumerate(settings) for record in records_of(s, 20.0 + i)]
    table = table_of_records(given, rows="coef", columns="training.epochs")
    assert {(c.row, c.column): c.ours for c in table.cells} == {("1.0", "4"): 20.0, ("10.0", "4"): 21.0}
    with pytest.raises(ValueError, match=r"part of a setting .* did you mean training\.epochs"):
        table_of_records(given, rows="training.epoch")
    with pytest.raises(ValueError, match="no records"):
        table_of_records([])


def test_another_metric_of_records():
    given = [record_of(SPLIT[0], 20.0, seed, forgetting=value) for seed, value in enumerate((90.0, 92.0))]
    (cell,) = eg.table(given, metric="forgetting").cells
    assert cell.ours == 91.0
    with pytest.raises(ValueError, match="metric 'forgeting' is unknown; did you mean forgetting"):
        eg.table(given, metric="forgeting")


# A study that is run

TRAINING = {"epochs": 1, "batch": 16, "lr": 0.01}
STUDY = {
    "name": "small",
    "title": "Does a buffer help?",
    "seeds": 2,
    "baseline": "adam",
    "columns": {"class": "split-tiny/class", "domain": {"scenario": "split-tiny/domain", "order": "shuffled"}},
    "rows": {"adam": {}, "rehearsal": {"capacity": 8}},
    "training": TRAINING,
    "net": {"hidden": [6]},
}


@pytest.fixture(autouse=True)
def tiny(tmp_path: Path, monkeypatch) -> eg.Images:
    """A dataset `tiny` in a folder of one's own."""
    images = blobs(4, train=12, test=5, noise=60.0)
    folder = tmp_path / "data"
    folder.mkdir()
    parts = {name: getattr(images, name) for name in ("x_train", "y_train", "x_test", "y_test")}
    np.savez(folder / "tiny.npz", **parts)
    monkeypatch.setenv("ENGRAM_DATA", str(folder))
    return images


def test_a_study_of_a_dictionary_is_run_once(tmp_path: Path):
    out = tmp_path / "out"
    table = eg.study(STUDY, out=out, workers=1)
    assert [(c.row, c.column, c.n) for c in table.cells] == [
        (row, column, 2) for row in ("adam", "rehearsal") for column in ("class", "domain")
    ]
    records = read_records(out)
    assert records_of_study(table.study, out) == out / "small" / "records.jsonl"
    assert [record.seed for record in records] == [0] * 4 + [1] * 4  # one seed of every cell before the next
    by_hand = eg.run(
        eg.split(eg.images("tiny"), kind="class", normalize="train"),
        eg.Rehearsal(capacity=8),
        net=eg.MLP(6),
        training=eg.Training(**TRAINING),
        seed=1,
    )
    (cell,) = [c for c in table.cells if (c.row, c.column) == ("rehearsal", "class")]
    assert cell.runs.values[1] == by_hand.average_accuracy
    assert by_hand.key in {record.key for record in records}
    assert cell.memory == sum(by_hand.memory["kept"].values()) > 0
    before = (out / "small" / "records.jsonl").read_bytes()
    again = eg.study(STUDY, out=out, workers=1)
    assert (out / "small" / "records.jsonl").read_bytes() == before
    assert [c.to_study_json() for c in again.cells] == [c.to_study_json() for c in table.cells]


def test_only_what_is_asked_for_is_run_and_more_seeds_are_added(tmp_path: Path):
    table = eg.study(STUDY, out=tmp_path, rows=["adam"], columns=["class"], seeds=1, workers=1)
    assert [(c.row, c.column, c.n) for c in table.cells] == [("adam", "class", 1)]
    table = eg.study(STUDY, out=tmp_path, rows=["adam"], columns=["class"], seeds=[0, 3], workers=1)
    assert [sorted(c.runs.values) for c in table.cells] == [[0, 3]]
    assert len(read_records(tmp_path)) == 2
    table = eg.study(STUDY, out=tmp_path, run=False)
    assert [c.n for c in table.cells] == [1, 0, 0, 0]  # seeds 0 and 1 are the study's


def test_a_study_with_a_file_of_one_s_own(tmp_path: Path, monkeypatch):
    for registry in (METHODS, METRICS):
        monkeypatch.setattr(registry, "added", {})
    monkeypatch.setattr("engram.core.userfile._LOADED", {})
    (tmp_path / "mine.py").write_text(
        "import engram as eg\n\n\nclass Mine(eg.Method):\n    ...\n\n\n"
        "class Worst(eg.Metric):\n    name = 'worst-task'\n\n"
        "    def of(self, record):\n        return min(record.accuracy[-1])\n"
    )
    (tmp_path / "small.toml").write_text(
        'seeds = 1\nmetric = "worst-task"\n[columns]\nclass = "split-tiny/class"\n[rows]\nadam = {}\n'
        'mine = { file = "mine.py" }\n[net]\nhidden = [6]\n[training]\nepochs = 1\n'
    )
    table = eg.study(tmp_path / "small.toml", out=tmp_path / "out", workers=1)
    adam, mine = table.cells
    assert adam.ours == mine.ours == min(mine.runs.records[0].accuracy[-1])  # plain training, under another name
    assert mine.runs.records[0].spec["method"][0]["own code"]


def test_rows_of_a_study_with_a_search_get_equal_trials_first(tmp_path: Path):
    study = {**STUDY, "rows": {"adam": {}, "l2": {}}, "search": {"trials": 3}}
    table = eg.study(study, out=tmp_path, columns=["class"], workers=1)
    records = read_records(tmp_path)
    trials = [record for record in records if record.search["stage"] == "trial"]
    assert [sum(record.method == method for record in trials) for method in ("adam", "l2")] == [3, 3]
    assert {record.spec["scenario"]["held_out"] for record in trials} == {0.1}
    assert [(c.row, c.n) for c in table.cells] == [("adam", 2), ("l2", 2)]
    for cell in table.cells:
        mine = [record for record in trials if record.method == cell.row]
        best = max(record.average_accuracy for record in mine)
        winners = [record.search["point"] for record in mine if record.average_accuracy == best]
        assert cell.runs.records[0].search["point"] in winners
        assert cell.note.endswith("best of 3 trials")


def test_a_table_against_published_numbers(tmp_path: Path):
    """A paper of one's own invention: ± is a standard error of 4 runs."""
    study = {**STUDY, "spread": {"kind": "sem", "runs": 4}}
    study["rows"] = {"adam": {"published": {"class": [50.0, 1.0]}}, "rehearsal": {"capacity": 8}}
    found = eg.workbench.as_study(study)
    given = records_of(found.setting("adam", "class"), 52.0, 54.0)
    table = make_table(found, given)
    cell, *others = table.cells
    # fewer than 3 runs: 3·√(2²/2 + 1²) = 5.196, the deviation of a run being 1·√4
    assert (cell.verdict, cell.band) == ("agrees", pytest.approx(3 * 3**0.5))
    assert make_table(found, records_of(found.setting("adam", "class"), 55.0, 55.5)).cells[0].verdict == "higher"
    assert {(c.paper, c.verdict) for c in others} == {(None, None)}


def test_what_is_no_study_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="study 3 is not one; give a TOML file, a name such as hsu2018/table2"):
        eg.study(3)
    with pytest.raises(TypeError, match="baseline only go with a frame"):
        eg.study(STUDY, baseline="adam", out=tmp_path)
    with pytest.raises(ValueError, match="does not exist; name a folder"):
        eg.read(tmp_path / "nothing")
