"""`engram run`: one scenario, one method, one or more seeds."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from engram.cli import WrongCallError
from engram.cli.options import Flag, flags_of, given, parse_flags
from engram.cli.options import parse as parse_arguments
from engram.cli.screen import ERR, OUT
from engram.experiments import records
from engram.experiments.records import Record
from engram.experiments.run import resolve_device, run_spec, settle
from engram.experiments.spec import NETS, Spec, SpecError, from_json
from engram.learning import metrics
from engram.learning.evaluate import Evaluation
from engram.learning.ledger import size
from engram.learning.train import Progress as Where
from engram.learning.train import backward, new_learner
from engram.methods import method_class
from engram.paper.presets import DEFAULT, label, preset, rate, settings
from engram.scenarios.named import parse
from engram.scenarios.task import Batch

USAGE = """usage: engram run SCENARIO METHOD [flags]     |     engram run --spec FILE|KEY [--out DIR] [--json]

  engram run split-mnist/class adam              one run, recorded in runs/
  engram run split-mnist/task adagrad --seeds 10 ten runs, seeds 0 to 9
  engram run split-mnist/class adam --lr 0.01    another learning rate than the preset's
  engram run split-mnist/class adam --dry-run    what would be run, where each value comes from, what it costs
  engram run split-mnist/class adam --help       all flags of this scenario and method

`engram ls scenarios` and `engram ls methods` name what there is."""


@dataclass
class RunOptions:
    """What a run is not defined by, or what all runs share."""

    seed: int | None = None
    """Seed of the run; 0 where neither seed nor seeds is given."""
    seeds: int | None = None
    """Run seeds 0 to this less one."""
    threads: int = 1
    """Threads of a run; bits depend on it."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "cpu"
    """Where it is computed; auto takes the best there is."""
    out: Path = Path("runs")
    """Folder for records and checkpoints; what is recorded there is not run again."""
    json: bool = False
    """Print records as JSON, one a line."""
    dry_run: bool = False
    """Say what would be run and what it costs, and run nothing."""


def run(arguments: list[str]) -> int:
    """The command."""
    if "--spec" in arguments:
        return run_again(arguments)
    arguments, scenario_name, method_name = positionals(arguments)
    if not scenario_name or not method_name:
        print(USAGE)
        return 0 if "-h" in arguments or "--help" in arguments else 2
    try:
        name = parse(scenario_name)
        method_class(method_name)
        base = preset(scenario_name, method_name)
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    flags = all_flags(base, scenario_name, method_name)
    about = f"{method_class(method_name).__doc__}"
    options = parse_flags(flags, RunOptions, arguments, f"engram run {name} {method_name}", about)
    try:
        spec = spec_from(base, flags, options)
        if "--lr" not in arguments and options.optimizer != base.training.optimizer:
            spec = replace(spec, training=replace(spec.training, lr=rate(name, options.optimizer, "").value))
        seeds = seeds_of(options)
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    if options.dry_run:
        return dry_run(spec, flags, options, seeds)
    return run_all([replace(spec, seed=seed) for seed in seeds], options.out, options.json)


def positionals(arguments: list[str]) -> tuple[list[str], str, str]:
    """(the flags, scenario, method): the two names stand together, in front or anywhere."""
    for i, word in enumerate(arguments[:-1]):
        follows = arguments[i + 1]
        in_front = i == 0 or "/" in word
        if not word.startswith("-") and not follows.startswith("-") and in_front:
            return arguments[:i] + arguments[i + 2 :], word, follows
        if i == 0 and not word.startswith("-"):
            break
    return arguments, "", ""


def all_flags(base: Spec, scenario_name: str, method_name: str) -> list[Flag]:
    """Every value that a run is defined by, with the preset's as defaults."""
    groups = settings(parse(scenario_name), method_name)
    sources = {group: {field: s.source for field, s in values.items()} for group, values in groups.items()}
    flags = []
    for group in ("scenario", "method", "net", "training", "evaluation"):
        flags += flags_of(group, getattr(base, group), sources.get(group, {}), DEFAULT)
    return flags


def spec_from(base: Spec, flags: list[Flag], options: Any) -> Spec:
    """The spec with what the command line changed."""
    net = given(flags, options, "net")
    return Spec(
        scenario=replace(base.scenario, **given(flags, options, "scenario")),
        method=type(base.method)(**given(flags, options, "method")),
        net=NETS["mlp"](*net.pop("hidden"), **net),
        training=replace(base.training, **given(flags, options, "training")),
        evaluation=Evaluation(**given(flags, options, "evaluation")),
        threads=positive("threads", options.threads),
        device=resolve_device(options.device),
    )


