"""`engram compare`: published tables and claims against our records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console
from rich.markup import escape

from engram.cli import WrongCallError
from engram.cli.files import with_files
from engram.cli.options import parse_options
from engram.cli.output import put_text, select_format, with_name
from engram.cli.screen import ERR, OUT
from engram.core.messages import select
from engram.report.written import Format, as_text, show_table, write_table
from engram.runs.defaults import Protocol
from engram.runs.records import RESULTS, read_records, results_folder
from engram.studies.catalog import find_study, own_names, paper_names, study_names
from engram.workbench import make_table

NARROWING = ("rows", "columns", "variants", "twins", "protocol", "precision")
"""Options that choose from a table, or change it."""
CLAIMS, METHODS_PAGE, TABLE1, FIRST_PAPER = "claims", "methods", "table1", "hsu2018"


@dataclass
class CompareOptions:
    """Our numbers against the published ones, from the records; runs nothing."""

    table: tyro.conf.Positional[str]
    """table1 (the kinds, measured on the data), table2 to table6, another paper's table, a TOML file, claims: what Hsu
    et al. conclude (for another paper: buzzega2020/claims), or methods: every method in every published protocol."""
    rows: tuple[str, ...] = ()
    """Only these rows: methods, and variants by their names, as in gem/one-slot; in table5 and table6 numbers of
    tasks."""
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
    results: Path = RESULTS
    """Folder with the records; if there is no folder results, those that come with the package."""
    format: Format = "text"
    """LaTeX has the paper's own layout and needs booktabs; CSV and JSON have one entry per cell."""
    json: bool = False
    """The same as --format json."""
    out: Path | None = None
    """File to write to, instead of the screen."""
    file: Path | None = None  # read before all others
    """Python file with what a study of your own needs; may be given several times."""


def compare_command(arguments: list[str]) -> int:
    """The command."""
    short = [name.removeprefix("hsu2018/") for name in study_names()]
    words = with_name(with_files(arguments), "table", (TABLE1, *short, *own_names(), CLAIMS, METHODS_PAGE))
    options = parse_options(CompareOptions, words, "engram compare")
    form = select_format(options.format, options.json)
    options.results = results_folder(options.results)
    if not options.results.is_dir() and options.results != CompareOptions.results:  # which may come later
        raise WrongCallError(f"results {options.results} is not a folder; name one with files of records (*.jsonl)")
    given = {name for name in NARROWING if getattr(options, name) != getattr(CompareOptions, name)}
    paper, _, name = options.table.rpartition("/")
    if name in (TABLE1, CLAIMS) and given:
        flags = ", ".join(f"--{part}" for part in NARROWING)
        raise WrongCallError(f"{name} is shown whole; {flags} go with {', '.join(short)}")
    if name == TABLE1:
        return compare_table1(form, options.out)
    if options.table == METHODS_PAGE:
        if given - {"rows"}:
            raise WrongCallError("methods are shown in all protocols; only --rows goes with it, as in --rows adam ewc")
        return compare_methods(form, options.results, options.out, options.rows)
    if name == CLAIMS:
        return compare_claims(form, options.results, options.out, paper)
    try:
        wanted = find_study(options.table).with_precision(options.precision)
        columns = select("column", options.columns, wanted.columns)
        rows, variants = wanted.select_rows(options.rows, columns, options.variants or options.twins)
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    records = read_records(options.results)
    if not records:
        ERR.print(f"no records in {escape(str(options.results))}")
    table = make_table(
        wanted, records,
        rows=rows, columns=columns, variants=variants, protocol=options.protocol,
        tests=not wanted.is_published,  # which shows verdicts in their place
    )  # fmt: skip
    if form == "text" and options.out is None:
        show_table(wanted, table.cells, table.variants, OUT)
    else:
        put_text(write_table(form, wanted, table.cells, table.variants, "compare"), options.out)
    return 0


def compare_claims(form: Format, folder: Path, out: Path | None, paper: str) -> int:
    """What papers conclude, tested in their numbers and in our records."""
    if form not in ("text", "markdown", "json"):
        raise WrongCallError(f"format {form} is not available for claims; choose from text, markdown, json")
    from engram.report.claims import markdown_claims, print_claims
    from engram.studies.outcomes import examine_claims

    try:
        papers = select("paper", [paper or FIRST_PAPER], paper_names())
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    records = read_records(folder)
    found = [result for one in papers for result in examine_claims(one, records)]
    if form == "text" and out is None:
        print_claims(found, OUT)
    elif form == "json":
        put_text(json.dumps([result.to_json() for result in found]) + "\n", out)
    elif form == "markdown":
        put_text(markdown_claims(found), out)
    else:
        put_text(as_text(lambda console: print_claims(found, console)), out)
    return 0


def compare_methods(form: Format, folder: Path, out: Path | None, methods: Sequence[str]) -> int:
    """Every method in every published protocol, and where two papers disagree."""
    from engram.report.across import show_across, write_across
    from engram.runs.setting import group_by_setting
    from engram.studies.across import find_disagreements, find_places

    groups = group_by_setting(read_records(folder))
    try:
        places = find_places(groups, methods)
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    disagreements = find_disagreements(places, groups)
    if form == "text" and out is None:
        show_across(places, disagreements, OUT)
    else:
        put_text(write_across(form, places, disagreements), out)
    return 0


def compare_table1(form: Format, out: Path | None) -> int:
    """Table 1: what the paper says of each kind, and what the data of the two MNIST scenarios say."""
    if form not in ("text", "json"):
        raise WrongCallError(f"format {form} is not available for table1; choose from text, json")
    from engram.cli.describe import describe_scenario, print_rows
    from engram.scenarios.categorize import TABLE_ROWS
    from engram.scenarios.create import scenario

    names = [f"{maker}-mnist/{kind}" for maker in ("split", "permuted") for kind in ("iid", "domain", "class", "task")]
    found = []
    with ERR.status("") as status:
        for place, name in enumerate(names, 1):
            status.update(f"{place}/{len(names)}  {name}")
            found.append(describe_scenario(name, scenario(name), seed=0))
    if form == "json":
        keys = ("scenario", "kind", "declared", "heads", "evidence")
        put_text(json.dumps([{key: one[key] for key in keys} for one in found]) + "\n", out)
        return 0

    def show_rows(console: Console) -> None:
        print_rows(found, console)
        right = sum(one["kind"] == one["declared"] for one in found)
        console.print(f"{right} of {len(found)} as published: " + ", ".join(name for name, _ in TABLE_ROWS.values()))

    if out is None:
        show_rows(OUT)
    else:
        put_text(as_text(show_rows), out)
    return 0
