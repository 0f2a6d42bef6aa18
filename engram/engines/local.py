"""The local engine: worker processes that get runs through pipes and are replaced if they die."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
import time
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

from engram.core.messages import Say
from engram.core.registry import load_file
from engram.core.system import allow_open_files, block_ctrl_c, ignore_ctrl_c
from engram.core.userfile import UserFile, loaded_files
from engram.data.images import Images
from engram.engines.driver import At, Ended, EngineError, Job, Report, compute_safely, throttle_progress
from engram.engines.forks import start_fork_server, worker_context
from engram.engines.silence import NAMED_AFTER, Silence
from engram.runs.checkpoints import Checkpoints
from engram.runs.run import failed_record, keep_freed_memory
from engram.runs.spec import from_json

OWN_FILES, FILES_PER_WORKER = 24, 8
"""Open files that the driver and each of its workers take, at most."""
DYING = 0.5
"""Seconds that a killed process may take to be gone: until then a new server is not started in its place."""
HAS_CRASH_PIPE = sys.platform != "win32"
"""Whether a crashing interpreter can write to a pipe. On Windows, a pipe is not a file descriptor."""
LOCAL_REPORT_SECONDS = 0.5
"""Seconds between two progress reports of a run."""
MOST_FAILED_STARTS = 3
"""How many workers in a row may end before they are ready; another one would then not help."""


class Worker:
    """A worker process and its current run."""

    def __init__(self, number: int) -> None:
        start_fork_server()
        self.name = f"worker {number}"
        context = worker_context()
        self.pipe, theirs = context.Pipe()
        self.crash, their_crash = context.Pipe(duplex=False)
        self.ready = False
        self.job: Job | None = None
        self.images: set[str] = set()
        self.process = context.Process(
            target=serve_runs,
            args=(theirs, their_crash, dict(os.environ), Path.cwd(), loaded_files()),
            name=self.name,
            daemon=True,
        )
        main = sys.modules["__main__"]
        try:
            sys.modules["__main__"] = ModuleType("__main__")  # else the worker would run the caller's script again
            with block_ctrl_c():
                self.process.start()
        except BaseException:
            self.pipe.close()
            self.crash.close()
            raise
        finally:
            sys.modules["__main__"] = main
            theirs.close()
            their_crash.close()

    def give(self, job: Job, checkpoints: Checkpoints) -> None:
        """Send a run to the worker, with those of its datasets that the worker does not have yet."""
        self.job = job
        new = [images for images in job.spec.scenario.images if images.fingerprint not in self.images]
        self.images |= {images.fingerprint for images in new}
        self.pipe.send(RunRequest(job.spec.to_json(), new, checkpoints.folder.absolute()))

    def explain_death(self) -> str:
        """Why the process ended; with a traceback if the interpreter crashed."""
        self.process.join()
        code = self.process.exitcode or 0
        if code < 0:
            cause = f"its process was killed by {signal.Signals(-code).name}"
            cause += " (the system does this if memory runs out)" if -code == getattr(signal, "SIGKILL", None) else ""
        else:
            cause = f"its process exited with status {code}"
        trace = b""
        while HAS_CRASH_PIPE and self.crash.poll() and (piece := os.read(self.crash.fileno(), 1 << 16)):
            trace += piece
        return "\n".join([cause, *trace.decode(errors="replace").splitlines()])

    def close(self) -> None:
        self.process.kill()
        self.process.join()
        self.process.close()
        self.pipe.close()
        self.crash.close()


@dataclass(frozen=True)
class RunRequest:
    """What a worker needs to compute a run."""

    spec: dict[str, Any]
    images: list[Images]
    checkpoints: Path


class Local:
    """Worker processes on this machine: `workers` of them, or as many as the cores allow; at most one per run.

    A single run is computed in the driver's process, unless there is a worker already, or silent ones are replaced. A
    worker that reports nothing for `named_after` seconds is named, and replaced after `stall_timeout` seconds.
    """

    def __init__(
        self,
        workers: int | None = None,
        threads: int = 1,
        stall_timeout: float | None = None,
        named_after: float = NAMED_AFTER,
    ) -> None:
        self.most = workers or max(1, count_cores() // threads)
        self.workers: list[Worker] = []
        self.started = self.failed_starts = 0
        self.submitted: deque[tuple[Job, Checkpoints]] = deque()
        self.silence = Silence(stall_timeout, named_after)

    def open(self, runs: int, say: Say) -> int:
        self.slots, self.say = min(runs, self.most), say
        self.alone = runs == 1 and not self.workers and self.silence.timeout is None
        if not self.alone:
            self.slots = min(self.slots, self.workers_by_files())
        return self.slots

    def workers_by_files(self) -> int:
        """How many workers the limit of open files has room for."""
        files = allow_open_files(OWN_FILES + FILES_PER_WORKER * self.slots)
        room = (files - OWN_FILES) // FILES_PER_WORKER
        if room < 1:
            raise EngineError(f"{files} open files are too few for worker processes; raise the limit (ulimit -n 256)")
        if room < self.slots:
            self.say(f"{room} workers at a time: the limit of {files} open files has no room for more (ulimit -n)")
        return room

    def submit(self, job: Job, checkpoints: Checkpoints) -> None:
        self.submitted.append((job, checkpoints))
        if not self.alone:
            self.feed()

    def feed(self) -> None:
        """Give runs to idle workers, and start new workers if there are runs left and slots free."""
        for worker in self.workers:
            if self.submitted and worker.ready and worker.job is None:
                self.silence.hear(worker)
                with suppress(OSError):  # it has died: `wait` handles that
                    worker.give(*self.submitted.popleft())
        while min(len(self.submitted) - self.starting(), self.slots - len(self.workers)) > 0:
            self.started += 1
            try:
                self.workers.append(Worker(self.started))
                self.silence.hear(self.workers[-1])
            except (EOFError, ConnectionError) as error:  # the server that forks workers died in between
                self.count_failed_start(f"the server process that forks them ended ({type(error).__name__})")
                time.sleep(DYING)
            except OSError as error:
                raise EngineError(f"worker processes cannot be started: {error.strerror or error}") from error

    def starting(self) -> int:
        return sum(not worker.ready for worker in self.workers)

    def count_failed_start(self, why: str) -> None:
        """Allow for another try, unless the last ones failed too."""
        self.failed_starts += 1
        if self.failed_starts >= MOST_FAILED_STARTS:
            raise EngineError(
                f"worker processes cannot be started: {self.failed_starts} in a row ended before they were ready; "
                f"of the last one {why}"
            )
        self.say(f"a worker ended before it was ready: {why.splitlines()[0]}; starting another")

    def wait(self, report: Report) -> None:
        if self.alone:
            job, checkpoints = self.submitted.popleft()
            report(At(job, "here"))
            watch = lambda progress: report(At(job, "here", progress))  # noqa: E731
            report(Ended(job, compute_safely(job.spec, checkpoints.save, checkpoints.latest(), watch, self.say)))
            return
        ready = connection.wait([worker.pipe for worker in self.workers], self.silence.next_look())
        for worker in [worker for worker in self.workers if worker.pipe in ready]:
            try:
                self.handle(worker, worker.pipe.recv(), report)
            except (EOFError, OSError):
                self.remove(worker, report, worker.explain_death())
        self.look_at_silent(report)
        self.feed()

    def look_at_silent(self, report: Report) -> None:
        """Name workers that reported nothing for long, and replace those that were silent for longer than allowed."""
        for worker, silent in self.silence.to_name():
            what = worker.job or "which is starting"
            advice = "" if self.silence.timeout else "; --stall-timeout SECONDS replaces such workers"
            self.say(f"{worker.name} (process {worker.process.pid}) has reported nothing for {silent}: {what}{advice}")
        for worker, silent in list(self.silence.to_replace()):
            self.remove(worker, report, f"its process reported nothing for {silent} and was replaced")

    def handle(self, worker: Worker, message: Any, report: Report) -> None:
        kind, value = message
        self.silence.hear(worker)
        if kind == "ready":
            worker.ready, self.failed_starts = True, 0
            self.silence.forget(worker)
            return
        assert worker.job is not None
        if kind == "say":
            self.say(value)
        elif kind == "at":
            report(At(worker.job, worker.name, value))
        else:
            job, worker.job = worker.job, None
            self.silence.forget(worker)
            report(Ended(job, value if kind == "record" else failed_record(job.spec, value)))

    def remove(self, worker: Worker, report: Report, why: str) -> None:
        """Remove a worker that died or is given up, and report its run as ended without a record."""
        self.workers.remove(worker)
        self.silence.forget(worker)
        worker.close()
        if worker.job is not None:
            report(Ended(worker.job, None, why))
        elif not worker.ready:
            self.count_failed_start(why)

    def drop(self) -> None:
        self.submitted.clear()
        for worker in [worker for worker in self.workers if worker.job or not worker.ready]:
            worker.close()
            self.workers.remove(worker)
            self.silence.forget(worker)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()
        self.workers.clear()


def count_cores() -> int:
    """Number of cores that this process may use; in a container or a batch job, not all of the machine's."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def serve_runs(
    pipe: Connection,
    crash: Connection,
    environment: dict[str, str],
    folder: Path,
    user_files: Sequence[UserFile],
) -> None:
    """The main function of a worker: compute runs and send their records back, until the driver is gone."""
    ignore_ctrl_c()
    os.environ.clear()  # the server process may be older than the driver's latest changes
    os.environ.update(environment)
    os.chdir(folder)
    os.dup2(2, 1)  # only the driver writes to standard output
    if HAS_CRASH_PIPE:
        faulthandler.enable(crash.fileno(), all_threads=False)
    threading.Thread(target=exit_with_driver, daemon=True).start()
    keep_freed_memory()
    for file in user_files:
        load_file(file)
    known: dict[str, Images] = {}
    try:
        pipe.send(("ready", None))
        while True:
            request: RunRequest = pipe.recv()
            pipe.send(("at", None))
            known |= {images.fingerprint: images for images in request.images}
            say = lambda text: pipe.send(("say", text))  # noqa: E731
            checkpoints = Checkpoints(request.checkpoints, say)
            watch = throttle_progress(lambda progress: pipe.send(("at", progress)), LOCAL_REPORT_SECONDS)
            try:
                spec = from_json(request.spec, known)
            except Exception:
                pipe.send(("broken", traceback.format_exc()))
            else:
                pipe.send(("record", compute_safely(spec, checkpoints.save, checkpoints.latest(), watch, say)))
    except (EOFError, ConnectionError):  # the driver is gone
        os._exit(1)


def exit_with_driver() -> None:
    """Exit when the driver ends, for whatever reason: an orphan would overwrite the checkpoints of another process."""
    driver = multiprocessing.parent_process()
    assert driver is not None
    connection.wait([driver.sentinel])
    os._exit(1)
