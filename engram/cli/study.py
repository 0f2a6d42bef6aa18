"""`engram study`, `engram reproduce`, `engram table`: tables of settings, run and shown."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.markup import escape

from engram.cli import WrongCallError
from engram.cli.files import with_files
from engram.cli.options import EngineOptions, parse_options
from engram.cli.output import put_text, select_format, with_name
from engram.cli.screen import ERR, OUT, writable
from engram.core.messages import count, duration, select
from engram.core.registry import METRICS
from engram.data.catalog import is_here
from engram.report.written import Format, show_table, write_table
from engram.runs.defaults import Protocol
from engram.runs.records import Record, read_records
from engram.scenarios.names import datasets_of, parse_name
from engram.studies.catalog import find_study, own_names, study_names
from engram.studies.made import Made
from engram.studies.study import Study
from engram.studies.table import Cell
from engram.workbench import (
    StudyTable,
    bases_of_study,
    keys_of_cell,
    make_table,
    read_csv,
    run_study,
    table_of_lines,
    table_of_records,
)


@dataclass(kw_only=True)
class StudyOptions(EngineOptions):
    """Makes the missing runs of a study, then shows its table: mean ± std, number of runs, memory, time, and paired
    tests against the baseline row with Holm's correction. Recorded runs are not repeated, so it can be stopped and
    continued at any time."""

    study: tyro.conf.Positional[str]
    """A TOML file that describes your table, or the name of a published one (`engram ls studies`)."""
    rows: tuple[str, ...] = ()
    """Only these rows."""
    columns: tuple[str, ...] = ()
    """Only these columns."""
    seeds: int | None = None
    """Number of seeds per cell; by default as the study says."""
    metric: str = ""
    """What the table shows; by default the study's metric, else average-accuracy. `engram ls metrics` lists them."""
    format: Format = "text"
    """LaTeX needs booktabs; CSV and JSON have one entry per cell."""
    json: bool = False
    """The same as --format json."""
    out: Path | None = None
    """File to write the table to, instead of the screen."""
    results: Path | None = None
    """Folder for the records; by default runs, for published tables results."""
    dry_run: bool = False
    """Show how many runs are missing, and which of them cannot run, and run nothing."""
    file: Path | None = None  # read before all others
    """Python file with methods, networks, scenarios or metrics of your own; may be given several times."""


def study_command(arguments: list[str]) -> int:
    """The command."""
    names = (*study_names(), *own_names(), "or a TOML file of your own")
    options = parse_options(StudyOptions, with_name(with_files(arguments), "study", names), "engram study")
    form = select_format(options.format, options.json)
    try:
        wanted = find_study(options.study)
        results = options.results or Path("results" if wanted.is_published else "runs")
        columns = select("column", options.columns, wanted.columns)
        rows, variants = wanted.select_rows(options.rows, columns, with_variants=False)
        seeds = seeds_or_default(options.seeds, wanted)
        wanted = wanted.with_metric(options.metric)
        METRICS.find(wanted.metric)  # before anything runs
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    if options.dry_run:
        try:
            return say_missing(wanted, results, rows, columns, seeds)
        except ValueError as error:
            raise WrongCallError(str(error)) from error
    writable(results)
    if options.out is not None:
        writable(options.out.parent)
    made = make_runs(wanted, results, options, rows=rows, columns=columns, variants=variants, seeds=seeds)
    records = [record for record in read_records(results) if record.seed in seeds]
    try:
        table = make_table(wanted, records, rows=rows, columns=columns, variants=variants, made=made)
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    show_or_write(table, form, options.out)
    if form == "text":
        print_ledgers(wanted, made)
    return 0 if made.all_done else 1


def seeds_or_default(seeds: int | None, study: Study) -> list[int]:
    return list(study.seeds if seeds is None else study.first_seeds(seeds))


def make_runs(study: Study, results: Path, options: EngineOptions, **wanted: Any) -> Made:
    """Runs what is missing."""
    from engram.cli.run import result_line
    from engram.cli.sweep import engine_of, sweep
    from engram.runs.store import Store

    try:
        engine = engine_of(options)
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    store = Store(results, lambda _: None)

    def each(job: Any, record: Record) -> str | None:
        if record.reused:
            return None
        return f"{escape(record.scenario)} {escape(record.method)}  {result_line(record, store)}"

    def run(jobs: Sequence[Any], folder: Path, file: str) -> list[tuple[Any, Record]]:
        return sweep(jobs, folder, engine, each, file=file)

    with closing(engine):
        try:
            made = run_study(study, results, run, **wanted)
        except ValueError as error:  # the data cannot be had, for example
            raise WrongCallError(str(error)) from error
    if made.reused:
        ERR.print(f"{made.reused} of {count(made.asked, 'run')} recorded before and not run again")
    return made


