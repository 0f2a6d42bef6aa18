"""Sequences of one's own, repetition and long tails on the command line: workers, --spec, resume."""

import json
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import arrays

FLAGS = ("--hidden", "8", "--epochs", "1", "--batch", "8", "--json")
PARTS = ("x_train", "y_train", "x_test", "y_test")


@pytest.fixture
def wards(data: Path, work: Path) -> Path:
    """Three tasks of the set `tiny` in ENGRAM_DATA; the last has two of the four classes."""
    tiny = arrays()
    tasks = []
    for task in range(3):
        rows = [np.flatnonzero(tiny[y] < (2 if task == 2 else 4))[task::2] for y in ("y_train", "y_test")]
        tasks.append([tiny[part][rows[i // 2]] for i, part in enumerate(PARTS)])
    np.savez(data / "wards.npz", **{f"{p}_{i}": a for i, t in enumerate(tasks) for p, a in zip(PARTS, t, strict=True)})
    return data / "wards.npz"


def test_a_sequence_runs_with_workers_is_repeated_by_its_spec_and_is_not_run_again(engram, wards):
    call = ("run", "sequence-wards/domain", "rehearsal", "--capacity", "12", *FLAGS)
    runs = engram(*call, "--seeds", "2", "--workers", "2")
    assert runs.status == 0, runs.err
    records = sorted(runs.records, key=lambda record: record["seed"])
    assert [len(row) for row in records[0]["accuracy"]] == [1, 2, 3]
    alone = engram(*call, "--seed", "1", "--out", "elsewhere").records
    assert alone[0]["accuracy"] == records[1]["accuracy"]
    Path("spec.json").write_text(json.dumps(records[0]["spec"]))
    again = engram("run", "--spec", "spec.json", "--out", "again", "--json").records
    assert (again[0]["key"], again[0]["accuracy"]) == (records[0]["key"], records[0]["accuracy"])
    assert engram(*call, "--seed", "0").records[0]["seconds"] == records[0]["seconds"]  # from the record


def test_a_sequence_by_path_and_as_a_folder(engram, wards, work):
    folder = work / "years"
    folder.mkdir()
    with np.load(wards) as stored:
        for task in range(3):
            np.savez(folder / f"{8 + task}.npz", **{part: stored[f"{part}_{task}"] for part in PARTS})
    keys = [
        engram("run", f"sequence-{name}/domain", "adam", *FLAGS).records[0]["key"] for name in ("wards", wards, "years")
    ]
    assert len(set(keys)) == 1


def test_describe_shows_the_evidence(engram, wards):
    found = engram("describe", "sequence-wards/domain", "--json").json
    assert [task["train"] for task in found["tasks"]] == [48, 48, 23]
    assert found["evidence"]["pairs"][1]["classes_only_in_first"] == [2, 3]
    assert len(found["evidence"]["drift"]["x"]) == 3
    shown = engram("describe", "sequence-wards/domain").out
    assert "Evidence" in shown
    assert "total variation" in shown


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("sequence-tiny/domain", "adam"), "tiny has no tasks; give a file with x_train_0"),
        (("split-tiny/class", "adam", "--ratio", "0.1"), "imbalance none and ratio 0.1 contradict each other"),
        (("repeating-split-tiny/class", "adam", "--length", "1"), "the 2 tasks that bring new classes come first"),
    ],
)
def test_mistakes_are_refused_in_words(engram, wards, call, words):
    answer = engram("run", *call)
    assert answer.status == 2
    assert words in " ".join(answer.err.split())


def test_repetition_and_long_tails_are_flags(engram, wards):
    call = ("run", "repeating-split-tiny/class", "adam", "--probabilities", "0.5", "--length", "3", *FLAGS)
    record = engram(*call, "--imbalance", "exp", "--ratio", "0.25", "--per-class", "16").records[0]
    assert len(record["accuracy"]) == 3
    scenario = record["spec"]["scenario"]
    assert (scenario["probabilities"], scenario["ratio"], scenario["per_class"]) == ([0.5], 0.25, 16)
    assert record["scenario"] == "repeating-split-tiny/class"


def test_figures_of_the_new_scenarios_are_drawn(engram, wards):
    for name in ("sequence-wards/domain", "repeating-split-tiny/class"):
        for figure in ("scenario", "drift"):
            answer = engram("figure", figure, name, "--out", f"{figure}.png")
            assert answer.status == 0, answer.err
            assert Path(f"{figure}.png").read_bytes().startswith(b"\x89PNG")


def test_scenarios_are_listed_with_a_line_each(engram, data):
    rows = {row["scenario"]: row["what"] for row in engram("ls", "scenarios", "--json").json}
    assert "come back" in rows["repeating-split-mnist"]
    assert "Tasks of your own" in rows["sequence-SET+SET"]
    assert all(rows.values())
