"""Cells: the numbers of the published tables, ours beside them, and the verdict. Works without torch."""

from __future__ import annotations

import difflib
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal, get_args

from engram.runs.records import Record, supersedes
from engram.studies.hsu2018.notes import MISSING, SUB_SAMPLED, notes

Verdict = Literal["agrees", "higher", "lower", "missing"]
Protocol = Literal["own", "common"]
"""Whether the copied rows, and the penalties on the long queue, are made as in print, or as all other rows are."""

COPIED = ("lwf", "dgr", "rtf")
"""Rows that the paper copied: their printed spread is a standard error, of about 20 runs."""
RUNS_IN_PRINT, RUNS_COPIED = 10, 20
LEAST_BAND, BAND_WITHOUT_SPREAD = 0.3, 5.0

QUEUE_TABLES = ("table5", "table6")
"""Tables whose rows are numbers of tasks: `long_queue` knows their runs and cells."""
QUEUE_COLUMNS = ("adam", "si/best", "si/worst", "online-ewc/best", "online-ewc/worst", "adagrad")

TABLES: dict[str, tuple[str, dict[str, str]]] = {
    "table2": ("Split MNIST", {kind: f"split-mnist/{kind}" for kind in ("task", "domain", "class")}),
    "table3": ("Permuted MNIST", {kind: f"permuted-mnist/{kind}" for kind in ("task", "domain", "class")}),
    "table4": (
        "Class learning, number of classes unknown or known in advance",
        {
            "split/unknown": "split-mnist/class",
            "split/known": "split-mnist/class-known",
            "permuted/unknown": "permuted-mnist/class",
            "permuted/known": "permuted-mnist/class-known",
        },
    ),
    "table5": ("Queue of 78 tasks, MLP", dict.fromkeys(QUEUE_COLUMNS, "long-queue/task")),
    "table6": ("Queue of 78 tasks, CNN", dict.fromkeys(QUEUE_COLUMNS, "long-queue/task")),
}
"""Title, and the scenario of each column."""

SAMPLED = tuple(f"{scenario} gem" for scenario in TABLES["table3"][1].values())
"""Presets of GEM that look at a sample of its memory. They stand in for runs that look at all of it, whose labels carry
one word more, and which fill the cell where there are any."""
WHOLE_MEMORY = "whole-memory"


@dataclass(frozen=True)
class Cell:
    """One published number, and ours where there are records."""

    row: str
    column: str
    ours: float | None
    std: float | None
    """Of our runs, the population's, as in print."""
    n: int
    paper: float
    paper_std: float | None
    verdict: Verdict
    telling: bool
    """Print differs from the adam cell of the column by more than the band: the cell can show that a method works."""
    failed: int
    note: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@cache
def published() -> dict[str, Any]:
    """The published numbers: table → row → column → [mean, spread] or mean."""
    values: dict[str, Any] = json.loads(
        resources.files("engram.studies.hsu2018").joinpath("published.json").read_text()
    )
    return values


def table_name(name: str) -> str:
    """A table that can be compared, or an error with the choices."""
    if name not in TABLES:
        near = difflib.get_close_matches(name, TABLES, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"table {name!r} is unknown; {hint}choose from {', '.join(TABLES)}")
    return name


def preset_name(table: str, row: str, column: str, protocol: Protocol = "own") -> str:
    """The preset that a cell was made with, as records carry it."""
    return labelled(TABLES[table][1][column], row, protocol)


def labelled(scenario: str, method: str, protocol: Protocol) -> str:
    """`split-mnist/class ewc`; the copied rows in the protocol of all others as `split-mnist/class lwf common`."""
    return f"{scenario} {method}" + (" common" if protocol == "common" and method in COPIED else "")


def accepted(runs: Mapping[str, Mapping[int, Record]], label: str) -> str:
    """The label whose runs fill a preset's cell: as print has it, where such a run is done, else what stands in."""
    whole = f"{label} {WHOLE_MEMORY}"
    return whole if label in SAMPLED and (accuracies(runs.get(whole, {})) or label not in runs) else label


def taken(runs: Mapping[str, dict[int, Record]], label: str) -> dict[int, Record]:
    """The runs that fill a preset's cell."""
    return runs.get(accepted(runs, label), {})


