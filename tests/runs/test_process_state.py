"""`eg.run` leaves the caller's process as it found it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers import blobs

import engram as eg
from engram.runs.run import flushes_denormals, machine

CODE = """
import torch
torch.set_num_threads(2)
tiny = torch.tensor([1e-39])
state = torch.get_rng_state()
import engram as eg
from engram.runs import run
from helpers import blobs
seen = []
watch = lambda progress: seen.append((torch.get_num_threads(), float(tiny * 1.0)))
eg.run(eg.split(blobs(4)), eg.DGR(), net=eg.MLP(8, 8), training=eg.Training(epochs=1), watch=watch)
assert set(seen) == {(1, 0.0)}, seen
assert torch.get_num_threads() == 2
assert float(tiny * 1.0) > 0, "denormals"
assert torch.equal(torch.get_rng_state(), state)
assert run.keep_freed_memory.cache_info().currsize == 0, "malloc"
"""


def test_threads_denormals_generators_and_malloc_are_as_before():
    path = ":".join(p for p in sys.path if p)
    done = subprocess.run([sys.executable, "-c", CODE], env={"PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("flush", [True, False])
def test_a_run_that_fails_restores_it_too(flush):
    class Breaks(eg.Method):
        def end_task(self, learner, task):
            raise RuntimeError("in the middle")

    torch.set_flush_denormal(flush)
    try:
        with pytest.raises(RuntimeError, match="in the middle"):
            eg.run(eg.split(blobs(4)), Breaks(), net=eg.MLP(8), training=eg.Training(epochs=1), threads=2)
        assert torch.get_num_threads() == 1
        assert flushes_denormals() == flush
    finally:
        torch.set_flush_denormal(True)


def test_a_hook_that_changes_the_directory_moves_nothing(tmp_path, monkeypatch):
    """A relative folder for records is where it was, and so is the caller."""
    monkeypatch.chdir(tmp_path)
    away = tmp_path / "away"
    away.mkdir()

    class Wanderer(eg.Adam):
        def begin_task(self, learner, task):
            os.chdir(away)

    eg.run(eg.split(blobs(4)), Wanderer(), net=eg.MLP(8), training=eg.Training(epochs=1), out="runs")
    assert Path.cwd() == tmp_path
    assert sorted(path.name for path in tmp_path.rglob("*.jsonl")) == ["records.jsonl"]
    assert (tmp_path / "runs/records.jsonl").is_file()
    assert not list(away.iterdir())


def test_variables_that_change_bits_are_recorded(monkeypatch):
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    assert machine.__wrapped__()["variables"] == {"MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "avx2"}
    monkeypatch.delenv("MKL_CBWR")
    monkeypatch.delenv("ATEN_CPU_CAPABILITY")
    assert "variables" not in machine.__wrapped__()
