"""Metrics on logits, and what a run leaves, on the command line: `run --metric --keep`, `table`, `study`, `ls`."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from engram.core.registry import METRICS

FLAGS = ("--hidden", "8", "--epochs", "1", "--batch", "8")
OWN = """
def mean_confidence(logits, targets, active):
    \"\"\"How sure the learner is.\"\"\"
    return 100 * float(logits[:, active].softmax(1).amax(1).mean())
"""


@pytest.fixture(autouse=True)
def _apart(data, work, monkeypatch):
    monkeypatch.setattr(METRICS, "added", {})
    monkeypatch.setattr("engram.core.userfile._LOADED", {})


def test_a_metric_is_measured_shown_and_in_tables(engram):
    done = engram("run", "split-tiny/class", "adam", *FLAGS, "--seeds", "2", "--metric", "ece", "forgetting")
    assert done.status == 0, done.err
    assert "expected calibration error" in done.out
    table = engram("table", "runs", "--metric", "ece", "--json")
    assert table.json[0]["n"] == 2
    records = [json.loads(line) for line in Path("runs/records.jsonl").read_text().splitlines()]
    assert table.json[0]["mean"] == pytest.approx(sum(sum(r["extra"]["ece"][-1]) / 2 for r in records) / 2)
    assert engram("run", "split-tiny/class", "adam", *FLAGS, "--metric", "ecee").status == 2


def test_a_function_in_a_file_is_a_metric_in_two_workers_and_an_edited_one_is_another(engram, tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    call = ("run", "split-tiny/class", "adam", *FLAGS, "--seeds", "2", "--workers", "2", "--metric", "mean-confidence")
    first = engram(*call, "--file", file, "--json")
    assert first.status == 0, first.err
    assert [record["extra"]["mean-confidence"][-1][0] > 0 for record in first.records] == [True, True]
    table = ("table", "runs", "--metric", "mean-confidence", "--file", file, "--json")
    assert engram(*table).json[0]["n"] == 2
    file.write_text(OWN.replace("100 *", "1 *"))
    refused = engram(*table)
    assert refused.status == 2
    assert "none of these runs has metric mean-confidence as it is defined here" in refused.err
    second = engram(*call, "--file", file, "--json")
    assert {record["key"] for record in first.records}.isdisjoint(record["key"] for record in second.records)
    assert engram(*table).json[0]["mean"] < 1.01


def test_a_study_measures_its_metric(engram, tmp_path: Path):
    (tmp_path / "mine.toml").write_text(
        'title = "t"\nseeds = 2\nmetric = "ece"\n[columns]\nc = "split-tiny/class"\n[rows]\nadam = {}\n'
        "[training]\nepochs = 1\n[net]\nhidden = [8]\n"
    )
    made = engram("study", tmp_path / "mine.toml", "--json")
    assert made.status == 0, made.err
    (cell,) = made.json
    assert cell["n"] == 2
    assert 0 <= cell["mean"] <= 100


def test_what_is_kept_is_beside_the_record(engram):
    done = engram("run", "split-tiny/class", "adam", *FLAGS, "--seeds", "2", "--workers", "2", "--keep", "net,logits")
    assert done.status == 0, done.err
    keys = [json.loads(line)["key"] for line in Path("runs/records.jsonl").read_text().splitlines()]
    assert sorted(path.name for path in Path("runs/kept").iterdir()) == sorted(f"{key}.pt" for key in keys)
    kept = torch.load(Path("runs/kept") / f"{keys[0]}.pt", weights_only=True)
    assert set(kept) == {"net", "logits", "active", "targets", "kinds of targets"}
    assert "net, logits in runs/kept/" in done.err
    wrong = engram("run", "split-tiny/class", "adam", *FLAGS, "--keep", "weights")
    assert wrong.status == 2
    assert "choose from net, logits, features" in wrong.err


def test_ls_names_them(engram):
    assert {"ece", "per-class-accuracy", "confusion"} <= {
        row["metric"] for row in engram("ls", "metrics", "--json").json
    }


def test_a_queue_of_files_with_all_kinds_of_targets(engram, data):
    rng = np.random.default_rng(0)
    for name, columns, targets in (("kinds", 5, "classes"), ("sizes", 1, "values"), ("tags", 3, "labels")):
        x = rng.normal(size=(120, 6)).astype(np.float32)
        y = x @ rng.normal(size=(6, columns))
        y = {"classes": y.argmax(1), "values": y, "labels": y > 0.5}[targets]
        parts = {"x_train": x[:80], "y_train": y[:80], "x_test": x[80:], "y_test": y[80:]}
        np.savez(data / f"{name}.npz", targets=targets, **parts)
    scenario = ("queue-kinds+sizes+tags/task", "--classes-per-task", "all")
    described = engram("describe", *scenario, "--json").json
    assert (described["kind"], described["targets"]) == ("task", ["classes", "values", "labels"])
    assert described["evidence"]["row"]["learning scenario"] == "incremental task"
    done = engram("run", scenario[0], "ewc", *scenario[1:], *FLAGS, "--seeds", "2", "--workers", "2")
    assert done.status == 0, done.err
    assert "average score" in done.out
    assert "task 1 by accuracy, task 2 by R², task 3 by mean average precision" in done.out.replace("\n", " ")
    refused = engram("run", scenario[0], "lwf", *scenario[1:], *FLAGS)
    assert refused.status == 2
    assert "LwF is for classes, and task 2 has values as targets" in refused.err