def say_missing(study: Study, results: Path, rows: list[str], columns: list[str], seeds: list[int]) -> int:
    """How many runs are missing, how long those that are recorded took, and which of the missing ones cannot run.

    Returns:
        1 if a cell cannot run, else 0.
    """
    recorded = read_records(results)
    table = make_table(study, recorded, rows=rows, columns=columns, tests=False)
    finished = {record.key for record in recorded if record.status != "failed"}
    asked = missing = unknown_cells = 0
    seconds = 0.0
    refused = []
    for cell in table.cells:
        if study.python or not has_data(study, cell):
            left, all_of_it = len([seed for seed in seeds if seed not in cell.runs.values]), len(seeds)
        else:
            try:
                keys = keys_of_cell(study, cell.row, cell.column, seeds, recorded)
            except ValueError as error:  # its method cannot be made
                keys, reason = [""] * len(seeds), str(error)
            else:
                reason = "" if finished.issuperset(keys) else why_not(study, cell)
            left, all_of_it = sum(key not in finished for key in keys), len(keys)
            if reason:
                refused.append(f"{cell.row} in {cell.column} cannot run: {reason}")
        asked, missing = asked + all_of_it, missing + left
        seconds += cell.seconds * left
        unknown_cells += bool(left) and not cell.seconds
    time = f"about {duration(seconds)} of one core by recorded times" if seconds else ""
    rest = f"{count(unknown_cells, 'cell')} without recorded times" if unknown_cells else ""
    text = ": " + "; ".join(filter(None, (time, rest))) if missing else ""
    OUT.print(f"{study.name}: {missing} of {count(asked, 'run')} missing{text}")
    for line in refused:
        ERR.print(line, markup=False)
    return 1 if refused else 0


def why_not(study: Study, cell: Cell) -> str:
    """What refuses the runs of a cell before they begin; empty if nothing does."""
    from engram.cli.resolve import try_spec

    try:
        try_spec(bases_of_study(study, [cell.row], cell.column)[cell.row], faults=True)
    except ValueError as error:
        return str(error)
    return ""


def has_data(study: Study, cell: Cell) -> bool:
    """Whether the datasets of a cell are on this machine: a run's key says what is in them."""
    scenario = parse_name(study.setting(cell.row, cell.column).scenario)
    return all(is_here(name) for name in datasets_of(scenario))


def show_or_write(table: StudyTable, form: Format, out: Path | None) -> None:
    if form == "text" and out is None:
        show_table(table.study, table.cells, table.variants, OUT)
    else:
        put_text(write_table(form, table.study, table.cells, table.variants, "study"), out)


def print_ledgers(study: Study, made: Made) -> None:
    """What the searches of a study found, and what they spent on each row; a column at a time."""
    from engram.cli.search import print_tuned
    from engram.search.ledger import summarize_method

    for name in study.columns:
        select_on = study.search.get("select_on", "holdout")
        found = [
            summarize_method(trials[0].scenario, row, select_on, [*trials, *made.finals[row, column]])
            for (row, column), trials in made.trials.items()
            if column == name
        ]
        if found:
            print_tuned(found)


