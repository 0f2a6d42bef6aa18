"""Which records a figure shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engram.analysis.differences import flat
from engram.report.tables import TITLES
from engram.runs.records import Record, setting_of


def chosen(
    records: Sequence[Record], scenario: str, methods: Sequence[str] = (), seeds: Sequence[int] = ()
) -> dict[str, list[Record]]:
    """Finished records of a scenario by method, a seed once: methods as asked for, else all in print's order.

    Where some runs of a method are the published setting, those are meant; else all runs of it, which then have to be
    of one setting.
    """
    found: dict[str, dict[int, Record]] = {}
    done = finished(records, scenario, seeds)
    published = {r.method for r in done if r.preset == f"{scenario} {r.method}"}
    meant = [r for r in done if r.method not in published or r.preset == f"{scenario} {r.method}"]
    for record in meant:
        found.setdefault(record.method, {}).setdefault(record.seed, record)
    for method in methods:
        if method not in found:
            raise ValueError(f"no finished records of {method} in {scenario}; there are: {', '.join(sorted(found))}")
    for method in methods or found:
        refuse_several(method, scenario, [record for record in meant if record.method == method])
    return {method: list(found[method].values()) for method in methods or in_order(found)}


LOOKS = ("evaluation", "threads", "device")
"""Parts of a spec that make no other setting."""


def refuse_several(method: str, scenario: str, runs: Sequence[Record]) -> None:
    """A mean over runs of several settings would be one of nothing."""
    settings = {setting_of(record, *LOOKS): record.spec for record in runs}
    tasks = sorted({len(record.accuracy[-1]) for record in runs})
    if len(tasks) > 1:
        counts = " and ".join(map(str, tasks))
        raise ValueError(f"runs of {method} in {scenario} have {counts} tasks; choose by --seeds, or by --results")
    if len(settings) > 1:
        first, *others = (flat({k: v for k, v in spec.items() if k not in LOOKS}) for spec in settings.values())
        names = {name for other in others for name in first.keys() | other.keys() if first.get(name) != other.get(name)}
        raise ValueError(
            f"runs of {method} in {scenario} are of {len(settings)} settings, which differ in "
            f"{', '.join(sorted(names))}; name other --methods, or by --results a file with runs of one setting"
        )


def finished(records: Sequence[Record], scenario: str, seeds: Sequence[int] = ()) -> list[Record]:
    """The finished records of a scenario, refused where there are none; trials of a search do not count."""
    done = [
        record
        for record in records
        if record.status == "done" and record.accuracy and record.search.get("stage") != "trial"
        if not record.spec.get("scenario", {}).get("held_out")
    ]
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
