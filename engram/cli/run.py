"""`engram run`: one scenario, one method, one or more seeds."""

from __future__ import annotations

import statistics
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from rich.markup import escape
from rich.table import Table

from engram.cli import WrongCallError, leave_stdout
from engram.cli.dry_run import dry_run
from engram.cli.options import EngineOptions, parse_flags
from engram.cli.options import parse as parse_arguments
from engram.cli.resolve import (
    all_flags,
    find_spec,
    fitted,
    net_and_letters,
    positionals,
    protocol_of,
    seeds_of,
    spec_from,
    tried,
    with_method_files,
)
from engram.cli.samples import Pictures
from engram.cli.screen import ERR, OUT, writable
from engram.cli.sweep import engine_of, sweep
from engram.data import use_blank_images
from engram.engines.driver import At, Engine, Job
from engram.learning import metrics
from engram.methods import methods
from engram.runs.records import Record, offline_of
from engram.runs.run import resolve_device
from engram.runs.spec import Spec, from_json
from engram.runs.store import Store
from engram.scenarios.names import ScenarioName, parse_name
from engram.studies.hsu2018.cells import Protocol
from engram.studies.hsu2018.presets import COPIED_FROM, label, preset, rate, settings, source_of
from engram.trackers.tracking import Tracking

USAGE = """usage: engram run SCENARIO METHOD [flags]     |     engram run --spec FILE|KEY [--out DIR] [--json]

  engram run split-mnist/class adam              one run, recorded in runs/
  engram run split-mnist/task adagrad --seeds 10 ten runs, seeds 0 to 9
  engram run split-mnist/class adam --lr 0.01    another learning rate than the preset's
  engram run split-mnist/class adam --dry-run    what would be run, where each value comes from, what it costs
  engram run split-mnist/class adam --help       all flags of this scenario and method
  engram run split-mnist/class rehearsal+si --si.coef 100
                                                 two methods together
  engram run split-mnist/class rtf --samples pictures
                                                 and pictures of what its generator draws
  engram run split-mnist/task mine --method-file mine.py
                                                 a method of your own
  engram run split-mnist/task ewc --net cnn      the paper's CNN in place of the MLP
  engram run long-queue/task si --letters cyrillic-letters
                                                 78 tasks; another set of letters in the place of EMNIST's

`engram ls scenarios` and `engram ls methods` name what there is."""


@dataclass(kw_only=True)
class RunOptions(EngineOptions):
    """What a run is not defined by, or what all runs share."""

    seed: int | None = None
    """Seed of the run; 0 where neither seed nor seeds is given."""
    seeds: int | None = None
    """Run seeds 0 to this less one."""
    threads: int = 1
    """Threads of a run; bits depend on it."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "cpu"
    """Where it is computed; auto takes the best there is."""
    protocol: Protocol = "own"
    """own: lwf, dgr and rtf as their authors ran them, and si and online-ewc of the long queue with a new optimiser
    for each task; common: as all other methods."""
    memory_budget: int | None = None
    """Bytes that the method may keep across a boundary: sizes a buffer, refuses a method that cannot fit."""
    no_boundaries: bool = False
    """Refuse methods that need to be told where a task ends."""
    out: Path = Path("runs")
    """Folder for records and checkpoints; what is recorded there is not run again."""
    json: bool = False
    """Print records as JSON, one a line."""
    track: tuple[Literal["tensorboard", "mlflow", "wandb"], ...] = ()
    """Also write to these trackers, into the folder --out; nothing is sent anywhere. Needs the extra track."""
    samples: Path | None = None
    """Folder for pictures of what the method's generator draws after each task: KEY-task-N.png, 64 images."""
    dry_run: bool = False
    """Say what would be run and what it costs, and run nothing."""
    # what decides on other flags is read before them, and stands here for the help
    net: Literal["mlp", "cnn"] = "mlp"
    """Network: an MLP, or the paper's CNN; each has flags of its own."""
    letters: str | None = None
    """Of long-queue: the set in the place of EMNIST letters; cyrillic-letters can stand in."""
    method_file: Path | None = None
    """Python file with a method of your own, which goes by the file's name; may be given several times."""


