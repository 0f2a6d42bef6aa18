"""Which records a figure shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engram.experiments.records import Record
from engram.report.tables import TITLES


def chosen(
    records: Sequence[Record], scenario: str, methods: Sequence[str] = (), seeds: Sequence[int] = ()
) -> dict[str, list[Record]]:
    """Finished records of a scenario by method, a seed once: methods as asked for, else all in print's order.

    Where some runs of a method are the published setting, those are meant; else all runs of it.
    """
    found: dict[str, dict[int, Record]] = {}
    done = finished(records, scenario, seeds)
    published = {r.method for r in done if r.preset == f"{scenario} {r.method}"}
    for record in done:
        if record.method not in published or record.preset == f"{scenario} {record.method}":
            found.setdefault(record.method, {}).setdefault(record.seed, record)
    for method, runs in found.items():
        tasks = sorted({len(record.accuracy[-1]) for record in runs.values()})
        if len(tasks) > 1:
            counts = " and ".join(map(str, tasks))
            raise ValueError(f"runs of {method} in {scenario} have {counts} tasks; choose by --seeds, or by --results")
    for method in methods:
        if method not in found:
            raise ValueError(f"no finished records of {method} in {scenario}; there are: {', '.join(sorted(found))}")
    return {method: list(found[method].values()) for method in methods or in_order(found)}


def finished(records: Sequence[Record], scenario: str, seeds: Sequence[int] = ()) -> list[Record]:
    """The finished records of a scenario, refused where there are none; trials on held-out images do not count."""
    done = [r for r in records if r.status == "done" and r.accuracy and not r.spec.get("scenario", {}).get("held_out")]
    here = [r for r in done if r.scenario == scenario and (not seeds or r.seed in seeds)]
    if not here:
        there = ", ".join(sorted({r.scenario for r in done})) or "none at all"
        of = f" with seeds {' '.join(map(str, seeds))}" if seeds else ""
        raise ValueError(f"no finished records of {scenario}{of} among those given; there are: {there}")
    return here


def in_order(methods: Iterable[str]) -> list[str]:
    """Methods in print's order, those of your own after it."""
    order = list(TITLES)
    return sorted(methods, key=lambda method: (order.index(method) if method in order else len(order), method))
