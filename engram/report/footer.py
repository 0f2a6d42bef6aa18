"""The lines below a table: agreement, what ± is, tests, time, machines, memory, failures, notes. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from engram.analysis.statistics import ALPHA, pairs_needed
from engram.core.messages import count, duration, size
from engram.core.registry import METHODS
from engram.runs.records import Record
from engram.runs.setting import Setting
from engram.studies.study import Study, method_title
from engram.studies.table import Cell, VariantCell, records_behind

VERDICT_MARKS = {"agrees": "✓", "higher": "↑", "lower": "↓", "missing": "·"}
MOST_EXPLAINED = 4
"""Cells whose verdicts are explained one by one."""
NEEDS = ("boundaries", "past data")
"""What methods can declare that they need."""


def lines_below(study: Study, cells: Sequence[Cell]) -> list[str]:
    """A sentence or two each."""
    if not cells:  # variants alone have their own notes
        return []
    names = list(dict.fromkeys(cell.row for cell in cells))
    lines = [agreement(cells)] if study.is_published else tests_text(study, cells)
    judged = [cell for cell in cells if cell.paper is not None and cell.ours is not None]
    why = verdicts_text(study, judged) if len(judged) <= MOST_EXPLAINED else []
    lines.insert(1 if study.is_published else 0, spread_text(study))
    lines[1:1] = why
    lines += needs_text(study, cells)
    runs = records_behind(cells)
    if runs:
        machines = count_machines(runs)
        lines += [
            f"Run time: {duration(sum(record.seconds for record in runs))} in {count(len(runs), 'run')}.",
            "Machine: " + "; ".join(f"{name} ({count(n, 'run')})" for name, n in machines.items()) + ".",
            f"Memory kept at task boundaries besides the network and its optimiser: {ledger(study, cells) or 'none'}.",
            f"Failed runs: {failures(study, cells) or 'none'}.",
        ]
    return [*lines, *study.table_notes(names), *notes_of_cells(study, cells)]


def spread_text(study: Study) -> str:
    """What ± is."""
    ours = "± is the population standard deviation over n runs"
    if study.spread_note or not study.is_published:
        return study.spread_note or f"{ours}."
    kind = {"std": "a standard deviation", "sem": "the standard error of the mean"}[study.spread.kind]
    return f"{ours}; in the paper {kind} over {count(study.spread.runs, 'run')}."


def tests_text(study: Study, cells: Sequence[Cell]) -> list[str]:
    """What the star means, over how many tests, and which of them can show nothing."""
    tests = [cell.test for cell in cells if cell.test is not None]
    if not tests:
        return []
    counted = [test for test in tests if test.can_show]
    name = study.row_title(study.baseline)
    lines = [
        f"* differs from {name}, the baseline: p below {ALPHA:g} in a two-sided paired permutation test over common "
        f"seeds, after Holm's correction over {count(len(counted), 'test')}."
    ] * bool(counted)
    rest = len(tests) - len(counted)
    if rest:
        lines.append(
            f"{count(rest, 'cell')} without p: a test can show something only with {pairs_needed()} or more common "
            "seeds on which the accuracies differ."
        )
    return lines


def agreement(cells: Sequence[Cell]) -> str:
    """`12 agree ✓, 1 higher ↑, …; of 20 telling cells 18 agree.`"""
    counts = {name: sum(cell.verdict == name for cell in cells) for name in VERDICT_MARKS}
    marked = {name: f"{counts[name]} {'agree' if name == 'agrees' else name} {m}" for name, m in VERDICT_MARKS.items()}
    telling = [cell for cell in cells if cell.telling and cell.verdict != "missing"]
    return (
        f"{', '.join(marked.values())}; of {count(len(telling), 'telling cell')} "
        f"{sum(cell.verdict == 'agrees' for cell in telling)} agree."
    )


def verdicts_text(study: Study, cells: Sequence[Cell]) -> list[str]:
    """`EWC in class: +0.03 points from the published number; up to 0.30 would agree.`"""
    lines = []
    for cell in cells:
        difference = f"{(cell.ours or 0) - (cell.paper or 0):+.2f}".replace("-", "−")
        rule = (
            f"up to {cell.band:.2f} agree"
            if cell.band is not None
            else "no verdict: its spread is not known, and ours takes 3 runs"
        )
        lines.append(f"{study.row_title(cell.row)} in {cell.column}: {difference} from the published number; {rule}.")
    return lines


def needs_text(study: Study, cells: Sequence[Cell]) -> list[str]:
    """`Needs task boundaries: L2, EWC; past data: none; neither: Adam.`"""
    needs: dict[str, frozenset[str] | None] = {}
    for cell in cells:
        found = needs_of(study.rows[cell.row].method, cell.setting)
        before = needs.get(cell.row)
        needs[cell.row] = found if before is None else before | (found or frozenset())
    known = {name: found for name, found in needs.items() if found is not None}
    if not known:
        return []
    who = {need: [name for name, found in known.items() if need in found] for need in NEEDS}
    who["neither"] = [name for name, found in known.items() if not found & set(NEEDS)]
    words = [f"{need}: {', '.join(map(study.row_title, rows)) or 'none'}" for need, rows in who.items()]
    return [f"Needs task {'; '.join(words)}."]


def needs_of(method: str, setting: Setting | None = None) -> frozenset[str] | None:
    """What a method, or a combination of methods, declares, as it is set; None if it is not known."""
    members = method.split("+")
    if not all(member in METHODS for member in members):
        return None
    found: set[str] = set()
    for member in members:
        literals = METHODS.facts(member).literals
        free = literals.get("without_boundaries")
        prefix = "method" if len(members) == 1 else f"method.{member}"
        spared = free and setting is not None and setting.value(f"{prefix}.{free[0]}") == free[1]
        found |= set(literals.get("needs", ())) - ({"boundaries"} if spared else set())
    return frozenset(found)


def notes_of_cells(study: Study, cells: Sequence[Cell]) -> list[str]:
    """The notes of the cells, with the rows and columns that have them, if those are not all."""
    places: dict[str, dict[str, list[str]]] = {}
    for cell in cells:
        for note in cell.notes:
            places.setdefault(note, {}).setdefault(cell.row, []).append(cell.column)
    every_row, every_column = ({getattr(cell, name) for cell in cells} for name in ("row", "column"))

    def place(rows: Sequence[str], columns: Sequence[str]) -> str:
        names = [", ".join(map(study.row_title, rows))] if {*rows} != every_row else []
        names += [", ".join(columns)] if {*columns} != every_column else []
        return " in ".join(names) or "All"

    lines = []
    for note, columns_of in places.items():
        alike: dict[tuple[str, ...], list[str]] = {}
        for row, columns in columns_of.items():
            alike.setdefault(tuple(columns), []).append(row)
        lines.append(f"{'; '.join(place(rows, columns) for columns, rows in alike.items())}: {note}.")
    return lines


def notes_of_variants(variants: Sequence[VariantCell]) -> list[str]:
    """What each variant changes, and why; what all of them cost, and how many runs of those shown failed."""
    if not variants:
        return []
    rows: dict[str, dict[str, None]] = {}
    for variant in variants:
        rows.setdefault(variant.note, {})[variant.row] = None
    failed = sum(variant.failed for variant in variants)
    total = duration(sum(variant.total_seconds for variant in variants))
    return [
        *(f"{', '.join(names)}: {note}" for note, names in rows.items()),
        f"Run time of variants: {total}. Failed runs of those shown: {failed or 'none'}.",
    ]


def count_machines(runs: Iterable[Record]) -> Counter[str]:
    """How many runs were made on each machine: `AMD EPYC, 2 cores, torch 2.13`."""
    known = {id(record.machine): record.machine for record in runs}
    found: Counter[str] = Counter()
    for place, number in Counter(id(record.machine) for record in runs).items():
        e = known[place]
        text = f"{e.get('cpu', 'unknown processor')}, {e.get('cores', '?')} cores, torch {e.get('torch', 'unknown')}"
        found[text] += number
    return found


def ledger(study: Study, cells: Iterable[Cell]) -> str:
    """Bytes that each row keeps, the most of its columns; by method if rows are not methods."""
    kept: dict[str, int] = {}
    for cell in cells:
        title = study.row_title(cell.row)
        if needs_of(study.rows[cell.row].method) is None and cell.setting is not None:
            title = method_title(cell.setting.method)
        kept[title] = max(kept.get(title, 0), cell.memory or 0)
    return ", ".join(f"{title} {size(number)}" for title, number in kept.items() if number)


def failures(study: Study, cells: Iterable[Cell]) -> str:
    """`SI in class: seed 3 (failed)`; a run that several cells share is named once."""
    named: set[str] = set()
    found = []
    for cell in cells:
        bad = [r for r in (*cell.runs.records, *cell.runs.tried) if r.status != "done" and r.key not in named]
        named |= {record.key for record in bad}
        if bad:
            seeds = ", ".join(f"seed {record.seed} ({record.status})" for record in bad)
            found.append(f"{study.row_title(cell.row)} in {cell.column}: {seeds}")
    return "; ".join(found)