def accuracies(runs: Mapping[int, Record]) -> dict[int, float]:
    """Average accuracies of the runs that finished, by seed."""
    return {
        seed: r.average_accuracy for seed, r in runs.items() if r.status == "done" and r.average_accuracy is not None
    }


@cache
def preset_names() -> frozenset[str]:
    """The presets of all tables."""
    return frozenset(
        preset_name(table, row, column, protocol)
        for table, (_, columns) in TABLES.items()
        if table not in QUEUE_TABLES
        for row in published()[table]
        for column in columns
        for protocol in get_args(Protocol)
    )


def cells(
    table: str,
    records: Sequence[Record],
    rows: Iterable[str] | None = None,
    columns: Iterable[str] | None = None,
    protocol: Protocol = "own",
) -> list[Cell]:
    """The cells of a table in print's order."""
    if table in QUEUE_TABLES:
        from engram.studies.hsu2018 import long_queue

        return long_queue.cells(table, records, rows, columns, protocol)
    printed = published()[table]
    chosen_rows = chosen("row", rows, list(printed))
    chosen_columns = chosen("column", columns, list(TABLES[table][1]))
    runs = runs_by_label(records)
    return [
        cell(table, row, column, taken(runs, preset_name(table, row, column, protocol)), protocol)
        for row in chosen_rows
        for column in chosen_columns
    ]


def runs_by_label(records: Iterable[Record]) -> dict[str, dict[int, Record]]:
    """label → seed → the run that counts; trials of a search never do."""
    found: dict[str, dict[int, Record]] = {}
    for record in records:
        if record.preset and record.search.get("stage") != "trial":
            runs = found.setdefault(record.preset, {})
            if supersedes(record, runs.get(record.seed)):
                runs[record.seed] = record
    return found


def chosen(what: str, names: Iterable[str] | None, known: list[str]) -> list[str]:
    """The names asked for in print's order, refused where print has none."""
    if not names:
        return known
    asked = list(names)
    for name in asked:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ValueError(f"{what} {name!r} is not in the table; {hint}choose from {', '.join(known)}")
    return [name for name in known if name in asked]


def cell(table: str, row: str, column: str, runs: Mapping[int, Record], protocol: Protocol = "own") -> Cell:
    printed = published()[table]
    mean, spread = printed[row][column]
    values = list(accuracies(runs).values())
    common = ["common protocol, where print has the row's own"] if protocol == "common" and row in COPIED else []
    sampled = [SUB_SAMPLED] if any(r.preset in SAMPLED for r in runs.values()) else []
    note = "; ".join([*([] if runs else [MISSING]), *notes(table, row, column), *sampled, *common])
    return beside(row, column, values, mean, spread, printed["adam"][column][0], len(runs) - len(values), note)


def beside(
    row: str,
    column: str,
    values: Sequence[float],
    paper: float,
    paper_std: float | None,
    adam: float,
    failed: int,
    note: str,
) -> Cell:
    """Our accuracies beside print's, with the verdict; `adam` is what print has of Adam in the same place."""
    ours = statistics.fmean(values) if values else None
    width = band(row, paper_std, values)
    return Cell(
        row=row,
        column=column,
        ours=ours,
        std=statistics.pstdev(values) if values else None,
        n=len(values),
        paper=paper,
        paper_std=paper_std,
        verdict=verdict(ours, paper, width),
        telling=abs(paper - adam) > width,
        failed=failed,
        note=note,
    )


def band(row: str, spread: float | None, values: Sequence[float]) -> float:
    """How far from print a mean of our runs may lie by chance, in points."""
    if spread is None:
        return BAND_WITHOUT_SPREAD
    copied = row in COPIED
    deviation = spread * math.sqrt(RUNS_COPIED) if copied else spread
    error = spread if copied else spread / math.sqrt(RUNS_IN_PRINT)
    ours = min(statistics.stdev(values), 3 * deviation) if len(values) >= 3 else deviation
    return max(LEAST_BAND, 3 * math.sqrt(ours**2 / max(len(values), 1) + error**2))


def verdict(ours: float | None, paper: float, width: float) -> Verdict:
    if ours is None:
        return "missing"
    if abs(ours - paper) <= width:
        return "agrees"
    return "higher" if ours > paper else "lower"
