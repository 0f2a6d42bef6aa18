"""The paper's claims, in print and in our records: for a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engram.analysis.statistics import ALPHA, needed
from engram.studies.hsu2018.cells import BAND_WITHOUT_SPREAD, RUNS_COPIED
from engram.studies.hsu2018.claim_tests import Judged, Result, Side
from engram.studies.hsu2018.claims import MARGIN, MUCH

SIDES: tuple[Side, Side] = ("print", "ours")
COLOURS = {"holds": "green", "fails": "red", "undecided": "dim"}
HOW = (
    f"A comparison is decided where its p is below {ALPHA:g} after Holm's correction over its claim: in print by "
    "Welch's test, of ours by a paired one over common seeds (with fewer than 3, print's deviations stand in; Tables 5 "
    "and 6: Welch's from 3 runs on). Where there is no spread, numbers must be "
    f"{BAND_WITHOUT_SPREAD:g} points apart. About as good is not worse by more than {MARGIN:g} points, much better is "
    f"by more than {MUCH:g} (claim 2: in class learning, where it says most of all; else better is enough), hardly "
    f"(claim 6) is within {MARGIN:g}. Copied rows count as {RUNS_COPIED} runs in print; random and zero heads are "
    f"paired over weights and seeds. Not significant (claims 4 and 7) is what has no p below {ALPHA:g} without that "
    f"correction either, in {needed()} runs or more. A claim fails where one of its comparisons is shown to be "
    "otherwise, and holds where all (6 and 7: where more than half) are shown."
)
NAMED = 6
"""Settings without records that a terminal names a claim."""


def print_claims(results: Sequence[Result], console: Console) -> None:
    """Each claim with its outcomes; below, the comparisons that are shown to be otherwise."""
    view = Table(show_lines=True)
    view.add_column("claim")
    for side in SIDES:
        view.add_column(side, no_wrap=True)
    for result in results:
        cells = [f"[{COLOURS[result.outcome(s)]}]{result.outcome(s)}[/]\n[dim]{counts(result, s)}[/]" for s in SIDES]
        view.add_row(f"{result.claim.number}. {escape(result.claim.text)}", *cells)
    console.print(view)
    console.print(f"[dim]hold / fail / undecided. {escape(HOW)}[/]")
    for result in results:
        parts = list(zip(result.claim.parts, result.print, result.ours, strict=True))
        otherwise = [part for part in parts if "fails" in (part[1].outcome, part[2].outcome)]
        if otherwise:
            console.print(f"{result.claim.number}. shown to be otherwise:")
        for part, in_print, ours in otherwise:
            console.print(f"   {escape(part.text)}: print {says(in_print)}; ours {says(ours)}")
        if result.notes:
            console.print(f"[dim]{result.claim.number}. ours: {escape('; '.join(result.notes))}[/]")
        missing = result.missing
        if missing:
            more = f" and {len(missing) - NAMED} more (--json names all)" if len(missing) > NAMED else ""
            console.print(f"[dim]{result.claim.number}. missing: {escape(', '.join(missing[:NAMED]))}{more}[/]")


def markdown_claims(results: Sequence[Result]) -> str:
    """Each claim with all its comparisons."""
    lines = [HOW, ""]
    for result in results:
        lines += [
            f"### {result.claim.number}. {result.claim.text}",
            "",
            f"Print: **{result.outcome('print')}** ({counts(result, 'print')}). "
            f"Ours: **{result.outcome('ours')}** ({counts(result, 'ours')}). Hold / fail / undecided.",
            "",
            "| comparison | print | ours |",
            "| --- | --- | --- |",
        ]
        for part, in_print, ours in zip(result.claim.parts, result.print, result.ours, strict=True):
            lines.append(f"| {part.text} | {says(in_print)} | {says(ours)} |")
        lines += ["", f"Ours: {'; '.join(result.notes)}.", ""] if result.notes else [""]
    return "\n".join(lines)


def counts(result: Result, side: Side) -> str:
    outcomes = [one.outcome for one in (result.print if side == "print" else result.ours)]
    return " / ".join(str(outcomes.count(word)) for word in ("holds", "fails", "undecided"))


def says(one: Judged) -> str:
    """`holds, +8.67 (p 0.00028, Welch, n = 10)`."""
    if one.difference is None:
        return f"{one.outcome}, missing"
    p = "".join(f"p {p:.2g}, " for p in one.p)
    return f"{one.outcome}, {one.difference:+.2f} ({p}{one.test}, n = {one.n})".replace("-", "−")
