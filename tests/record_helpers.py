"""Made-up records of any setting: what tests of tables share. No run behind them, and no torch."""

from typing import Any

from engram.runs.records import Record
from engram.runs.setting import Setting


def record_of(setting: Setting, value: float | None, seed: int = 0, **others: Any) -> Record:
    """A record of a setting; finished if it has a value."""
    spec: dict[str, Any] = {"method": [{"name": member} for member in setting.members]}
    for name, content in setting.values.items():
        group, _, rest = name.partition(".")
        if group == "method":
            member, dot, field = rest.rpartition(".")
            index = setting.members.index(member) if dot else 0
            spec["method"][index][field] = content
        else:
            spec.setdefault(group, {})[rest] = content
    status = "done" if value is not None else "failed"
    accuracy = [[value]] if value is not None else []
    values = {"key": f"{setting.id} {seed}", "status": status, "accuracy": accuracy, "average_accuracy": value}
    return Record(scenario=setting.scenario, method=setting.method, seed=seed, spec=spec, **{**values, **others})


def records_of(setting: Setting, *values: float | None, start: int = 0, **others: Any) -> list[Record]:
    """Records of seeds from `start` on."""
    return [record_of(setting, value, seed, **others) for seed, value in enumerate(values, start)]
