"""The driver: it gives runs to an engine and records the results."""

from __future__ import annotations

import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from engram.core.messages import Say, tell
from engram.learning.train import Checkpoint, Progress
from engram.runs.checkpoints import Checkpoints
from engram.runs.records import Record
from engram.runs.run import compute, failed_record
from engram.runs.spec import Spec
from engram.runs.store import RECORDS, RunLock, Store


class EngineError(RuntimeError):
    """The engine cannot run anything. Existing records are kept."""


@dataclass(frozen=True, eq=False)
class Job:
    """A run to compute, and its role in a search."""

    spec: Spec
    search: dict[str, Any] | None = None
    """Written to the record; see `Record.search`."""

    @cached_property
    def key(self) -> str:
        return self.spec.key

    def __str__(self) -> str:
        return str(self.spec)


@dataclass(frozen=True)
class At:
    """Where a run is computed and its progress; None if it has just started."""

    job: Job
    where: str
    progress: Progress | None = None


@dataclass(frozen=True)
class Ended:
    """A run has ended with a record, or without one because its process died."""

    job: Job
    record: Record | None
    why: str = ""
    retries: int = 1
    """How often a run that ended like this is tried again."""


Report = Callable[[At | Ended], None]


class Engine(Protocol):
    """Computes runs and returns their records; only the driver writes them. Several sweeps may share an engine."""

    def open(self, runs: int, say: Say) -> int:
        """Prepare for this many runs, and return how many can run at a time."""

    def submit(self, job: Job, checkpoints: Checkpoints) -> None:
        """Accept a run; it resumes from its latest checkpoint."""

    def wait(self, report: Report) -> None:
        """Wait until something happens, and report it."""

    def drop(self) -> None:
        """Stop all running runs at once."""

    def close(self) -> None:
        """Stop everything and free all resources."""


def compute_safely(
    spec: Spec,
    save: Callable[[Checkpoint], None],
    resume: Checkpoint | None,
    watch: Callable[[Progress], None],
    say: Say,
) -> Record:
    """Compute a run and return its record; an error inside the run gives a record with status `failed`."""
    try:
        return compute(spec, save=save, resume=resume, watch=watch, say=say)
    except (Exception, SystemExit):
        return failed_record(spec, traceback.format_exc())


def run_jobs(
    jobs: Sequence[Job],
    out: Path,
    *,
    file: str = RECORDS,
    engine: Engine | None = None,
    watch: Callable[[At], None] = lambda _: None,
    say: Say = tell,
) -> Iterator[tuple[Job, Record]]:
    """Run the jobs and yield each with its record when it ends; jobs that already have a record come first.

    If the process of a run dies, the run is tried once more, from its latest checkpoint. Several drivers may share the
    folder `out`: each run is computed by one of them.
    """
    store = Store(out.absolute(), say)  # a hook of a run may change the directory
    known, waiting = store.finished(), deque[Job]()
    store.remove_orphans()
    for job in jobs:
        if record := known.get(job.key):
            yield job, record
        else:
            waiting.append(job)
    if waiting:
        from engram.engines.local import Local

        used = engine or Local(threads=max(job.spec.threads for job in waiting))
        try:
            yield from Driver(store, used, file, watch, say).drive(waiting)
        finally:
            used.drop()
            if engine is None:
                used.close()


class Driver:
    """Gives runs to an engine and writes their records: the only writer of a sweep."""

    def __init__(self, store: Store, engine: Engine, file: str, watch: Callable[[At], None], say: Say) -> None:
        self.store, self.engine, self.file, self.watch, self.say = store, engine, file, watch, say
        self.running: dict[Job, RunLock] = {}
        self.deaths: Counter[Job] = Counter()
        self.ended: deque[Ended] = deque()

    def drive(self, waiting: deque[Job]) -> Iterator[tuple[Job, Record]]:
        slots = self.engine.open(len(waiting), self.say)
        try:
            while waiting or self.running:
                yield from self.fill(waiting, slots)
                if self.running:
                    self.engine.wait(self.handle)
                elif waiting:
                    self.wait_for_others(waiting[0])
                while self.ended:
                    yield from self.conclude(self.ended.popleft())
        finally:
            for lock in self.running.values():
                lock.release()

    def fill(self, waiting: deque[Job], slots: int) -> Iterator[tuple[Job, Record]]:
        """Submit as many runs as the engine has room for; runs that another process computes are postponed."""
        for _ in range(len(waiting)):
            if len(self.running) >= slots:
                return
            job = waiting.popleft()
            lock = self.store.lock_run(job.key)
            if lock is None:
                waiting.append(job)
            elif record := self.store.finished().get(job.key):  # another process was faster
                lock.release()
                yield job, record
            else:
                self.running[job] = lock
                self.submit(job)

    def submit(self, job: Job) -> None:
        self.engine.submit(job, Checkpoints(self.store.checkpoints(job.key), self.say))

    def handle(self, event: At | Ended) -> None:
        if isinstance(event, At):
            self.watch(event)
        else:
            self.ended.append(event)

    def wait_for_others(self, job: Job) -> None:
        self.say(f"{job}: another process is running it; waiting for its record")
        lock = self.store.lock_run(job.key, wait=True)
        assert lock is not None
        lock.release()

    def conclude(self, end: Ended) -> Iterator[tuple[Job, Record]]:
        """Write the record of a run that ended; if there is none, try the run again."""
        job = end.job
        if end.record is None and self.deaths[job] < end.retries:
            self.deaths[job] += 1
            self.say(f"{job}: {end.why.splitlines()[0]}; trying again")
            self.submit(job)
            return
        record = end.record or failed_record(job.spec, end.why)
        if record.key != job.key:
            record = failed_record(job.spec, "the worker ran another version of engram or of the method")
        record.search = job.search or {}
        if record.left is not None:
            record.left.use(job.spec)
        self.store.add(record, self.file)
        self.running.pop(job).release()
        yield job, record


def throttle_progress(report: Callable[[Progress], None], seconds: float) -> Callable[[Progress], None]:
    """Report the end of each task, and otherwise at most once per `seconds`."""
    last = 0.0

    def watch(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if progress.accuracy or now - last >= seconds:
            last = now
            report(replace(progress, learner=None))  # which stays in its process

    return watch
