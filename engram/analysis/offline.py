"""Intransigence: what offline training reaches that a run did not. No torch."""

from __future__ import annotations

from collections.abc import Iterable

from engram.learning import metrics
from engram.runs.records import Record
from engram.runs.setting import offline_of


def intransigence_of(record: Record, others: Iterable[Record]) -> float | None:
    """Against the offline record of the same scenario, network and seed; None if there is none."""
    offline = offline_of(record, others)
    row = offline.accuracy[-1] if offline and offline.accuracy else []
    whole = record.status == "done" and 0 < len(record.accuracy) == len(row)
    return metrics.intransigence(record.accuracy, row) if whole else None
