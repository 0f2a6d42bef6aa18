"""Runs that are killed or stopped, as real processes: the next call goes on, and ends with the same bits."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import Answer, arrays, same_but_for_time, wait_for

Engram = Callable[..., Answer]
Start = Callable[..., subprocess.Popen[str]]


def resumed(engram: Engram, call: list[str]) -> dict[str, object]:
    """The record of the call made again after an interruption, checked against one that was not disturbed."""
    (again,) = engram(*call, "--out", "disturbed").records
    (plain,) = engram(*call, "--out", "undisturbed").records
    assert plain["environment"]["resumed_after_task"] == 0
    assert again["accuracy"] == plain["accuracy"]
    assert same_but_for_time([again]) == same_but_for_time([plain])
    assert list(Path("disturbed/checkpoints").glob("*/*")) == []
    return again


@pytest.mark.mnist
@pytest.mark.slow
def test_a_run_killed_after_task_3_goes_on_from_there(engram: Engram, start: Start, work: Path, mnist: None) -> None:
    call = ["run", "split-mnist/class", "adam", "--epochs", "1", "--hidden", "100", "--json"]
    process = start(*call, "--out", "disturbed")
    checkpoint = wait_for(work, "disturbed/checkpoints/*/task-3.pt", process)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not Path("disturbed/records.jsonl").exists()
    again = resumed(engram, call)
    assert again["environment"]["resumed_after_task"] == 3
    assert again["key"] == checkpoint.parent.name


@pytest.fixture
def bigger(data: Path) -> Path:
    """ENGRAM_DATA with `bigger`: ten classes, enough images that a pass takes a while."""
    np.savez(data / "bigger.npz", **arrays(10, train=600, test=20, size=16))
    return data


def test_an_offline_run_killed_after_a_pass_goes_on_from_there(
    engram: Engram, start: Start, work: Path, bigger: Path
) -> None:
    call = ["run", "split-bigger/class", "offline", "--epochs", "3", "--batch", "64", "--json"]
    process = start(*call, "--out", "disturbed")
    wait_for(work, "disturbed/checkpoints/*/task-0-epoch-1.pt", process)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not Path("disturbed/records.jsonl").exists()
    (left,) = Path("disturbed/checkpoints").glob("*/*.pt")
    assert left.stem in ("task-0-epoch-1", "task-0-epoch-2")
    again = resumed(engram, call)
    assert len(again["accuracy"]) == 1
    assert len(again["accuracy"][0]) == 5


def test_ctrl_c_ends_with_130_and_one_line_and_the_next_call_goes_on(
    engram: Engram, start: Start, work: Path, bigger: Path
) -> None:
    call = ["run", "split-bigger/domain", "adagrad", "--batch", "32", "--epochs", "1"]
    process = start(*call, "--out", "disturbed")
    wait_for(work, "disturbed/checkpoints/*/task-1.pt", process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert "Traceback" not in err
    assert "stopped; the same command continues where it stopped" in err.splitlines()[-1]
    assert len([line for line in err.splitlines() if "stopped" in line]) == 1
    again = resumed(engram, [*call, "--json"])
    assert again["environment"]["resumed_after_task"] >= 1


def test_ctrl_c_in_a_sweep_keeps_the_seeds_that_are_done(
    engram: Engram, start: Start, work: Path, bigger: Path
) -> None:
    """A terminal sends it to the workers too."""
    call = ["run", "split-bigger/class", "adam", "--epochs", "1", "--hidden", "50", "--json", "--workers", "2"]
    process = start(*call, "--seeds", "40", "--out", "disturbed")
    wait_for(work, "disturbed/records.jsonl", process)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)  # which ends when all that could write there have ended
    assert process.returncode == 130, err
    assert "Traceback" not in err
    done = Path("disturbed/records.jsonl").read_text()
    assert done.startswith(out)  # what was printed is what is recorded, but perhaps for the last
    assert 1 <= len(done.splitlines()) < 40
    *_, how_many, last = filter(None, err.splitlines())
    assert how_many == f"{len(done.splitlines())} of 40 runs are recorded in disturbed"
    assert last == "engram: stopped; the same command continues where it stopped"
    again = engram(*call, "--seed", str(json.loads(done.splitlines()[0])["seed"]), "--out", "disturbed")
    assert again.out == done.splitlines(keepends=True)[0]


def test_a_disk_that_takes_no_more_ends_the_sweep_in_words(engram: Engram, work: Path, data: Path) -> None:
    call = ["run", "split-tiny/class", "adam", "--epochs", "1", "--hidden", "20", "--out", "disturbed"]
    assert engram(*call, "--seed", "0").status == 0
    path = Path("disturbed/records.jsonl")
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, hard))
    try:
        answer = engram(*call, "--seeds", "2")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert answer.status == 1
    assert answer.out == ""
    assert "1 of 2 runs are recorded in disturbed" in answer.err
    last = answer.err.splitlines()[-1]
    place = Path("disturbed").resolve() / "records"
    assert last.startswith(f"engram: the record of split-tiny/class adam, seed 1, cannot be written to {place}")
    assert "the same command continues from there" in last
    assert path.read_bytes() == before
    assert engram(*call, "--seeds", "2").status == 0
    assert len(path.read_text().splitlines()) == 2


def test_a_sweep_goes_on_when_nobody_reads_its_records_any_more(start: Start, work: Path, data: Path) -> None:
    process = start("run", "split-tiny/class", "adam", "--epochs", "1", "--seeds", "3", "--workers", "1", "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    assert process.wait(60) == 0, said
    assert said.count("nobody reads standard output any more; the runs continue, and their records are in runs") == 1
    assert len(Path("runs/records.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize("where", ["/dev/full", None])
def test_standard_output_that_takes_nothing_is_said_in_words(work: Path, where: str | None) -> None:
    """A full disk; and a stream that was closed before the command began, which is nobody's fault."""
    call = f"{sys.executable} -c 'from engram.cli import main; main()' ls tables"
    command = f"{call} > {where}" if where else f"{call} >&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == (1 if where else 0)
    assert done.stderr == (
        "engram: nothing more can be written: No space left on device; finished records are kept\n" if where else ""
    )
