"""Whole runs in both precisions, in turns, on this machine."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from engram.learning.precision import check_precision
from engram.learning.train import train
from engram.runs.run import process_state
from engram.runs.spec import Spec, default_spec

RUNS_EACH = 3
"""Runs in each precision; the fastest counts."""


def compare_precisions(scenario: str, methods: Sequence[str], net: str = "mlp") -> dict[str, Any]:
    """Seconds of whole runs of one epoch per task, evaluation included, and how many times as fast bf16 is as fp32."""
    check_precision("bf16", torch.device("cpu"))
    found = {}
    for name in methods:
        spec = default_spec(scenario, name, net=net)
        spec = replace(spec, training=replace(spec.training, epochs=1, steps=0))
        seconds = {"fp32": float("inf"), "bf16": float("inf")}
        for _ in range(RUNS_EACH):
            for precision in seconds:
                seconds[precision] = min(seconds[precision], time_run(spec, precision))
        found[name] = {**seconds, "ratio": seconds["fp32"] / seconds["bf16"]}
    return {"scenario": scenario, "net": net, "methods": found}


def time_run(spec: Spec, precision: Any) -> float:
    """Seconds of one run, the reading of its data left out."""
    tasks = spec.scenario.tasks(spec.seed)
    training = replace(spec.training, precision=precision)
    with process_state(threads=1):
        start = time.perf_counter()
        train(tasks, copy.deepcopy(spec.method), spec.network, training, seed=spec.seed)
        return time.perf_counter() - start
