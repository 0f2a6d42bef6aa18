"""Whether a paper's claims hold, in its own numbers and in our records: tests with Holm's correction. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from engram.analysis.statistics import ALPHA, holm, pairs_needed
from engram.runs.records import Record
from engram.studies.claims import Claim, ComparisonGroup, claims_of
from engram.studies.evidence import NO_SPREAD, Measured, OurSide, published_side
from engram.studies.table import Groups

ClaimOutcome = Literal["holds", "fails", "undecided"]
Side = Literal["print", "ours"]
APART = 5.0
"""Points that numbers without a spread must be apart."""


@dataclass(frozen=True)
class Judged(Measured):
    """A comparison with p corrected over its claim, and what it comes to."""

    outcome: ClaimOutcome = "undecided"


@dataclass(frozen=True)
class ClaimResult:
    """A claim, in the published numbers and in our records."""

    claim: Claim
    print: tuple[Judged, ...]
    """The published side: one per comparison, in the claim's order."""
    ours: tuple[Judged, ...]

    def outcome(self, side: Side) -> ClaimOutcome:
        """All groups hold, one fails, or neither."""
        parts = iter(self.print if side == "print" else self.ours)
        groups = [decide_group(group, [next(parts).outcome for _ in group.parts]) for group in self.claim.groups]
        return "fails" if "fails" in groups else "undecided" if "undecided" in groups else "holds"

    @property
    def missing(self) -> list[str]:
        """What of ours would have to be run."""
        return sorted({label for one in self.ours for label in one.missing})

    @property
    def notes(self) -> list[str]:
        """What stands in for what was published, in ours."""
        return sorted({note for one in self.ours for note in one.notes})

    def to_json(self) -> dict[str, Any]:
        parts = zip(self.claim.parts, self.print, self.ours, strict=True)
        return {
            "paper": self.claim.paper,
            "claim": self.claim.number,
            "text": self.claim.text,
            "print": self.outcome("print"),
            "ours": self.outcome("ours"),
            "missing": self.missing,
            "notes": self.notes,
            "parts": [{"text": part.text, "print": asdict(p), "ours": asdict(o)} for part, p, o in parts],
        }


def decide_group(group: ComparisonGroup, outcomes: Sequence[ClaimOutcome]) -> ClaimOutcome:
    """All must hold, or more than half."""
    held, failed = outcomes.count("holds"), outcomes.count("fails")
    if group.how_many == "all":
        return "fails" if failed else "holds" if held == len(outcomes) else "undecided"
    return "holds" if 2 * held > len(outcomes) else "fails" if 2 * failed >= len(outcomes) else "undecided"


def examine_claims(paper: str, records: Iterable[Record] | Groups) -> list[ClaimResult]:
    """Every claim of a paper, in its numbers and in these records."""
    ours = OurSide(paper, records)
    return [
        ClaimResult(
            claim,
            judge_all(claim, [published_side(part) for part in claim.parts]),
            judge_all(claim, [ours.measure(part, sum(len(p.thresholds) for p in claim.parts)) for part in claim.parts]),
        )
        for claim in claims_of(paper)[1]
    ]


def judge_all(claim: Claim, measured: Sequence[Measured]) -> tuple[Judged, ...]:
    """With p corrected over all comparisons of the claim, and what each comes to."""
    corrected = iter(holm([p for one in measured for p in one.p]))
    made = []
    for part, one in zip(claim.parts, measured, strict=True):
        after = replace(one, p=tuple(next(corrected) for _ in one.p))
        made.append(Judged(**vars(after), outcome=decide(part, after, one.p)))
    return tuple(made)


def decide(part: Any, measured: Measured, uncorrected: Sequence[float] = ()) -> ClaimOutcome:
    """What a comparison comes to.

    That nothing is significant must hold before Holm's correction too: the correction makes it harder to show a
    difference, but is no reason to believe that there is none.
    """
    if measured.difference is None or not measured.test:
        return "undecided"
    sides = []  # per threshold: 1 shown above it, −1 shown below it, 0 neither
    for i, threshold in enumerate(part.thresholds):
        away = measured.difference - threshold
        shown = abs(away) > APART if measured.test == NO_SPREAD else measured.p[i] < ALPHA
        sides.append(0 if not shown else 1 if away > 0 else -1)
    if part.expected == "within":
        if sides == [1, -1]:
            return "holds"
        return "fails" if -1 in sides[:1] or 1 in sides[1:] else "undecided"
    if part.expected in ("above", "below"):
        side = sides[0] if part.expected == "above" else -sides[0]
        return "holds" if side > 0 else "fails" if side < 0 else "undecided"
    if sides[0] > 0 or (sides[0] and part.expected == "no difference"):
        return "fails"
    hidden = any(p < ALPHA for p in uncorrected) and (part.expected == "no difference" or measured.difference > 0)
    return "holds" if measured.n >= pairs_needed() and not hidden else "undecided"  # few runs that show nothing
