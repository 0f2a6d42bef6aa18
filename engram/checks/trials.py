"""Small runs on made-up images, as the checks need them."""

from __future__ import annotations

import hashlib
import io
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engram.core import streams
from engram.data.images import Images
from engram.learning.learner import Training
from engram.learning.method import Method
from engram.learning.train import Checkpoint
from engram.nets.net import Net
from engram.runs.records import Record
from engram.runs.run import compute
from engram.runs.spec import Spec
from engram.scenarios.scenario import Scenario
from engram.scenarios.split import Split

SIDE, CLASSES, PER_CLASS = 20, 6, 24
TRAINING = Training(epochs=2, batch=16, lr=0.01)


@cache
def made_up_images(number: int = 0) -> Images:
    """Six classes of noisy patterns, 20×20 pixels: every network of the package takes them."""
    rng = np.random.default_rng(number)
    patterns = rng.integers(0, 256, (CLASSES, SIDE, SIDE))

    def draw(per_class: int) -> tuple[Any, Any]:
        y = np.repeat(np.arange(CLASSES), per_class)
        noise = rng.integers(-80, 81, (len(y), SIDE, SIDE))
        return np.clip(patterns[y] + noise, 0, 255).astype(np.uint8), y

    (x_train, y_train), (x_test, y_test) = draw(PER_CLASS), draw(PER_CLASS // 3)
    return Images(x_train, y_train, x_test, y_test, name=f"made-up-{number}" if number else "made-up")


def ten_digits() -> Images:
    """Ten classes of 36 images: the least that mnist-360 takes."""
    rng = np.random.default_rng(0)
    y, y_test = np.repeat(np.arange(10), 36), np.repeat(np.arange(10), 4)
    x, x_test = (rng.integers(0, 256, (len(labels), 8, 8), np.uint8) for labels in (y, y_test))
    return Images(x, y, x_test, y_test, name="ten")


def make_scenario(kind: str) -> Scenario:
    return Split(images=(made_up_images(),), kind=kind, classes_per_task=2)  # type: ignore[arg-type]


def make_spec(method: Method, net: Net, kind: str = "class", seed: int = 0, scenario: Scenario | None = None) -> Spec:
    training = Training(epochs=2, batch=16, lr=0.01, optimizer=method.optimizer)
    if hasattr(scenario, "dataset"):  # a stream that is shown once
        training = replace(training, epochs=1)
    return Spec(scenario or make_scenario(kind), method, net, training, seed=seed)


@dataclass
class Trial:
    """A finished run with everything it left."""

    record: Record
    checkpoints: list[Checkpoint] = field(default_factory=list)

    @property
    def bits(self) -> str:
        """Names accuracies, losses, and all that the last checkpoint holds of network, optimiser and method."""
        last = {name: self.checkpoints[-1][name] for name in ("net", "optimizer", "method")} if self.checkpoints else {}
        content = io.BytesIO()
        torch.save(last, content)
        measured = repr((self.record.status, self.record.accuracy, self.record.losses, self.record.steps))
        return hashlib.sha256(measured.encode() + digest_state(last)).hexdigest()[:16]


def digest_state(value: Any) -> bytes:
    """A digest of nested states: tensors by their bytes."""
    if isinstance(value, torch.Tensor):
        array = value.detach().cpu().contiguous()
        return repr((tuple(array.shape), str(array.dtype))).encode() + array.numpy().tobytes()
    if isinstance(value, dict):
        return b"".join(repr(name).encode() + digest_state(v) for name, v in value.items())
    if isinstance(value, list | tuple):
        return b"".join(digest_state(v) for v in value)
    return repr(value).encode()


def run_trial(spec: Spec, resume: Checkpoint | None = None) -> Trial:
    """Runs a spec in this process; errors of the method come through."""
    saved: list[Checkpoint] = []
    record = compute(spec, save=saved.append, resume=resume, say=lambda _: None)
    return Trial(record, saved)


@dataclass
class Observed:
    """What a run did that its spec does not show."""

    files: set[str] = field(default_factory=set)
    """Files that were read, outside the package and its libraries."""
    restarts: Counter[str] = field(default_factory=Counter)
    """Named streams that were begun more than once in a task."""


_WATCHING: list[Observed] = []
_HOOKED: list[bool] = []


def note_open(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: it cannot be removed, so it does nothing unless a check is watching."""
    if event == "open" and _WATCHING and isinstance(arguments[0], str | Path):
        path, mode = Path(str(arguments[0])), arguments[1] or "r"
        inside = {"site-packages", "dist-packages", "proc", "dev", "sys", "__pycache__"} & set(path.parts)
        library = str(path).startswith((sys.prefix, sys.base_prefix, str(Path(__file__).parents[1])))
        if "r" in str(mode) and not inside and not library and path.suffix not in (".py", ".pyc", ".so"):
            _WATCHING[-1].files.add(str(path))


@contextmanager
def watch_run() -> Iterator[Observed]:
    """Notes files that are read and streams that are begun again while a run goes on."""
    if not _HOOKED:
        sys.addaudithook(note_open)
        _HOOKED.append(True)
    observed = Observed()
    original = streams.stream
    begun: Counter[str] = Counter()

    def counted(seed: int, purpose: str, task: int = 0) -> torch.Generator:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if not caller.startswith("engram."):
            begun[f"{purpose!r} in task {task + 1}"] += 1
        return original(seed, purpose, task)

    patched = [m for m in list(sys.modules.values()) if getattr(m, "stream", None) is original]
    _WATCHING.append(observed)
    for module in patched:
        vars(module)["stream"] = counted
    try:
        yield observed
    finally:
        _WATCHING.pop()
        for module in patched:
            vars(module)["stream"] = original
        observed.restarts = Counter({name: times for name, times in begun.items() if times > 1})
