"""`engram run --dry-run`: what would be run, where each value comes from, and what it costs."""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

from rich.markup import escape
from rich.table import Table

from engram.bench.measure import make_stepper
from engram.cli.options import Flag
from engram.cli.resolve import members_by_prefix
from engram.cli.screen import OUT
from engram.core.messages import count
from engram.learning.memory import bytes_of, declared_bytes
from engram.learning.train import total_steps
from engram.runs.run import settle
from engram.runs.spec import Spec


def dry_run(spec: Spec, flags: list[Flag], options: Any, seeds: list[int]) -> int:
    """The resolved spec, where each value comes from, steps, bytes, estimated time."""
    members = members_by_prefix(spec.method)
    values = {f: getattr(members[f.member] if f.group == "method" else getattr(spec, f.group), f.name) for f in flags}
    sources = {f: f.source if values[f] == f.default else "this command" for f in flags}
    if spec.training.steps:
        idle = next(f for f in flags if (f.group, f.name) == ("training", "epochs"))
        sources[idle] = "without effect: steps are given"
    cost = estimate(spec)
    cost["runs"] = len(seeds)
    if options.json:
        named = {f"{f.group}.{f.label}": source for f, source in sources.items()}
        print(json.dumps({"spec": spec.to_json(), "key": spec.key, "sources": named, **cost}))
        return 0
    title = f"{spec.scenario_name} {spec.method_name}, key {spec.key} (seed {spec.seed})"
    table = Table(title=escape(title), title_justify="left")
    for column in ("value", "", "source"):
        table.add_column(column)
    for f in flags:
        table.add_row(f"{f.group}.{f.label}", escape(str(values[f])), sources[f])
    OUT.print(table)
    OUT.print(
        f"{cost['steps']:,} steps per run, {count(len(seeds), 'run')}, "
        f"about {cost['seconds'] * len(seeds):.0f} s in all if nothing else runs here "
        f"({cost['step_ms']:.1f} ms per step, measured now)\n"
        f"bytes: network {cost['bytes']['network']:,}, optimiser {cost['bytes']['optimizer']:,}, "
        f"images {cost['bytes']['images']:,}, kept by the method "
        + ("not stated: it has no kept_bytes" if cost["bytes"]["kept"] is None else f"{cost['bytes']['kept']:,}"),
    )
    return 0


def estimate(spec: Spec) -> dict[str, Any]:
    """Steps, bytes, and seconds from a few real steps."""
    settle(spec.threads)
    replays = any(member.replays for member in spec.method.members())
    learner, method, task, step = make_stepper(spec, task_number=int(replays))
    tasks = learner.tasks
    steps = total_steps(method, spec.training, tasks)
    # processor time of this thread, which shares in all products: a step of 3 ms that waits for others looks like 20
    clock = time.thread_time if learner.device.type == "cpu" else time.perf_counter
    times = []
    with task.train.opened(load=True):
        for _ in range(12):
            start = clock()
            step()
            times.append(clock() - start)
    seconds = statistics.median(times) / method.networks
    leaves = {leaf.x.data_ptr(): leaf.x for task in tasks for d in (task.train, task.test) for leaf in d.leaves()}
    return {
        "steps": steps,
        "step_ms": 1000 * seconds,
        "seconds": steps * seconds,
        "bytes": {
            "network": bytes_of(learner.params),
            "optimizer": bytes_of(learner.optimizer.state_dict()["state"]),
            "images": bytes_of(list(leaves.values())),
            "kept": declared_bytes(method, spec.net.build(tasks.shape, tasks.outputs), tasks),
        },
    }
