"""From one paper's protocol to another's: what each difference between them is worth. No torch.

A bridge is a study with two rows per method that have published numbers, the ends, as `adam/hsu2018` and
`adam/vandeven2022`. Between them, `adam/hsu2018+steps` has one value of the second end in the first, and
`adam/vandeven2022-steps` one value of the first end in the second.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engram.runs.setting import Setting, show
from engram.studies.catalog import built_in_study, own_names
from engram.studies.study import Study
from engram.studies.table import Results
from engram.studies.verdict import LEAST_RUNS


@dataclass(frozen=True)
class Effect:
    """What a change did to the average accuracy, over the seeds that both sides have."""

    differences: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.differences)

    @property
    def std(self) -> float:
        """The population's, over seeds."""
        return statistics.pstdev(self.differences)

    @property
    def stands_out(self) -> bool | None:
        """Whether it is more than twice its standard error; None if there are fewer than 3 runs."""
        if len(self.differences) < LEAST_RUNS:
            return None
        return abs(self.mean) > 2 * statistics.stdev(self.differences) / math.sqrt(len(self.differences))

    def to_json(self) -> dict[str, Any]:
        return {"mean": self.mean, "std": self.std, "n": len(self.differences), "stands_out": self.stands_out}


@dataclass(frozen=True)
class Change:
    """One difference between the two protocols."""

    name: str
    """After the sign in a row's name: `steps`."""
    values: tuple[str, str]
    """What the two ends have, in words."""
    at_first: Effect | None
    """If it alone is changed in the first protocol; None: no common seeds, or no such row."""
    at_second: Effect | None
    """If it alone was still missing in the second protocol."""

    @property
    def mean(self) -> float | None:
        """Of both: what the change is worth if the others come before it as often as after it, roughly."""
        found = [effect.mean for effect in (self.at_first, self.at_second) if effect is not None]
        return statistics.fmean(found) if len(found) == 2 else None

    def to_json(self) -> dict[str, Any]:
        effects = {"at_first": self.at_first, "at_second": self.at_second}
        return {"change": self.name, "values": list(self.values), "mean": self.mean} | {
            name: effect.to_json() if effect else None for name, effect in effects.items()
        }


@dataclass(frozen=True)
class Bridge:
    """A method between two protocols."""

    study: str
    method: str
    ends: tuple[str, str]
    """Rows of the first and the second protocol."""
    gap: Effect | None
    """Second less first."""
    changes: tuple[Change, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "study": self.study,
            "method": self.method,
            "ends": list(self.ends),
            "gap": self.gap.to_json() if self.gap else None,
            "changes": [change.to_json() for change in self.changes],
        }


def bridges_over(scenario: str, method: str) -> list[Study]:
    """The package's own studies that go from one protocol to another with this method and scenario."""
    found = map(built_in_study, own_names())
    return [
        study
        for study in found
        if any(column.scenario == scenario for column in study.columns.values())
        and sum(row.method == method and bool(row.published) for row in study.rows.values()) == 2
    ]


def cross(results: Results, method: str) -> Bridge:
    """What the differences between the two ends of a method are worth, from the runs that there are."""
    study = results.study
    (column,) = study.columns
    rows = [name for name, row in study.rows.items() if row.method == method]
    first, second = (name for name in rows if study.rows[name].published)
    values = {name: results.cell_runs(name, column).values for name in rows}
    settings = {name: study.setting(name, column) for name in (first, second)}
    names = dict.fromkeys(name.removeprefix(end)[1:] for end in (first, second) for name in rows if name != end
                          and name.startswith((f"{end}+", f"{end}-")))  # fmt: skip
    return Bridge(
        study.name,
        method,
        (first, second),
        effect(values[first], values[second]),
        tuple(
            Change(
                name,
                values_of_change(study, column, f"{first}+{name}", settings[first], settings[second]),
                effect(values[first], values.get(f"{first}+{name}", {})),
                effect(values.get(f"{second}-{name}", {}), values[second]),
            )
            for name in names
        ),
    )


def effect(before: Mapping[int, float], after: Mapping[int, float]) -> Effect | None:
    """After less before, over common seeds."""
    seeds = sorted(before.keys() & after.keys())
    return Effect(tuple(after[seed] - before[seed] for seed in seeds)) if seeds else None


def values_of_change(study: Study, column: str, row: str, first: Setting, second: Setting) -> tuple[str, str]:
    """What the two ends have in the fields in which a row differs from the first."""
    changed = study.setting(row, column)
    names = [name for name in {**first.values, **changed.values} if first.value(name) != changed.value(name)]
    return tuple(", ".join(value_in_words(name, end.value(name)) for name in names) for end in (first, second))  # type: ignore[return-value]


def value_in_words(name: str, value: Any) -> str:
    """`pad 2`; 0 steps, which means by epochs, is said so."""
    short = name.rpartition(".")[2]
    return "by epochs" if (short, value) == ("steps", 0) else f"{short} {show(value)}"
