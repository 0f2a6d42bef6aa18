"""`engram run`: one scenario, one method, one or more seeds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from rich.markup import escape
from rich.table import Table

from engram.analysis.offline import intransigence_of
from engram.cli import WrongCallError, leave_stdout
from engram.cli.files import with_files, with_optimizer_options
from engram.cli.options import EngineOptions, parse_flags, parse_options
from engram.cli.resolve import (
    all_flags,
    apply_limits,
    choose,
    chosen_optimizer,
    default_or_refuse,
    find_spec,
    named_flags,
    net_and_letters,
    positionals,
    protocol_of,
    seeds_of,
    spec_from,
    try_spec,
)
from engram.cli.samples import Pictures
from engram.cli.screen import ERR, OUT, writable
from engram.cli.sweep import engine_of, sweep
from engram.core.messages import count
from engram.core.registry import METHODS, METRICS, doc_of
from engram.core.userfile import user_place
from engram.data.catalog import use_blank_images
from engram.engines.driver import At, Engine, Job
from engram.runs.defaults import Protocol
from engram.runs.records import Record
from engram.runs.run import resolve_device
from engram.runs.setting import Setting
from engram.runs.spec import Spec, from_json, spec_of_setting
from engram.runs.store import RECORDS, Store, kept_path
from engram.scenarios.names import parse_name
from engram.studies.catalog import tables_with
from engram.trackers.tracking import Tracking

USAGE = """usage: engram run SCENARIO METHOD [flags]     |     engram run --spec FILE|KEY [--out DIR] [--json]

  engram run split-mnist/class adam              one run, recorded in runs/
  engram run split-mnist/task adagrad --seeds 10 ten runs, seeds 0 to 9
  engram run split-mnist/class adam --lr 0.01    another learning rate than the default
  engram run split-mnist/class adam --dry-run    what would be run, and what it would cost
  engram run split-mnist/class adam --help       all flags of this scenario and method
  engram run split-mnist/class rehearsal+si --si.coef 100
                                                 two methods together
  engram run split-mnist/class rtf --samples pictures
                                                 also saves images that its generator draws
  engram run split-mnist/task mine --file mine.py
                                                 a method (network, scenario, metric) of your own
  engram run split-mnist/task ewc --net cnn      the paper's CNN instead of the MLP
  engram run blurry-split-mnist/class er         tasks that overlap; the method is not told where they end
  engram run online-split-mnist/class er         one epoch of batches of 10
  engram run mnist-360 er --batch 16             a stream of rotating digits
  engram run long-queue/task si --letters cyrillic-letters
                                                 78 tasks; another set of letters instead of EMNIST's

`engram ls scenarios` and `engram ls methods` list the names."""


@dataclass(kw_only=True)
class RunOptions(EngineOptions):
    """What a run is not defined by, or what all runs share."""

    seed: int | None = None
    """Seed of the run; 0 if neither seed nor seeds is given."""
    seeds: int | None = None
    """Number of runs: seeds 0, 1, 2, …"""
    threads: int = 1
    """Threads per run; bits depend on them."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "cpu"
    """Device of the run; auto takes the best one available."""
    protocol: Protocol = "own"
    """own: lwf, dgr and rtf as their authors ran them, and si and online-ewc on the long queue with a new optimiser
    for each task; common: as all other methods."""
    memory_budget: int | None = None
    """Bytes that the method may keep across a boundary: sets the size of a buffer, and refuses a method that cannot
    fit."""
    weights: Path | None = None
    """File of weights that the network starts from: .safetensors, or a state dict that torch.save wrote."""
    freeze: Literal["none", "backbone"] = "none"
    """backbone: train only the output layer."""
    no_boundaries: bool = False
    """Refuse methods that need to be told where a task ends."""
    out: Path = Path("runs")
    """Folder for records and checkpoints; runs that are recorded there are not repeated."""
    json: bool = False
    """Print records as JSON, one per line."""
    track: tuple[Literal["tensorboard", "mlflow", "wandb"], ...] = ()
    """Also write to these trackers, into the folder --out; nothing is sent anywhere. Needs the extra track."""
    samples: Path | None = None
    """Folder for images that the method's generator draws after each task: KEY-task-N.png, 64 images."""
    metric: tuple[str, ...] = ()
    """Metrics to show, and to measure if they are on logits: `engram ls metrics`. What is measured is in the record."""
    dry_run: bool = False
    """Show what would be run and what it would cost, and run nothing."""
    # flags that decide which other flags there are: they are read first, and stand here for the help
    net: str = "mlp"
    """Network: `engram ls nets` lists them; each has flags of its own."""
    letters: str | None = None
    """For long-queue: the dataset that replaces EMNIST letters, such as cyrillic-letters."""
    file: Path | None = None
    """Python file with methods, networks, scenarios or metrics of your own; may be given several times."""
    method_file: Path | None = None
    """The same as --file."""


