"""Engines: many runs, computed here or elsewhere, and one driver that records them."""

from __future__ import annotations

import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from engram.learning.train import Checkpoint, Progress
from engram.runs.checkpoints import Checkpoints
from engram.runs.records import Record
from engram.runs.run import compute, failed
from engram.runs.spec import Spec
from engram.runs.store import RECORDS, Claim, Say, Store, tell


class EngineError(RuntimeError):
    """Nothing can be run there. What is recorded is kept."""


@dataclass(frozen=True, eq=False)
class Job:
    """A run, the preset that it is, and its part in a search."""

    spec: Spec
    preset: str | None = None
    search: dict[str, Any] | None = None
    """What the record says of it; see `Record.search`."""

    @cached_property
    def key(self) -> str:
        return self.spec.key

    def __str__(self) -> str:
        return str(self.spec)


@dataclass(frozen=True)
class At:
    """Where a run is, and how far; without progress where it has just started."""

    job: Job
    where: str
    progress: Progress | None = None


@dataclass(frozen=True)
class Ended:
    """A run has its record, or whatever computed it died."""

    job: Job
    record: Record | None
    why: str = ""
    retries: int = 1
    """How often a run is tried again that ended like this."""


Report = Callable[[At | Ended], None]


class Engine(Protocol):
    """Computes runs and hands their records over; the driver alone writes those. One engine may serve many sweeps."""

    def open(self, runs: int, say: Say) -> int:
        """Gets ready for so many runs, and tells how many it takes at a time."""

    def submit(self, job: Job, checkpoints: Checkpoints) -> None:
        """Takes a run, which goes on from its latest checkpoint."""

    def wait(self, report: Report) -> None:
        """Returns when something has happened, and has reported it."""

    def drop(self) -> None:
        """Ends at once whatever is still running."""

    def close(self) -> None:
        """Ends everything."""


def attempt(
    spec: Spec,
    save: Callable[[Checkpoint], None],
    resume: Checkpoint | None,
    watch: Callable[[Progress], None],
    say: Say,
) -> Record:
    """The record of a run; what goes wrong inside the run becomes one with status `failed`."""
    try:
        return compute(spec, save=save, resume=resume, watch=watch, say=say)
    except (Exception, SystemExit):
        return failed(spec, traceback.format_exc())


def run_jobs(
    jobs: Sequence[Job],
    out: Path,
    *,
    file: str = RECORDS,
    engine: Engine | None = None,
    watch: Callable[[At], None] = lambda _: None,
    say: Say = tell,
) -> Iterator[tuple[Job, Record]]:
    """Runs the jobs and gives each with its record as it ends; what is recorded already comes first.

    A run whose worker died is tried once more, from its latest checkpoint. Several drivers may share the folder `out`:
    each run is computed by one of them.
    """
    store = Store(out, say)
    known, waiting = store.finished(), deque[Job]()
    for job in jobs:
        if record := known.get(job.key):
            if job.preset and not record.preset:  # made from Python, which knows nothing of published settings
                record = replace(record, preset=job.preset)
                store.add(record, file)
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
    """Feeds an engine and writes down what comes back: the one writer of a sweep."""

    def __init__(self, store: Store, engine: Engine, file: str, watch: Callable[[At], None], say: Say) -> None:
        self.store, self.engine, self.file, self.watch, self.say = store, engine, file, watch, say
        self.running: dict[Job, Claim] = {}
        self.deaths: Counter[Job] = Counter()
        self.ended: deque[Ended] = deque()

    def drive(self, waiting: deque[Job]) -> Iterator[tuple[Job, Record]]:
        slots = self.engine.open(len(waiting), self.say)
        try:
            while waiting or self.running:
                yield from self.fill(waiting, slots)
                if self.running:
                    self.engine.wait(self.hear)
                elif waiting:
                    self.wait_for_others(waiting[0])
                while self.ended:
                    yield from self.conclude(self.ended.popleft())
        finally:
            for claim in self.running.values():
                claim.release()

    def fill(self, waiting: deque[Job], slots: int) -> Iterator[tuple[Job, Record]]:
        """Gives the engine what it has room for; what another process runs now is put off."""
        for _ in range(len(waiting)):
            if len(self.running) >= slots:
                return
            job = waiting.popleft()
            claim = self.store.claim(job.key)
            if claim is None:
                waiting.append(job)
            elif record := self.store.finished().get(job.key):  # another process was faster
                claim.release()
                yield job, record
            else:
                self.running[job] = claim
                self.submit(job)

    def submit(self, job: Job) -> None:
        self.engine.submit(job, Checkpoints(self.store.checkpoints(job.key), self.say))

    def hear(self, event: At | Ended) -> None:
        if isinstance(event, At):
            self.watch(event)
        else:
            self.ended.append(event)

    def wait_for_others(self, job: Job) -> None:
        self.say(f"{job}: another process runs it; waiting for its record")
        claim = self.store.claim(job.key, wait=True)
        assert claim is not None
        claim.release()

    def conclude(self, end: Ended) -> Iterator[tuple[Job, Record]]:
        """Writes a record down, or tries once more where there is none."""
        job = end.job
        if end.record is None and self.deaths[job] < end.retries:
            self.deaths[job] += 1
            self.say(f"{job}: {end.why.splitlines()[0]}; trying again")
            self.submit(job)
            return
        record = end.record or failed(job.spec, end.why)
        if record.key != job.key:
            record = failed(job.spec, "another version of engram, or of the method, was run")
        record.preset, record.search = job.preset, job.search or {}
        self.store.add(record, self.file)
        self.running.pop(job).release()
        yield job, record


def sparing(tell: Callable[[Progress], None], seconds: float) -> Callable[[Progress], None]:
    """Passes on the end of every task, and of the rest no more than one report in so many seconds."""
    last = 0.0

    def watch(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if progress.accuracy or now - last >= seconds:
            last = now
            tell(progress)

    return watch
