"""`engram verify`: recorded runs, picked at random, run again."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.markup import escape
from rich.table import Table

from engram.cli import WrongCallError
from engram.cli.files import with_files
from engram.cli.options import parse_options
from engram.cli.screen import ERR, OUT
from engram.core.messages import duration
from engram.core.registry import METHODS
from engram.runs.defaults import describe_setting
from engram.runs.records import RESULTS, Record, read_records, record_files, results_folder
from engram.runs.setting import setting_of_record
from engram.studies.verify import Again, shuffle_finished, verify_record

if TYPE_CHECKING:
    from engram.runs.spec import Spec

VERIFICATION_COLOURS = {"same bits": "green", "within spread": "green", "moved": "red", "failed": "red"}


@dataclass
class VerifyOptions:
    """Repeats recorded runs, picked at random: same bits, within spread, or moved. Records nothing."""

    table: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[TABLE]")] = ""
    """Only records of this table: table2, hsu2018/table2, or the TOML file of a study; by default of all."""
    sample: int = 3
    """Number of runs."""
    seed: int | None = None
    """Picks the same runs again, as long as no records are added."""
    minutes: float | None = None
    """Only runs that took at most this many minutes."""
    results: Path = RESULTS
    """Folder with the records; if there is no folder results, those that come with the package."""
    file: Path | None = None  # read before all others
    """Python file that runs of your own need; may be given several times."""
    json: bool = False
    """Print JSON: a list of key, what, seed, recorded, again, band, verification."""


def verify_command(arguments: list[str]) -> int:
    """The command. Status 1 if a run has moved or failed, or if a picked record has not the spec of its key."""
    options = parse_options(VerifyOptions, with_files(arguments), "engram verify")
    options.results = results_folder(options.results)
    if options.sample < 1:
        raise WrongCallError(f"sample {options.sample} is out of range; give 1 or more")
    if options.minutes is not None and not options.minutes > 0:
        raise WrongCallError(f"minutes {options.minutes:g} is out of range; give more than 0")
    read = read_records(*chosen_files(options))
    seed = random.randrange(10_000) if options.seed is None else options.seed
    limit = math.inf if options.minutes is None else 60 * options.minutes
    quick = [record for record in read if record.seconds <= limit]
    done = shuffle_finished(quick, seed)
    if not done:
        times = [record.seconds for record in shuffle_finished(read, seed)]
        within = f" that took {duration(limit)} or less; the shortest took {duration(min(times))}" if times else ""
        raise WrongCallError(f"{options.results} has no finished runs{within}")
    chosen, wrong = runnable(done, options.sample)
    took = sum(record.seconds for record, _ in chosen)
    ERR.print(
        f"{len(chosen)} of {len(done)} records, which took {duration(took)} before; --seed {seed} picks the same again"
    )
    found = [repeat_record(record, spec, read, f"{i}/{len(chosen)}") for i, (record, spec) in enumerate(chosen, 1)]
    if options.json:
        print(json.dumps([one.to_json() for one in found]))
    else:
        print_verified(found)
    return 1 if wrong or any(one.verification in ("moved", "failed") for one in found) else 0


def chosen_files(options: VerifyOptions) -> list[Path]:
    """The files of records that are meant: `table2` names results/hsu2018/table2.jsonl, `mine.toml` the records of that
    study, mine/records.jsonl; nothing names all."""
    files = record_files(options.results) if options.results.is_dir() else []
    names = {file: str(file.relative_to(options.results).with_suffix("")).removesuffix("/records") for file in files}
    table = Path(options.table).stem if options.table.endswith(".toml") else options.table
    found = [file for file, name in names.items() if not table or name == table or name.rpartition("/")[2] == table]
    if table and not found:
        choices = ", ".join(names.values()) or "nothing: there are no records"
        raise WrongCallError(f"{options.results} has no records of {table!r}; choose from {choices}")
    return found


def runnable(done: list[Record], sample: int) -> tuple[list[tuple[Record, Spec]], int]:
    """The first so many with what they were made of, and how many of those before them have a spec that cannot be the
    one that was run; passes over those whose images or methods cannot be had here."""
    from engram.data.errors import DataError
    from engram.runs.spec import from_json

    found: list[tuple[Record, Spec]] = []
    lacking: dict[tuple[str, ...], str] = {}
    wrong: list[str] = []
    for record in done:
        sets = tuple(record.spec.get("scenario", {}).get("images", ()))
        if len(found) == sample:
            break
        own = tuple(name for name in record.method.split("+") if name not in METHODS)
        if own and own not in lacking:
            lacking[own] = f"{', '.join(own)}: not a method of engram; give its file: --file"
            ERR.print(f"skipped, runs of {escape(lacking[own])}")
        if own or sets in lacking:
            continue
        try:
            spec = from_json(record.spec)
            if spec.key != record.key:
                raise ValueError(f"its spec has the key {spec.key}: the line was changed, or is of another version")
            found.append((record, spec))
        except DataError as error:
            lacking[sets] = str(error)
            ERR.print(f"skipped, runs of {escape(', '.join(sets))}: {escape(lacking[sets].splitlines()[0])}")
        except ValueError as error:  # another engram's spec, or a set with another content
            wrong.append(f"{record.key}: {error}")
            ERR.print(f"[red]skipped[/], {escape(wrong[-1])}")
    if not found:
        raise WrongCallError("\n".join([*lacking.values(), *wrong]))
    return found, len(wrong)


def repeat_record(record: Record, spec: Spec, all_records: list[Record], count: str) -> Again:
    """Runs a record's spec here and now, and looks at what came of it."""
    from engram.runs.run import run_spec

    machine = record.environment.get("cpu", "an unknown processor")
    what = escape(describe_setting(setting_of_record(record)))
    ERR.print(f"{count}  {what} seed {record.seed}: {record.seconds:.0f} s on {escape(str(machine))}")
    try:
        again = run_spec(spec)
    except Exception as error:  # whatever broke the run: that it broke is the finding
        ERR.print(f"{count}  [red]{escape(f'{type(error).__name__}: {error}')}[/]")
        again = Record(record.key, record.scenario, record.method, record.seed, record.spec, "failed")
    return verify_record(record, again, all_records)


def print_verified(found: list[Again]) -> None:
    table = Table()
    for column in ("key", "run", "seed", "recorded", "again", "may differ by", ""):
        table.add_column(column, justify="left" if column in ("key", "run", "") else "right")
    for one in found:
        again = "–" if one.again is None else f"{one.again:.4f}"
        word = f"[{VERIFICATION_COLOURS[one.verification]}]{one.verification}[/]"
        table.add_row(
            escape(one.key), escape(one.what), str(one.seed), f"{one.recorded:.4f}", again, f"{one.band:.2f}", word
        )  # fmt: skip
    OUT.print(table)
    counts = Counter(one.verification for one in found)
    OUT.print(", ".join(f"{count} {word}" for word, count in counts.items()))
    for one in found:
        if one.differs:
            OUT.print(escape(f"{one.key}: {'; '.join(one.differs)}"))
