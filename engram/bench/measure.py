"""Speed and memory on this machine, as ratios of times measured in the same process."""

from __future__ import annotations

import copy
import importlib.util
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from engram.core.streams import stream
from engram.core.system import peak_mb
from engram.data.sets import CATALOG
from engram.learning.fisher import fisher
from engram.learning.learner import Learner, batches
from engram.learning.method import Method
from engram.learning.train import new_learner, take_step, train
from engram.methods._replay import GenerativeReplay, share_of_now
from engram.nets.cnn import CNNNet
from engram.nets.mlp import MLP, MLPNet, hidden_layers
from engram.runs.run import settle
from engram.runs.spec import Spec, default_spec
from engram.scenarios.task import Batch, Task

ROUNDS, STEPS = 5, 60
MEASUREMENTS = (
    "scenario", "method", "net", "step_ms", "products_ms", "gemm_share", "dataloader_ms", "dataloader_ratio", "bare_ms",
    "bare_ratio", "peak_mb",
)  # fmt: skip


def measure_all(scenario: str = "split-mnist/class", method: str = "adam", net: str = "mlp") -> dict[str, Any]:
    """Measure the step time, the share of unavoidable matrix products in it, the ratio to a DataLoader loop, and the
    peak memory.

    Methods with a generator are measured on the last task, against a bare loop of the same forward and backward
    passes. None: not measured.
    """
    settle(threads=1)
    spec = default_spec(scenario, method, net=net)
    values = dict.fromkeys(MEASUREMENTS) | {"scenario": scenario, "method": method, "net": net}
    if any(isinstance(member, GenerativeReplay) for member in spec.method.members()):
        values |= compare_to_bare_loop(spec)
    else:
        values |= time_step_and_products(spec) | compare_to_dataloader(spec)
    values["peak_mb"] = measure_peak_apart(scenario, method, net)
    return values


def time_step_and_products(spec: Spec) -> dict[str, Any]:
    """Time a training step and the matrix products that it cannot avoid, alternating."""
    learner, _, task, step = make_stepper(spec)
    with task.train.opened(load=True):
        products = make_products(learner, spec.training.batch)
        best_step = best_products = float("inf")
        for _ in range(ROUNDS):
            step_time, product_time = time_in_turns(step, products)
            best_step, best_products = min(best_step, step_time), min(best_products, product_time)
    return {
        "step_ms": 1000 * best_step,
        "products_ms": 1000 * best_products,
        "gemm_share": best_products / best_step,
    }


def make_stepper(spec: Spec, task_number: int = 0) -> tuple[Learner, Method, Task, Callable[[], None]]:
    """A learner on one of its tasks and a function that does one training step, including the drawing of its batch.

    What a method trains beside the network takes its step too.
    """
    tasks = spec.scenario.tasks(spec.seed, spec.device).for_batch(spec.training.batch)
    method = copy.deepcopy(spec.method)
    learner = new_learner(tasks, method, spec.net, spec.training, spec.seed, torch.device(spec.device))
    curriculum = method.curriculum(tasks)
    task_number = min(task_number, len(curriculum) - 1)
    learner.training = replace(spec.training, steps=1)
    for task in curriculum[:task_number]:  # what the method keeps of earlier tasks, with one step on each of them
        learner.task = task.index
        method.begin_task(learner, task)
        for batch in batches(method.data(task), learner.training, stream(0, "bench")):
            take_step(learner, method, batch)
        learner.steps += 1
        method.end_task(learner, task)
    learner.training = spec.training
    learner.new_optimizer()  # the bare loops begin with a fresh one too
    task = curriculum[task_number]
    learner.task = task.index
    method.begin_task(learner, task)
    data = method.data(task)
    side_steps = [beside for m in method.members() if (beside := m.side_step(learner)) is not None]

    def endless() -> Iterator[Batch]:
        while True:
            yield from batches(data, spec.training, stream(0, "bench"))

    stream_of_batches = endless()

    def step() -> None:
        batch = next(stream_of_batches)
        take_step(learner, method, batch)
        for side_step in side_steps:
            side_step(next(stream_of_batches))

    return learner, method, task, step


