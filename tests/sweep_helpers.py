"""Small sweeps that can be held and killed at a known place: what their tests share."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers import blobs

import engram as eg
from engram.core.registry import METHODS, load_file
from engram.core.userfile import _LOADED
from engram.engines.driver import Job
from engram.runs.records import Record, read_records
from engram.runs.run import compute
from engram.runs.spec import Spec

HELD = Path(__file__).with_name("held.py")
TRAINING = eg.Training(epochs=2, batch=16, lr=0.01)


@dataclass
class Sweep:
    """Runs of the method `held` with seeds from 0, in a folder."""

    folder: Path
    """Where files tell the method what to do."""
    out: Path

    def job(self, seed: int) -> Job:
        images = blobs(6)
        return Job(Spec(eg.split(images, kind="class"), METHODS["held"](), eg.MLP(12, 10), TRAINING, seed=seed))

    def jobs(self, seeds: int) -> list[Job]:
        return [self.job(seed) for seed in range(seeds)]

    def tell(self, what: str, seed: int) -> Path:
        path = self.folder / f"{what}-{seed}"
        path.touch()
        return path

    def pid_at(self, seed: int) -> int:
        """The process in which the run of a seed is held, as soon as it is there."""
        return int(until(lambda: self.folder / f"at-{seed}", Path.exists).read_text())

    def found(self) -> list[Record]:
        return read_records(self.out / "records.jsonl")

    def check(self, seeds: int) -> None:
        """All runs are recorded, once, with the bits of runs that nobody disturbed, and nothing else is left."""
        done = [record for record in self.found() if record.status != "failed"]
        assert sorted(record.seed for record in done) == list(range(seeds))
        for record in done:
            assert bits(record) == bits(compute(self.job(record.seed).spec))
        assert [path for path in self.out.rglob("*") if path.is_file()] == [self.out / "records.jsonl"]


def bits(record: Record) -> dict[str, Any]:
    """What two runs of a spec share."""
    found = {name: value for name, value in vars(record).items() if name not in ("seconds", "reused", "environment")}
    kept = ("torch", "cpu", "threads", "device", "data", "commit")
    return {**found, "environment": {name: record.environment[name] for name in kept}}


def until(get: Callable[[], Any], true: Callable[[Any], bool] = bool, seconds: float = 280) -> Any:
    """What `get` gives, as soon as it is what is waited for: a poll, where there is nothing to wait on."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true(found := get()):
            return found
        time.sleep(0.005)
    raise AssertionError(f"not within {seconds} s")


def ended(pid: int) -> bool:
    """Whether a process is gone, or is only waited for by its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def load_held() -> None:
    if "held" not in METHODS:
        load_file(HELD)


def forget_held() -> None:
    METHODS.pop("held", None)
    _LOADED.pop(str(HELD.resolve()), None)


def environment(sweep: Sweep) -> dict[str, str]:
    return {**os.environ, "HELD": str(sweep.folder)}
