"""Streams by name on the command line: `ls`, `describe`, `run --dry-run`; a run that is killed within a stream."""

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sweep_helpers import until

from engram.runs.store import kept_path

SIDE, TRAIN, TEST = 8, 36, 6
"""36 is the least that mnist-360 takes."""
NAMES = ("rotated-mnist", "blurry-split-mnist", "online-split-cifar10", "repeating-split-mnist", "mnist-360")


def ten_classes(classes: int = 10) -> dict[str, Any]:
    """Each class is bright in a place of its own, and noisy."""
    rng, found = np.random.default_rng(0), {}
    for part, each in (("train", TRAIN), ("test", TEST)):
        y = np.tile(np.arange(classes), each)
        x = rng.integers(0, 60, (len(y), SIDE, SIDE))
        x[np.arange(len(y)), y % SIDE, y // SIDE + 2] += 180
        found |= {f"x_{part}": x.astype(np.uint8), f"y_{part}": y}
    return found


@pytest.fixture
def ten(data: Path, work: Path) -> Path:
    np.savez(data / "ten.npz", **ten_classes())
    return work


def test_the_streams_are_listed_with_a_line_each(engram):
    rows = {row["scenario"]: row for row in engram("ls", "scenarios", "--json").json}
    assert rows.keys() >= {*NAMES, "blurry-repeating-split-SET", "blurry-sequence-SET+SET"}
    assert "blurry-mnist-360-SET" not in rows
    assert all(row["what"] for row in rows.values())
    assert "not told where one ends" in rows["blurry-split-mnist"]["what"]
    assert "batches of 10" in rows["online-split-cifar10"]["what"]


@pytest.mark.parametrize(
    ("scenario", "flags", "kind", "tasks", "told"),
    [
        ("rotated-ten/domain", ["--rotations", "3"], "domain", 3, True),
        ("blurry-split-ten/class", [], "class", 5, False),
        ("online-split-ten/class", [], "class", 5, True),
        ("repeating-split-ten/class", ["--length", "6"], "class", 6, True),
        ("blurry-repeating-split-ten/class", ["--length", "6"], "class", 6, False),
        ("mnist-360-ten", [], "class", 1, False),
    ],
)
def test_describe_reads_the_kind_of_streams(engram, ten, scenario, flags, kind, tasks, told):
    answer = engram("describe", scenario, *flags, "--json")
    assert answer.status == 0, answer.err
    found = answer.json
    assert (found["kind"], len(found["tasks"]), found["told_boundaries"]) == (kind, tasks, told)


def test_describe_says_one_task_and_cuts_a_stream_of_one_task_into_stretches(engram, ten):
    shown = " ".join(engram("describe", "mnist-360-ten").out.split())
    assert "mnist-360-ten: 1 task " in shown
    assert "pairs of consecutive stretches of the stream" in shown
    assert "without boundaries" in shown


@pytest.mark.parametrize(
    ("scenario", "flags", "steps"),
    [
        ("rotated-ten/domain", ["--rotations", "3", "--epochs", "1", "--batch", "20"], 54),
        ("blurry-split-ten/class", ["--epochs", "1", "--batch", "20"], 18),
        ("online-split-ten/class", [], 40),
        ("repeating-split-ten/class", ["--order", "cyclic", "--epochs", "1", "--batch", "24"], 30),
        ("mnist-360-ten", ["--batch", "16"], None),
        ("mnist-360-ten", ["--batch", "4"], None),
    ],
)
def test_a_dry_run_of_a_stream_counts_the_steps_that_the_run_takes(engram, ten, scenario, flags, steps):
    call = ("run", scenario, "adam", "--hidden", "8", *flags)
    found = engram(*call, "--dry-run", "--json").json
    assert found["seconds"] == pytest.approx(found["steps"] * found["step_ms"] / 1000)
    assert steps in (None, found["steps"])
    assert list(ten.iterdir()) == []
    (record,) = engram(*call, "--json").records
    assert (record["steps"], record["key"]) == (found["steps"], found["key"])


def test_a_run_that_is_killed_within_a_stream_goes_on_with_the_same_bits(engram, start, ten):
    """Two tasks of 1,080 steps each; a real SIGKILL after the checkpoint of step 2,000, which ends no task."""
    flags = ("--classes-per-task", "5", "--epochs", "12", "--batch", "2", "--hidden", "4", "--width", "0.3")
    call = ("run", "blurry-split-ten/class", "er", "--capacity", "10", "--replay", "2", *flags, "--keep", "net")
    process = start(*call, "--out", "killed")
    until(lambda: process.poll() is not None or list((ten / "killed").rglob("task-1-step-2000.pt")))
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, process.communicate()[1]
    assert not (ten / "killed" / "records.jsonl").exists()
    (again,) = engram(*call, "--out", "killed", "--json").records
    (whole,) = engram(*call, "--out", "whole", "--json").records
    assert again["environment"]["resumed_after_step"] == 2000
    assert again["environment"]["told_boundaries"] == whole["environment"]["told_boundaries"] == "no"
    assert (again["accuracy"], again["losses"], again["key"]) == (whole["accuracy"], whole["losses"], whole["key"])
    nets = [torch.load(kept_path(ten / folder, whole["key"]), weights_only=True) for folder in ("killed", "whole")]
    assert str(nets[0]) == str(nets[1])