def run_command(arguments: list[str]) -> int:
    """The command."""
    arguments = with_optimizer_options(with_files(arguments))
    if any(word == "--spec" or word.startswith("--spec=") for word in arguments):
        return repeat_run(arguments)
    arguments, scenario_name, method_name = positionals(arguments)
    asks_help = bool({"-h", "--help"} & set(arguments))
    if asks_help and not method_name:
        print(USAGE)
        return 0
    if not method_name:
        missing = (
            "SCENARIO and METHOD are missing" if not scenario_name else f"the method is missing: {scenario_name} …"
        )
        raise WrongCallError(f"{missing}; choose a method from {', '.join(METHODS)}\n\n{USAGE}")
    try:
        arguments, net, scenario_name = net_and_letters(arguments, scenario_name)
        protocol, optimizer = protocol_of(arguments), chosen_optimizer(arguments)
        with use_blank_images() if asks_help else nullcontext():
            setting = default_or_refuse(scenario_name, method_name, protocol, net, optimizer)
            base = spec_of_setting(setting)
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    flags = all_flags(base, setting, protocol)
    about = "\n\n".join(doc_of(type(member)) for member in base.method.members())
    prog = f"engram run {parse_name(scenario_name)} {method_name}"
    options = parse_flags(flags, RunOptions, arguments, prog, about)
    try:
        if options.memory_budget is not None and any("capacity" in name for name in named_flags(arguments)):
            raise ValueError("give --capacity or --memory-budget, which sizes the buffer, not both")
        chosen = choose(setting, flags, options, arguments)
        spec = apply_limits(spec_from(chosen, options), options)
        writable(options.out)
        seeds, engine = seeds_of(options), engine_of(options, spec.threads)
        tracking = Tracking(options.track, options.out)
        pictures = Pictures(options.samples, spec)
        try_spec(replace(spec, seed=seeds[0]), faults=options.dry_run)
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    say_changes(setting, default_or_refuse(scenario_name, method_name, "common", net, optimizer))
    if options.dry_run:
        from engram.cli.dry_run import dry_run  # which imports all that measures

        return dry_run(replace(spec, seed=seeds[0]), flags, options, seeds)
    specs = [replace(spec, seed=seed) for seed in seeds]
    return run_specs(specs, options.out, options.json, engine, pictures, tracking, options.metric)


def say_changes(own: Setting, common: Setting) -> None:
    """Says if a method's own protocol changes the scenario."""
    names = [name for name in own.defaults() if name.startswith("scenario.") and own.value(name) != common.value(name)]
    if names:
        changes = ", ".join(f"{name.partition('.')[2]} {own.value(name)}" for name in names)
        source = own.sources[names[0]]
        ERR.print(f"the default of {own.method} changes the scenario: {changes} ({source}); see --protocol")


def repeat_run(arguments: list[str]) -> int:
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
        """Folder for images that the method's generator draws after each task."""

    options = parse_options(Again, arguments, "engram run")
    try:
        engine = engine_of(options)
        spec = from_json(find_spec(options.spec, options.out))
        if options.engine == "local":
            resolve_device(spec.device)
        pictures = Pictures(options.samples, spec)
        try_spec(spec)
    except ValueError as error:
        raise WrongCallError(f"{options.spec}: {error}") from error
    if not Path(options.spec).is_file() and spec.key != options.spec:
        ERR.print(f"{options.spec} was made by other code; the key of this run is {spec.key}")
    return run_specs([spec], options.out, options.json, engine, pictures)


