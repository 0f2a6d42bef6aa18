"""One run from its spec to its record: resumable, repeatable to the bit."""

from __future__ import annotations

import copy
import ctypes
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from engram.core.facts import ROOT
from engram.core.messages import Say, tell
from engram.core.registry import METHODS, METRICS
from engram.core.streams import own_global_generators
from engram.core.system import peak_mb
from engram.core.version import VERSION
from engram.learning import metrics
from engram.learning.budget import fit_budget
from engram.learning.evaluate import Evaluation, Keep
from engram.learning.learner import Training
from engram.learning.method import Method
from engram.learning.train import Checkpoint, MisfitError, Outcome, Progress, train
from engram.nets._start import Freeze, Start
from engram.nets.mlp import MLP
from engram.nets.net import Net
from engram.runs.arguments import (
    check_evaluation,
    check_keep,
    check_method_argument,
    check_metrics_argument,
    check_net_argument,
    check_scenario_argument,
    check_training,
)
from engram.runs.checkpoints import Checkpoints
from engram.runs.left import Left, attach_left
from engram.runs.records import Record
from engram.runs.spec import Spec
from engram.runs.store import Store
from engram.scenarios.scenario import Scenario

BIT_VARIABLES = ("MKL_CBWR", "ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")
"""Recorded if they are set: they change bits under the same key."""


def run(
    scenario: Scenario,
    method: Method | Sequence[Method],
    *,
    seed: int = 0,
    net: Net | Callable[..., nn.Module] | None = None,
    training: Training | None = None,
    evaluation: Evaluation | None = None,
    threads: int = 1,
    device: str = "cpu",
    memory_budget: int | None = None,
    weights: str | Path | None = None,
    freeze: Freeze = "none",
    out: str | Path | None = None,
    watch: Callable[[Progress], None] = lambda _: None,
    metrics: Sequence[Any] = (),
    keep: Sequence[Keep] = (),
) -> Record:
    """Trains a method, or several together, on a scenario and returns the record.

    Args:
        scenario: What `engram.split`, `engram.permute`, `engram.queue` or `engram.scenario` returns.
        method: An instance, or several that are combined.
        seed: Draws the tasks, the initial network, and everything else that is random.
        net: A recipe of a network (by default an MLP), an `nn.Module` class with a constructor `(shape, outputs)`, or a
            function of these two that returns a module. Such a module gets images as (n, channels, height, width).
        training: How long and how each task is trained; by default 4 epochs with the method's optimiser.
        evaluation: What is measured besides the accuracy on all tasks seen so far after each task.
        threads: Threads of the run; bits depend on it.
        device: `cpu`, `cuda`, `mps` or `auto`.
        memory_budget: Bytes that the method may keep across a boundary: sets the size of a buffer, and refuses what
        cannot fit. weights: A file of weights that the network starts from: safetensors, or a saved state dict.
        freeze: `backbone`: only the output layer is trained.
        out: A folder for the record: an interrupted run goes on where it stopped, a recorded one is not run again.
        watch: Called with the progress now and then: every 50 steps and after each task. `progress.learner` has the
            network, its weights and gradients; what is drawn at random there does not change the run.
        metrics: Metrics on logits that are measured besides, on all seen tasks after each task: names, instances of
            `Metric`, or functions `(logits, targets, active)`. What they find is in `record.extra`.
        keep: What the run leaves besides the record: `net`, `logits`, `features`; they are `record.net` and so on, and
            in a file if there is a folder `out`.
    """
    scenario, method = check_scenario_argument(scenario), check_method_argument(method)
    evaluation = Evaluation() if evaluation is None else check_evaluation(evaluation)
    recipe = MLP() if net is None else check_net_argument(net)
    if memory_budget is not None:
        tasks = scenario.tasks(seed)
        method = fit_budget(method, memory_budget, recipe.build(tasks.shape, tasks.outputs), tasks, METHODS.name_of)
    spec = Spec(
        scenario,
        method,
        recipe,
        Training(optimizer=method.optimizer) if training is None else check_training(training),
        replace(evaluation, keep=check_keep(keep)) if keep else evaluation,
        seed,
        threads,
        resolve_device(device),
        Start(str(weights or ""), freeze),
        check_metrics_argument(metrics),
    )

    def watch_apart(progress: Progress) -> None:
        with own_global_generators(torch.device(spec.device)):
            watch(progress)

    return run_spec(spec, Path(out) if out is not None else None, watch=watch_apart)


def run_spec(
    spec: Spec,
    out: Path | None = None,
    *,
    watch: Callable[[Progress], None] = lambda _: None,
    say: Say = tell,
) -> Record:
    """The record of a spec: from the files in `out` where it is there, else by running it."""
    if not out:
        return compute(spec, watch=watch)
    store = Store(out.absolute(), say)  # a hook of the run may change the directory
    if found := store.finished().get(spec.key):
        return attach_left(found, out, spec)
    lock = store.lock_run(spec.key)
    if lock is None:
        say(f"{spec}: another process runs it; waiting for its record")
        lock = store.lock_run(spec.key, wait=True)
        assert lock is not None
    try:
        if found := store.finished().get(spec.key):  # by whom we have waited for
            return attach_left(found, out, spec)
        checkpoints = Checkpoints(store.checkpoints(spec.key), say)
        record = compute(spec, save=checkpoints.save, resume=checkpoints.latest(), watch=watch, say=say)
        store.add(record)
        return record
    finally:
        lock.release()


