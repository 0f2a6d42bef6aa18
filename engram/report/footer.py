"""What stands below a table: how many cells agree, what ± means, time, machines, memory, failures, notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from engram.report.layout import MARKS, NEEDS, TITLES, duration
from engram.runs.records import Record
from engram.studies.hsu2018.cells import COPIED, QUEUE_TABLES, Cell
from engram.studies.hsu2018.notes import SPREAD, SPREAD_OF_COPIED, SPREAD_OF_QUEUE, table_notes
from engram.studies.hsu2018.twin_cells import TwinCell


def footer(table: str, cells: Sequence[Cell], runs: Sequence[Record]) -> list[str]:
    """A sentence or two each; `runs` are those that the cells were made of."""
    if not cells:  # twins alone have their own notes
        return []
    lines = [agreement(cells), SPREAD_OF_QUEUE if table in QUEUE_TABLES else SPREAD]
    if any(cell.row in COPIED for cell in cells):
        lines.append(SPREAD_OF_COPIED)
    if table not in QUEUE_TABLES:
        lines.append(needs([name for name in TITLES if any(cell.row == name for cell in cells)]))
    if runs:
        machines = Counter(machine(record) for record in runs)
        lines += [
            f"Run time: {duration(sum(record.seconds for record in runs))} in {len(runs)} runs.",
            "Machine: " + "; ".join(f"{name} ({count} runs)" for name, count in machines.items()) + ".",
            f"Memory kept at task boundaries beside the network and its optimiser: {ledger(runs) or 'none'}.",
        ]
        lines.append(f"Failed runs: {failures(runs) or 'none'}.")
    return [*lines, *table_notes(table)]


def needs(rows: Sequence[str]) -> str:
    """`Needs task boundaries: L2, EWC; past data: none; neither: Adam.`"""
    who = {what: [row for row in rows if row in names] for what, names in NEEDS.items()}
    who["neither"] = [row for row in rows if not any(row in names for names in NEEDS.values())]
    said = [f"{what}: {', '.join(TITLES[row] for row in of) or 'none'}" for what, of in who.items()]
    return f"Needs task {'; '.join(said)}."


def agreement(cells: Sequence[Cell]) -> str:
    counts = {name: sum(cell.verdict == name for cell in cells) for name in MARKS}
    telling = [cell for cell in cells if cell.telling and cell.verdict != "missing"]
    return (
        f"{counts['agrees']} agree {MARKS['agrees']}, {counts['higher']} higher {MARKS['higher']}, "
        f"{counts['lower']} lower {MARKS['lower']}, {counts['missing']} missing {MARKS['missing']}; of {len(telling)} "
        f"telling cells {sum(cell.verdict == 'agrees' for cell in telling)} agree."
    )


def notes(cells: Sequence[Cell]) -> list[str]:
    """The notes of the cells, with the rows and columns that have them, where those are not all."""
    where: dict[str, dict[str, list[str]]] = {}
    for cell in cells:
        for note in filter(None, cell.note.split("; ")):
            where.setdefault(note, {}).setdefault(cell.row, []).append(cell.column)
    every_row, every_column = ({getattr(cell, name) for cell in cells} for name in ("row", "column"))

    def place(rows: Sequence[str], columns: Sequence[str]) -> str:
        names = [", ".join(TITLES.get(row, row) for row in rows)] if {*rows} != every_row else []
        names += [", ".join(columns)] if {*columns} != every_column else []
        return " in ".join(names) or "All"

    lines = []
    for note, columns_of in where.items():
        alike: dict[tuple[str, ...], list[str]] = {}
        for row, columns in columns_of.items():
            alike.setdefault(tuple(columns), []).append(row)
        lines.append(f"{'; '.join(place(rows, columns) for columns, rows in alike.items())}: {note}.")
    return lines


def twin_notes(twins: Sequence[TwinCell]) -> list[str]:
    """What each twin changes, and why; what all of them cost, and how many runs of those shown failed."""
    rows: dict[str, dict[str, None]] = {}
    for twin in twins:
        rows.setdefault(twin.note, {})[twin.row] = None
    if not twins:
        return []
    failed = sum(twin.failed for twin in twins)
    return [
        *(f"{', '.join(names)}: {note}" for note, names in rows.items()),
        f"Run time of twins: {duration(sum(twin.seconds for twin in twins))}. Failed runs of those shown: "
        f"{failed or 'none'}.",
    ]


def machine(record: Record) -> str:
    e = record.environment
    return f"{e.get('cpu', 'unknown processor')}, {e.get('cores', '?')} cores, torch {e.get('torch', 'unknown')}"


def ledger(runs: Iterable[Record]) -> str:
    """Bytes that each row keeps, the most of its columns."""
    kept: dict[str, int] = {}
    for record in runs:
        row = (record.preset or record.method).split(" ")[-1 if not record.preset else 1]
        kept[row] = max(kept.get(row, 0), sum(record.memory.get("kept", {}).values()))
    return ", ".join(f"{TITLES.get(row, row)} {size(count)}" for row, count in kept.items() if count)


def size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"


def failures(runs: Iterable[Record]) -> str:
    return ", ".join(f"{r.preset} seed {r.seed} ({r.status})" for r in runs if r.status != "done")
