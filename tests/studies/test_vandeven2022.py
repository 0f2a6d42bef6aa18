"""The study vandeven2022: 34 cells, the published numbers, settings as in the authors' code, and their class orders."""

import json
import subprocess
import sys

import pytest
from helpers import blobs

import engram as eg
from engram.runs.spec import spec_of_setting
from engram.studies.catalog import built_in_study
from engram.studies.claims import claims_of
from engram.studies.outcomes import examine_claims
from engram.studies.reading import read_study
from engram.studies.study import StudyError
from engram.studies.table import Results, make_cells

STUDY = "vandeven2022/table2"
EVERYWHERE = ("adam", "offline", "ewc", "si", "lwf", "fromp", "dgr", "bi-r", "er", "a-gem")
ORDERS = {  # digits of each task, from the published class orders
    2: [[3, 1], [5, 6], [0, 2], [7, 4], [9, 8]],
    3: [[7, 2], [3, 8], [1, 0], [5, 6], [9, 4]],
    4: [[6, 7], [4, 0], [2, 8], [5, 9], [1, 3]],
    12: [[3, 8], [7, 6], [4, 0], [9, 2], [1, 5]],
    21: [[6, 0], [1, 3], [7, 4], [5, 2], [8, 9]],
}


@pytest.fixture
def _small_mnist(monkeypatch):
    small = blobs(10, train=3, test=2, name="mnist")
    monkeypatch.setattr("engram.scenarios.create.images", lambda name: small)


def test_it_has_34_cells_of_which_24_have_a_published_number():
    cells = make_cells(Results(built_in_study(STUDY), []))
    places = {(cell.row, cell.column) for cell in cells}
    wanted = {(row, column) for row in EVERYWHERE for column in ("task", "domain", "class")}
    wanted |= {("separate", "task"), ("xdg", "task"), ("generative-classifier", "class"), ("icarl", "class")}
    assert places == wanted
    assert len(cells) == 34
    published = [cell for cell in cells if cell.paper is not None]
    assert len(published) == 24
    assert sum(cell.paper_std is not None for cell in published) == 19
    assert {cell.verdict for cell in published} == {"missing"}
    assert {cell.verdict for cell in cells if cell.paper is None} == {None}


def test_compare_prints_them_without_torch():
    code = (
        "import sys; from engram.cli import main\ntry:\n main(['compare', 'vandeven2022/table2', '--json'])\n"
        "except SystemExit as ended:\n assert not ended.code\nassert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) == 34


@pytest.mark.usefixtures("_small_mnist")
def test_every_cell_can_be_run():
    study = built_in_study(STUDY)
    for row in study.rows:
        for column in study.columns:
            if study.has_cell(row, column):
                spec = spec_of_setting(study.setting(row, column), seed=2)
                kind = {"task": "task", "domain": "domain", "class": "class" if row == "icarl" else "class-known"}
                assert spec.scenario.kind == kind[column]
                assert (spec.scenario.order, spec.scenario.pad, spec.scenario.normalize) == ("numpy", 0, None)
                assert (spec.net.hidden, spec.net.heads) == ((400, 400), "random")
                training = spec.training
                assert (training.optimizer, training.lr, training.batch) == ("adam", 1e-3, 128)
                assert training.steps == (10_000 if row == "offline" else 2000)
                assert (training.drop_last, training.reset_optimizer) == (True, False)


def test_coefficients_are_the_published_ones():
    study = built_in_study(STUDY)
    found = {
        (row, field): [study.setting(row, column).value(f"method.{field}") for column in study.columns]
        for row, field in [("ewc", "coef"), ("si", "coef"), ("fromp", "tau"), ("bi-r", "gate_share")]
    }
    assert [2 * coef for coef in found["ewc", "coef"]] == [1e5, 1e10, 1e9], "lambda is twice the coefficient"
    assert found["si", "coef"] == [10, 50_000, 5000]
    assert found["fromp", "tau"] == [0.01, 10, 1000]
    assert found["bi-r", "gate_share"] == [0.0, 0.1, 0.1]
    assert study.setting("bi-r", "domain").value("method.gated_by") == "task"


@pytest.mark.usefixtures("_small_mnist")
@pytest.mark.parametrize("seed", ORDERS)
def test_class_orders_are_those_of_the_authors_seeds(seed):
    spec = spec_of_setting(built_in_study(STUDY).setting("adam", "class"), seed)
    tasks = spec.scenario.tasks(seed)
    assert [[int(name) for name in task.classes] for task in tasks] == ORDERS[seed]


def test_seeds_are_2_to_21():
    study = built_in_study(STUDY)
    assert study.seeds == tuple(range(2, 22))
    assert study.first_seeds(3) == (2, 3, 4)
    with pytest.raises(ValueError, match="seeds 21: vandeven2022/table2 lists 20 seeds"):
        study.first_seeds(21)
    assert built_in_study("table2").first_seeds(12) == tuple(range(12))


def test_its_claims_hold_in_the_published_numbers():
    _, claims = claims_of("vandeven2022")
    assert [claim.number for claim in claims] == [1, 2, 3, 4, 5]
    results = examine_claims("vandeven2022", [])
    assert {part.outcome for result in results for part in result.print} == {"holds"}
    assert {part.outcome for result in results for part in result.ours} == {"undecided"}, "there are no runs"


def test_a_row_that_has_no_such_column_is_refused():
    study = built_in_study(STUDY)
    with pytest.raises(ValueError, match="row xdg has no column domain; choose from task"):
        study.select_rows(["xdg"], ["domain"], with_variants=False)
    rows, _ = study.select_rows([], ["domain"], with_variants=False)
    assert "xdg" in rows  # all rows are asked for, and this one has nothing to show


def test_values_for_a_column_that_a_row_does_not_have_are_refused():
    values = {
        "columns": {"task": "split-mnist/task", "class": "split-mnist/class"},
        "rows": {"adam": {"columns": ["task"], "published": {"class": [20.0]}}},
    }
    with pytest.raises(StudyError, match="values for column class, and its columns are task"):
        read_study(values, "own")


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_tables_leave_places_without_a_cell_empty(form, capsys, tmp_path):
    from engram.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["compare", STUDY, "--format", form, "--rows", "adam", "xdg", "--results", str(tmp_path)])
    assert not ended.value.code
    shown = capsys.readouterr().out
    assert "XdG" in shown
    if form == "latex":
        line = next(line for line in shown.splitlines() if line.startswith("XdG"))
        assert line.count("&") == 3
        assert line.endswith(r"& -- &  &  \\[-3pt]")


def test_numpy_s_order_is_the_place_of_each_class():
    """numpy.random.seed(2); numpy.random.permutation(10): class 3 comes first, then 1."""
    tasks = eg.split(blobs(10, train=3), order="numpy").tasks(2)
    assert tasks[0].classes == ("3", "1")
    assert sum(eg.split(blobs(10, train=3), order="numpy").sizes()) == 30