def compute(
    spec: Spec,
    *,
    save: Callable[[Checkpoint], None] = lambda _: None,
    resume: Checkpoint | None = None,
    watch: Callable[[Progress], None] = lambda _: None,
    say: Say = tell,
    memory_budget: int | None = None,
) -> Record:
    """Runs a spec here and now, from its start if the checkpoint does not fit; what it returns is not written yet."""
    record = begin_record(spec)  # names the code that runs, whatever becomes of its files meanwhile
    metrics = {METRICS.name_of(metric): metric for metric in spec.metrics}
    if "logits" in spec.evaluation.keep:
        metrics.setdefault("confusion", METRICS["confusion"]())

    def outcome(resume: Checkpoint | None) -> Outcome:
        with process_state(spec.threads):
            return train(
                spec.scenario.tasks(spec.seed, spec.device),
                copy.deepcopy(spec.method),
                spec.network,
                spec.training,
                seed=spec.seed,
                device=spec.device,
                evaluation=spec.evaluation,
                save=save,
                resume=resume,
                watch=watch,
                memory_budget=memory_budget,
                metrics=metrics,
            )

    try:
        found = outcome(resume)
    except MisfitError as error:
        say(f"{spec}: {error}; it starts again")
        found = outcome(None)
    return replace(complete_record(record, found), left=Left(found.kept, spec) if found.kept else None)


def failed_record(spec: Spec, error: str) -> Record:
    """The record of a run that broke off, with its traceback or what ended its process."""
    return replace(complete_record(begin_record(spec), Outcome(status="failed")), error=error)


def begin_record(spec: Spec) -> Record:
    """What is known of a run before it begins: its names, its spec, and the machine and code that run it."""
    return Record(
        key=spec.key,
        scenario=spec.scenario_name,
        method=spec.method_name,
        seed=spec.seed,
        spec=spec.to_json(),
        status="failed",
        environment={
            **machine(),
            "threads": spec.threads,
            "device": spec.device,
            "data": {images.name: images.fingerprint for images in spec.scenario.images},
        },
    )


def complete_record(record: Record, outcome: Outcome) -> Record:
    """The record with what came of the run."""
    a = outcome.accuracy
    whole = outcome.status == "done"
    transfer = whole and bool(outcome.before)
    return replace(
        record,
        status=outcome.status,
        accuracy=a,
        average_accuracy=metrics.average_accuracy(a) if whole else None,
        forgetting=metrics.forgetting(a) if whole else None,
        backward_transfer=metrics.backward_transfer(a) if whole else None,
        average_incremental_accuracy=metrics.average_incremental_accuracy(a) if whole else None,
        forward_transfer=metrics.forward_transfer(outcome.before, outcome.untrained) if transfer else None,
        pooled_accuracy=outcome.pooled_accuracy if whole else None,
        losses=outcome.losses,
        curve=outcome.curve,
        steps=outcome.steps,
        seconds=outcome.seconds,
        memory=outcome.memory,
        scores=outcome.scores,
        extra=outcome.extra,
        environment={
            **record.environment,
            "peak_mb": round(peak_mb()),
            "resumed_after_task": outcome.resumed_after_task,
            "resumed_after_epoch": outcome.resumed_after_epoch,
            **({"resumed_after_step": outcome.resumed_after_step} if outcome.resumed_after_step else {}),
            **({"told_boundaries": outcome.told_boundaries} if outcome.told_boundaries else {}),
            **({"network": outcome.network} if outcome.network else {}),
        },
    )


@contextmanager
def process_state(threads: int) -> Iterator[None]:
    """The state that results are defined in, inside the block: so many threads, denormal numbers flushed to zero.

    A run that changes the directory moves nothing of what follows: relative paths mean what they meant.
    """
    threads_before, flushed_before, folder = torch.get_num_threads(), flushes_denormals(), current_folder()
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads_before)
        torch.set_flush_denormal(flushed_before)
        if folder and current_folder() != folder:
            os.chdir(folder)


def current_folder() -> str | None:
    """None if it was removed."""
    try:
        return os.getcwd()  # noqa: PTH109 (a text, as it is given back)
    except OSError:
        return None


def flushes_denormals() -> bool:
    """Whether this thread treats denormal numbers as zero, which torch can set but not tell."""
    return float(torch.tensor(1e-39) * 1.0) == 0.0


def settle(threads: int) -> None:
    """Brings a process of our own into the state that results and speed are defined in, for good."""
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    keep_freed_memory()


@cache
def keep_freed_memory() -> None:
    """Lets glibc keep freed memory for the next step, which else is returned and faulted in again each time.

    It cannot be undone: only for processes of our own, workers and the command line.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt:
            trim_threshold, mmap_threshold = -1, -3
            mallopt(mmap_threshold, 1 << 30)
            mallopt(trim_threshold, (1 << 31) - 1)


def resolve_device(device: str) -> str:
    """`auto` as the best there is; others as they are, refused where this PyTorch cannot use them."""
    usable = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return next(name for name in ("cuda", "mps", "cpu") if usable[name])
    kind = device.partition(":")[0]
    if not usable.get(kind):
        raise ValueError(
            f"device {device!r} cannot be used here; choose from {', '.join(d for d in usable if usable[d])}"
        )
    return device


@cache
def machine() -> dict[str, Any]:
    """What ran it: versions, commit, processor."""
    return {
        "engram": VERSION,
        **commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        **({"variables": chosen} if (chosen := bit_variables()) else {}),
    }


def bit_variables() -> dict[str, str]:
    """Variables of the environment that choose between kernels, whose results differ in their last bits."""
    return {name: os.environ[name] for name in BIT_VARIABLES if name in os.environ}


def commit() -> dict[str, Any]:
    """The commit of the code that runs, and whether the code was changed since; None outside a checkout."""
    here = ROOT

    def git(*arguments: str) -> str:
        command = ["git", "--no-optional-locks", "-C", str(here), *arguments]  # never in the way of the user's own git
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")) != here.parent:
            return {"commit": None, "dirty": None}
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "--", "."))}
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "dirty": None}


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
