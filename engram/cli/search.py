"""`engram search`: every method tuned with the same number of trials, and what that cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.markup import escape
from rich.table import Table

from engram.cli import StoppedError, WrongCallError
from engram.cli.files import with_files
from engram.cli.options import EngineOptions, parse_options
from engram.cli.resolve import positive, try_spec
from engram.cli.run import result_line
from engram.cli.screen import ERR, OUT, writable
from engram.cli.sweep import engine_of, sweep
from engram.core.messages import count
from engram.engines.driver import Job
from engram.report.sensitivity import sensitivity
from engram.report.style import check_picture_path, save
from engram.runs.defaults import Protocol
from engram.runs.records import Record, read_records
from engram.runs.spec import Spec, default_spec
from engram.runs.store import RECORDS, Store
from engram.search.ledger import Tuned, tuned
from engram.search.trials import HELD_OUT, TRIAL_SEED, SelectOn, axes, check_folder, run_search


@dataclass(kw_only=True)
class SearchOptions(EngineOptions):
    """Tunes every method with the same number of trials on held-out training images, then runs each with its best
    values on all training data; shows what was spent on each method."""

    scenario: tyro.conf.Positional[str]
    """Scenario, for example split-mnist/domain; values that are not searched have its defaults."""
    methods: tyro.conf.Positional[tuple[str, ...]]
    """Methods to compare; `engram ls methods` names them."""
    trials: int = 12
    """Trials per method: a grid over its declared ranges, or over the learning rate if it declares none."""
    seeds: Annotated[int, tyro.conf.arg(help="Reported runs per method: seeds 0, 1, 2, …")] = 10
    select_on: SelectOn = "holdout"
    """What trials are scored on: a tenth of the training images, or the test images, as in Hsu et al. (2018)."""
    protocol: Protocol = "own"
    """own: lwf, dgr and rtf as their authors ran them, and si and online-ewc of the long queue with a new optimiser
    for each task; common: as all other methods."""
    out: Path = Path("runs/search")
    """Folder for the records; runs that are recorded there are not repeated."""
    figure: Path | None = None
    """File for the sensitivity plot (.png, .svg, .pdf or .html); by default sensitivity.png in the folder."""
    json: bool = False
    """Print JSON: a list of methods."""
    file: Path | None = None  # read before all others
    """Python file with methods of your own; may be given several times."""
    method_file: Path | None = None
    """The same as --file."""


def search_command(arguments: list[str]) -> int:
    """The command."""
    options = parse_options(SearchOptions, with_files(arguments), "engram search")
    figure = options.figure or options.out / "sensitivity.png"
    try:
        writable(figure.parent)
        check_picture_path(figure)
        bases = specs(options)
        done = search_all(bases, options)
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    names = [(base.scenario_name, base.method_name) for base in bases]
    mine = [r for r in read_records(options.out / RECORDS) if (r.scenario, r.method) in names]
    found = sorted(tuned(mine), key=lambda one: names.index((one.scenario, one.method)))
    if options.json:
        print(json.dumps([one.to_json() for one in found]))
    else:
        print_tuned(found)
    try:
        save(sensitivity(mine), figure)
    except OSError as error:
        raise StoppedError(f"{figure} cannot be written: {error.strerror}; the records are kept") from error
    if not options.json:
        ERR.print(f"records in {escape(str(options.out / RECORDS))}, sensitivity in {escape(str(figure))}")
    finals_bad = any(r.status != "done" for r in done if r.search.get("stage") == "final")
    lost = any(r.status == "failed" for r in done) or any(not one.point for one in found)
    return 1 if finals_bad or lost else 0


def specs(options: SearchOptions) -> list[Spec]:
    """The methods to compare, with their defaults; refused before anything runs."""
    if not options.methods:
        raise ValueError("name one or more methods after the scenario")
    if len(set(options.methods)) < len(options.methods):
        raise ValueError(f"{' '.join(options.methods)}: a method is named twice")
    if options.trials < 2:
        raise ValueError(f"trials {options.trials} is out of range; give 2 or more")
    positive("seeds", options.seeds)
    writable(options.out)
    bases = [default_spec(options.scenario, method, protocol=options.protocol) for method in options.methods]
    check_folder(options.out, bases, options.trials, options.select_on)
    for base in bases:
        try_spec(replace(base, scenario=base.scenario.holdout(HELD_OUT), seed=TRIAL_SEED))
    return bases


def search_all(bases: Sequence[Spec], options: SearchOptions) -> list[Record]:
    """Runs trials and winners, a line each."""
    store, engine = Store(options.out, lambda _: None), engine_of(options)
    on = f"{HELD_OUT:.0%} of the training images" if options.select_on == "holdout" else "the test images"
    ERR.print(
        f"[bold]{escape(bases[0].scenario_name)}[/]: {options.trials} trials for each of "
        f"{count(len(bases), 'method')}, scored on {on}, "
        f"then {count(options.seeds, 'run')} of each winner on all training data"
    )
    for base in bases:
        over = ", ".join(f"{axis.name} in {tuple(axis.where)}" for axis in axes(base))
        ERR.print(f"  {base.method_name}: {escape(over)}")

    def run(jobs: list[Job]) -> list[tuple[Job, Record]]:
        return sweep(jobs, options.out, engine, each)

    def each(job: Job, record: Record) -> str:
        note = job.search or {}
        return f"{note['stage']}  {record.method} {point_text(note['point'])}  {result_line(record, store)}"

    seeds = range(options.seeds)
    with closing(engine):
        runs = run_search(bases, run, trials=options.trials, seeds=seeds, select_on=options.select_on)
        return [record for _, record in runs]


def point_text(values: dict[str, object]) -> str:
    """`coef 39.8`, `mixing balanced, lr 0.001`."""
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items()
    )


def print_tuned(found: Sequence[Tuned]) -> None:
    """What the search found, and its ledger."""
    on = "held-out images" if found[0].selected_on == "holdout" else "TEST images"
    results = Table(title=f"{escape(found[0].scenario)}: average accuracy over the grid, on {on}", title_justify="left")
    for column in ("method", "best", "median", "worst", "best values", "reported runs, on test images"):
        results.add_column(column, justify="right" if column in ("best", "median", "worst") else "left")
    ledger = Table(title="Tuning ledger", title_justify="left")
    for column in ("method", "trials", "steps", "seconds", "looks at test data", "reported runs", "steps", "looks"):
        ledger.add_column(column, justify="left" if column == "method" else "right")
    for one in found:
        final = "" if one.final is None else f"{one.final:.2f} ± {one.final_std:.2f}  n={one.n}"
        failed = f"  [red]{one.failed} not done[/]" if one.failed else ""
        grid_values = [f"{value:.2f}" if value is not None else "—" for value in (one.best, one.median, one.worst)]
        results.add_row(escape(one.method), *grid_values, escape(point_text(one.point)), final + failed)
        spent, last = one.trials, one.finals
        ledger.add_row(
            one.method, str(spent.runs), f"{spent.steps:,}", f"{spent.seconds:.1f}", str(spent.looks),
            str(last.runs), f"{last.steps:,}", str(last.looks),
        )  # fmt: skip
    OUT.print(results)
    if any(one.unfinished for one in found):
        OUT.print("— not done: " + ", ".join(f"{one.method} {one.unfinished}" for one in found if one.unfinished))
    ends = [f"{one.method} {point_text({name: one.point[name] for name in one.at_end})}" for one in found if one.at_end]
    if ends:
        OUT.print(f"Best value at an end of the range, so that a wider range might do better: {'; '.join(ends)}")
    OUT.print(ledger)
    if any(one.trials.looks for one in found):
        OUT.print("[yellow]The values were selected on the test images: the reported runs are too good.[/]")
