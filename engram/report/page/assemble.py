"""All that the page shows, as plain data: tables, claims, settings with their runs, curves, ledgers. No torch."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from engram.core.version import VERSION
from engram.learning.metrics import intransigence
from engram.report.page.classes import classes_data
from engram.report.page.command import run_command
from engram.report.page.measured import metrics_data, recorded_data
from engram.report.page.settings import (
    PageSetting,
    describe_settings,
    gather_settings,
    sensitivity_curves,
)
from engram.report.page.studies import (
    claims_data,
    has_runs,
    papers_data,
    places_of_settings,
    tables_data,
)
from engram.report.page.values import Exact, values_by_seed
from engram.report.selection import family_of
from engram.runs.indexed import IndexedRecord
from engram.runs.records import Record
from engram.runs.setting import offline_of
from engram.runs.soundness import RECORDED_METRICS, is_sound_record
from engram.search.ledger import tuned
from engram.studies.catalog import built_in_study, own_names, study_names
from engram.studies.study import Study, method_title

MOST_RUNS_LISTED, LEAST_RUNS_LISTED = 5_000, 3
"""Runs that the page lists one by one, with matrices and curves: in all, about 10 MB; and at least of each setting."""
OF_THE_RUN = ("peak_mb", "resumed_after_task", "resumed_after_epoch", "resumed_after_step")
"""Parts of a run's environment that belong to the run rather than to the machine."""


def assemble(
    records: Sequence[Record],
    samples: Mapping[str, str] | None = None,
    studies: Sequence[Study] | None = None,
    streams: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The data of the page; `samples` are pictures as data URIs by name, `studies` its tables (None: all built in),
    `streams` what was measured along scenarios."""
    usable = [record for record in records if isinstance(record, IndexedRecord) or is_sound_record(record)]
    settings = gather_settings(usable)
    most = runs_per_setting(len(settings))
    environments: list[dict[str, Any]] = []
    apart = describe_settings(settings)
    offline = [run for setting in settings if setting.setting.method == "offline" for run in setting.runs.records]
    described = {
        setting.id: {
            "scenario": setting.setting.scenario,
            "method": setting.setting.method,
            "title": method_title(setting.setting.method),
            "family": family_of(setting.setting.method),
            "usual": setting.is_usual,
            "trial": setting.trial,
            "apart": apart[setting.id],
            "command": run_command(setting),
            "spec": json.dumps(setting.spec),  # as text: to be copied, not rounded
            "mean": setting.mean,
            "std": setting.std,
            "kept": setting.runs.kept,
            "memory": next((run.memory for run in setting.runs.done.values()), {}),
            "metrics": metrics_data(list(setting.runs.done.values())),
            "recorded": recorded_data(list(setting.runs.done.values())),
            "classes": classes_data(list(setting.runs.done.values())),
            "scores": next((run.scores for run in setting.runs.done.values()), []),
            "values": values_by_seed(setting.runs.accuracies),
            "runs": [run_data(run, offline_of(run, offline), environments) for run in setting.runs.records[:most]],
        }
        for setting in settings
    }
    reported = {setting.setting: setting.runs for setting in settings if not setting.trial}
    known = {setting.id for setting in settings if not setting.trial}
    shown = list(map(built_in_study, (*study_names(), *own_names()))) if studies is None else list(studies)
    tables = tables_data(shown, reported, known)
    for setting, place in places_of_settings(tables).items():
        described[setting]["apart"] = place
    with_runs = [table for table in tables if has_runs(table)]
    cells = [cell for table in tables for row in table["rows"] for cell in row["cells"]]
    in_tables = {cell["setting"] for cell in [*cells, *(one for table in tables for one in table["variants"])]}
    found: dict[str, Any] = tidy(
        {
            "version": VERSION,
            "records": len(usable),
            "skipped": len(records) - len(usable),
            "thinned": thinning([len(setting.runs.records) for setting in settings], most),
            "tables": [table for table in tables if has_runs(table) or table["asked"]],
            "papers": papers_data(shown, tables),
            "claims": claims_data({table["paper"] for table in with_runs}, reported),
            "settings": described,
            "own": [setting.id for setting in settings if setting.id not in in_tables and not setting.trial],
            "sensitivities": sensitivity_curves(settings),
            "tuning": [one.to_json() for one in tuned(usable)],
            "environments": environments,
            "streams": list(streams),
            "samples": samples_data(samples or {}, settings),
        }
    )
    return found


def runs_per_setting(settings: int) -> int:
    """How many runs of each setting the page lists."""
    return max(LEAST_RUNS_LISTED, MOST_RUNS_LISTED // max(settings, 1))


def thinning(runs: Sequence[int], most: int) -> str:
    """What is not listed, in words; empty if everything is. Means and tests are of all runs."""
    left = sum(max(0, n - most) for n in runs)
    if not left:
        return ""
    return (
        f"{left:,} of {sum(runs):,} runs are not listed one by one: of each setting the first {most:,} by seed are; "
        "means, standard deviations, verdicts and tests are of all runs"
    )


def run_data(run: Record, offline: Record | None, environments: list[dict[str, Any]]) -> dict[str, Any]:
    """One run, without what it has nothing of; equal environments are stored once."""
    machine = {name: value for name, value in run.environment.items() if name not in OF_THE_RUN}
    if machine not in environments:
        environments.append(machine)
    row = offline.accuracy[-1] if offline and offline.accuracy else []
    whole = run.status == "done" and 0 < len(run.accuracy) == len(row)
    found = {
        "seed": run.seed,
        "key": run.key,
        "status": run.status,
        **{name: getattr(run, name) for name in RECORDED_METRICS},
        "intransigence": intransigence(run.accuracy, row) if whole else None,
        "steps": run.steps,
        "seconds": run.seconds,
        "peak_mb": run.environment.get("peak_mb"),
        "resumed": any(run.environment.get(f"resumed_after_{what}") for what in ("task", "epoch", "step")),
        "environment": environments.index(machine),
        "accuracy": run.accuracy,
        "curve": [[at.get(name) for name in ("step", "task", "current", "first")] for at in run.curve],
        "error": run.error,
    }
    return {name: value for name, value in found.items() if value not in (None, [], "")}


def samples_data(samples: Mapping[str, str], settings: Sequence[PageSetting]) -> list[dict[str, Any]]:
    """Samples with the setting and seed whose key their names begin with: `KEY-task-3`."""
    keys = {run.key: (setting.id, run.seed) for setting in settings for run in setting.runs.records}
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
    if isinstance(value, float) and not isinstance(value, Exact):
        return round_short(value) if math.isfinite(value) else None
    return value


def round_short(value: float) -> float:
    """Four decimals, or four digits of small numbers: 1e-05 stays."""
    return round(value, 4) if abs(value) >= 0.1 else float(f"{value:.4g}")