def positive(name: str, value: int) -> int:
    if value < 1:
        raise ValueError(f"{name} {value} is out of range; give 1 or more")
    return value


def seeds_of(options: Any) -> list[int]:
    if options.seeds is not None:
        if options.seed is not None:
            raise ValueError("give --seed or --seeds, not both")
        return list(range(positive("seeds", options.seeds)))
    return [options.seed or 0]


def run_again(arguments: list[str]) -> int:
    """`--spec FILE|KEY`: a spec or a record in a file, or the key of a record."""

    @dataclass
    class Again:
        """Repeats a run from its spec."""

        spec: str
        """A JSON file with a spec or a record, or the key of a record in --out or results/."""
        out: Path = Path("runs")
        """Folder for records and checkpoints."""
        json: bool = False
        """Print the record as JSON."""

    options = parse_arguments(Again, arguments, "engram run")
    try:
        return run_all([from_json(find_spec(options.spec, options.out))], options.out, options.json)
    except (SpecError, ValueError) as error:
        raise WrongCallError(str(error)) from error


def find_spec(what: str, out: Path) -> dict[str, Any]:
    path = Path(what)
    if path.exists():
        try:
            values = json.loads(path.read_text().splitlines()[0] if path.suffix == ".jsonl" else path.read_text())
        except (json.JSONDecodeError, IndexError, UnicodeDecodeError) as error:
            raise SpecError(f"{what} is not JSON: {error}") from error
        found: dict[str, Any] = values.get("spec", values) if isinstance(values, dict) else {}
        return found
    for folder in (out, Path("results")):
        for file in sorted(folder.glob("*.jsonl")):
            for record in records.read(file):
                if record.key == what:
                    return record.spec
    raise SpecError(f"{what!r} is neither a file nor the key of a record in {out}/ or results/")


def run_all(specs: list[Spec], out: Path, as_json: bool) -> int:
    """Runs the specs one after the other and says what came of them."""
    first = specs[0]
    tasks = first.scenario.deal(first.seed)
    preset_label = label(first)
    ERR.print(
        f"[bold]{first.scenario_name}[/] with [bold]{first.method_name}[/]: {len(tasks)} tasks, kind {tasks.kind}; "
        f"who forgets all but the last task scores {tasks.floor:.1f} %"
        + ("; the published setting" if preset_label else "; not a published setting"),
    )
    done = []
    for spec in specs:
        with progress(spec) as watch:
            record = run_spec(spec, out, preset=preset_label, watch=watch)
        done.append(record)
        if as_json:
            print(record.to_json(), flush=True)
        else:
            ERR.print(line(record, out))
    if not as_json:
        summary(done, out)
    return 0 if all(record.status == "done" for record in done) else 1


@contextmanager
def progress(spec: Spec) -> Iterator[Any]:
    """A live bar on a terminal, a plain line a task elsewhere."""
    if ERR.is_terminal:
        bar = Progress(
            TextColumn("seed {task.fields[seed]}  task {task.fields[where]}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} steps  loss {task.fields[loss]:.3f}"),
            TimeRemainingColumn(),
            console=ERR,
            transient=True,
        )
        with bar:
            task = bar.add_task("", total=None, seed=spec.seed, where="1", loss=float("nan"))

            def watch(at: Where) -> None:
                where = f"{at.task}/{at.tasks}"
                bar.update(task, total=at.steps, completed=at.step, where=where, loss=at.loss)

            yield watch
    else:

        def plain(at: Where) -> None:
            if at.accuracy:
                seen = " ".join(f"{a:.1f}" for a in at.accuracy)
                ERR.print(f"seed {spec.seed}  task {at.task}/{at.tasks}  accuracy {seen}")

        yield plain


def line(record: Record, out: Path) -> str:
    if record.status != "done":
        return f"seed {record.seed}: [red]{record.status}[/] after {record.steps} steps"
    forgotten = "" if record.forgetting is None else f", forgetting {record.forgetting:.2f}"
    offline = intransigence(record, out)
    return (
        f"seed {record.seed}: average accuracy {record.average_accuracy:.2f}{forgotten}"
        + ("" if offline is None else f", intransigence {offline:.2f}")
        + f"  ({record.steps} steps, {record.seconds:.1f} s, {record.key})"
    )