def run_specs(
    specs: list[Spec],
    out: Path,
    as_json: bool,
    engine: Engine,
    pictures: Pictures,
    tracking: Tracking | None = None,
    metrics: Sequence[str] = (),
) -> int:
    """Runs the specs and says what came of them."""
    tracking = tracking or Tracking((), out)
    writable(out)
    first = specs[0]
    tasks = first.scenario.tasks(first.seed)
    places = tables_with(first.setting)
    floor = f"; forgetting floor: {tasks.floor:.1f} %" if len(tasks) > 1 else ""
    every = first.training.boundary_every
    told = f"; told boundaries: no{f', but one is set every {every} steps' if every else ''}" if tasks.stream else ""
    ERR.print(
        f"[bold]{escape(first.scenario_name)}[/] with [bold]{escape(first.method_name)}[/]: "
        f"{count(len(tasks), 'task')}, kind {tasks.kind}{floor}{told}"
        + (f"; fills {escape(', '.join(places))}" if places else "; not a published setting"),
    )
    for text in first.scenario.copies():
        ERR.print(text, markup=False)
    store = Store(out, lambda _: None)

    def each(_: Job, record: Record) -> str | None:
        tracking.finish(record)
        if not as_json:
            return result_line(record, store)
        try:
            print(record.to_json(), flush=True)
        except BrokenPipeError:
            leave_stdout()
            return (
                f"nobody reads standard output any more; the runs continue, and their records are in {escape(str(out))}"
            )
        return None

    def watch(event: At) -> None:
        tracking.watch(event)
        pictures.watch(event)

    with closing(engine):
        jobs = [Job(spec) for spec in specs]
        done = [record for _, record in sweep(jobs, out, engine, each, watch=watch)]
    pictures.report(done)
    if not as_json:
        print_summary(done, out, [*metrics, *(METRICS.name_of(metric) for metric in first.metrics)])
    return 0 if all(record.status == "done" for record in done) else 1


def result_line(record: Record, store: Store) -> str:
    """A run in one line: what it reached, what it cost, what it is called."""
    if record.status != "done":
        why = ""
        if record.error:
            last = f"{record.error.strip().splitlines()[-1]}{user_place(record.error)}"
            why = f": {escape(last)}; the whole traceback is in the field error of record {record.key}"
        if record.status == "diverged":
            why = (
                ": the loss or a parameter became NaN or infinite; look at the loss, or try a smaller --lr or --clip 1"
            )
        return f"seed {record.seed}: [red]{record.status}[/] after {count(record.steps, 'step')}{why}"
    forgotten = "" if record.forgetting is None else f", forgetting {record.forgetting:.2f}"
    intransigence = intransigence_of(record, store.finished().values())
    what = "score" if record.scores else "accuracy"
    return (
        f"seed {record.seed}: average {what} {record.average_accuracy:.2f}{forgotten}"
        + ("" if intransigence is None else f", intransigence {intransigence:.2f}")
        + f"  ({record.steps} steps, {record.seconds:.1f} s, {record.key}"
        + (", recorded before)" if record.reused else ")")
    )


def print_summary(done: list[Record], out: Path, metrics: Sequence[str] = ()) -> None:
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
            what = metric.replace("accuracy", "score") if done[0].scores else metric
            table.add_row(what.replace("_", " "), *mean_and_std(found))
    for name in dict.fromkeys(metrics):
        asked = METRICS.find(name)()
        if found := [value for record in done if (value := asked.of(record)) is not None]:
            table.add_row(asked.title or name, *mean_and_std(found))
    OUT.print(table)
    if done[0].scores:
        OUT.print(escape(explain_scores(done[0].scores)))
    ERR.print(f"records in {escape(str(out / RECORDS))}")
    if kept := [record for record in done if record.spec["evaluation"].get("keep")]:
        what = ", ".join(kept[0].spec["evaluation"]["keep"])
        ERR.print(f"{what} in {escape(str(kept_path(out, kept[0].key)))}" + (" and so on" if len(kept) > 1 else ""))


def mean_and_std(values: Sequence[float]) -> tuple[str, str, str]:
    """Mean, standard deviation and number of values; one value has no deviation."""
    std = f"{statistics.pstdev(values):.2f}" if len(values) > 1 else "–"
    return f"{statistics.fmean(values):.2f}", std, str(len(values))


def explain_scores(scores: Sequence[str]) -> str:
    """What an average over tasks is that are not all scored alike."""
    by_task = ", ".join(f"task {number} by {score}" for number, score in enumerate(scores, 1))
    return (
        f"Scores in percent: {by_task}. Averages are means of these scores, which measure different things, and R² "
        "has no lower bound: look at each task."
    )
