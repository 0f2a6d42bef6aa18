"""The processes of this machine: started once, fed with runs over pipes, replaced when they die."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

from engram.data import Images
from engram.engines.driver import At, Ended, EngineError, Job, Report, attempt, sparing
from engram.engines.forks import CONTEXT, ctrl_c_is_ours, get_ready
from engram.methods import load_file, loaded_files
from engram.runs.checkpoints import Checkpoints
from engram.runs.run import failed, keep_freed_memory
from engram.runs.spec import from_json
from engram.runs.store import Say

EVERY = 0.5
"""Seconds between two reports of a run's progress."""


class Worker:
    """One process, and what it is doing."""

    def __init__(self, number: int) -> None:
        get_ready()
        self.name = f"worker {number}"
        self.pipe, theirs = CONTEXT.Pipe()
        self.crash, their_crash = CONTEXT.Pipe(duplex=False)
        self.ready = False
        self.job: Job | None = None
        self.images: set[str] = set()
        self.process = CONTEXT.Process(
            target=serve,
            args=(theirs, their_crash, dict(os.environ), Path.cwd(), loaded_files()),
            name=self.name,
            daemon=True,
        )
        main = sys.modules["__main__"]
        try:
            sys.modules["__main__"] = ModuleType("__main__")  # or the worker would run the caller's script again
            with ctrl_c_is_ours():
                self.process.start()
        finally:
            sys.modules["__main__"] = main
        theirs.close()
        their_crash.close()

    def give(self, job: Job, checkpoints: Checkpoints) -> None:
        """Hands a run over, with those of its image sets that the worker has not seen."""
        self.job = job
        new = [images for images in job.spec.scenario.images if images.fingerprint not in self.images]
        self.images |= {images.fingerprint for images in new}
        self.pipe.send(Run(job.spec.to_json(), new, checkpoints.folder.absolute()))

    def why(self) -> str:
        """What ended it, in words; with the traceback that a crash of the interpreter left."""
        self.process.join()
        code = self.process.exitcode or 0
        if code < 0:
            cause = f"its process was ended by {signal.Signals(-code).name}"
            cause += " (as the system does when memory runs out)" if -code == signal.SIGKILL else ""
        else:
            cause = f"its process ended with exit status {code}"
        trace = b""
        while self.crash.poll() and (piece := os.read(self.crash.fileno(), 1 << 16)):
            trace += piece
        return "\n".join([cause, *trace.decode(errors="replace").splitlines()])

    def close(self) -> None:
        self.process.kill()
        self.process.join()
        self.process.close()
        self.pipe.close()
        self.crash.close()


@dataclass(frozen=True)
class Run:
    """What a worker is told of a run."""

    spec: dict[str, Any]
    images: list[Images]
    checkpoints: Path


class Local:
    """The processes of this machine: as many as asked for, or as the cores have room for; never more than runs.

    A single run needs no process of its own, unless there is one already.
    """

    def __init__(self, workers: int | None = None, threads: int = 1) -> None:
        self.most = workers or max(1, cores() // threads)
        self.workers: list[Worker] = []
        self.started = 0
        self.taken: deque[tuple[Job, Checkpoints]] = deque()

    def open(self, runs: int, say: Say) -> int:
        self.slots, self.say = min(runs, self.most), say
        self.alone = runs == 1 and not self.workers
        return self.slots

    def submit(self, job: Job, checkpoints: Checkpoints) -> None:
        self.taken.append((job, checkpoints))
        if not self.alone:
            self.feed()

    def feed(self) -> None:
        """Gives the idle workers what there is to run, and starts as many as there is need and room for."""
        for worker in self.workers:
            if self.taken and worker.ready and worker.job is None:
                with suppress(OSError):  # it has died: `wait` will see that
                    worker.give(*self.taken.popleft())
        starting = sum(not worker.ready for worker in self.workers)
        for _ in range(min(len(self.taken) - starting, self.slots - len(self.workers))):
            self.started += 1
            self.workers.append(Worker(self.started))

    def wait(self, report: Report) -> None:
        if self.alone:
            job, checkpoints = self.taken.popleft()
            report(At(job, "here"))
            watch = lambda progress: report(At(job, "here", progress))  # noqa: E731
            report(Ended(job, attempt(job.spec, checkpoints.save, checkpoints.latest(), watch, self.say)))
            return
        ready = connection.wait([worker.pipe for worker in self.workers])
        for worker in [worker for worker in self.workers if worker.pipe in ready]:
            try:
                self.hear(worker, worker.pipe.recv(), report)
            except (EOFError, OSError):
                self.bury(worker, report)
        self.feed()

    def hear(self, worker: Worker, message: Any, report: Report) -> None:
        kind, value = message
        if kind == "ready":
            worker.ready = True
            return
        assert worker.job is not None
        if kind == "say":
            self.say(value)
        elif kind == "at":
            report(At(worker.job, worker.name, value))
        else:
            job, worker.job = worker.job, None
            report(Ended(job, value if kind == "record" else failed(job.spec, value)))

    def bury(self, worker: Worker, report: Report) -> None:
        """Takes a dead worker out; its run is reported as dead."""
        self.workers.remove(worker)
        why = worker.why()
        worker.close()
        if worker.job is not None:
            report(Ended(worker.job, None, why))
        elif not worker.ready:
            raise EngineError(f"workers cannot be started: {why}")

    def drop(self) -> None:
        self.taken.clear()
        for worker in [worker for worker in self.workers if worker.job or not worker.ready]:
            worker.close()
            self.workers.remove(worker)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()
        self.workers.clear()


def cores() -> int:
    """Those that this process may use, which in a container or an allocation are not all."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def serve(
    pipe: Connection,
    crash: Connection,
    environment: dict[str, str],
    folder: Path,
    method_files: Sequence[tuple[str, str]],
) -> None:
    """A worker: takes runs, and sends back what comes of them, until the driver is gone."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.clear()  # of the process that it is a fork of, which may be older than the driver's last words
    os.environ.update(environment)
    os.chdir(folder)
    os.dup2(2, 1)  # standard output is the driver's alone
    faulthandler.enable(crash.fileno(), all_threads=False)
    threading.Thread(target=outlive_nobody, daemon=True).start()
    keep_freed_memory()
    for path, text in method_files:
        load_file(Path(path), text)
    known: dict[str, Images] = {}
    try:
        pipe.send(("ready", None))
        while True:
            run: Run = pipe.recv()
            pipe.send(("at", None))
            known |= {images.fingerprint: images for images in run.images}
            say = lambda text: pipe.send(("say", text))  # noqa: E731
            checkpoints = Checkpoints(run.checkpoints, say)
            watch = sparing(lambda progress: pipe.send(("at", progress)), EVERY)
            try:
                spec = from_json(run.spec, known)
            except Exception:
                pipe.send(("broken", traceback.format_exc()))
            else:
                pipe.send(("record", attempt(spec, checkpoints.save, checkpoints.latest(), watch, say)))
    except (EOFError, ConnectionError):  # the driver is gone
        os._exit(1)


def outlive_nobody() -> None:
    """Ends this process with its driver, however that ended: an orphan would write checkpoints that are another's."""
    driver = multiprocessing.parent_process()
    assert driver is not None
    connection.wait([driver.sentinel])
    os._exit(1)
