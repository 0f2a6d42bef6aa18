"""What the engines cost: 200 runs of two steps each, locally and on Ray on this machine.

    python benchmarks/engines.py [RUNS] [WORKERS]

Seconds and the driver's processor time per run, the driver's memory, and records per second. A driver that spends D
seconds on a run is busy all the time with T / D workers if their runs take T seconds.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

import engram as eg
from engram.engines.driver import Job, run_jobs
from engram.engines.local import Local
from engram.engines.ray import OnRay
from engram.learning.evaluate import Evaluation
from engram.learning.learner import Training
from engram.runs.spec import Spec

LENGTHS = (10, 60, 600)
"""Seconds of a run, for the number of workers that keep a driver busy."""


def tiny_spec() -> Spec:
    """A run that computes next to nothing: two tasks, a step each, eight hidden units."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (80, 4, 4), np.uint8), np.arange(80) % 4
    scenario = eg.split(eg.Images(x, y, x[:40], y[:40]), kind="class")
    return Spec(scenario, eg.Adam(), eg.MLP(8), Training(steps=1, batch=16), Evaluation(), seed=0)


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def make_engine(name: str, workers: int) -> Local | OnRay:
    return Local(workers) if name == "local" else OnRay(workers=workers)


def measure(name: str, runs: int, workers: int) -> None:
    spec = tiny_spec()
    with closing(make_engine(name, workers)) as engine, tempfile.TemporaryDirectory() as out:
        warm = [Job(replace(spec, seed=seed)) for seed in range(10_000, 10_000 + 2 * workers)]
        list(run_jobs(warm, Path(out) / "warm", engine=engine, say=lambda _: None))  # workers are there
        jobs = [Job(replace(spec, seed=seed)) for seed in range(runs)]
        memory, used, start = resident_mb(), time.process_time(), time.perf_counter()
        done = list(run_jobs(jobs, Path(out) / "runs", engine=engine, say=lambda _: None))
        seconds, used = time.perf_counter() - start, time.process_time() - used
        memory_after = resident_mb()
    assert all(record.status == "done" for _, record in done)
    limits = ", ".join(f"{length / (used / runs):,.0f} (runs of {length} s)" for length in LENGTHS)
    print(
        f"{name}: {runs} runs with {workers} workers in {seconds:.1f} s, {runs / seconds:.0f} records per second\n"
        f"  driver: {1000 * used / runs:.1f} ms of processor time per run; memory {memory:.0f} MB before, "
        f"{memory_after:.0f} MB after\n"
        f"  its processor is busy all the time with so many workers: {limits}",
        flush=True,
    )


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    workers = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
    for name in ("local", "ray"):
        measure(name, runs, workers)


if __name__ == "__main__":
    main()
