"""All that the page shows, as plain data: tables against print, settings with their runs, curves, ledgers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import engram
from engram.learning import metrics
from engram.report.layout import TITLES
from engram.report.page.command import command
from engram.report.page.printed import claims, table_of
from engram.report.page.settings import Setting, differences, gather, sensitivities, sound
from engram.runs.records import METRICS, Record, offline_of
from engram.search.ledger import tuned
from engram.studies.hsu2018.cells import TABLES

FAMILIES = {
    "plain": ("adam", "sgd", "adagrad"),
    "penalty": ("l2", "ewc", "online-ewc", "si", "mas"),
    "distillation": ("lwf",),
    "rehearsal": ("rehearsal", "rehearsal-c"),
    "gradient memory": ("gem", "gem-textbook"),
    "generative": ("dgr", "rtf"),
    "offline": ("offline",),
}
"""Kinds of methods, which share a colour; all others are `own or combined`."""
HERE = ("peak_mb", "resumed_after_task", "resumed_after_epoch")
"""Of a run's environment: what belongs to the run rather than to the machine."""


def family(method: str) -> str:
    return next((name for name, members in FAMILIES.items() if method in members), "own or combined")


def assemble(records: Sequence[Record], samples: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The data of the page; `samples` are pictures as data URIs by name."""
    usable = [record for record in records if sound(record)]
    settings = sorted(gather(usable), key=lambda setting: setting.label is None)  # published ones first
    environments: list[dict[str, Any]] = []
    named = {setting.label: setting for setting in settings if setting.label and not setting.trial}
    apart = differences(settings)
    offline = [record for record in usable if record.method == "offline"]
    described = {
        setting.id: {
            "scenario": setting.scenario,
            "method": setting.method,
            "title": TITLES.get(setting.method, setting.method),
            "family": family(setting.method),
            "label": setting.label,
            "trial": setting.trial,
            "apart": apart[setting.id],
            "command": command(setting, named.get(f"{setting.scenario} {setting.method}")),
            "spec": json.dumps(setting.spec),  # as text: to be copied, not rounded
            "mean": setting.mean,
            "std": setting.std,
            "kept": setting.kept,
            "memory": setting.done[0].memory if setting.done else {},
            "runs": [run_of(run, offline_of(run, offline), environments) for run in setting.runs],
        }
        for setting in settings
    }
    reported = [record for setting in settings if not setting.trial for record in setting.runs]
    tables = [table_of(name, reported, named) for name in TABLES]
    in_print = {cell["setting"] for table in tables for row in table["rows"] for cell in row["cells"]}
    in_print |= {twin["setting"] for table in tables for twin in table["twins"]}
    found: dict[str, Any] = tidy(
        {
            "version": engram.__version__,
            "records": len(usable),
            "skipped": len(records) - len(usable),
            "tables": [table for table in tables if any(c["setting"] for r in table["rows"] for c in r["cells"])],
            "claims": claims(reported) if in_print - {None} else {"how": "", "claims": []},
            "settings": described,
            "own": [setting.id for setting in settings if setting.id not in in_print and not setting.trial],
            "sensitivities": sensitivities(settings),
            "tuning": [one.to_json() for one in tuned(usable)],
            "environments": environments,
            "samples": pictures(samples or {}, settings),
        }
    )
    return found


def run_of(run: Record, offline: Record | None, environments: list[dict[str, Any]]) -> dict[str, Any]:
    """One run, as small as it goes; the environment is kept once."""
    machine = {name: value for name, value in run.environment.items() if name not in HERE}
    if machine not in environments:
        environments.append(machine)
    row = offline.accuracy[-1] if offline and offline.accuracy else []
    whole = run.status == "done" and 0 < len(run.accuracy) == len(row)
    found = {
        "seed": run.seed,
        "key": run.key,
        "status": run.status,
        **{name: getattr(run, name) for name in METRICS},
        "intransigence": metrics.intransigence(run.accuracy, row) if whole else None,
        "steps": run.steps,
        "seconds": run.seconds,
        "peak_mb": run.environment.get("peak_mb"),
        "resumed": any(run.environment.get(f"resumed_after_{what}") for what in ("task", "epoch")),
        "environment": environments.index(machine),
        "accuracy": run.accuracy,
        "curve": [[at.get(name) for name in ("step", "task", "current", "first")] for at in run.curve],
        "error": run.error,
    }
    return {name: value for name, value in found.items() if value not in (None, [], "")}


def pictures(samples: Mapping[str, str], settings: Sequence[Setting]) -> list[dict[str, Any]]:
    """Samples with the setting and seed whose key their names begin with: `KEY-task-3`."""
    keys = {run.key: (setting.id, run.seed) for setting in settings for run in setting.runs}
    found = []
    for name, uri in samples.items():
        key, _, task = name.partition("-task-")
        setting, seed = keys.get(key, (None, None))
        found.append({"name": name, "uri": uri, "setting": setting, "seed": seed, "task": task})
    return found


def tidy(value: Any) -> Any:
    """As JSON that every browser reads, and short: no NaN, four decimals."""
    if isinstance(value, dict):
        return {str(name): tidy(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [tidy(v) for v in value]
    if isinstance(value, float):
        return rounded(value) if math.isfinite(value) else None
    return value


def rounded(value: float) -> float:
    """Four decimals, or four digits where that is less than nothing: 1e-05 stays."""
    return round(value, 4) if abs(value) >= 0.1 else float(f"{value:.4g}")
