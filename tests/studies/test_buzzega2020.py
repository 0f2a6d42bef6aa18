"""Buzzega et al. (2020) as data: every cell can be run, and has the constants and the numbers of the reference."""

import json
import subprocess
import sys

import pytest

from engram.runs.setting import Setting
from engram.studies.catalog import built_in_study
from engram.studies.claims import claims_of

STUDY = built_in_study("buzzega2020/table2")
METHODS = ("er", "gem", "a-gem", "fdr", "gss", "hal", "der", "der-pp")
SIZES = (200, 500, 5120)


def setting(row: str, column: str) -> Setting:
    return STUDY.setting(row, column)


def test_it_has_28_rows_and_2_columns():
    assert list(STUDY.columns) == ["permuted", "rotated"]
    assert list(STUDY.rows) == ["joint", "sgd", "online-ewc", "si", *(f"{m}/{size}" for size in SIZES for m in METHODS)]
    assert all(set(row.published) == {"permuted", "rotated"} for row in STUDY.rows.values())


def test_published_spreads_are_those_that_were_found():
    """20 of 56: SGD in both columns, and rotated MNIST at 200 and 500 images and for the penalties, JOINT not."""
    found = [(row, c) for row in STUDY.rows for c, (_, std) in STUDY.rows[row].published.items() if std is not None]
    small = [f"{m}/{size}" for size in (200, 500) for m in METHODS]
    assert sorted(found) == sorted(
        [("sgd", "permuted"), *((row, "rotated") for row in ("sgd", "online-ewc", "si", *small))]
    )
    assert STUDY.rows["der-pp/500"].published == {"permuted": (88.21, None), "rotated": (92.77, 1.05)}


@pytest.mark.parametrize("column", STUDY.columns)
@pytest.mark.parametrize("row", STUDY.rows)
def test_what_all_cells_share(row, column):
    found = setting(row, column)
    shared = {
        "training.epochs": 1,
        "training.steps": 0,
        "training.batch": 128,
        "training.optimizer": "sgd",
        "training.drop_last": False,
        "training.reset_optimizer": False,
        "training.momentum": 0.0,
        "net.hidden": (100, 100),
        "net.init": "xavier",
        "scenario.pad": 0,
        "scenario.normalize": None,
    }
    assert {name: found.value(name) for name in shared} == shared
    tasks = {"permuted": "scenario.permutations", "rotated": "scenario.rotations"}[column]
    assert found.value(tasks) == 20
    assert found.value("training.lr") in (0.01, 0.03, 0.1, 0.2, 0.3)


@pytest.mark.parametrize(
    ("row", "column", "values"),
    [
        ("si", "permuted", {"training.lr": 0.1, "method.coef": 0.5, "method.xi": 1.0, "method.clip_each": 1.0}),
        ("si", "rotated", {"training.lr": 0.1, "method.coef": 1.0, "method.path_of": "total"}),
        ("online-ewc", "rotated", {"training.lr": 0.1, "method.coef": 0.7, "method.divisor": "batches"}),
        ("gem/200", "permuted", {"training.lr": 0.1, "method.margin": 0.5, "method.shares": "all"}),
        ("gem/5120", "rotated", {"training.lr": 0.01, "method.capacity": 5120}),
        ("a-gem/200", "rotated", {"training.lr": 0.1}),
        ("a-gem/500", "rotated", {"training.lr": 0.3}),
        ("a-gem/500", "permuted", {"training.lr": 0.1, "method.replay": 128}),
        ("fdr/500", "rotated", {"training.lr": 0.2, "method.alpha": 1.0}),
        ("gss/200", "rotated", {"training.lr": 0.2, "method.replay": 10, "method.comparisons": 128}),
        ("gss/500", "permuted", {"training.lr": 0.1, "method.replay": 128, "method.comparisons": 10}),
        ("gss/5120", "permuted", {"training.lr": 0.03, "method.comparisons": 10}),
        ("gss/5120", "rotated", {"training.lr": 0.2, "method.comparisons": 128}),
        ("hal/200", "rotated", {"training.lr": 0.1, "method.coef": 0.2, "method.beta": 0.5, "method.gamma": 0.1}),
        ("hal/500", "permuted", {"method.coef": 0.1, "method.beta": 0.3}),
        ("hal/5120", "rotated", {"method.coef": 0.1, "method.beta": 0.3}),
        ("der/500", "rotated", {"training.lr": 0.2, "method.alpha": 0.5}),
        ("der/500", "permuted", {"training.lr": 0.2, "method.alpha": 1.0}),
        ("der-pp/200", "permuted", {"training.lr": 0.1, "method.alpha": 1.0, "method.beta": 1.0}),
        ("der-pp/200", "rotated", {"training.lr": 0.1, "method.alpha": 1.0, "method.beta": 0.5}),
        ("der-pp/500", "rotated", {"training.lr": 0.2, "method.alpha": 0.5, "method.beta": 1.0}),
        ("der-pp/5120", "rotated", {"training.lr": 0.2, "method.alpha": 0.5, "method.beta": 0.5}),
    ],
)
def test_constants_of_single_cells(row, column, values):
    found = setting(row, column)
    assert {name: found.value(name) for name in values} == values