def compare_to_bare_loop(spec: Spec) -> dict[str, Any]:
    """Time a step on the last task and a step of a bare loop with the same work, alternating; best of five each."""
    fits = spec.method_name in ("dgr", "rtf") and spec.scenario.normalize is None  # the bare loop is written for this
    bare = load_yardstick("replay") if fits else None
    learner, _, task, step = make_stepper(spec, len(spec.scenario.sizes()) - 1)
    with task.train.opened(load=True):
        theirs = bare.stepper(spec.method_name, make_bare_setting(bare, learner, task)) if bare else lambda: None
        rounds = [time_in_turns(step, theirs) for _ in range(ROUNDS)]
    ours, bare_s = (min(times) for times in zip(*rounds, strict=True))
    values = {"step_ms": 1000 * ours}
    return values | {"bare_ms": 1000 * bare_s, "bare_ratio": ours / bare_s} if bare else values


def make_bare_setting(bare: ModuleType, learner: Learner, task: Task) -> Any:
    """The learner's task in the form that the bare loop takes."""
    tasks, past = learner.tasks, learner.task
    everything = task.train.batch(torch.arange(len(task.train)))
    return bare.Setting(
        everything.x,
        everything.y,
        hidden_layers(getattr(learner.net, "classifier", learner.net)),
        tasks.outputs,
        learner.active(past),
        [(tasks.active(k, past - 1), learner.active(k)) for k in (range(past) if tasks.kind == "task" else [past - 1])],
        share_of_now(learner),
        learner.training.batch,
        learner.training.lr,
    )


def measure_methods(scenario: str, names: Sequence[str], net: str = "mlp") -> dict[str, Any]:
    """The cost of a step of each method on its last task, in steps of plain Adam; that of a Fisher, in epochs.

    The result is the median over 600 ratios of a step to the plain step just before it. If the processor changes its
    clock, both change; means over some dozens of steps differed by 0.04 between calls.
    """
    settle(threads=1)
    plain = default_spec(scenario, "adam", net=net)
    last = len(plain.scenario.tasks(0)) - 1
    costs: dict[str, Any] = {}
    for name in names:
        *_, task, plain_step = make_stepper(plain, last)
        *_, other_task, step = make_stepper(default_spec(scenario, name, net=net), last)
        with task.train.opened(load=True), other_task.train.opened(load=True):
            pairs = [time_pair(plain_step, step) for _ in range(2 * ROUNDS * STEPS)]
            costs[name] = median(seconds / plain_seconds for plain_seconds, seconds in pairs)
    costs["fisher"] = measure_fisher(plain)
    return {"scenario": scenario, "methods": costs}


def measure_fisher(spec: Spec) -> float:
    """The time of one task's Fisher information, in epochs of training on that task."""
    learner, _, task, step = make_stepper(spec)
    with task.train.opened(load=True):
        epoch, importance = [], []
        for _ in range(3):
            start = time.perf_counter()
            for _ in range(spec.training.steps_per_epoch(len(task.train))):
                step()
            middle = time.perf_counter()
            fisher(learner, task.train)
            epoch.append(middle - start)
            importance.append(time.perf_counter() - middle)
    return min(importance) / min(epoch)


def time_in_turns(first: Callable[[], None], second: Callable[[], None]) -> tuple[float, float]:
    """Mean seconds per call of two functions that are called alternately, so that both find the same caches."""
    one, two = zip(*(time_pair(first, second) for _ in range(STEPS)), strict=True)
    return fmean(one), fmean(two)


def time_pair(first: Callable[[], None], second: Callable[[], None]) -> tuple[float, float]:
    """Seconds of one call of each function."""
    start = time.perf_counter()
    first()
    middle = time.perf_counter()
    second()
    return middle - start, time.perf_counter() - middle


def make_products(learner: Learner, batch: int) -> Callable[[], None]:
    """A function that computes the products of one step: forward, weight gradients and input gradients.

    There is no gradient with respect to the image, and results are allocated beforehand.
    """
    if isinstance(learner.net, CNNNet):
        return make_cnn_products(learner.net, batch)
    assert isinstance(learner.net, MLPNet)
    weights = [layer.weight.detach() for layer in learner.net.layers]
    inputs = [torch.randn(batch, w.shape[1]) for w in weights]
    outputs = [torch.randn(batch, w.shape[0]) for w in weights]
    results = [torch.empty(batch, w.shape[0]) for w in weights]
    weight_gradients = [torch.empty_like(w) for w in weights]
    input_gradients = [torch.empty_like(a) for a in inputs]

    @torch.no_grad()
    def products() -> None:
        for a, w, out in zip(inputs, weights, results, strict=True):
            torch.mm(a, w.t(), out=out)
        for i in reversed(range(len(weights))):
            torch.mm(outputs[i].t(), inputs[i], out=weight_gradients[i])
            if i:
                torch.mm(outputs[i], weights[i], out=input_gradients[i])

    return products


