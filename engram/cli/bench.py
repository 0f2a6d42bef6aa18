"""`engram bench`: speed and memory on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

import tyro

from engram.cli import WrongCallError
from engram.cli.options import parse_options
from engram.cli.screen import ERR, OUT

PENALTIES = ("l2", "ewc", "online-ewc", "mas", "si")
RUNS = 20
"""Of a sweep that is measured."""


@dataclass
class BenchOptions:
    """Measures a training step against the matrix products that it cannot avoid and against a DataLoader loop."""

    scenario: tyro.conf.Positional[str] = "split-mnist/class"
    """Scenario, with its default setting."""
    method: tyro.conf.Positional[str] = "adam"
    """Method, with its default setting."""
    net: str = "mlp"
    """Network; `engram ls nets` lists them."""
    width: int | None = None
    """Width of a network that has one, such as resnet18; such a network is measured against a bare PyTorch loop."""
    letters: str | None = None
    """For long-queue: the dataset that replaces EMNIST letters."""
    methods: tuple[str, ...] | None = None
    """Measure instead what a step of these methods costs relative to plain Adam (none named: the penalties)."""
    sweep: bool = False
    """Measure instead how many times faster 20 runs go with two workers than with one, including their start."""
    precision: bool = False
    """Measure instead whole runs in bf16 and in fp32, alternately, of --methods (by default adam and rehearsal)."""
    scaling: bool = False
    """Measure instead how a step's time and the peak memory grow with hidden units, tasks (of --methods), images in a
    buffer, and workers: about ten minutes."""
    json: bool = False
    """Print JSON; with --scaling, what `engram figure scaling` draws."""


def bench_command(arguments: list[str]) -> int:
    """The command."""
    options = parse_options(BenchOptions, arguments, "engram bench")
    if options.sweep:
        return bench_sweep(options)
    from engram.bench import measure
    from engram.scenarios.names import with_letters

    try:
        scenario = with_letters(options.scenario, options.letters) if options.letters else options.scenario
        if options.scaling:
            return bench_scaling(scenario, options)
        if options.precision:
            return bench_precision(scenario, options)
        if options.methods is None and options.net not in ("mlp", "cnn"):
            return bench_network(scenario, options)
        if options.methods is not None:
            found = measure.measure_methods(scenario, options.methods or PENALTIES, options.net)
        else:
            found = measure.measure_all(scenario, options.method, options.net)
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    if options.json:
        print(json.dumps(found))
        return 0
    if options.methods is not None:
        OUT.print(
            f"{found['scenario']}: a step on the last task, in steps of plain Adam; Fisher information of a task, in "
            "epochs"
        )
        for name, ratio in found["methods"].items():
            OUT.print(f"  {name:<12} {ratio:.2f}")
        return 0
    lines = [
        f"{found['scenario']} {found['method']}, {found['net']}, one thread",
        f"  a step                    {found['step_ms']:.2f} ms",
    ]
    if found["products_ms"] is not None:
        share = found["gemm_share"]
        lines.append(f"  its matrix products       {found['products_ms']:.2f} ms, a share of {share:.2f}")
    if found["bare_ms"] is not None:
        ratio = found["bare_ratio"]
        lines.append(f"  a bare loop of its passes {found['bare_ms']:.2f} ms, so a step is {ratio:.2f} times that")
    if found["dataloader_ms"] is not None:
        ratio = found["dataloader_ratio"]
        lines.append(f"  a plain DataLoader loop   {found['dataloader_ms']:.1f} ms per step, {ratio:.1f} times as long")
    lines.append(f"  peak memory of a run      {found['peak_mb']:.0f} MB")
    OUT.print("\n".join(lines))
    return 0


def bench_scaling(scenario: str, options: BenchOptions) -> int:
    """How cost grows; every point is said when it is there."""
    from engram.bench.scaling import measure_scaling

    shown = ERR if options.json else OUT
    found = measure_scaling(scenario, options.methods or (), lambda text: shown.print(text, markup=False))
    if options.json:
        print(json.dumps(found, indent=1))
    return 0


def bench_precision(scenario: str, options: BenchOptions) -> int:
    """Whole runs in both precisions, in turns."""
    from engram.bench.whole_runs import compare_precisions

    found = compare_precisions(scenario, options.methods or ("adam", "rehearsal"), options.net)
    if options.json:
        print(json.dumps(found))
        return 0
    OUT.print(f"{found['scenario']}, {found['net']}, whole runs of one epoch per task, one thread")
    for name, took in found["methods"].items():
        OUT.print(
            f"  {name:<12} fp32 {took['fp32']:.2f} s, bf16 {took['bf16']:.2f} s: {took['ratio']:.2f} times as fast"
        )
    return 0


def bench_network(scenario: str, options: BenchOptions) -> int:
    """A network other than those whose products are known by hand."""
    from engram.bench.network import measure_network

    found = measure_network(scenario, options.net, options.width)
    if options.json:
        print(json.dumps(found))
        return 0
    width = "" if found["width"] is None else f" of width {found['width']}"
    OUT.print(f"{found['scenario']} adam, {found['net']}{width}, one thread")
    for name in ("plain", "augmented"):
        times = found[name]
        OUT.print(
            f"  a step, {name:<10} {times['step_ms']:8.2f} ms; a bare loop {times['bare_ms']:8.2f} ms, so a step is "
            f"{times['bare_ratio']:.2f} times that"
        )
    return 0


def bench_sweep(options: BenchOptions) -> int:
    """Whole commands in processes of their own, one after the other."""
    letters = ("--letters", options.letters) if options.letters else ()
    what = (options.scenario, options.method, "--net", options.net, *letters)
    call("run", *what, "--dry-run")  # names are right, and the data are there
    seconds = {}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as out:
            words = ("--seeds", str(RUNS), "--workers", str(workers), "--out", out)
            start = time.perf_counter()
            call("run", *what, *words)
            seconds[workers] = time.perf_counter() - start
    ratio = seconds[1] / seconds[2]
    if options.json:
        named = {"scenario": options.scenario, "method": options.method, "net": options.net, "runs": RUNS}
        print(json.dumps({**named, "seconds_1": seconds[1], "seconds_2": seconds[2], "sweep_ratio": ratio}))
    else:
        OUT.print(
            f"{options.scenario} {options.method}, {options.net}, {RUNS} runs: {seconds[1]:.1f} s with one worker, "
            f"{seconds[2]:.1f} s with two, {ratio:.2f} times the rate"
        )
    return 0


def call(*words: str) -> None:
    """A command of engram, which must succeed."""
    code = "from engram.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise WrongCallError(done.stderr.strip().removeprefix("engram: "))
