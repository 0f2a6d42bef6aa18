"""Whether the paper's claims hold, in print and in our records: tests with Holm's correction. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from engram.analysis.statistics import ALPHA, holm, needed
from engram.runs.records import Record
from engram.studies.hsu2018.cells import BAND_WITHOUT_SPREAD
from engram.studies.hsu2018.claim_evidence import NO_SPREAD, Measured, Ours, in_print
from engram.studies.hsu2018.claims import CLAIMS, AnyPart, Claim, Group

Outcome = Literal["holds", "fails", "undecided"]
Side = Literal["print", "ours"]


@dataclass(frozen=True)
class Judged(Measured):
    """A comparison with p corrected over all of its claim, and what it comes to."""

    outcome: Outcome = "undecided"


@dataclass(frozen=True)
class Result:
    """A claim, on print and on our records."""

    claim: Claim
    print: tuple[Judged, ...]
    """One a part, in the claim's order."""
    ours: tuple[Judged, ...]

    def outcome(self, side: Side) -> Outcome:
        """All groups hold, one fails, or neither."""
        parts = iter(self.print if side == "print" else self.ours)
        groups = [together(group, [next(parts).outcome for _ in group.parts]) for group in self.claim.groups]
        return "fails" if "fails" in groups else "undecided" if "undecided" in groups else "holds"

    @property
    def missing(self) -> list[str]:
        """What of ours would have to be run."""
        return sorted({label for one in self.ours for label in one.missing})

    @property
    def notes(self) -> list[str]:
        """What stands in for what print has, in ours."""
        return sorted({note for one in self.ours for note in one.notes})

    def to_json(self) -> dict[str, Any]:
        parts = zip(self.claim.parts, self.print, self.ours, strict=True)
        return {
            "claim": self.claim.number,
            "text": self.claim.text,
            "print": self.outcome("print"),
            "ours": self.outcome("ours"),
            "missing": self.missing,
            "notes": self.notes,
            "parts": [{"text": part.text, "print": asdict(p), "ours": asdict(o)} for part, p, o in parts],
        }


def together(group: Group, outcomes: Sequence[Outcome]) -> Outcome:
    """All must hold, or more than half."""
    held, failed = outcomes.count("holds"), outcomes.count("fails")
    if group.how_many == "all":
        return "fails" if failed else "holds" if held == len(outcomes) else "undecided"
    return "holds" if 2 * held > len(outcomes) else "fails" if 2 * failed >= len(outcomes) else "undecided"


def results(records: Sequence[Record]) -> list[Result]:
    """Every claim, on print and on these records."""
    ours = Ours(records)
    return [
        Result(
            claim,
            judged(claim, [in_print(part) for part in claim.parts]),
            judged(claim, [ours.measured(part, sum(len(p.thresholds) for p in claim.parts)) for part in claim.parts]),
        )
        for claim in CLAIMS
    ]


def judged(claim: Claim, found: Sequence[Measured]) -> tuple[Judged, ...]:
    """With p corrected over all comparisons of the claim, and what each part comes to."""
    corrected = iter(holm([p for one in found for p in one.p]))
    made = []
    for part, one in zip(claim.parts, found, strict=True):
        after = replace(one, p=tuple(next(corrected) for _ in one.p))
        made.append(Judged(**vars(after), outcome=outcome_of(part, after, one.p)))
    return tuple(made)


def outcome_of(part: AnyPart, found: Measured, uncorrected: Sequence[float] = ()) -> Outcome:
    """What a part comes to. That nothing is significant must be so before Holm's correction too: that makes it harder
    to show a difference, but is no reason to believe that there is none."""
    if found.difference is None or not found.test:
        return "undecided"
    sides = []  # of each threshold: 1 shown above it, −1 shown below it, 0 neither
    for i, threshold in enumerate(part.thresholds):
        away = found.difference - threshold
        shown = abs(away) > BAND_WITHOUT_SPREAD if found.test == NO_SPREAD else found.p[i] < ALPHA
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
    hidden = any(p < ALPHA for p in uncorrected) and (part.expected == "no difference" or found.difference > 0)
    return "holds" if found.n >= needed() and not hidden else "undecided"  # that few runs show nothing says nothing