def make_cnn_products(net: CNNNet, batch: int) -> Callable[[], None]:
    """`make_products` for a CNN; its convolutions use the kernels that a step calls."""
    layers = [*net.convolutions, net.dense, net.outputs]
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []

    def note(_: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        inputs.append(given[0])
        outputs.append(out)

    hooks = [layer.register_forward_hook(note) for layer in layers]
    with torch.no_grad():
        net(torch.randn(batch, math.prod(net.shape)))
    for hook in hooks:
        hook.remove()

    @torch.no_grad()
    def products() -> None:
        for layer, a in zip(layers, inputs, strict=True):
            layer(a)
        for i in reversed(range(len(layers))):
            layer, a, g = layers[i], inputs[i], outputs[i]
            if isinstance(layer, nn.Conv2d):
                torch.ops.aten.convolution_backward(
                    g, a, layer.weight, [len(layer.weight)], [1, 1], layer.padding, [1, 1], False, [0, 0], 1,
                    [i > 0, True, True],
                )  # fmt: skip
            else:
                g.t().mm(a)
                g.mm(layer.weight)

    return products


def compare_to_dataloader(spec: Spec) -> dict[str, Any]:
    """How many times longer a plain DataLoader loop takes for an epoch of the first task; None if it does not apply.

    Epochs of both alternate; best of three each.
    """
    images = spec.scenario.images[0]
    fits = images.shape == (1, 28, 28) and images.name in CATALOG and isinstance(spec.net, MLP)
    fits = fits and spec.scenario.pad == 2
    plain = load_yardstick("dataloader") if fits else None  # it is written for such images
    if plain is None or plain.__file__ is None:
        return {"dataloader_ms": None, "dataloader_ratio": None}
    *_, task, step = make_stepper(spec)
    assert isinstance(spec.net, MLP)
    sizes = (len(task.classes), *spec.net.hidden)
    command = [sys.executable, plain.__file__, images.name, *map(str, sizes)]
    ours, theirs = [], []
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as loop,
        task.train.opened(load=True),
    ):
        assert loop.stdin is not None
        assert loop.stdout is not None
        steps = int(loop.stdout.readline())
        for _ in range(3):
            start = time.perf_counter()
            for _ in range(steps):
                step()
            ours.append(time.perf_counter() - start)
            loop.stdin.write("\n")
            loop.stdin.flush()
            theirs.append(float(loop.stdout.readline()))
        loop.stdin.close()
    return {"dataloader_ms": 1000 / steps * min(theirs), "dataloader_ratio": min(theirs) / min(ours)}


def load_yardstick(name: str) -> ModuleType | None:
    """Load a module of `benchmarks/`, which is next to the package in a checkout and inside it in a wheel."""
    package = Path(__file__).parents[1]
    for folder in (package / "benchmarks", package.parent / "benchmarks"):
        path = folder / f"{name}.py"
        if path.exists():
            spec = importlib.util.spec_from_file_location(f"engram_benchmarks_{name}", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    return None


def measure_peak_apart(scenario: str, method: str, net: str) -> float:
    """Peak memory of a run in megabytes, measured in a new process."""
    code = f"from engram.bench.measure import measure_peak; print(measure_peak({scenario!r}, {method!r}, {net!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def measure_peak(scenario: str, method: str, net: str) -> float:
    """Peak memory in this process, in megabytes.

    A short run of at most ten tasks is enough, because all images are loaded at once.
    """
    spec = default_spec(scenario, method, net=net)
    settle(spec.threads)
    tasks = spec.scenario.tasks(spec.seed)
    first = replace(tasks, tasks=tasks.tasks[:10])
    train(first, copy.deepcopy(spec.method), spec.net, replace(spec.training, steps=30))
    return peak_mb()
