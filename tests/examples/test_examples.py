"""The examples work from Python and from the command line, and are as short as promised."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import engram as eg
from engram.cli import main
from engram.methods import methods

DRIFT = Path(__file__).parents[2] / "examples" / "drift.py"


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Four classes of 4×4 noise, as arrays and as a file that the command line finds."""
    rng = np.random.default_rng(0)
    y = np.arange(80) % 4
    x = (rng.integers(0, 60, (80, 4, 4)) + 40 * y[:, None, None]).astype(np.uint8)
    np.savez(tmp_path / "tiny.npz", x_train=x, y_train=y, x_test=x[:20], y_test=y[:20])
    monkeypatch.setenv("ENGRAM_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return eg.Images(x, y, x[:20], y[:20])


def drift_class():
    spec = importlib.util.spec_from_file_location("drift_example", DRIFT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module.Drift


def test_an_own_regulariser_takes_thirty_lines_or_fewer():
    assert len(DRIFT.read_text().splitlines()) <= 30


def test_an_own_regulariser_holds_what_the_first_task_moved(tiny):
    scenario = eg.split(tiny, kind="task", normalize="train")
    options = {"net": eg.MLP(8), "training": eg.Training(epochs=3, batch=8, lr=0.02)}
    free = eg.run(scenario, drift_class()(coef=0.0), **options)
    held = eg.run(scenario, drift_class()(coef=1e6), **options)
    plain = eg.run(scenario, eg.Adam(), **options)
    assert free.accuracy == plain.accuracy
    assert held.accuracy[0] == plain.accuracy[0]  # nothing is held in the first task
    assert held.accuracy != plain.accuracy


def test_an_own_regulariser_on_the_command_line(tiny, capsys):
    call = ["run", "split-tiny/task", "drift", "--method-file", str(DRIFT), "--coef", "3", "--epochs", "1", "--json"]
    try:
        with pytest.raises(SystemExit) as end:
            main(call)
        record = json.loads(capsys.readouterr().out)
        assert end.value.code == 0
        assert record["method"] == "drift"
        assert record["spec"]["method"] == [{"name": "drift", "coef": 3.0}]
    finally:
        methods().pop("drift", None)
