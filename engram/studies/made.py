"""The runs that a study asked for, whether they were made now or recorded before: its table shows these. No torch.

Records are otherwise found by their settings, and two of the same setting need not be the same run: a dataset may have
changed since, a run may have measured something else besides, or be the winner of another search.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from engram.runs.records import Record


@dataclass(frozen=True)
class Made:
    """The runs of a study."""

    records: Sequence[Record] = ()
    """One for each run that the table shows, as the study names it."""
    trials: Mapping[tuple[str, str], Sequence[Record]] = field(default_factory=dict)
    """(row, column) → the trials of its search."""
    finals: Mapping[tuple[str, str], Sequence[Record]] = field(default_factory=dict)
    """(row, column) → the runs with the values that its search found."""
    reused: int = 0
    """Runs that were recorded before, trials included."""
    asked: int = 0

    @property
    def all_done(self) -> bool:
        """Whether every run that is shown came to its end, and every search found something."""
        return all(record.status == "done" for record in self.records) and all(self.finals.values())

    def after(self, recorded: Iterable[Record]) -> list[Record]:
        """These runs, after all others: where a setting has several, the last ones count."""
        own = {record.key for record in self.records}
        return [*(record for record in recorded if record.key not in own), *self.records]


def as_asked(record: Record, scenario: str, search: Mapping[str, Any] | None = None) -> Record:
    """A record under the name and with the note of a search that it was asked for with. A run that was recorded before
    may have been made under another name of the same dataset, or for another search, or for none."""
    note = dict(search or {})
    if (record.scenario, record.search) == (scenario, note):
        return record
    values = {f.name: getattr(record, f.name) for f in fields(Record)}
    return Record(**{**values, "scenario": scenario, "search": note})
