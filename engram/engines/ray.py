"""The Ray engine: the same runs on a cluster. Nodes need engram and nothing else; all they make comes to the driver."""

from __future__ import annotations

import os
import queue
import resource
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from engram.data import Images
from engram.engines.driver import At, Ended, EngineError, Job, Report, attempt, sparing
from engram.learning.train import Checkpoint
from engram.methods import load_file, loaded_files
from engram.runs.checkpoints import Checkpoints, file_name, packed, unpacked
from engram.runs.run import failed, keep_freed_memory
from engram.runs.spec import from_json
from engram.runs.store import Say

EVERY = 2.0
"""Seconds between two reports of a run's progress."""
CHECKPOINT_EVERY = 30.0
"""Seconds between two checkpoints of a run: they travel to the driver."""
LOST_NODES = 5
"""Times that a run starts again because its node is gone, which is hardly its own fault."""

Message = tuple[str, Any]


class OnRay:
    """A Ray cluster: the one at an address, or the one that runs here, or one that is started on this machine."""

    def __init__(
        self,
        address: str | None = None,
        workers: int | None = None,
        gpu_share: float = 0.25,
        checkpoint_every: float = CHECKPOINT_EVERY,
    ) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to anybody
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            import ray
        except ImportError as error:
            raise ValueError(
                "engine ray needs the package ray: pip install -e '.[ray]' in engram's checkout"
            ) from error
        if address and address.startswith("ray://"):
            raise ValueError(
                f"address {address}: Ray's client cannot stream results; run engram on a node of the cluster"
            )
        host, _, port = (address or "").rpartition(":")
        if port.isdigit():
            try:
                socket.create_connection((host, int(port)), timeout=10).close()  # Ray would try for minutes
            except OSError as error:
                raise ValueError(f"no Ray cluster can be reached at {address}: {error}") from error
        if not 0 < gpu_share <= 1:
            raise ValueError(f"gpu_share {gpu_share} is out of range; give a share from above 0 to 1")
        self.ray: Any = ray
        self.address, self.workers, self.gpu_share = address, workers, gpu_share
        self.checkpoint_every = checkpoint_every
        self.ours = False
        self.running: dict[Any, tuple[Job, Checkpoints]] = {}
        self.where: dict[Any, str] = {}
        self.shared: dict[str, Any] = {}

    def open(self, runs: int, say: Say) -> int:
        """As many runs as asked for, else two a core, so that no core waits for the driver."""
        if not self.ray.is_initialized():
            try:
                self.ray.init(self.address, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise EngineError(f"Ray cannot be used ({self.address or 'on this machine'}): {error}") from error
            self.ours = True
        self.remote = self.ray.remote(num_returns="streaming", max_retries=0)(stream)
        self.say = say
        slots = min(runs, self.workers or max(8, 2 * int(self.ray.cluster_resources().get("CPU", 0))))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # a claim is an open file
        if soft < slots + 500 <= hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (slots + 500, hard))
        return slots

    def submit(self, job: Job, checkpoints: Checkpoints) -> None:
        images = [self.share(images.fingerprint, images.unsealed()) for images in job.spec.scenario.images]
        remote = self.remote.options(
            name=str(job),
            num_cpus=job.spec.threads,
            num_gpus=self.gpu_share if job.spec.device.startswith("cuda") else 0,
        ).remote(job.spec.to_json(), loaded_files(), checkpoints.content(), self.checkpoint_every, *images)
        self.running[remote] = (job, checkpoints)

    def share(self, fingerprint: str, images: Images) -> Any:
        """An image set in Ray's object store, from where each node fetches it once."""
        if fingerprint not in self.shared:
            self.shared[fingerprint] = self.ray.put(images)
        return self.shared[fingerprint]

    def wait(self, report: Report) -> None:
        errors = self.ray.exceptions
        ready, _ = self.ray.wait(list(self.running), num_returns=1)
        for remote in ready:
            job, checkpoints = self.running[remote]
            try:
                kind, value = self.ray.get(next(remote))
            except errors.RayTaskError as error:
                self.forget(remote)
                report(Ended(job, failed(job.spec, str(error))))
            except errors.RayError as error:
                where = self.where.get(remote, "a node")
                self.forget(remote)
                lost = isinstance(error, errors.NodeDiedError)
                why = f"{where} is gone" if lost else f"its process on {where} died"
                report(Ended(job, None, f"{why}\n{error}", LOST_NODES if lost else 1))
            else:
                if kind == "checkpoint":
                    checkpoints.write(*value)
                elif kind == "say":
                    self.say(value)
                elif kind == "at":
                    self.where[remote], progress = value
                    report(At(job, self.where[remote], progress))
                else:
                    self.forget(remote)
                    report(Ended(job, value if kind == "record" else failed(job.spec, value)))

    def forget(self, remote: Any) -> None:
        del self.running[remote]
        self.where.pop(remote, None)

    def drop(self) -> None:
        for remote in self.running:
            self.ray.cancel(remote, force=True)
        self.running.clear()

    def close(self) -> None:
        self.drop()
        self.shared.clear()
        if self.ours:
            self.ray.shutdown()
            self.ours = False


def stream(
    spec: dict[str, Any],
    files: tuple[tuple[str, str], ...],
    resume: bytes | None,
    checkpoint_every: float,
    *images: Images,
) -> Iterator[Message]:
    """One run on a node: its progress and checkpoints as they come, its record in the end."""
    here = socket.gethostname()
    messages: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def say(text: str) -> None:
        messages.put(("say", text))

    def work() -> None:
        try:
            keep_freed_memory()
            load_methods(files)
            known = from_json(spec, {one.fingerprint: one for one in images})
            watch = sparing(lambda progress: messages.put(("at", (here, progress))), EVERY)
            save = now_and_then(lambda checkpoint: messages.put(("checkpoint", checkpoint)), checkpoint_every)
            checkpoint = None
            if resume:
                try:
                    checkpoint = unpacked(resume)
                except Exception as error:  # whatever bytes that are none end in
                    say(f"{known}: its checkpoint is not whole ({type(error).__name__}); it starts anew")
            messages.put(("record", attempt(known, save, checkpoint, watch, say)))
        except BaseException:
            messages.put(("broken", traceback.format_exc()))

    yield "at", (here, None)
    threading.Thread(target=work, daemon=True).start()  # a callback cannot yield
    while True:
        message = messages.get()
        yield message
        if message[0] in ("record", "broken"):
            return


@cache
def load_methods(files: tuple[tuple[str, str], ...]) -> None:
    """Makes this process know the driver's own methods, whose files are on the driver's machine only."""
    for path, text in files:
        load_file(Path(path), text)


def now_and_then(send: Callable[[tuple[str, bytes]], None], seconds: float) -> Callable[[Checkpoint], None]:
    """Passes on checkpoints, packed, no more than one in so many seconds."""
    last = time.monotonic()

    def save(checkpoint: Checkpoint) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            send((file_name(checkpoint), packed(checkpoint)))

    return save
