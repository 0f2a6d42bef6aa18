"""The examples work from Python and from the command line, and are as short as promised."""

import importlib.util
import json
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import engram as eg
from engram.cli import main
from engram.core.registry import METHODS, REGISTRIES

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


def run_notebook(name, folder):
    """What its cells print, and how many pictures they show."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    said = "".join(output["text"] for output in outputs if output.output_type == "stream")
    return said, sum("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.slow
def test_the_notebook_on_kinds_measures_them_and_their_floors(small_mnist):
    said, pictures = run_notebook("three_kinds", small_mnist)
    for kind, floor in (("task", 60), ("domain", 60), ("class", 20)):
        assert f"{kind:<7} measured: {kind:<7} floor: {floor} %" in said
    assert said.count("average accuracy") == 3  # a line per kind
    assert pictures == 3


@pytest.mark.slow
def test_the_notebook_on_fair_comparison_ends_with_a_tested_table(small_mnist):
    said, _ = run_notebook("fair_comparison", small_mnist)
    assert "FAILS" not in said
    assert len(re.findall(r"hardest +(?:class|domain) +[\d.]+ +[\d.]+ +8 ", said)) == 2
    assert "Does it help to replay the hardest images?" in said  # the table as text
    assert r"\begin{tabular}" in said


@pytest.mark.slow
def test_the_notebook_on_frozen_features_shows_methods_that_do_not_forget(small_mnist):
    said, _ = run_notebook("frozen_features", small_mnist)
    assert "floor: 33 %" in said
    for method in ("adam", "er", "ncm", "slda", "ranpac"):
        assert re.search(rf"^{method} +forgetting", said, re.MULTILINE)


@pytest.fixture
def command(capfd, monkeypatch):
    """Calls the command line; what it loads from files ends with the test."""
    for registry in REGISTRIES:
        monkeypatch.setattr(registry, "added", dict(registry.added))

    def call(*arguments):
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        said = capfd.readouterr()
        assert end.value.code == 0, said.err
        return said.out

    return call


def test_an_own_network_is_one_file(tiny, command):
    file = EXAMPLES / "own_net.py"
    call = ("run", "split-tiny/task", "ewc", "--net", "own-net", "--file", file, "--width", "6", "--epochs", "1")
    record = json.loads(command(*call, "--json"))
    net = record["spec"]["net"]
    assert (net["name"], net["width"], net["activation"], len(net["own code"])) == ("own-net", 6, "relu", 16)
    parameters = (16 * 6 + 6 + 12) + (6 * 6 + 6 + 12) + (6 * 4 + 4)
    assert sum(record["memory"]["kept"].values()) == 2 * 4 * parameters  # importances and centres
    found = json.loads(command("describe", "split-tiny/task", "--net", "own-net", "--file", file, "--json"))["net"]
    assert (found["name"], found["parameters"]) == ("own-net", (16 + 1 + 2) * 200 + (200 + 1 + 2) * 200 + 201 * 4)


def test_an_own_scenario_is_one_file(tiny, command):
    file = EXAMPLES / "own_scenario.py"
    found = json.loads(command("describe", "inverted-tiny/domain", "--repeats", "3", "--file", file, "--json"))
    assert (found["kind"], len(found["tasks"]), found["outputs"]) == ("domain", 3, 4)
    record = json.loads(command("run", "inverted-tiny/domain", "adam", "--file", file, "--epochs", "1", "--json"))
    assert [len(row) for row in record["accuracy"]] == [1, 2, 3, 4]


def test_an_inverted_image_is_255_less_the_image(tiny):
    spec = importlib.util.spec_from_file_location("own_scenario_example", EXAMPLES / "own_scenario.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    plain, inverted, again = module.Inverted(images=(tiny,), kind="domain", repeats=3).tasks(0)
    rows = torch.arange(5)
    pixels = [task.train.pixels(rows).int() for task in (plain, inverted, again)]
    assert torch.equal(pixels[0] + pixels[1], torch.full_like(pixels[0], 255))
    assert torch.equal(pixels[0], pixels[2])


def test_an_own_metric_is_one_file(tiny, command):
    record = json.loads(command("run", "split-tiny/class", "adam", "--epochs", "1", "--json"))
    file = EXAMPLES / "own_metric.py"
    (cell,) = json.loads(command("table", "runs", "--metric", "worst-task", "--file", file, "--json"))
    assert cell["mean"] == min(record["accuracy"][-1])


def test_the_own_study_has_three_rows_two_columns_and_three_seeds(small_mnist, command):
    command("study", EXAMPLES / "study.toml", "--workers", "1")
    cells = json.loads(command("study", EXAMPLES / "study.toml", "--json"))
    assert [(cell["row"], cell["n"]) for cell in cells[::2]] == [("adam", 3), ("rehearsal", 3), ("drift", 3)]
    by_place = {(cell["row"], cell["column"]): cell["mean"] for cell in cells}
    assert by_place["rehearsal", "class"] >= by_place["adam", "class"]


def test_the_invented_table_is_one_file_with_verdicts(small_mnist, command):
    file = EXAMPLES / "invented2026.toml"
    assert "invented" in file.read_text().splitlines()[3].lower()  # the title says that the numbers are made up
    missing = json.loads(command("compare", file, "--json"))
    assert {cell["verdict"] for cell in missing} == {"missing"}
    assert {(cell["row"], cell["column"]): cell["paper"] for cell in missing}["rehearsal", "domain"] == 90.0
    shown = command("reproduce", file, "--seeds", "1", "--results", "runs", "--workers", "1")
    assert "does not exist" in shown
    cells = json.loads(command("compare", file, "--results", "runs", "--variants", "--json"))
    verdicts = {(cell["row"], cell["column"]): cell["verdict"] for cell in cells}
    assert verdicts["ewc", "class"] is None  # no published spread, and fewer than three runs of ours
    assert set(verdicts.values()) <= {"agrees", "higher", "lower", "missing", None}
    assert [cell["row"] for cell in cells[6:]] == ["rehearsal/half"] * 2


def test_features_of_a_network_are_a_dataset_without_rounding(capsys):
    """The example on small images: what the network sees are the features, bit for bit."""
    features = runpy.run_path(str(EXAMPLES / "features.py"))
    rng = np.random.default_rng(0)
    y = np.arange(40) % 4
    images = eg.Images(rng.integers(0, 256, (40, 8, 8), np.uint8), y, rng.integers(0, 256, (40, 8, 8), np.uint8), y)
    net = features["train_network"](images, steps=2)
    arrays = features["embed"](net, images)
    assert arrays.x_train.dtype == np.float32
    seen = [x for task in eg.split(arrays).tasks() for x, _, _ in task.loader("test", batch=40)]
    order = np.concatenate([np.flatnonzero((y == 2 * task) | (y == 2 * task + 1)) for task in range(2)])
    assert torch.cat(seen).numpy().tobytes() == arrays.x_test[order].tobytes()
    with torch.no_grad():
        layer = net.get_submodule(net.output_layer)
        x = torch.from_numpy(images.x_test).float().div(255).view(40, 1, 8, 8)
        torch.testing.assert_close(layer(torch.from_numpy(arrays.x_test)), net(x))
