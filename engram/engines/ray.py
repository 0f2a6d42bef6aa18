"""The Ray engine: runs on a cluster. Nodes only need engram installed; all results are sent to the driver."""

from __future__ import annotations

import os
import queue
import secrets
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from engram.core.messages import Say
from engram.core.registry import load_file
from engram.core.system import allow_open_files
from engram.core.userfile import UserFile, loaded_files
from engram.data.images import Images
from engram.engines.driver import At, Ended, EngineError, Job, Report, compute_safely, throttle_progress
from engram.engines.silence import Silence
from engram.learning.train import Checkpoint
from engram.runs.checkpoints import Checkpoints, describe_damage, file_name, packed, unpacked
from engram.runs.run import failed_record, keep_freed_memory
from engram.runs.spec import from_json

RAY_REPORT_SECONDS = 2.0
"""Seconds between two progress reports of a run."""
CHECKPOINT_EVERY = 30.0
"""Seconds between two checkpoints of a run, because they are sent to the driver."""
LOST_NODES = 5
"""How often a run is tried again if its node is lost, which is rarely the run's fault."""

TOKEN_SOURCES = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")

Message = tuple[str, Any]


class OnRay:
    """A Ray cluster: at the given address, or already running here, or started on this machine."""

    def __init__(
        self,
        address: str | None = None,
        workers: int | None = None,
        gpu_share: float = 0.25,
        checkpoint_every: float = CHECKPOINT_EVERY,
        stall_timeout: float | None = None,
    ) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no usage data
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        require_token()
        try:
            import ray
        except ImportError as error:
            raise ValueError(
                "engine ray needs the package ray: pip install -e '.[ray]' in engram's checkout"
            ) from error
        if address and address.startswith("ray://"):
            raise ValueError(
                f"address {address}: Ray's client cannot stream results; start engram on a node of the cluster"
            )
        host, _, port = (address or "").rpartition(":")
        if port.isdigit():
            try:
                socket.create_connection((host, int(port)), timeout=10).close()  # Ray itself would retry for minutes
            except OSError as error:
                raise ValueError(f"no Ray cluster can be reached at {address}: {error}") from error
        if not 0 < gpu_share <= 1:
            raise ValueError(f"gpu_share {gpu_share} is out of range; give a share above 0 and up to 1")
        self.ray: Any = ray
        self.address, self.workers, self.gpu_share = address, workers, gpu_share
        self.checkpoint_every = checkpoint_every
        self.ours = False
        self.running: dict[Any, tuple[Job, Checkpoints]] = {}
        self.where: dict[Any, str] = {}
        self.shared: dict[str, Any] = {}
        self.silence = Silence(stall_timeout)

    def open(self, runs: int, say: Say) -> int:
        """Allow `workers` runs at a time; by default two per core, so that no core waits for the driver."""
        if not self.ray.is_initialized():
            try:
                self.ray.init(self.address, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise EngineError(f"Ray cannot be used ({self.address or 'on this machine'}): {error}") from error
            self.ours = True
        self.remote = self.ray.remote(num_returns="streaming", max_retries=0)(stream_run)
        self.say = say
        slots = min(runs, self.workers or max(8, 2 * int(self.ray.cluster_resources().get("CPU", 0))))
        allow_open_files(slots + 500)  # each lock is an open file
        return slots

    def submit(self, job: Job, checkpoints: Checkpoints) -> None:
        images = [self.share(images.fingerprint, images.unseal()) for images in job.spec.scenario.images]
        remote = self.remote.options(
            name=str(job),
            num_cpus=job.spec.threads,
            num_gpus=self.gpu_share if job.spec.device.startswith("cuda") else 0,
        ).remote(job.spec.to_json(), loaded_files(), checkpoints.content(), self.checkpoint_every, *images)
        self.running[remote] = (job, checkpoints)

    def share(self, fingerprint: str, images: Images) -> Any:
        """Put a dataset in Ray's object store, from which each node loads it once."""
        if fingerprint not in self.shared:
            self.shared[fingerprint] = self.ray.put(images)
        return self.shared[fingerprint]

    def wait(self, report: Report) -> None:
        errors = self.ray.exceptions
        ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=self.silence.next_look())
        self.look_at_silent(report, ready)
        for remote in ready:
            job, checkpoints = self.running[remote]
            try:
                kind, value = self.ray.get(next(remote))
            except errors.RayTaskError as error:
                self.forget(remote)
                report(Ended(job, failed_record(job.spec, str(error))))
            except errors.RayError as error:
                where = self.where.get(remote, "unknown")
                self.forget(remote)
                lost = isinstance(error, errors.NodeDiedError)
                why = f"node {where} is lost" if lost else f"its process on node {where} died"
                report(Ended(job, None, f"{why}\n{error}", LOST_NODES if lost else 1))
            else:
                if kind == "checkpoint":
                    checkpoints.write(*value)
                elif kind == "say":
                    self.say(value)
                elif kind == "at":
                    self.where[remote], progress = value
                    self.silence.hear(remote)
                    report(At(job, self.where[remote], progress))
                else:
                    self.forget(remote)
                    report(Ended(job, value if kind == "record" else failed_record(job.spec, value)))

    def look_at_silent(self, report: Report, ready: list[Any]) -> None:
        """Name runs that began and reported nothing for long, and give up those that were silent for longer than
        allowed; runs that wait for a free core are not silent."""
        for remote in ready:
            if remote in self.where:
                self.silence.hear(remote)
        for remote, silent in self.silence.to_name():
            advice = "" if self.silence.timeout else "; --stall-timeout SECONDS tries such runs again"
            self.say(f"node {self.where[remote]} has reported nothing for {silent}: {self.running[remote][0]}{advice}")
        for remote, silent in list(self.silence.to_replace()):
            job, where = self.running[remote][0], self.where[remote]
            self.ray.cancel(remote, force=True)
            self.forget(remote)
            report(Ended(job, None, f"its process on node {where} reported nothing for {silent} and was replaced"))

    def forget(self, remote: Any) -> None:
        self.silence.forget(remote)
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