def test_variants_do_what_the_methods_say_where_the_authors_code_does_not():
    found = {v.name: STUDY.variant_settings(v, "rotated")[""] for v in STUDY.variants.values()}
    fisher = [f"online-ewc/{name}" for name in ("true", "exact", "mini-batches")]
    stored = ["a-gem/200/reservoir", "fdr/500/alpha", "a-gem/500/reservoir", "a-gem/5120/reservoir"]
    anchors, rings = ([f"hal/{size}/{what}" for size in SIZES] for what in ("hindsight", "ring"))
    assert list(found) == [*fisher, *stored, "gss/200/exchanged", *anchors, *rings]
    for name in rings:
        assert found[name].value("method.memory") == "ring"
        assert setting(name.removesuffix("/ring"), "rotated").value("method.memory") == "reservoir"
    for name in anchors:
        assert found[name].value("method.hindsight") is True
        assert setting(name.removesuffix("/hindsight"), "rotated").value("method.hindsight") is False
    row = setting("online-ewc", "rotated")
    for name in fisher:
        assert {found[name].value(f"method.{field}") for field in ("label", "estimator", "divisor")} != {
            row.value(f"method.{field}") for field in ("label", "estimator", "divisor")
        }
        for field in ("method.coef", "method.decay", "training.lr"):
            assert found[name].value(field) == row.value(field)
    assert found["fdr/500/alpha"].value("method.alpha") == 0.3
    numbers = [f"method.{name}" for name in ("replay", "comparisons")]
    assert [found["gss/200/exchanged"].value(name) for name in numbers] == [128, 10]
    assert [setting("gss/200", "permuted").value(name) for name in numbers] == [10, 128]
    for size in SIZES:
        variant = found[f"a-gem/{size}/reservoir"]
        assert variant.value("method.memory") == "reservoir"
        assert variant.value("training.lr") == setting(f"a-gem/{size}", "rotated").value("training.lr")


def test_claims_name_cells_that_exist():
    claims = claims_of("buzzega2020")[1]
    assert [claim.number for claim in claims] == list(range(1, 8))


def test_compare_shows_all_cells_without_runs_and_without_torch(tmp_path):
    code = (
        "import sys; from engram.cli import main\n"
        "try: main(['compare', 'buzzega2020/table2', '--json', '--results', '.'])\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    cells = json.loads(done.stdout)
    cells = cells if isinstance(cells, list) else cells["cells"]
    assert len(cells) == 56
    assert {cell["verdict"] for cell in cells} == {"missing"}
    assert sum(cell["paper_std"] is not None for cell in cells) == 20
