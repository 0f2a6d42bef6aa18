"""`engram ls`: what there is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from engram.cli import WrongCallError
from engram.cli.files import with_files
from engram.cli.screen import OUT
from engram.core.messages import unknown
from engram.core.needs import without_boundaries
from engram.core.registry import METHODS, METRICS, NETS, SCENARIOS, Registry

Rows = list[dict[str, Any]]
METHOD_COLUMNS = ("method", "what", "needs", "without_boundaries")
"""What a terminal has room for."""


def ls_command(arguments: list[str]) -> int:
    """The command."""
    arguments = with_files(arguments)
    words = [word for word in arguments if not word.startswith("-")]
    what, places = (words[0], words[1:]) if words else ("", [])
    usage = f"usage: engram ls {'|'.join(LISTINGS)} [--json]; engram ls runs [FOLDER …]"
    flags = set(arguments) - set(words) - {"--json"}
    if flags & {"-h", "--help"}:
        print(usage)
        return 0
    if what not in LISTINGS:
        problem = unknown("listing", what, LISTINGS) if what else f"name a listing: {', '.join(LISTINGS)}"
        raise WrongCallError(f"{problem}\n{usage}")
    if flags or (places and what != "runs"):
        raise WrongCallError(f"ls {what} takes no {' '.join([*places, *flags])}\n{usage}")
    rows = list_runs(places) if what == "runs" else LISTINGS[what]()
    if "--json" in arguments:
        print(json.dumps(rows))
        return 0
    if not rows:
        OUT.print(f"no {what}")
        return 0
    if what == "methods":
        rows = [{name: row[name] for name in METHOD_COLUMNS} for row in rows]
    table = Table()
    for number, column in enumerate(rows[0]):
        table.add_column(column.replace("_", " "), overflow="fold", no_wrap=number == 0)  # a name stays in one piece
    for row in rows:
        table.add_row(*(escape(value_text(value)) for value in row.values()))
    OUT.print(table)
    if what == "methods":
        OUT.print(
            "without boundaries: runs on streams such as blurry-split-mnist/class and mnist-360. With "
            "--boundary-every N, most of the others run on blurry- scenarios too. "
            "--json also has fields, optimiser and memory."
        )
    return 0


def value_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else "–" if value is None else str(value)


def list_methods() -> Rows:
    from engram.runs.memory import kept_on_mnist

    rows = []
    for name in METHODS:
        facts = METHODS.facts(name)
        rows.append(
            {
                "method": name,
                "what": facts.summary,
                "fields": list(facts.defaults),
                "needs": sorted(facts.literals.get("needs", ())),
                "without_boundaries": True if (flag := without_boundaries(name)) == "" else flag or False,
                "optimizer": facts.literals.get("optimizer", "adam"),
                "kept_split": kept_on_mnist("split-mnist/class", name),
                "kept_permuted": kept_on_mnist("permuted-mnist/class", name),
                "equal_memory": bool(facts.literals.get("equal_memory")),
            }
        )
    return rows


def list_entries(registry: Registry[Any]) -> Rows:
    """Names, what they are, and their fields."""
    found = []
    for name in registry:
        facts = registry.facts(name)
        found.append({registry.what: name, "what": facts.summary, "fields": list(facts.defaults)})
    return found


def list_nets() -> Rows:
    return list_entries(NETS)


def list_metrics() -> Rows:
    return list_entries(METRICS)


def list_scenarios() -> Rows:
    from engram.scenarios.kinds import KINDS
    from engram.scenarios.names import NAMED_SCENARIOS, has_one_kind, parse_name, preparation, takes_several

    rows = []
    for name in NAMED_SCENARIOS:
        one_kind = has_one_kind(name)
        parsed = parse_name(name if one_kind else f"{name}/class")
        values, source = preparation(parsed)
        rows.append(
            {
                "scenario": name,
                "what": SCENARIOS.facts(parsed.maker).summary
                + ("; one epoch of batches of 10" if parsed.online else ""),
                "kinds": [name] if one_kind else [f"{name}/{kind}" for kind in KINDS],
                "images": f"pad {values['pad']}, normalize {values['normalize']} ({source})",
            }
        )
    for maker in SCENARIOS:
        if has_one_kind(maker):
            continue
        rows.append(
            {
                "scenario": f"{maker}-SET{'+SET' * takes_several(maker)}",
                "what": SCENARIOS.facts(maker).summary,
                "kinds": list(KINDS),
                "images": "any datasets of `ls datasets`, or file.npz",
            }
        )
    return rows


def list_datasets() -> Rows:
    from engram.data.catalog import available
    from engram.data.sets import CATALOG

    places = available()
    rows = [
        {
            "dataset": name,
            "what": s.title,
            "source": s.source,
            "licence": s.licence,
            "citation": s.citation,
            "here": str(places.get(name) or "not fetched"),
        }
        for name, s in CATALOG.items()
    ]
    own = [name for name in places if name not in CATALOG]
    return rows + [
        {"dataset": name, "what": "your own", "source": "", "licence": "", "citation": "", "here": str(places[name])}
        for name in own
    ]


def list_tables() -> Rows:
    from engram.studies.catalog import built_in_study, study_names

    found = [built_in_study(name) for name in study_names()]
    return [
        {
            "table": study.name.removeprefix("hsu2018/"),
            "what": study.title,
            "rows": list(study.rows),
            "columns": list(study.columns),
        }
        for study in found
    ]


def list_studies() -> Rows:
    from engram.studies.catalog import built_in_study, own_names, study_names

    rows = []
    for name in (*study_names(), *own_names()):
        study = built_in_study(name)
        cells = sum(study.has_cell(row, column) for row in study.rows for column in study.columns)
        published = sum(len(row.published) for row in study.rows.values())
        rows.append(
            {"study": name, "what": study.title, "paper": study.paper, "cells": cells, "published": published,
             "seeds": len(study.seeds), "variants": list(study.variants)}
        )  # fmt: skip
    return rows


def list_runs(places: list[str]) -> Rows:
    """The settings in folders of records, and what their runs reached."""
    import statistics

    from engram.runs.defaults import changes_from_default
    from engram.runs.records import read_records
    from engram.runs.setting import Setting, group_by_setting

    folders = [Path(place) for place in places] or [Path("runs")]
    for folder in folders:
        if not folder.exists() and places:
            raise WrongCallError(f"{folder} does not exist; name a folder or a file with records (*.jsonl)")
    rows = []
    known: dict[tuple[str, ...], Setting] = {}
    for setting, runs in group_by_setting(read_records(*folders)).items():
        values = list(runs.accuracies.values())
        rows.append(
            {
                "scenario": setting.scenario,
                "method": setting.method,
                "values": changes_text(changes_from_default(setting, known)),
                "seeds": len(runs.by_seed),
                "average_accuracy": round(statistics.fmean(values), 2) if values else None,
                "failed": runs.failed,
                "keys": [record.key for record in runs.records],
            }
        )
    return rows


def changes_text(changes: dict[str, Any]) -> str:
    from engram.runs.setting import show

    return ", ".join(f"{name.rpartition('.')[2]} {show(value)}" for name, value in changes.items())


LISTINGS: dict[str, Callable[[], Rows]] = {
    "methods": list_methods,
    "scenarios": list_scenarios,
    "datasets": list_datasets,
    "nets": list_nets,
    "metrics": list_metrics,
    "tables": list_tables,
    "studies": list_studies,
    "runs": lambda: list_runs([]),
}