def intransigence(record: Record, out: Path) -> float | None:
    """Against the offline record of the same scenario and seed, where there is one."""
    for other in records.read(out / "records.jsonl"):
        same = other.seed == record.seed and other.spec["scenario"] == record.spec["scenario"]
        if same and other.method == "offline" and other.status == "done":
            return metrics.intransigence(record.accuracy, other.accuracy[0])
    return None


def summary(done: list[Record], out: Path) -> None:
    """The table that people paste."""
    values = [record.average_accuracy for record in done if record.average_accuracy is not None]
    if not values:
        return
    table = Table(title=f"{done[0].scenario} {done[0].method}", title_justify="left")
    for column in ("metric", "mean", "std", "n"):
        table.add_column(column, justify="left" if column == "metric" else "right")
    for metric in ("average_accuracy", "average_incremental_accuracy", "forgetting", "backward_transfer",
                   "forward_transfer", "pooled_accuracy"):  # fmt: skip
        found = [v for record in done if (v := getattr(record, metric)) is not None]
        if found and (metric != "pooled_accuracy" or done[0].method == "offline"):
            mean, std = statistics.fmean(found), statistics.pstdev(found)
            table.add_row(metric.replace("_", " "), f"{mean:.2f}", f"{std:.2f}", str(len(found)))
    OUT.print(table)
    ERR.print(f"records in {out / 'records.jsonl'}")


def dry_run(spec: Spec, flags: list[Flag], options: Any, seeds: list[int]) -> int:
    """The resolved spec, where each value comes from, steps, bytes, estimated time."""
    values = {(f.group, f.name): getattr(getattr(spec, f.group), f.name) for f in flags}
    sources = {(f.group, f.name): f.source if values[f.group, f.name] == f.default else "this command" for f in flags}
    cost = estimate(spec)
    cost["runs"] = len(seeds)
    if options.json:
        named = {f"{group}.{name}": source for (group, name), source in sources.items()}
        print(json.dumps({"spec": spec.to_json(), "key": spec.key, "sources": named, **cost}))
        return 0
    table = Table(
        title=f"{spec.scenario_name} {spec.method_name}, key {spec.key} (seed {spec.seed})", title_justify="left"
    )
    for column in ("value", "", "source"):
        table.add_column(column)
    for f in flags:
        table.add_row(f"{f.group}.{f.name}", str(values[f.group, f.name]), sources[f.group, f.name])
    OUT.print(table)
    OUT.print(
        f"{cost['steps']:,} steps a run, {len(seeds)} run(s), about {cost['seconds'] * len(seeds):.0f} s in all "
        f"({cost['step_ms']:.1f} ms a step measured now)\n"
        f"bytes: network {cost['bytes']['network']:,}, optimiser {cost['bytes']['optimizer']:,}, "
        f"images {cost['bytes']['images']:,}, kept by the method {cost['bytes']['kept']:,}",
    )
    return 0


def estimate(spec: Spec) -> dict[str, Any]:
    """Steps, bytes, and seconds from a few real steps."""
    from engram.learning.ledger import memory

    settle(spec.threads)
    tasks = spec.scenario.deal(spec.seed, spec.device)
    method = type(spec.method)(**{f.name: getattr(spec.method, f.name) for f in fields(spec.method)})
    learner = new_learner(tasks, method, spec.net, spec.training, spec.seed, torch.device(spec.device))
    sizes = [len(task.train) for task in method.curriculum(tasks)]
    steps = sum(spec.training.steps_for(n) for n in sizes)
    batch: Batch = tasks[0].train.batch(torch.arange(min(spec.training.batch, sizes[0]), device=spec.device))
    times = []
    for _ in range(12):
        start = time.perf_counter()
        backward(learner, method, batch)
        learner.optimizer.step()
        times.append(time.perf_counter() - start)
    step = statistics.median(times)
    leaves = {leaf.x.data_ptr(): leaf.x for task in tasks for d in (task.train, task.test) for leaf in d.leaves()}
    return {
        "steps": steps,
        "step_ms": 1000 * step,
        "seconds": steps * step,
        "bytes": {
            "network": size(learner.params),
            "optimizer": size(learner.optimizer.state_dict()["state"]),
            "images": size(list(leaves.values())),
            "kept": sum(memory(method)["kept"].values()),
        },
    }
