"""`engram reproduce`: makes the runs of the published tables."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from engram.cli import WrongCallError
from engram.cli.compare import all_records, beside_print, with_table
from engram.cli.options import EngineOptions, parse
from engram.cli.screen import ERR, OUT, writable
from engram.report.written import show
from engram.studies.hsu2018.cells import QUEUE_TABLES, TABLES, Protocol, chosen, preset_name, published, table_name
from engram.studies.hsu2018.long_queue import HEADS, NETS, SCENARIOS, Letters, settings
from engram.studies.hsu2018.twins import rows_and_twins


@dataclass(kw_only=True)
class ReproduceOptions(EngineOptions):
    """Makes the runs of a published table that are not recorded yet, then compares."""

    table: tyro.conf.Positional[str]
    """table2 to table6."""
    rows: tuple[str, ...] = ()
    """Only these rows: methods, and twins by their names, as in gem/one-slot; in table5 and table6 numbers of tasks,
    which choose only what is printed."""
    skip: tuple[str, ...] = ()
    """Not these rows."""
    columns: tuple[str, ...] = ()
    """Only these columns: kinds, as in domain or split/known; in table5 and table6 methods, as in adam or si/best."""
    twins: bool = False
    """Also the twins of these methods: as they were meant, where the authors' code departs from it."""
    protocol: Protocol = "own"
    """own: lwf, dgr and rtf as their authors made them, and si and online-ewc of table5 and table6 with a new
    optimiser for each task; common: as all other methods."""
    heads: Literal["random", "zero", "both"] = "random"
    """Tables 5 and 6: initial heads. The tables have random ones, Figures 4 and 5 both."""
    letters: Letters = "emnist-letters"
    """Tables 5 and 6: the set of letters; cyrillic-letters stand in where EMNIST's cannot be had, and are named."""
    seeds: Annotated[
        int | None, tyro.conf.arg(help="Runs a cell: seeds 0 to this less one; 10, but 3 of table5 and 1 of table6.")
    ] = None
    results: Path = Path("results")
    """Folder for the records, a file a table; what is recorded there is not run again."""


def reproduce(arguments: list[str]) -> int:
    """The command."""
    options = parse(ReproduceOptions, with_table(arguments, TABLES), "engram reproduce")
    try:
        table = table_name(options.table)
        if options.seeds is not None and options.seeds < 1:
            raise ValueError(f"seeds {options.seeds} is out of range; give 1 or more")
        for name in options.skip:
            chosen("row", [name], list(published()[table]))
        columns = chosen("column", options.columns, list(TABLES[table][1]))
        rows, of_twins = rows_and_twins(table, options.rows, columns, options.twins, options.skip)
        if not rows and not of_twins:
            raise ValueError(f"nothing is left of {table} without {', '.join(options.skip)}")
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    if table in QUEUE_TABLES:
        heads = HEADS if options.heads == "both" else (options.heads,)
        tried = settings(NETS[table], columns, heads, options.protocol)
        labels = [s.label(SCENARIOS[options.letters]) for s in tried]
    else:
        labels = [preset_name(table, row, column, options.protocol) for row in rows for column in columns]
    for twin in of_twins:
        labels += [label for column in twin.columns if column in columns for label in twin.variants(column)]
    writable(options.results)
    seeds = options.seeds or {"table5": 3, "table6": 1}.get(table, 10)
    status = make_runs(table, labels, seeds, options.results, options)
    read = all_records(options.results)
    show(table, *beside_print(table, read, rows, of_twins, columns, options.protocol), OUT)
    return status


def make_runs(table: str, labels: list[str], seeds: int, folder: Path, options: EngineOptions) -> int:
    """Runs what is missing, a seed of every cell before the next seed, so that a stopped table is even."""
    from engram.cli.run import line
    from engram.cli.sweep import engine_of, sweep
    from engram.engines.driver import Job
    from engram.methods import methods
    from engram.runs.store import Store
    from engram.studies.hsu2018.presets import spec_of

    absent = sorted({label.split()[1] for label in labels} - set(methods()))
    if absent:
        ERR.print(f"not there yet: {', '.join(absent)}")
    labels = [label for label in labels if label.split()[1] not in absent]
    try:
        engine = engine_of(options)
        jobs = [Job(spec_of(label, seed), label) for seed in range(seeds) for label in labels]
    except ValueError as error:  # the data cannot be had, for example
        raise WrongCallError(str(error)) from error
    store = Store(folder, lambda _: None)
    with closing(engine):
        done = sweep(
            jobs, folder, engine, lambda job, record: f"{job.preset}  {line(record, store)}", file=f"{table}.jsonl"
        )
    return 0 if all(record.status == "done" for _, record in done) else 1
