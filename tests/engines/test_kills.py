"""Killed drivers, full disks, two drivers at once: finished records are kept, and resuming gives the same results."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import IO

import pytest
from sweep_helpers import Sweep, ended, until

from engram.engines.driver import run_jobs
from engram.runs import records
from engram.runs.store import Store

DRIVER = """
import sys
from contextlib import closing
from pathlib import Path
from sweep_helpers import Sweep, load_held
from engram.engines.driver import run_jobs
from engram.engines.local import Local

folder, out, seeds = sys.argv[1:4]
load_held()
sweep = Sweep(Path(folder), Path(out))
with closing(Local(1)) as engine:
    for _, record in run_jobs(sweep.jobs(int(seeds)), sweep.out, engine=engine):
        print("recorded", record.seed, record.reused, flush=True)
"""
"""A sweep of so many seeds with one worker; a script that does not ask whether it is the main module."""

TORN = """
import os, signal
from engram.core import durable

class Torn(durable.Disk):
    "Is killed when it has written half of the second record."
    records = 0

    def write(self, file, content):
        if bytes(content[:2]) == b'{"':
            self.records += 1
            if self.records == 2:
                os.write(file, bytes(content)[: len(content) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
        return super().write(file, content)

durable.DISK = Torn()
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(sweep: Sweep) -> Iterator[Start]:
    """Starts a driver in a process of its own, which does not outlive the test."""
    started: list[subprocess.Popen[str]] = []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "error"}

    def call(seeds: int, before: str = "") -> subprocess.Popen[str]:
        script = sweep.folder / "driver.py"
        script.write_text(before + DRIVER)
        command = [sys.executable, script, sweep.folder, sweep.out, str(seeds)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(command, env=environment, **pipes))
        return started[-1]

    yield call
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def line_with(stream: IO[str], words: str) -> str:
    """The next line that has these words."""
    for line in stream:
        if words in line:
            return line
    raise AssertionError(f"it ended without {words!r}")


def test_a_driver_that_is_killed_in_mid_run_loses_nothing_that_was_recorded(sweep: Sweep, start: Start) -> None:
    sweep.tell("hold", 1)
    driver = start(3)
    line_with(driver.stdout, "recorded 0")
    worker = sweep.pid_at(1)
    driver.kill()
    assert driver.wait() == -signal.SIGKILL
    until(lambda: ended(worker))  # although it is held, and nobody told it
    assert [record.seed for record in sweep.found()] == [0]
    (sweep.folder / "hold-1").unlink()

    again = {job.spec.seed: record for job, record in run_jobs(sweep.jobs(3), sweep.out)}
    assert [again[seed].reused for seed in range(3)] == [True, False, False]
    assert again[1].environment["resumed_after_task"] == 1
    sweep.check(3)


def test_a_driver_that_is_killed_in_mid_write_leaves_half_a_line_that_does_no_harm(sweep: Sweep, start: Start) -> None:
    driver = start(2, TORN)
    out, err = driver.communicate(timeout=280)
    assert driver.returncode == -signal.SIGKILL, err
    assert out == "recorded 0 False\n"
    path = sweep.out / "records.jsonl"
    first, torn = path.read_text().splitlines(keepends=True)
    assert first.endswith("\n")
    assert len(torn) > 500
    assert not torn.endswith("\n")

    said: list[str] = []
    done = {job.spec.seed: record for job, record in run_jobs(sweep.jobs(2), sweep.out, say=said.append)}
    assert said == [f"{path}, line 2: not a whole record, skipped"]
    assert [done[seed].reused for seed in range(2)] == [True, False]
    assert done[1].environment["resumed_after_task"] == 3  # all had been computed, and checkpointed
    assert path.read_text().startswith(first + torn + "\n")
    path.write_text(path.read_text().replace(torn + "\n", ""))
    sweep.check(2)


def test_two_drivers_share_the_runs_of_a_folder(sweep: Sweep, start: Start) -> None:
    """The first has run 0, which is held; the second makes the others and waits for the record of that one."""
    hold = sweep.tell("hold", 0)
    first = start(3)
    sweep.pid_at(0)
    second = start(3)
    assert "seed 0: another process is running it; waiting" in line_with(second.stderr, "waiting")
    assert sorted(record.seed for record in sweep.found()) == [1, 2]
    hold.unlink()
    told = [driver.communicate(timeout=280) for driver in (first, second)]
    assert [driver.returncode for driver in (first, second)] == [0, 0], told
    assert sorted(told[0][0].splitlines()) == ["recorded 0 False", "recorded 1 True", "recorded 2 True"]
    assert sorted(told[1][0].splitlines()) == ["recorded 0 True", "recorded 1 False", "recorded 2 False"]
    sweep.check(3)


def test_who_waits_for_a_driver_that_is_killed_takes_its_run_over(sweep: Sweep, start: Start) -> None:
    hold = sweep.tell("hold", 0)
    first = start(1)
    pid = sweep.pid_at(0)
    assert pid == first.pid  # a single run needs no worker
    store = Store(sweep.out)
    assert store.lock_run(sweep.job(0).key) is None
    second = start(1)
    line_with(second.stderr, "waiting")
    hold.unlink()
    first.kill()
    out, err = second.communicate(timeout=280)
    assert second.returncode == 0, err
    assert out in ("recorded 0 False\n", "recorded 0 True\n")  # the first may just have made it
    sweep.check(1)


def endless(file: IO[bytes]) -> None:
    while True:
        file.write(bytes(4096))


@pytest.fixture
def small_disk(sweep: Sweep) -> Iterator[Callable[[], None]]:
    """A file system of 256 kB as the sweep's folder; calling this leaves no room on it."""
    sweep.out.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "engram-test", sweep.out], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted: {mounted.stderr.decode().strip()}")

    def fill() -> None:
        with (sweep.out / "filler").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            endless(file)

    yield fill
    subprocess.run(["umount", sweep.out], check=True)