def require_token() -> None:
    """Whoever talks to the cluster has to know a token, or anybody who reaches its ports (Ray
    listens on all interfaces) could run code there.

    If the user has none, a cluster that is started here gets one of its own. RAY_AUTH_MODE=disabled turns this off.
    """
    if os.environ.setdefault("RAY_AUTH_MODE", "token") != "token":
        return
    known = any(name in os.environ for name in TOKEN_SOURCES) or (Path.home() / ".ray" / "auth_token").is_file()
    if not known:
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def stream_run(
    spec: dict[str, Any],
    files: tuple[UserFile, ...],
    resume: bytes | None,
    checkpoint_every: float,
    *images: Images,
) -> Iterator[Message]:
    """Compute a run on a node; yields its progress and checkpoints, and finally its record."""
    here = socket.gethostname()
    messages: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def say(text: str) -> None:
        messages.put(("say", text))

    def work() -> None:
        try:
            keep_freed_memory()
            load_user_files(files)
            known = from_json(spec, {one.fingerprint: one for one in images})
            watch = throttle_progress(lambda progress: messages.put(("at", (here, progress))), RAY_REPORT_SECONDS)
            send = lambda checkpoint: messages.put(("checkpoint", checkpoint))  # noqa: E731
            save = throttle_checkpoints(send, known.key, checkpoint_every)
            checkpoint = None
            if resume:
                try:
                    checkpoint = unpacked(resume, known.key)
                except Exception as error:  # torch.load raises many types
                    say(f"{known}: its checkpoint is not used ({describe_damage(error)}); starting over")
            messages.put(("record", compute_safely(known, save, checkpoint, watch, say)))
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
def load_user_files(files: tuple[UserFile, ...]) -> None:
    """Load the files that the driver has loaded, which are only on the driver's machine."""
    for file in files:
        load_file(file)


def throttle_checkpoints(
    send: Callable[[tuple[str, bytes]], None], key: str, seconds: float
) -> Callable[[Checkpoint], None]:
    """Send packed checkpoints of the run with this key, at most one per `seconds`."""
    last = time.monotonic()

    def save(checkpoint: Checkpoint) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            send((file_name(checkpoint), packed(checkpoint, key)))

    return save
