"""Which records a figure shows, and in which order methods come. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engram.analysis.differences import varying_fields
from engram.core.registry import METHODS
from engram.runs.defaults import Protocol, default_setting
from engram.runs.records import Record
from engram.runs.setting import Setting, setting_of_record

FAMILIES = (
    "plain", "penalty", "distillation", "rehearsal", "gradient memory", "generative", "structural", "frozen features",
    "offline",
)  # fmt: skip
"""The families of methods, in the order in which figures show them; others follow."""
OTHER_FAMILY = "own or combined"


def family_of(method: str) -> str:
    """The family that a method states; `own or combined` if it states none."""
    stated = METHODS.facts(method).literals.get("family") if method in METHODS else None
    return str(stated) if stated in FAMILIES else OTHER_FAMILY


def in_order(methods: Iterable[str]) -> list[str]:
    """Methods family by family."""
    families = [*FAMILIES, OTHER_FAMILY]
    return sorted(methods, key=lambda method: (families.index(family_of(method)), method))


def usual_setting(
    scenario: str, method: str, protocol: Protocol = "own", net: str = "mlp", optimizer: str | None = None
) -> Setting | None:
    """The default setting of a scenario and a method; None if one of them is not known here."""
    try:
        return default_setting(scenario, method, protocol, net, optimizer)
    except (ValueError, OSError):
        return None


def select_runs(
    records: Sequence[Record], scenario: str, methods: Sequence[str] = (), seeds: Sequence[int] = ()
) -> dict[str, list[Record]]:
    """Finished records of a scenario by method, each seed once: the methods that are asked for, else all.

    If some runs of a method have the default setting, those are meant; else all runs, which then must share a setting.
    If no method is named, and some have runs with the default setting, the others are left out: they were trained
    otherwise.
    """
    by_method = group_by_method(records, scenario, seeds)
    for method in methods:
        if method not in by_method:
            there = ", ".join(sorted(by_method))
            raise ValueError(f"no finished records of {method} in {scenario}; there are: {there}")
    usual = [] if methods else [method for method, runs in by_method.items() if runs_of_default(runs)]
    return {method: select_setting(by_method[method]) for method in methods or in_order(usual or by_method)}


def left_out(
    records: Sequence[Record], scenario: str, seeds: Sequence[int], shown: Iterable[str], asked: Sequence[str]
) -> str:
    """Which methods have records that a figure does not show, if none was asked for."""
    others = [] if asked else in_order(group_by_method(records, scenario, seeds).keys() - set(shown))
    return f"in other settings than the default, not shown: {', '.join(others)}" if others else ""


def group_by_method(records: Sequence[Record], scenario: str, seeds: Sequence[int]) -> dict[str, list[Record]]:
    """Finished records of a scenario by method."""
    by_method: dict[str, list[Record]] = {}
    for record in finished(records, scenario, seeds):
        by_method.setdefault(record.method, []).append(record)
    return by_method


def runs_of_default(runs: Sequence[Record]) -> list[Record]:
    """Those of a method's runs in a scenario that have its default setting."""
    usual = usual_setting(runs[0].scenario, runs[0].method)
    return [record for record in runs if setting_of_record(record) == usual]


def select_setting(runs: Sequence[Record]) -> list[Record]:
    """The runs with the default setting if there are some, else all; each seed once."""
    meant = runs_of_default(runs) or list(runs)
    refuse_several(meant)
    by_seed: dict[int, Record] = {}
    for record in meant:
        by_seed.setdefault(record.seed, record)
    return list(by_seed.values())


def refuse_several(runs: Sequence[Record]) -> None:
    """Refuses runs of several settings: their mean would mean nothing."""
    what = f"runs of {runs[0].method} in {runs[0].scenario}"
    tasks = sorted({len(record.accuracy[-1]) for record in runs})
    if len(tasks) > 1:
        raise ValueError(f"{what} have {' and '.join(map(str, tasks))} tasks; choose by --seeds, or by --results")
    settings = list(dict.fromkeys(map(setting_of_record, runs)))
    if len(settings) > 1:
        raise ValueError(
            f"{what} have {len(settings)} settings, which differ in {', '.join(varying_fields(settings))}; name other "
            "--methods, or with --results a file with runs of one setting"
        )


def finished(records: Sequence[Record], scenario: str, seeds: Sequence[int] = ()) -> list[Record]:
    """The finished records of a scenario, refused if there are none; trials of a search do not count."""
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
