"""The examples work from Python and from the command line, and are as short as promised."""

import importlib.util
import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import engram as eg
from engram.cli import main
from engram.core.registry import METHODS

EXAMPLES = Path(__file__).parents[2] / "examples"
DRIFT = EXAMPLES / "drift.py"


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
        (written,) = record["spec"]["method"]
        assert (written["name"], written["coef"], len(written["own code"])) == ("drift", 3.0, 16)
    finally:
        METHODS.added.pop("drift", None)


def test_the_sensor_example_reads_the_kind_and_rehearsal_helps(capsys):
    runpy.run_path(str(EXAMPLES / "sensor.py"))
    first, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith("domain learning")
    reached = {row.split()[0]: float(row.split()[1]) for row in rows}
    assert reached["adam"] < 75  # it knows the last sensor and is wrong on the one before
    assert reached["rehearsal"] > 95
    assert reached["offline"] > 98


@pytest.fixture
def small_mnist(tmp_path, monkeypatch):
    """Ten classes of 28×28 pixels under MNIST's name: a bright row in noise."""
    rng = np.random.default_rng(0)
    y = np.arange(300) % 10
    x = rng.integers(0, 100, (300, 28, 28))
    x[np.arange(300), 2 * y] += 150
    x = x.astype(np.uint8)
    np.savez(tmp_path / "mnist.npz", x_train=x, y_train=y, x_test=x[:100], y_test=y[:100])
    monkeypatch.setenv("ENGRAM_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_memory_example_counts_bytes_and_draws(small_mnist, capsys):
    runpy.run_path(str(EXAMPLES / "memory.py"))
    *rows, drawn = capsys.readouterr().out.splitlines()
    kept = [(row.split()[0], float(row.split()[1])) for row in rows]
    image = 32 * 32 * 4 + 2  # floats and a label
    assert kept[0] == ("adam", 0.0)
    # a scale and a shift a task besides; what a task does not have is not kept
    assert [round(mb * 1e6 / image) for name, mb in kept if name == "rehearsal"][:2] == pytest.approx([20, 100], abs=3)
    assert drawn == "memory.png"
    assert (small_mnist / drawn).read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(small_mnist):
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(EXAMPLES / "tour.ipynb", as_version=4)
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(small_mnist)}}).execute()
    said = "".join(
        output["text"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "stream"
    )
    assert "class learning; forgetting floor: 20 %" in said
    assert "drift: " in said
    pictures = [o for cell in notebook.cells for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]
    assert len(pictures) == 3
