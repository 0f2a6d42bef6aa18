"""`engram compare`: the published tables and claims beside our records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.markup import escape

from engram.cli import WrongCallError
from engram.cli.options import parse
from engram.cli.screen import ERR, OUT, writable
from engram.report.written import Format, as_text, show, written
from engram.runs import records
from engram.runs.records import Record
from engram.studies.hsu2018.cells import (
    QUEUE_TABLES,
    TABLES,
    Cell,
    Protocol,
    cells,
    chosen,
    preset_name,
    runs_by_label,
    table_name,
    taken,
)
from engram.studies.hsu2018.long_queue import runs_of
from engram.studies.hsu2018.twin_cells import TwinCell, twin_cells
from engram.studies.hsu2018.twins import Twin, rows_and_twins


@dataclass
class CompareOptions:
    """Our numbers beside the published ones, from the records; runs nothing."""

    table: tyro.conf.Positional[str]
    """table1 (the kinds, read off the data), table2 to table6; or claims, what the paper concludes."""
    rows: tuple[str, ...] = ()
    """Only these rows: methods, and twins by their names, as in gem/one-slot; in table5 and table6 numbers of tasks."""
    columns: tuple[str, ...] = ()
    """Only these columns: kinds, as in domain or split/known; in table5 and table6 methods, as in adam or si/best."""
    twins: bool = False
    """Also the twins of these methods: as they were meant, where the authors' code departs from it."""
    protocol: Protocol = "own"
    """own: lwf, dgr and rtf as their authors made them, and si and online-ewc of table5 and table6 with a new
    optimiser for each task; common: as all other methods."""
    results: Path = Path("results")
    """Folder with the records."""
    format: Format = "text"
    """LaTeX is in print's own layout and needs booktabs; JSON is a list of cells."""
    json: bool = False
    """As --format json."""
    out: Path | None = None
    """File to write to, in place of the screen."""


def with_table(arguments: list[str], tables: Iterable[str]) -> list[str]:
    """The arguments, which begin with one of these tables unless help is asked for."""
    if (not arguments or arguments[0].startswith("-")) and not {"-h", "--help"} & set(arguments):
        raise WrongCallError(f"name a table first: {', '.join(tables)}")
    return arguments


def compare(arguments: list[str]) -> int:
    """The command."""
    options = parse(CompareOptions, with_table(arguments, ("table1", *TABLES, "claims")), "engram compare")
    form: Format = "json" if options.json else options.format
    if not options.results.is_dir() and options.results != CompareOptions.results:  # which may come later
        raise WrongCallError(f"results {options.results} is not a folder; name one with files of records (*.jsonl)")
    changed = options.rows or options.columns or options.twins or options.protocol != CompareOptions.protocol
    if options.table in ("table1", "claims") and changed:
        raise WrongCallError(
            f"{options.table} is shown whole; --rows, --columns, --twins and --protocol are of {', '.join(TABLES)}"
        )
    if options.table == "table1":
        return compare_table1(form, options.out)
    if options.table == "claims":
        return compare_claims(form, options.results, options.out)
    try:
        table = table_name(options.table)
        columns = chosen("column", options.columns, list(TABLES[table][1]))
        rows, asked = rows_and_twins(table, options.rows, columns, options.twins)
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    read = all_records(options.results)
    if not read:
        ERR.print(f"no records in {escape(str(options.results))}")
    found = beside_print(table, read, rows, asked, columns, options.protocol)
    if form == "text" and options.out is None:
        show(table, *found, OUT)
    else:
        put(written(form, table, *found), options.out)
    return 0


def beside_print(
    table: str, read: Sequence[Record], rows: list[str], twins: list[Twin], columns: list[str], protocol: Protocol
) -> tuple[list[Cell], list[TwinCell], list[Record]]:
    """Cells and twins of a table, and the runs behind the cells."""
    found = cells(table, read, rows, columns, protocol) if rows else []
    if table in QUEUE_TABLES:
        runs = runs_of(table, read, columns, protocol)
    else:
        counted = runs_by_label(read)
        labels = [preset_name(table, cell.row, cell.column, protocol) for cell in found]
        runs = [run for label in labels for run in taken(counted, label).values()]
    return found, twin_cells(table, read, twins, columns), runs


def compare_claims(form: Format, folder: Path, out: Path | None) -> int:
    """What the paper concludes, tested in print and in our records."""
    if form == "latex":
        raise WrongCallError("format latex is not there for claims; choose from text, markdown, json")
    from engram.report.claims import markdown_claims, print_claims
    from engram.studies.hsu2018.claim_tests import results

    found = results(all_records(folder))
    if form == "text" and out is None:
        print_claims(found, OUT)
    elif form == "json":
        put(json.dumps([result.to_json() for result in found]) + "\n", out)
    elif form == "markdown":
        put(markdown_claims(found), out)
    else:
        put(as_text(lambda console: print_claims(found, console)), out)
    return 0


def put(text: str, out: Path | None) -> None:
    """On the screen, or into a file."""
    if out is None:
        print(text, end="")
        return
    writable(out.parent)
    if out.is_dir():
        raise WrongCallError(f"out {out} is a folder; name a file")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise WrongCallError(f"out {out} cannot be written: {error.strerror}") from error


def all_records(folder: Path) -> list[Record]:
    return [record for file in sorted(folder.glob("*.jsonl")) for record in records.read(file)]


def compare_table1(form: Format, out: Path | None) -> int:
    """Table 1: what print says of each kind, and what the data of the two MNIST scenarios say."""
    if form not in ("text", "json"):
        raise WrongCallError(f"format {form} is not there for table1; choose from text, json")
    from engram.cli.look import description, print_rows
    from engram.scenarios.categorize import ROWS
    from engram.scenarios.create import scenario

    names = [f"{maker}-mnist/{kind}" for maker in ("split", "permuted") for kind in ("iid", "domain", "class", "task")]
    found = []
    with ERR.status("") as status:
        for place, name in enumerate(names, 1):
            status.update(f"{place}/{len(names)}  {name}")
            found.append(description(name, scenario(name), seed=0))
    if form == "json":
        keys = ("scenario", "kind", "declared", "heads", "evidence")
        put(json.dumps([{key: one[key] for key in keys} for one in found]) + "\n", out)
        return 0

    def show_rows(console: Console) -> None:
        print_rows(found, console)
        right = sum(one["kind"] == one["declared"] for one in found)
        console.print(f"{right} of {len(found)} as in print: " + ", ".join(name for name, _ in ROWS.values()))

    if out is None:
        show_rows(OUT)
    else:
        put(as_text(show_rows), out)
    return 0