def run(arguments: list[str]) -> int:
    """The command."""
    arguments = with_method_files(arguments)
    if any(word == "--spec" or word.startswith("--spec=") for word in arguments):
        return run_again(arguments)
    arguments, scenario_name, method_name = positionals(arguments)
    asks_help = bool({"-h", "--help"} & set(arguments))
    if asks_help and not method_name:
        print(USAGE)
        return 0
    if not method_name:
        missing = (
            "SCENARIO and METHOD are missing" if not scenario_name else f"the method is missing: {scenario_name} …"
        )
        raise WrongCallError(f"{missing}; choose a method from {', '.join(methods())}\n\n{USAGE}")
    try:
        arguments, net, scenario_name = net_and_letters(arguments, scenario_name)
        name = parse_name(scenario_name)
        protocol = protocol_of(arguments)
        with use_blank_images() if asks_help else nullcontext():
            base = preset(scenario_name, method_name, protocol=protocol, net=net)
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    flags = all_flags(base, scenario_name, method_name, protocol)
    about = "\n\n".join(member.__doc__ or "" for member in base.method.members())
    options = parse_flags(flags, RunOptions, arguments, f"engram run {name} {method_name}", about)
    try:
        spec = spec_from(base, flags, options)
        chosen_rate = any(word.partition("=")[0] == "--lr" for word in arguments)
        if not chosen_rate and options.optimizer != base.training.optimizer:
            own = rate(name, options.optimizer, source_of(name))
            spec = replace(spec, training=replace(spec.training, lr=own.value))
            flags = [replace(f, default=own.value, source=own.source) if f.name == "lr" else f for f in flags]
        if options.memory_budget is not None and any(flag_of(word) == "capacity" for word in arguments):
            raise ValueError("give --capacity or --memory-budget, which sizes the buffer, not both")
        spec = fitted(spec, options)
        writable(options.out)
        seeds, engine = seeds_of(options), engine_of(options, spec.threads)
        tracking = Tracking(options.track, options.out)
        pictures = Pictures(options.samples, spec)
        tried(replace(spec, seed=seeds[0]))
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    say_changes(name, method_name, protocol)
    if options.dry_run:
        return dry_run(replace(spec, seed=seeds[0]), flags, options, seeds)
    specs = [replace(spec, seed=seed) for seed in seeds]
    return run_all(specs, options.out, options.json, engine, pictures, tracking)


def flag_of(word: str) -> str:
    """`capacity` of `--capacity=5` and `--rehearsal.capacity`."""
    return word.partition("=")[0].rpartition(".")[2].removeprefix("--") if word.startswith("--") else ""


def say_changes(name: ScenarioName, method: str, protocol: Protocol) -> None:
    """Where a method's own protocol changes the scenario."""
    own, common = (settings(name, method, p)["scenario"] for p in (protocol, "common"))
    changes = [
        f"{field} {s.value}" for field, s in own.items() if field not in common or common[field].value != s.value
    ]
    if changes:
        source = next(s.source for s in own.values() if s.source == COPIED_FROM)
        ERR.print(f"the preset of {method} changes the scenario: {', '.join(changes)} ({source}); see --protocol")


def run_again(arguments: list[str]) -> int:
    """`--spec FILE|KEY`: a spec or a record in a file, or the key of a record."""

    @dataclass(kw_only=True)
    class Again(EngineOptions):
        """Repeats a run from its spec."""

        spec: str
        """A JSON file with a spec or a record, or the key of a record in --out, runs/ or results/."""
        out: Path = Path("runs")
        """Folder for records and checkpoints."""
        json: bool = False
        """Print the record as JSON."""
        samples: Path | None = None
        """Folder for pictures of what the method's generator draws after each task."""

    options = parse_arguments(Again, arguments, "engram run")
    try:
        engine = engine_of(options)
        spec = from_json(find_spec(options.spec, options.out))
        if options.engine == "local":
            resolve_device(spec.device)
        pictures = Pictures(options.samples, spec)
        tried(spec)
    except ValueError as error:
        raise WrongCallError(f"{options.spec}: {error}") from error
    if not Path(options.spec).is_file() and spec.key != options.spec:
        ERR.print(f"{options.spec} was made by other code than there is now: this run is {spec.key}")
    return run_all([spec], options.out, options.json, engine, pictures)