@dataclass(kw_only=True)
class ReproduceOptions(EngineOptions):
    """Makes the runs of a published table that are not recorded yet, then compares."""

    table: tyro.conf.Positional[str]
    """table2 to table6, or another paper's, as in buzzega2020/table2; or the TOML file of one."""
    rows: tuple[str, ...] = ()
    """Only these rows: methods, and variants by their names, as in gem/one-slot; in table5 and table6 numbers of tasks,
    which choose only what is printed."""
    skip: tuple[str, ...] = ()
    """Not these rows."""
    columns: tuple[str, ...] = ()
    """Only these columns: kinds, as in domain or split/known; in table5 and table6 methods, as in adam or si/best."""
    variants: bool = False
    """Also the variants of these rows: what the authors describe, if their code does something else."""
    twins: bool = False
    """The same as --variants."""
    protocol: Protocol = "own"
    """own: lwf, dgr and rtf as their authors ran them, and si and online-ewc of table5 and table6 with a new
    optimiser for each task; common: as all other methods."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of the matrix products of all runs; bf16 compares runs in bfloat16 with the published numbers."""
    heads: Literal["random", "zero", "both"] = "random"
    """Tables 5 and 6: initial heads. The tables have random ones, Figures 4 and 5 both."""
    letters: Literal["emnist-letters", "cyrillic-letters"] = "emnist-letters"
    """Tables 5 and 6: the dataset of letters; use cyrillic-letters if EMNIST's are not available; results then say
    so."""
    seeds: int | None = None
    """Number of seeds per cell; by default as the table says."""
    results: Path = Path("results")
    """Folder for the records, one folder per paper and one file per table; runs that are recorded there are not
    repeated."""


def reproduce_command(arguments: list[str]) -> int:
    """The command."""
    short = (*(name.removeprefix("hsu2018/") for name in study_names()), "or a TOML file")
    words = with_name(with_files(arguments), "table", short)
    options = parse_options(ReproduceOptions, words, "engram reproduce")
    try:
        wanted = find_study(options.table).with_precision(options.precision)
        columns = select("column", options.columns, wanted.columns)
        rows, variants = wanted.select_rows(options.rows, columns, options.variants or options.twins, options.skip)
        if not rows and not variants:
            raise ValueError(f"nothing is left of {wanted.short_name} without {', '.join(options.skip)}")
        seeds = seeds_or_default(options.seeds, wanted)
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    queue: dict[str, Any] = {}
    if wanted.python:
        heads = ("random", "zero") if options.heads == "both" else (options.heads,)
        queue = {"heads": heads, "letters": options.letters}
    writable(options.results)
    made = make_runs(
        wanted, options.results, options, rows=rows, columns=columns, variants=variants, seeds=seeds,
        protocol=options.protocol, **queue,
    )  # fmt: skip
    records = read_records(options.results)
    table = make_table(
        wanted, records, rows=rows, columns=columns, variants=variants, protocol=options.protocol, made=made
    )
    show_table(wanted, table.cells, table.variants, OUT)
    return 0 if made.all_done else 1


@dataclass
class TableOptions:
    """A table of records that belong to no study, or of somebody else's results in a CSV file."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders or files of records; or one CSV file with one line per run."""
    rows: str = ""
    """What the rows are: method, or another part of a setting, such as net.name or training.lr; for a CSV file, a
    column."""
    columns: str = ""
    """What the columns are: scenario, or another part of a setting; for a CSV file, a column."""
    value: str = ""
    """For a CSV file: the column with the numbers."""
    baseline: str = ""
    """The row that all others are tested against."""
    metric: str = ""
    """What the table shows, by default average-accuracy; `engram ls metrics` lists the choices."""
    format: Format = "text"
    """LaTeX needs booktabs; CSV and JSON have one entry per cell."""
    json: bool = False
    """The same as --format json."""
    out: Path | None = None
    """File to write the table to, instead of the screen."""
    file: Path | None = None  # read before all others
    """Python file with a metric of your own; may be given several times."""


def table_command(arguments: list[str]) -> int:
    """The command."""
    options = parse_options(TableOptions, with_files(arguments), "engram table")
    if not options.runs:
        raise WrongCallError("name folders or files with records, or a CSV file, as in engram table runs")
    for place in options.runs:
        if not place.exists():
            raise WrongCallError(f"{place} does not exist")
    try:
        if options.runs[0].suffix == ".csv":
            if len(options.runs) > 1 or options.metric:
                raise ValueError("give a CSV file alone, and name its column of numbers by --value, not --metric")
            made = table_of_lines(
                read_csv(options.runs[0]), rows=options.rows, columns=options.columns, value=options.value,
                baseline=options.baseline, title=options.runs[0].stem,
            )  # fmt: skip
        else:
            made = table_of_records(
                read_records(*options.runs),
                rows=options.rows or "method",
                columns=options.columns or "scenario",
                baseline=options.baseline,
                metric=options.metric or "average-accuracy",
                title=", ".join(map(str, options.runs)),
            )
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    show_or_write(made, select_format(options.format, options.json), options.out)
    return 0
