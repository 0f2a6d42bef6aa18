"""Faults at every step, in the manner of SQLite's tests: the n-th call of the disk fails, or the process dies there.

After each fault, going on completes the sweep with the same bits, and no record is lost or doubled. In CI every third
point is tried, another third with each kind of fault; `make faults` tries all of them.
"""

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pytest
from helpers import blobs
from sweep_helpers import bits

import engram as eg
from engram.core import durable
from engram.engines.driver import Ended, Job, run_jobs
from engram.learning.train import Checkpoint
from engram.runs.checkpoints import Checkpoints
from engram.runs.records import UnwritableError, read_records
from engram.runs.run import compute
from engram.runs.spec import Spec
from engram.runs.store import Store

CALLS = ("open", "write", "sync", "rename")
FAULTS = ("error", "half", "for good", "kill")
THIN = 1 if os.environ.get("ENGRAM_ALL_FAULTS") else 3
TRAINING = eg.Training(epochs=1, batch=16, lr=0.01)


class Faulty(durable.Disk):
    """The n-th of one kind of calls fails: with an error, after half of what is to be written, from there on for good,
    or because the process is killed."""

    def __init__(self, call: str, n: int, fault: str) -> None:
        self.call, self.n, self.fault = call, n, fault
        self.calls: Counter[str] = Counter()
        self.struck = False

    def strike(self, call: str, half: Callable[[], Any] = lambda: None) -> None:
        self.calls[call] += 1
        reached = self.calls[call] > self.n if self.fault == "for good" else self.calls[call] == self.n + 1
        if call == self.call and reached:
            self.struck = True
            if self.fault in ("half", "kill"):
                half()
            if self.fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(5, "Input/output error")

    def open(self, path: Path, flags: int) -> int:
        self.strike("open")
        return super().open(path, flags)

    def write(self, file: int, content: memoryview) -> int:
        self.strike("write", lambda: super(Faulty, self).write(file, content[: len(content) // 2]))
        return super().write(file, content)

    def sync(self, file: int) -> None:
        self.strike("sync")
        super().sync(file)

    def rename(self, old: Path, new: Path) -> None:
        self.strike("rename")
        super().rename(old, new)


class Here:
    """An engine that computes in this process, one run after the other."""

    def open(self, runs: int, say: Any) -> int:
        self.jobs: list[tuple[Job, Checkpoints]] = []
        return 1

    def submit(self, job: Job, checkpoints: Checkpoints) -> None:
        self.jobs.append((job, checkpoints))

    def wait(self, report: Callable[[Any], None]) -> None:
        job, checkpoints = self.jobs.pop()
        report(Ended(job, compute(job.spec, save=checkpoints.save, resume=checkpoints.latest(), say=lambda _: None)))

    def drop(self) -> None: ...

    def close(self) -> None: ...


IMAGES = blobs(4, train=8, test=2, size=3)
JOBS = [Job(Spec(eg.split(IMAGES, kind="class"), eg.Adam(), eg.MLP(3), TRAINING, seed=seed)) for seed in range(2)]


def run_all(out: Path) -> None:
    list(run_jobs(JOBS, out, engine=Here(), say=lambda _: None))


def run_with(disk: durable.Disk, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(durable, "DISK", disk)
        run_all(out)


def die_with(disk: Faulty, out: Path) -> bool:
    """Runs in a process of its own; whether that was killed."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            durable.DISK = disk
            run_all(out)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return status != 0


@pytest.fixture(scope="module")
def expected() -> list[dict[str, Any]]:
    return [bits(compute(job.spec)) for job in JOBS]


@pytest.fixture(scope="module", params=["from nothing", "going on"])
def beginning(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder, or one in which the first run is recorded and the second has a checkpoint."""
    folder = tmp_path_factory.mktemp("beginning")
    if request.param == "going on":
        list(run_jobs(JOBS[:1], folder, engine=Here()))
        kept: list[Checkpoint] = []
        compute(JOBS[1].spec, save=kept.append)
        Checkpoints(Store(folder).checkpoints(JOBS[1].key)).save(kept[0])
    return folder


def check(out: Path, expected: list[dict[str, Any]]) -> None:
    """All is recorded once, with these bits, and nothing else is left."""
    found = sorted(read_records(out, say=lambda _: None), key=lambda record: record.seed)
    assert [bits(record) for record in found] == expected
    assert [path.name for path in out.rglob("*") if path.is_file()] == ["records.jsonl"]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("call", CALLS)
def test_after_a_fault_at_any_point_going_on_gives_the_same(
    call: str, fault: str, beginning: Path, expected: list[dict[str, Any]], tmp_path: Path, monkeypatch
) -> None:
    counted = Faulty("none", 0, "error")
    copytree(beginning, tmp_path / "counted")
    run_with(counted, tmp_path / "counted", monkeypatch)
    points = counted.calls[call]
    outcomes: Counter[str] = Counter()
    for n in range(FAULTS.index(fault) % THIN, points, THIN):
        out = tmp_path / "out"
        copytree(beginning, out)
        disk = Faulty(call, n, fault)
        if fault == "kill":
            assert die_with(disk, out)
            outcomes["killed"] += 1
        else:
            try:
                run_with(disk, out, monkeypatch)
                outcomes["went on"] += 1
            except UnwritableError:
                outcomes["stopped with a word"] += 1
            assert disk.struck
        run_all(out)
        check(out, expected)
        rmtree(out)
    print(f"{call}, {fault}: {points} points, {dict(outcomes)}")
    assert points
