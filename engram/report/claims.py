"""The claims of a paper, in its numbers and in our records: for a terminal, and as Markdown. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engram.report.markdown import escape_markdown
from engram.studies.claims import claims_of
from engram.studies.outcomes import ClaimOutcome, ClaimResult, Judged, Side

SIDES: dict[Side, str] = {"print": "published", "ours": "ours"}
OUTCOME_COLOURS = {"holds": "green", "fails": "red", "undecided": "dim"}
MOST_NAMED = 6
"""Settings without records that a terminal names per claim."""


def print_claims(results: Sequence[ClaimResult], console: Console) -> None:
    """Each claim with its outcomes; below, the comparisons that are shown to be otherwise."""
    view = Table(show_lines=True)
    view.add_column("claim")
    for title in SIDES.values():
        view.add_column(title, no_wrap=True)
    for result in results:
        outcomes = {side: result.outcome(side) for side in SIDES}
        cells = [f"[{OUTCOME_COLOURS[o]}]{o}[/]\n[dim]{tally(result, side)}[/]" for side, o in outcomes.items()]
        view.add_row(f"{result.claim.number}. {escape(result.claim.text)}", *cells)
    console.print(view)
    for how in explanations(results):
        console.print(f"[dim]hold / fail / undecided. {escape(how)}[/]")
    for result in results:
        parts = list(zip(result.claim.parts, result.print, result.ours, strict=True))
        otherwise = [part for part in parts if "fails" in (part[1].outcome, part[2].outcome)]
        if otherwise:
            console.print(f"{result.claim.number}. shown to be otherwise:")
        for part, published, ours in otherwise:
            console.print(f"   {escape(part.text)}: published {judged_text(published)}; ours {judged_text(ours)}")
        if result.notes:
            console.print(f"[dim]{result.claim.number}. ours: {escape('; '.join(result.notes))}[/]")
        missing = result.missing
        if missing:
            more = f" and {len(missing) - MOST_NAMED} more (--json names all)" if len(missing) > MOST_NAMED else ""
            console.print(f"[dim]{result.claim.number}. missing: {escape(', '.join(missing[:MOST_NAMED]))}{more}[/]")


def markdown_claims(results: Sequence[ClaimResult]) -> str:
    """Each claim with all its comparisons."""
    lines = [line for how in explanations(results) for line in (how, "")]
    for result in results:
        sides = [f"{t.capitalize()}: **{result.outcome(s)}** ({tally(result, s)})." for s, t in SIDES.items()]
        lines += [
            f"### {result.claim.number}. {escape_markdown(result.claim.text)}",
            "",
            f"{' '.join(sides)} Hold / fail / undecided.",
            "",
            f"| comparison | {' | '.join(SIDES.values())} |",
            "| --- | --- | --- |",
        ]
        for part, published, ours in zip(result.claim.parts, result.print, result.ours, strict=True):
            lines.append(f"| {escape_markdown(part.text)} | {judged_text(published)} | {judged_text(ours)} |")
        lines += ["", f"Ours: {escape_markdown('; '.join(result.notes))}.", ""] if result.notes else [""]
    return "\n".join(lines)


def explanations(results: Sequence[ClaimResult]) -> list[str]:
    """How the comparisons of each paper are decided."""
    return [claims_of(paper)[0] for paper in dict.fromkeys(result.claim.paper for result in results)]


def tally(result: ClaimResult, side: Side) -> str:
    """`3 / 0 / 1`: comparisons that hold, fail, are undecided."""
    outcomes = [one.outcome for one in (result.print if side == "print" else result.ours)]
    return " / ".join(str(outcomes.count(word)) for word in get_args(ClaimOutcome))


def judged_text(one: Judged) -> str:
    """`holds, +8.67 (p 0.00028, Welch, n = 10)`"""
    if one.difference is None:
        return f"{one.outcome}, missing"
    p = "".join(f"p {p:.2g}, " for p in one.p)
    return f"{one.outcome}, {one.difference:+.2f} ({p}{one.test}, n = {one.n})".replace("-", "−")