def run_all(
    specs: list[Spec], out: Path, as_json: bool, engine: Engine, pictures: Pictures, tracking: Tracking | None = None
) -> int:
    """Runs the specs and says what came of them."""
    tracking = tracking or Tracking((), out)
    writable(out)
    first = specs[0]
    tasks = first.scenario.tasks(first.seed)
    preset_label = label(first)
    ERR.print(
        f"[bold]{escape(first.scenario_name)}[/] with [bold]{first.method_name}[/]: {len(tasks)} tasks, "
        f"kind {tasks.kind}; who forgets all but the last task scores {tasks.floor:.1f} %"
        + (f"; in the tables as {escape(preset_label)}" if preset_label else "; not a published setting"),
    )
    for text in first.scenario.copies():
        ERR.print(text, markup=False)
    store = Store(out, lambda _: None)

    def each(_: Job, record: Record) -> str | None:
        tracking.finish(record)
        if not as_json:
            return line(record, store)
        try:
            print(record.to_json(), flush=True)
        except BrokenPipeError:
            leave_stdout()
            return f"nobody reads standard output any more; the runs go on, and their records are in {escape(str(out))}"
        return None

    def watch(event: At) -> None:
        tracking.watch(event)
        pictures.watch(event)

    with closing(engine):
        jobs = [Job(spec, preset_label) for spec in specs]
        done = [record for _, record in sweep(jobs, out, engine, each, watch=watch)]
    pictures.report(done)
    if not as_json:
        summary(done, out)
    return 0 if all(record.status == "done" for record in done) else 1


def line(record: Record, store: Store) -> str:
    if record.status != "done":
        why = f": {escape(record.error.splitlines()[-1])}" if record.error else ""
        return f"seed {record.seed}: [red]{record.status}[/] after {record.steps} steps{why}"
    forgotten = "" if record.forgetting is None else f", forgetting {record.forgetting:.2f}"
    offline = intransigence(record, store)
    return (
        f"seed {record.seed}: average accuracy {record.average_accuracy:.2f}{forgotten}"
        + ("" if offline is None else f", intransigence {offline:.2f}")
        + f"  ({record.steps} steps, {record.seconds:.1f} s, {record.key}"
        + (", recorded before)" if record.reused else ")")
    )


def intransigence(record: Record, store: Store) -> float | None:
    """Against the offline record of the same scenario, network and seed, where there is one."""
    offline = offline_of(record, store.finished().values())
    return metrics.intransigence(record.accuracy, offline.accuracy[0]) if offline else None


def summary(done: list[Record], out: Path) -> None:
    """The table that people paste."""
    values = [record.average_accuracy for record in done if record.average_accuracy is not None]
    if not values:
        return
    table = Table(title=escape(f"{done[0].scenario} {done[0].method}"), title_justify="left")
    for column in ("metric", "mean", "std", "n"):
        table.add_column(column, justify="left" if column == "metric" else "right")
    for metric in ("average_accuracy", "average_incremental_accuracy", "forgetting", "backward_transfer",
                   "forward_transfer", "pooled_accuracy"):  # fmt: skip
        found = [v for record in done if (v := getattr(record, metric)) is not None]
        if found and (metric != "pooled_accuracy" or done[0].method == "offline"):
            mean, std = statistics.fmean(found), statistics.pstdev(found)
            table.add_row(metric.replace("_", " "), f"{mean:.2f}", f"{std:.2f}", str(len(found)))
    OUT.print(table)
    ERR.print(f"records in {escape(str(out / 'records.jsonl'))}")
