"""What the pages about papers take from the records when they are built; `hooks.py` has the rest."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from engram.core.messages import count
from engram.report.across import disagreement_text, effect_text, signed
from engram.report.footer import VERDICT_MARKS
from engram.report.layout import make_document, mean_text, our_text
from engram.report.markdown import escape_markdown, markdown_row, write_markdown
from engram.runs.records import Record, read_records
from engram.runs.setting import group_by_setting
from engram.studies.across import Place, find_disagreements, find_places
from engram.studies.bridge import Effect, cross
from engram.studies.catalog import built_in_study, results_of
from engram.studies.outcomes import examine_claims
from engram.studies.table import Cell, Groups, make_cells, make_variant_cells

RESULTS = Path(__file__).resolve().parents[1] / "results"
NOTHING_YET = "No runs are recorded yet.\n"


@cache
def every_record() -> tuple[Record, ...]:
    return tuple(read_records(RESULTS))


@cache
def every_group() -> Groups:
    return group_by_setting(every_record())


@cache
def cells_of(name: str, precision: str = "fp32") -> tuple[Cell, ...]:
    return tuple(make_cells(results_of(built_in_study(name).with_precision(precision), every_group()), tests=False))


@cache
def every_place() -> tuple[Place, ...]:
    """Every method in every published protocol."""
    return tuple(find_places(every_group()))


def lines_of_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(map(markdown_row, (head, ["---"] * len(head), *rows))) + "\n"


def paper_table(name: str, precision: str = "fp32") -> str:
    """A table of a paper, ours above the published numbers; cells without runs have the published number alone."""
    study = built_in_study(name)
    found = {(cell.row, cell.column): cell for cell in cells_of(name, precision)}
    rows = [
        [study.row_title(row), *(text_of_cell(found.get((row, column))) for column in study.columns)]
        for row in study.rows
    ]
    return lines_of_table(
        [study.first.partition("\n")[0], *(study.column_titles.get(c, c) for c in study.columns)], rows
    )


def text_of_cell(cell: Cell | None) -> str:
    """`94.28 ± 2.12, n 10<br>(93.46 ± 2.01) ✓`"""
    if cell is None:
        return ""
    ours = f"{our_text(cell)}, n {cell.n}" if cell.n else our_text(cell)
    if cell.paper is None:
        return ours
    mark = f" {VERDICT_MARKS[cell.verdict]}" if cell.verdict else ""
    return f"{ours}<br>({mean_text(cell.paper, cell.paper_std)}){mark}"


def state(name: str, precision: str = "fp32") -> str:
    """How many cells have runs and agree, and which do not."""
    study, cells = built_in_study(name), cells_of(name, precision)
    made = [cell for cell in cells if cell.n]
    if not made:
        return NOTHING_YET
    judged = [cell for cell in made if cell.verdict is not None]
    agree = [cell for cell in judged if cell.verdict == "agrees"]
    least, most = min(cell.n for cell in made), max(cell.n for cell in made)
    runs = count(least, "run") + (f" to {most}" if most > least else "") + " each"
    text = (
        f"{len(made)} of {len(cells)} cells have runs, {runs}. Of the {len(judged)} with a verdict {len(agree)} agree."
    )
    published = [cell for cell in made if cell.paper is not None]
    if len(judged) < len(published):
        text += (
            f" {count(len(published) - len(judged), 'cell')} without a published spread and with fewer than three runs "
            "have none yet."
        )
    others = [
        f"{study.row_title(c.row)} in {c.column} ({our_text(c)}, published {mean_text(c.paper or 0.0, c.paper_std)})"
        for c in judged
        if c.verdict != "agrees"
    ]
    return text + (f" Not: {'; '.join(others)}." if others else "") + "\n"


def short_state(*names: str) -> str:
    """The same in a few words, of one table or several."""
    cells = [cell for name in names for cell in cells_of(name)]
    made = [cell for cell in cells if cell.n]
    judged = [cell for cell in made if cell.verdict is not None]
    agree = sum(cell.verdict == "agrees" for cell in judged)
    return f"{len(made)} of {len(cells)} cells have runs, {agree} of {len(judged)} agree" if made else "no runs yet"


def paper_variants(name: str) -> str:
    """The variants of a table beside their rows."""
    study = built_in_study(name)
    made = [
        cell for cell in make_variant_cells(results_of(study, every_group()), list(study.variants.values())) if cell.n
    ]
    return write_markdown(make_document(study, [], made)) if made else NOTHING_YET


def paper_claims(paper: str) -> str:
    """The claims of a paper, in its own numbers and in our runs."""
    rows = []
    for result in examine_claims(paper, every_group()):
        sides = [
            f"{result.outcome(side)} ({sum(j.outcome == 'holds' for j in judged)} of {len(judged)} shown)"
            for side, judged in (("print", result.print), ("ours", result.ours))
        ]
        rows.append([f"{result.claim.number}. {escape_markdown(result.claim.text)}", *sides])
    return lines_of_table(["claim", "in the published numbers", "in our runs"], rows)


def crossing(method: str) -> str:
    """What each difference between two protocols is worth to a method."""
    bridge = cross(results_of(built_in_study("bridge"), every_group()), method)
    first, second = (end.partition("/")[2] for end in bridge.ends)
    rows = [
        [change.name, *change.values, points(change.at_first), points(change.at_second),
         "–" if change.mean is None else signed(change.mean)]
        for change in bridge.changes
    ]  # fmt: skip
    whole = ["all of them", "", "", points(bridge.gap), points(bridge.gap), effect_text(bridge.gap)]
    return lines_of_table(
        ["difference", first, second, f"changed alone in {first}", f"changed last, towards {second}", "mean"],
        [*rows, whole],
    )


def explained(method: str) -> str:
    """Which differences stand out from chance at one end or the other, which do not, and which have too few runs."""
    bridge = cross(results_of(built_in_study("bridge"), every_group()), method)
    words: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for change in bridge.changes:
        effects = [effect for effect in (change.at_first, change.at_second) if effect is not None]
        out = [effect for effect in effects if effect.stands_out]
        if out:
            words[True].append(f"{change.name} ({', '.join(map(effect_text, out))})")
        else:
            words[False if any(effect.stands_out is False for effect in effects) else None].append(change.name)
    said = {True: "More than twice their standard error", False: "Within chance", None: "Fewer than 3 seeds"}
    return " ".join(f"{said[key]}: {', '.join(names)}." for key, names in words.items() if names) + "\n"


def points(effect: Effect | None) -> str:
    """`−4.20 ± 1.10, n 5`"""
    if effect is None:
        return "–"
    spread = f" ± {effect.std:.2f}" if len(effect.differences) > 1 else ""
    return f"{effect_text(effect)}{spread}, n {len(effect.differences)}"


def disagreements() -> str:
    """Where two papers disagree, a line each."""
    found = find_disagreements(every_place(), every_group())
    return "\n".join(f"- {escape_markdown(disagreement_text(one))}" for one in found) + "\n"


def in_papers(method: str) -> str:
    """A method in every published protocol, with what its runs cost; empty if no paper has it."""
    places = [place for place in every_place() if place.method == method and not place.study.python]
    rows = []
    for place in places:
        cell = place.cell
        done = [record for record in cell.runs.records if record.status == "done"]
        cost = [
            f"{statistics.median(value):,.0f}" if done else "–"
            for value in ([r.steps for r in done], [r.seconds for r in done])
        ]
        rows.append(
            [f"`{place.scenario}`", place.protocol, place.title, our_text(cell), str(cell.n),
             "–" if cell.paper is None else mean_text(cell.paper, cell.paper_std),
             f"{VERDICT_MARKS[cell.verdict]} {cell.verdict}" if cell.verdict else "–", *cost]
        )  # fmt: skip
    head = ["scenario", "table", "row", "ours", "runs", "published", "verdict", "steps", "seconds per run"]
    return lines_of_table(head, rows) if rows else ""


PAPER_ANSWERS: dict[str, Callable[..., str]] = {
    "paper-table": paper_table,
    "state": state,
    "short-state": short_state,
    "variants": paper_variants,
    "claims": paper_claims,
    "crossing": crossing,
    "explained": explained,
    "disagreements": disagreements,
}
