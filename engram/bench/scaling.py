"""How the cost of a step and the peak memory grow: with hidden units, tasks, images in a buffer, and workers.

Every point is measured in a process of its own, in processor time and in turns with a step of plain Adam.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from statistics import median
from typing import Any

import torch

from engram.bench.measure import make_stepper
from engram.core.messages import Say
from engram.core.streams import stream
from engram.core.system import peak_mb
from engram.learning.learner import Learner, batches
from engram.learning.method import Method
from engram.learning.train import new_learner, take_step
from engram.nets.mlp import MLP
from engram.runs.run import machine, settle
from engram.runs.spec import Spec, default_spec
from engram.scenarios.task import Batch, Data

HIDDEN = (100, 200, 400, 800, 1600)
TASKS, IMAGES_PER_CLASS = 20, 200
CAPACITIES = (200, 2000, 20_000)
WORKERS, SWEPT_RUNS = (1, 2, 4), 8
PAIRS = 30
"""Steps of a measurement, each right after one of plain Adam."""
OVER_TASKS = ("online-ewc", "si", "er", "der-pp", "a-gem", "ewc", "gem", "lwf")
OVER_CAPACITY = ("er", "der-pp", "a-gem", "rehearsal")
SAME_COST = frozenset(
    {"adam", "sgd", "adagrad", "l2", "online-ewc", "si", "mas", "er", "er-ace", "der", "der-pp", "mir", "a-gem"}
)
"""Methods whose step costs the same on every task after the first, by their papers: penalties are summed up into one,
one batch is replayed, one reference gradient is taken. EWC has a penalty and GEM a gradient per task."""


def measure_scaling(scenario: str, methods: Sequence[str], say: Say) -> dict[str, Any]:
    """All four, with a line to `say` after each point."""
    about = machine()
    return {
        "machine": {name: about[name] for name in ("cpu", "cores", "torch", "commit")},
        "scenario": scenario,
        "hidden": list(over_hidden(scenario, say)),
        "tasks": list(over_tasks(methods or OVER_TASKS, say)),
        "capacity": list(over_capacity(scenario, say)),
        "workers": list(over_workers(scenario, say)),
    }


def over_hidden(scenario: str, say: Say) -> Iterator[dict[str, Any]]:
    """A step of plain Adam with two hidden layers of so many units, and the peak memory."""
    for units in HIDDEN:
        found = measure_apart("time_hidden", scenario, units)
        say(f"{units} hidden units: {found['step_ms']:.2f} ms per step, {found['peak_mb']:.0f} MB")
        yield {"hidden": units, **found}


def time_hidden(scenario: str, units: int) -> dict[str, float]:
    spec = default_spec(scenario, "adam")
    *_, task, step = make_stepper(replace(spec, net=MLP(units, units)))
    with task.train.opened(load=True):
        step()  # not counted: memory is new
        seconds = median(time_call(step) for _ in range(PAIRS))
    return {"step_ms": 1000 * seconds, "peak_mb": peak_mb()}


def over_tasks(methods: Sequence[str], say: Say) -> Iterator[dict[str, Any]]:
    """A step of each method on each of 20 tasks of Permuted MNIST, in steps of plain Adam.

    `growth` is the cost on the last three tasks relative to that on tasks 2 to 4, as medians.
    """
    for name in methods:
        found = measure_apart("time_tasks", name)
        early, late = median(found["ratios"][1:4]), median(found["ratios"][-3:])
        remark = "" if name in SAME_COST else " (its paper promises no constant cost)"
        say(f"{name}: {early:.2f} steps of adam on tasks 2 to 4, {late:.2f} on the last three of {TASKS}{remark}")
        yield {"method": name, "same_cost": name in SAME_COST, "growth": late / early, **found}


def time_tasks(name: str) -> dict[str, Any]:
    plain, spec = (with_tasks(default_spec("permuted-mnist/domain", one)) for one in ("adam", name))
    *_, plain_task, plain_step = make_stepper(plain)
    with plain_task.train.opened(load=True):
        ratios = [time_in_steps(plain_step, step, PAIRS) for step in steps_of_tasks(spec)]
    return {"ratios": ratios, "peak_mb": peak_mb()}


def with_tasks(spec: Spec) -> Spec:
    """So many permutations of a few images, on which the cost of a step does not depend, and 400 hidden units."""
    if "capacity" in {f.name for f in fields(spec.method)}:
        # as many images of each task as a replayed batch has, or the first batches would be smaller than the last
        spec = replace(spec, method=replace(spec.method, capacity=TASKS * spec.training.batch))  # type: ignore[call-arg]
    few = replace(spec.scenario, permutations=TASKS, per_class=IMAGES_PER_CLASS)  # type: ignore[call-arg]
    return replace(spec, scenario=few, net=MLP(400, 400))


def over_capacity(scenario: str, say: Say) -> Iterator[dict[str, Any]]:
    """A step on the last task with a full buffer of so many images, in steps of plain Adam, and the peak memory."""
    for name in OVER_CAPACITY:
        for capacity in CAPACITIES:
            found = measure_apart("time_capacity", scenario, name, capacity)
            say(f"{name} with {capacity} images: {found['ratio']:.2f} steps of adam, {found['peak_mb']:.0f} MB")
            yield {"method": name, "capacity": capacity, **found}


def time_capacity(scenario: str, name: str, capacity: int) -> dict[str, float]:
    spec = default_spec(scenario, name)
    spec = replace(spec, method=replace(spec.method, capacity=capacity))  # type: ignore[call-arg]
    *_, plain_task, plain_step = make_stepper(default_spec(scenario, "adam"))
    *earlier, _ = spec.scenario.sizes()
    with plain_task.train.opened(load=True):
        steps = steps_of_tasks(spec)
        for size in earlier:
            step = next(steps)
            for _ in range(spec.training.steps_per_epoch(size)):  # an epoch, which fills the buffer
                step()
        ratio = time_in_steps(plain_step, next(steps), PAIRS)
    return {"ratio": ratio, "peak_mb": peak_mb()}


def over_workers(scenario: str, say: Say) -> Iterator[dict[str, Any]]:
    """Seconds of a sweep of short runs, start-up included."""
    for workers in WORKERS:
        with tempfile.TemporaryDirectory() as out:
            words = ["run", scenario, "adam", "--steps", "100", "--seeds", str(SWEPT_RUNS), "--workers", str(workers)]
            start = time.perf_counter()
            call_python("from engram.cli import main; main()", *words, "--out", out)
            seconds = time.perf_counter() - start
        say(f"{workers} workers on {os.cpu_count()} cores: {SWEPT_RUNS} runs of 100 steps per task in {seconds:.1f} s")
        yield {"workers": workers, "runs": SWEPT_RUNS, "seconds": seconds}


def steps_of_tasks(spec: Spec) -> Iterator[Callable[[], None]]:
    """For each task a function that takes a step on it; the task ends when the next one is asked for."""
    tasks, method = spec.scenario.tasks(spec.seed), copy.deepcopy(spec.method)
    learner = new_learner(tasks, method, spec.net, spec.training, spec.seed, torch.device("cpu"))
    for task in method.curriculum(tasks):
        learner.begin_task(task.index, PAIRS)
        with task.train.opened(load=True):
            method.begin_task(learner, task)
            yield make_step(learner, method, method.data(task))
            method.end_task(learner, task)


def make_step(learner: Learner, method: Method, data: Data) -> Callable[[], None]:
    """A function that draws a batch and takes a step."""

    def endless() -> Iterator[Batch]:
        while True:
            yield from batches(data, learner.training, stream(0, "bench"))

    drawn = endless()

    def step() -> None:
        take_step(learner, method, next(drawn))
        learner.steps += 1
        learner.step_of_task += 1

    return step


def time_in_steps(plain: Callable[[], None], step: Callable[[], None], pairs: int) -> float:
    """The cost of a step in plain steps: the median over pairs that follow each other."""
    step()  # not counted: memory is new
    return median(ours / theirs for theirs, ours in ((time_call(plain), time_call(step)) for _ in range(pairs)))


def time_call(function: Callable[[], None]) -> float:
    """Processor seconds of a call; what else the machine does adds little to them."""
    start = time.process_time()
    function()
    return time.process_time() - start


def measure_apart(function: str, *values: Any) -> Any:
    """What a function of this module finds in a new process, whose peak memory is that of the measurement alone."""
    code = "import sys; from engram.bench.scaling import measure_here; measure_here(sys.argv[1])"
    return json.loads(call_python(code, json.dumps([function, *values])))


def measure_here(words: str) -> None:
    function, *values = json.loads(words)
    settle(threads=1)
    measurements: dict[str, Callable[..., dict[str, Any]]] = {
        "time_hidden": time_hidden,
        "time_tasks": time_tasks,
        "time_capacity": time_capacity,
    }
    print(json.dumps(measurements[function](*values)))


def call_python(code: str, *words: str) -> str:
    """What a new interpreter prints; a ValueError if it fails."""
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.strip().splitlines()[-1])
    return done.stdout
