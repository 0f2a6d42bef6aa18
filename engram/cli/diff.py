"""`engram diff`: which cells moved between two files of records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.markup import escape
from rich.table import Table

from engram.analysis.differences import Difference, find_differences
from engram.cli import WrongCallError
from engram.cli.options import parse_options
from engram.cli.screen import ERR, OUT
from engram.runs.records import Record, read_records


@dataclass
class DiffOptions:
    """Says which settings (runs that differ only by seed) moved from A to B: equal to the bit, or tested over the
    common seeds by a permutation test with Holm's correction."""

    a: tyro.conf.Positional[Path]
    """A: a file of records."""
    b: tyro.conf.Positional[Path]
    """B: the file of records that is compared with A."""
    json: bool = False
    """Print JSON: a list of cells."""


def diff_command(arguments: list[str]) -> int:
    """The command."""
    options = parse_options(DiffOptions, arguments, "engram diff")
    a, b = whole(options.a), whole(options.b)
    found = find_differences(a, b)
    if options.json:
        print(json.dumps([one.to_json() for one in found]))
    else:
        print_differences(found)
    return 0


def whole(path: Path) -> list[Record]:
    """The records of a file, refused if there are none."""
    if not path.is_file():
        raise WrongCallError(f"{path} is not a file; give two files of records, such as results/hsu2018/table2.jsonl")
    try:
        found = read_records(path)
    except OSError as error:
        raise WrongCallError(f"{path} cannot be read: {error}") from error
    if not found:
        raise WrongCallError(f"{path} has no records")
    return found


def print_differences(found: Sequence[Difference]) -> None:
    """A line for each cell that is not the same to the bit, and how many are."""
    shown = [one for one in found if one.word != "same bits"]
    if shown:
        table = Table(title="Average accuracy in percent", title_justify="left")
        for column in ("scenario", "cell", "A", "B", "B − A", "pairs", "p", "p (Holm)", ""):
            table.add_column(column, justify="left" if column in ("scenario", "cell", "") else "right")
        for one in shown:
            test = one.test
            table.add_row(
                escape(one.scenario),
                escape(one.cell),
                *("" if mean is None else f"{mean:.2f}" for mean in (one.a, one.b)),
                f"{test.difference:+.2f}" if test and test.n else "",
                str(test.n) if test else "",
                f"{test.p:.2g}" if test and test.n else "",
                f"{test.adjusted:.2g}" if test and test.adjusted is not None else "",
                escape(said(one)),
            )
        OUT.print(table)
    cells = Counter(one.verdict.partition(":")[0] for one in found if one.verdict)
    runs = {"no longer done": sum(one.lost for one in found), "done now": sum(one.gained for one in found)}
    parts = (
        ", ".join(f"{count} {word}" for word, count in cells.items()),
        ", ".join(f"{count} run{'s' * (count > 1)} {word}" for word, count in runs.items() if count),
    )
    OUT.print("; ".join(part for part in parts if part))
    if any(one.verdict.startswith(("not shown", "too few")) for one in found):
        ERR.print("not shown is not the same as equal: more common seeds could show a difference")


def said(one: Difference) -> str:
    changed = ", ".join(f"{name} {old} → {new}" for name, (old, new) in one.changed.items())
    return one.word + (f" ({changed})" if changed else "")
