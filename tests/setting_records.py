"""Records of a given setting, with numbers that can be checked by hand."""

from typing import Any

from engram.runs.records import Record
from engram.runs.setting import Setting
from engram.studies.catalog import built_in_study


def spec_of(setting: Setting, seed: int = 0) -> dict[str, Any]:
    """A spec that is read back as this setting."""
    members = setting.members
    spec: dict[str, Any] = {
        "scenario": {"held_out": 0.0},
        "method": [{"name": member} for member in members],
        "net": {"name": "mlp"},
        "training": {},
        "evaluation": {"mask": True, "forward_transfer": False, "evaluate_every": 0},
        "seed": seed,
        "threads": 1,
        "device": "cpu",
    }
    for name, value in setting.values.items():
        group, _, field = name.partition(".")
        value = list(value) if isinstance(value, tuple) else value
        if group == "method":
            member, _, rest = field.rpartition(".")
            spec["method"][members.index(member) if member else 0][rest] = value
        else:
            spec[group][field] = value
    return spec


def run_of(setting: Setting, seed: int, value: float | None, **more: Any) -> Record:
    """One run, finished if it has an average accuracy."""
    values = {
        "key": f"{setting.id} {seed}",
        "scenario": setting.scenario,
        "method": setting.method,
        "seed": seed,
        "spec": spec_of(setting, seed),
        "status": "failed" if value is None else "done",
        "average_accuracy": value,
    }
    return Record(**values | more)


def run(row: str, column: str, seed: int, value: float | None, table: str = "table2", **more: Any) -> Record:
    """A run of a cell, or of a variant (`gem/one-slot`, `ewc/searched 100`)."""
    study = built_in_study(table)
    name, _, point = row.partition(" ")
    if name in study.variants:
        return run_of(study.variant_settings(study.variants[name], column)[point], seed, value, **more)
    return run_of(study.setting(name, column), seed, value, **more)
