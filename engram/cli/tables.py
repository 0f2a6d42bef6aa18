"""`engram reproduce` and `engram compare`: the published tables."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.markup import escape

from engram.cli import WrongCallError
from engram.cli.options import parse
from engram.cli.screen import ERR, OUT, writable
from engram.experiments import records
from engram.paper.cells import TABLES, Cell, cells, chosen, preset_name, published, table_name
from engram.paper.twins import Twin, known_twin, twins
from engram.report.tables import print_cells


@dataclass
class CompareOptions:
    """Our numbers beside the published ones, from the records; runs nothing."""

    table: tyro.conf.Positional[str]
    """table1 (the kinds, read off the data), table2, table3 or table4."""
    rows: tuple[str, ...] = ()
    """Only these methods."""
    columns: tuple[str, ...] = ()
    """Only these columns."""
    results: Path = Path("results")
    """Folder with the records."""
    json: bool = False
    """Print JSON: a list of cells."""


def with_table(arguments: list[str]) -> list[str]:
    """The arguments, which begin with a table unless help is asked for."""
    if (not arguments or arguments[0].startswith("-")) and not {"-h", "--help"} & set(arguments):
        raise WrongCallError(f"name a table first: table1, {', '.join(TABLES)}")
    return arguments


def compare(arguments: list[str]) -> int:
    """The command."""
    options = parse(CompareOptions, with_table(arguments), "engram compare")
    if options.table == "table1":
        return compare_table1(options.json)
    try:
        found = compared(options.table, options.results, options.rows, options.columns)
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    if not any(options.results.glob("*.jsonl")):
        ERR.print(f"no records in {escape(str(options.results))}")
    if options.json:
        print(json.dumps([cell.to_json() for cell in found]))
    else:
        print_cells(options.table, found, OUT)
    return 0


def compared(table: str, folder: Path, rows: tuple[str, ...], columns: tuple[str, ...]) -> list[Cell]:
    table_name(table)
    return cells(table, [r for file in sorted(folder.glob("*.jsonl")) for r in records.read(file)], rows, columns)


def compare_table1(as_json: bool) -> int:
    """Table 1: what print says of each kind, and what the data of the two MNIST scenarios say."""
    from engram.cli.look import description, print_rows
    from engram.scenarios.categorize import ROWS
    from engram.scenarios.named import scenario

    found = []
    for maker in ("split", "permuted"):
        for kind in ("iid", "domain", "class", "task"):
            name = f"{maker}-mnist/{kind}"
            found.append(description(name, scenario(name), seed=0))
    if as_json:
        keys = ("scenario", "kind", "declared", "heads", "evidence")
        print(json.dumps([{key: one[key] for key in keys} for one in found]))
        return 0
    print_rows(found)
    right = sum(one["kind"] == one["declared"] for one in found)
    OUT.print(f"{right} of {len(found)} as in print: " + ", ".join(name for name, _ in ROWS.values()))
    return 0


@dataclass
class ReproduceOptions:
    """Makes the runs of a published table that are not recorded yet, then compares."""

    table: tyro.conf.Positional[str]
    """table2, table3 or table4."""
    rows: tuple[str, ...] = ()
    """Only these methods; a twin by its name, for example gem/one-slot."""
    skip: tuple[str, ...] = ()
    """Not these methods."""
    columns: tuple[str, ...] = ()
    """Only these columns."""
    twins: bool = False
    """Also the twins of these methods: as they were meant, where the authors' code departs from it."""
    seeds: Annotated[int, tyro.conf.arg(help="Runs a cell: seeds 0 to this less one.")] = 10
    workers: int | None = None
    """Processes; as many as cores."""
    results: Path = Path("results")
    """Folder for the records, a file a table; what is recorded there is not run again."""


def reproduce(arguments: list[str]) -> int:
    """The command."""
    options = parse(ReproduceOptions, with_table(arguments), "engram reproduce")
    try:
        table = table_name(options.table)
        for name in ("seeds", "workers"):
            if getattr(options, name) is not None and getattr(options, name) < 1:
                raise ValueError(f"{name} {getattr(options, name)} is out of range; give 1 or more")
        for name in options.skip:
            chosen("row", [name], list(published()[table]))
        rows, of_twins = rows_and_twins(table, options.rows, options.twins, options.skip)
        columns = chosen("column", options.columns, list(TABLES[table][1]))
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    labels = [preset_name(table, row, column) for row in rows for column in columns]
    for twin in of_twins:
        labels += [label for column in twin.columns if column in columns for label in twin.variants(column)]
    writable(options.results)
    status = make_runs(table, labels, options.seeds, options.results, options.workers)
    if rows:
        print_cells(table, compared(table, options.results, tuple(rows), tuple(columns)), OUT)
    return status


def rows_and_twins(
    table: str, names: tuple[str, ...], with_twins: bool, skip: tuple[str, ...] = ()
) -> tuple[list[str], list[Twin]]:
    """The rows and the twins that are asked for: `gem` is a row, `gem/one-slot` a twin; no names are all rows."""
    asked = [known_twin(table, name) for name in names if "/" in name]
    plain = [name for name in names if "/" not in name]
    rows = chosen("row", plain, list(published()[table])) if plain or not asked else []
    rows = [row for row in rows if row not in skip]
    if with_twins:
        asked += [twin.full_name for twin in twins(table, rows)]
    return rows, [twin for twin in twins(table) if twin.full_name in asked]


def make_runs(table: str, labels: list[str], seeds: int, folder: Path, workers: int | None) -> int:
    """Runs what is missing, a seed of every cell before the next seed, so that a stopped table is even."""
    from engram.cli.run import line, progress
    from engram.experiments.engines import Job, run_jobs
    from engram.methods import methods
    from engram.paper.presets import spec_of

    absent = sorted({label.split()[1] for label in labels} - set(methods()))
    if absent:
        ERR.print(f"not there yet: {', '.join(absent)}")
    labels = [label for label in labels if label.split()[1] not in absent]
    done = status = 0
    total = len(labels) * seeds
    try:
        jobs = [Job(spec_of(label, seed), label) for seed in range(seeds) for label in labels]
        with progress() as watch:
            for job, record in run_jobs(jobs, folder, file=f"{table}.jsonl", workers=workers, watch=watch):
                done += 1
                status = status if record.status == "done" else 1
                ERR.print(f"{done}/{total}  {job.preset}  {line(record, folder)}")
    except ValueError as error:  # the data cannot be had
        raise WrongCallError(str(error)) from error
    except KeyboardInterrupt:
        print(
            f"\n{done} of {total} runs are recorded in {folder}; the same command goes on from there", file=sys.stderr
        )
        raise
    return status