def test_a_full_disk_is_said_and_going_on_later_loses_nothing(sweep: Sweep, small_disk: Callable[[], None]) -> None:
    """What is left of the page that the file of records ends in may take one record more, or two."""
    list(run_jobs([sweep.job(0)], sweep.out))
    small_disk()
    said: list[str] = []
    with pytest.raises(records.UnwritableError) as stopped:
        one_by_one(sweep, 4, said)
    done = len(sweep.found())
    assert 1 <= done <= 3
    assert str(stopped.value) == (
        f"the record of split-own/class held, seed {done}, cannot be written to {sweep.out / 'records.jsonl'}: "
        "No space left on device. What was recorded before is kept; "
        "once this is solved, the same command continues from there"
    )
    assert len(said) == done  # once a run, though each has three checkpoints
    assert all("task-1.pt cannot be written: No space left on device; the run continues" in text for text in said)
    assert (sweep.out / "records.jsonl").read_text().count("\n") == done  # not half a line more
    (sweep.out / "filler").unlink()
    one_by_one(sweep, 4, said)
    sweep.check(4)


def one_by_one(sweep: Sweep, seeds: int, said: list[str]) -> None:
    """In this process, which a single run needs no worker for."""
    for seed in range(seeds):
        list(run_jobs([sweep.job(seed)], sweep.out, say=said.append))


def test_a_file_that_may_not_grow_is_said_too(sweep: Sweep) -> None:
    """As above, without mounting: the limit allows a third of the second record."""
    list(run_jobs([sweep.job(0)], sweep.out))
    path = sweep.out / "records.jsonl"
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    said: list[str] = []
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) * 4 // 3, hard))
    try:
        with pytest.raises(records.UnwritableError, match=r"seed 1, cannot be written to .*: File too large"):
            list(run_jobs(sweep.jobs(2), sweep.out, say=said.append))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    list(run_jobs(sweep.jobs(2), sweep.out))
    sweep.check(2)
