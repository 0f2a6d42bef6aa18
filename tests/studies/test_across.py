"""Methods across papers, and the bridge between two protocols."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from setting_records import run, run_of

from engram.report.across import write_across
from engram.runs.records import append_record
from engram.runs.setting import group_by_setting
from engram.studies.across import find_disagreements, find_places
from engram.studies.bridge import Effect, cross
from engram.studies.catalog import built_in_study, own_names, results_of, study_names

ENDS = {"adam": 5, "ewc": 8}
"""Fields in which the two protocols differ."""


def bridge_run(row, seed, value):
    return run_of(built_in_study("bridge").setting(row, "task"), seed, value)


def changed_fields(one, other):
    return {name for name in {**one.values, **other.values} if one.value(name) != other.value(name)}


@pytest.mark.parametrize("method", ENDS)
def test_the_ends_of_the_bridge_are_the_cells_of_the_two_papers(method):
    bridge = built_in_study("bridge")
    first, second = (bridge.setting(f"{method}/{paper}", "task") for paper in ("hsu2018", "vandeven2022"))
    assert first == built_in_study("hsu2018/table2").setting(method, "task")
    assert second == built_in_study("vandeven2022/table2").setting(method, "task")
    assert len(changed_fields(first, second)) == ENDS[method]
    for paper in ("hsu2018", "vandeven2022"):
        published = built_in_study(f"{paper}/table2").rows[method].published["task"]
        assert bridge.rows[f"{method}/{paper}"].published["task"] == published


@pytest.mark.parametrize("method", ENDS)
def test_every_other_row_changes_one_value_of_an_end_to_the_other_end_s(method):
    bridge = built_in_study("bridge")
    ends = {paper: bridge.setting(f"{method}/{paper}", "task") for paper in ("hsu2018", "vandeven2022")}
    singles = {"hsu2018": set(), "vandeven2022": set()}
    for row in bridge.rows:
        if row.startswith(f"{method}/") and row.partition("/")[2] not in ends:
            near, far = ("hsu2018", "vandeven2022") if "+" in row else ("vandeven2022", "hsu2018")
            setting = bridge.setting(row, "task")
            (name,) = changed_fields(ends[near], setting)
            assert setting.value(name) == ends[far].value(name)
            singles[near].add(name)
    assert singles["hsu2018"] == changed_fields(*ends.values())  # all of them
    assert len(singles["vandeven2022"]) >= 5


def test_effects_are_means_of_differences_over_common_seeds():
    records = [
        *(bridge_run("adam/hsu2018", seed, 94.0 + seed) for seed in (2, 3)),
        *(bridge_run("adam/hsu2018+steps", seed, 90.0 + seed) for seed in (2, 3, 4)),
        bridge_run("adam/vandeven2022-steps", 2, 89.0),
        *(bridge_run("adam/vandeven2022", seed, 85.0) for seed in (2, 4)),
    ]
    bridge = cross(results_of(built_in_study("bridge"), records), "adam")
    steps = next(change for change in bridge.changes if change.name == "steps")
    assert steps.at_first.differences == (-4.0, -4.0)
    assert steps.at_second.differences == (-4.0,)
    assert steps.mean == -4.0
    assert steps.values == ("by epochs", "steps 2000")
    assert bridge.gap.differences == (85.0 - 96.0,)
    assert bridge.gap.stands_out is None  # one seed tells nothing
    order = next(change for change in bridge.changes if change.name == "order")
    assert (order.at_first, order.at_second, order.mean) == (None, None, None)


def test_an_effect_stands_out_from_twice_its_standard_error_on():
    assert Effect((1.0, 2.0, 3.0)).stands_out  # mean 2, standard error 1/√3
    assert Effect((0.0, 1.0, 2.0)).stands_out is False  # mean 1, twice the standard error 1.15


def test_every_method_of_every_table_is_there_once():
    places = find_places({})
    cells = {
        (study.name, row, column)
        for study in map(built_in_study, study_names())
        for row in study.rows
        for column in study.columns
        if study.has_cell(row, column) and not study.python
    }
    shown = {(place.study.name, place.cell.row, place.cell.column) for place in places if not place.study.python}
    twice = {cell for cell in cells if cell[0] == "hsu2018/table4" and cell[2].endswith("/unknown")}
    assert shown == cells - twice  # which tables 2 and 3 have
    assert {place.method for place in places} >= {"gem-textbook", "offline", "xdg", "mer", "der-pp"}
    assert {place.cell.row for place in places if place.study.python} == {"78"}


def test_two_papers_disagree_about_adam_and_ewc_in_task_learning():
    groups = group_by_setting([run("adam", "task", 0, 94.0)])
    found = find_disagreements(find_places(groups), groups)
    assert [(d.first.method, d.first.scenario) for d in found] == [
        ("adam", "split-mnist/task"),
        ("ewc", "split-mnist/task"),
    ]
    assert [round(d.apart, 2) for d in found] == [-9.14, 1.36]
    assert found[0].band == pytest.approx(3 * (2.01**2 / 10 + 0.99**2) ** 0.5)
    assert [[bridge.study for bridge in d.bridges] for d in found] == [["bridge"], ["bridge"]]


def test_what_is_said_of_a_disagreement_comes_from_the_records():
    records = [
        bridge_run("adam/hsu2018", 2, 94.0),
        bridge_run("adam/hsu2018+steps", 2, 90.5),
        bridge_run("adam/vandeven2022", 2, 85.0),
    ]
    groups = group_by_setting(records)
    places = find_places(groups, ["adam"])
    text = write_across("text", places, find_disagreements(places, groups))
    joined = " ".join(text.split())
    assert "Adam in split-mnist/task: 93.46 ± 2.01 in hsu2018/table2 (ours 94.00), 84.32 ± 0.99" in joined
    assert "in all −9.00 (n 1); at the first end, and at the second, steps −3.50 (n 1)." in joined


@pytest.mark.parametrize(
    ("form", "holds"),
    [
        ("markdown", "| EWC  vandeven2022/table2 task | –<br>published 99.06 ± 0.15 · missing |"),
        ("latex", r"\multicolumn{2}{l}{\textit{EWC}}"),
        ("csv", "ewc,vandeven2022/table2,split-mnist/task,ewc,task,,,0,99.06,0.15,missing"),
    ],
)
def test_formats(form, holds):
    places = find_places({}, ["ewc"])
    assert holds in write_across(form, places, find_disagreements(places, {}))


def test_the_command_needs_no_torch_and_prints_all_cells(tmp_path: Path):
    append_record(tmp_path / "hsu2018" / "table2.jsonl", run("adam", "task", 0, 94.0))
    code = (
        "import sys; from engram.cli import main\n"
        "try: main(['compare', 'methods', '--json', '--results', '.'])\n"
        "except SystemExit as ended: assert not ended.code\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    found = json.loads(done.stdout)
    assert len(found["cells"]) == len(find_places({}))
    of_adam = [cell for cell in found["cells"] if (cell["method"], cell["study"]) == ("adam", "hsu2018/table2")]
    adam = next(cell for cell in of_adam if cell["column"] == "task")
    assert (adam["ours"], adam["n"], adam["paper"], adam["verdict"]) == (94.0, 1, 93.46, "agrees")
    assert [d["method"] for d in found["disagreements"]] == ["adam", "ewc"]


def test_own_studies_go_by_their_names():
    assert own_names() == ("bridge",)
    assert "bridge" not in study_names()
    with pytest.raises(ValueError, match="did you mean bridge"):
        built_in_study("brigde")
