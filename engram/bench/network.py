"""A step with any network against a bare PyTorch loop with the same network and the same augmentation."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import torch

from engram.bench.measure import load_yardstick, make_stepper, time_pair
from engram.core.streams import stream
from engram.learning.augment import padding_of
from engram.runs.run import settle
from engram.runs.spec import Spec, default_spec, new_net, values_of

SECONDS = 20.0
"""How long both loops are measured, about; at least five steps each."""


def measure_network(scenario: str, net: str, width: int | None) -> dict[str, Any]:
    """Time steps of plain Adam with and without augmentation, and those of the bare loop, in turns.

    The ratio is of the fastest steps: what else the machine does only adds to a step.
    """
    settle(threads=1)
    spec = default_spec(scenario, "adam", net=net)
    if width is not None:
        fields = values_of(spec.net)
        if "width" not in fields:
            raise ValueError(f"width {width}: net {net} has no width")
        spec = replace(spec, net=new_net(type(spec.net), {**fields, "width": width}))
    values: dict[str, Any] = {"scenario": scenario, "net": net, "width": values_of(spec.net).get("width")}
    for name, augment in (("plain", ()), ("augmented", ("crop4", "flip"))):
        values[name] = compare_to_plain_loop(replace(spec, training=replace(spec.training, augment=augment)))
    return values


def compare_to_plain_loop(spec: Spec, seconds: float = SECONDS) -> dict[str, float]:
    """Milliseconds of a step here and of the bare loop, and their ratio."""
    learner, _, task, step = make_stepper(spec)
    with task.train.opened(load=True):
        theirs = make_plain_loop(spec, learner, task)
        first = sum(time_pair(step, theirs))  # not counted: memory is new
        rounds = [time_pair(step, theirs) for _ in range(max(5, int(seconds / first)))]
    ours, bare = (min(times) for times in zip(*rounds, strict=True))
    return {"step_ms": 1000 * ours, "bare_ms": 1000 * bare, "bare_ratio": ours / bare, "steps": len(rounds)}


def make_plain_loop(spec: Spec, learner: Any, task: Any) -> Any:
    """The bare loop from the same weights, with the same batches and draws."""
    bare = load_yardstick("network")
    if bare is None:
        raise ValueError("the bare loops (benchmarks/) are not on this machine")
    everything = task.train.batch(torch.arange(len(task.train)))
    return bare.stepper(
        copy.deepcopy(learner.net),
        everything.x.view(-1, *learner.tasks.shape),
        everything.y,
        learner.active(task.index),
        spec.training.batch,
        spec.training.lr,
        max(map(padding_of, spec.training.augment), default=0),
        stream(0, "bench"),
        stream(spec.seed, "augment", task.index),
    )
