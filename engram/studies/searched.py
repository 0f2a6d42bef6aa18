"""Studies whose rows are tuned first: a cell shows the runs with the values that its search found. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engram.core.messages import count
from engram.runs.defaults import Protocol
from engram.runs.records import Record
from engram.runs.setting import Setting, SettingRuns
from engram.studies.made import Made
from engram.studies.study import Study
from engram.studies.table import CellRuns, Groups, Results

RATE = "training.lr"


class SearchedResults(Results):
    """The reported runs of searches: those that were just asked for, else by the setting that the search began with."""

    def __init__(
        self, study: Study, records: Iterable[Record] | Groups, metric: str = "", made: Made | None = None
    ) -> None:
        super().__init__(study, records, metric)
        self.made = made or Made()

    def cell_runs(self, row: str, column: str, protocol: Protocol = "own") -> CellRuns:
        base = self.study.setting(row, column, protocol)
        if (row, column) in self.made.finals:
            return self.shown(base, self.made.finals[row, column])
        select_on = self.study.search.get("select_on", "holdout")
        found = [runs for setting, runs in self.groups.items() if is_winner(base, setting, runs, select_on)]
        return self.shown(base, found[-1].records if found else [])

    def shown(self, base: Setting, records: Sequence[Record]) -> CellRuns:
        """The runs of a winner, and which it was."""
        if not records:
            return CellRuns(setting=base)
        search = records[0].search
        runs = SettingRuns(base.with_values(values_of_point(search["point"])), {r.seed: r for r in records})
        words = ", ".join(
            f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in search["point"].items()
        )
        note = f"{words}: " if words else ""
        note += f"best of {count(search['trials'], 'trial')}" if "trials" in search else "found by a search"
        note += ", chosen on the TEST images" if search.get("selected_on") == "test" else ""
        return CellRuns(self.values_of(runs), tuple(runs.records), runs.setting, (note, *self.left_out(runs)))


def is_winner(base: Setting, setting: Setting, runs: SettingRuns, select_on: str) -> bool:
    """Whether runs are the reported ones of a search that began with this setting."""
    search = next(iter(runs.by_seed.values())).search
    if search.get("stage") != "final" or search.get("selected_on", "holdout") != select_on:
        return False
    if (base.scenario, base.method) != (setting.scenario, setting.method):
        return False
    point = {name: setting.value(name) for name in values_of_point(search.get("point", {}))}
    return base.with_values(point).counted() == setting


def values_of_point(point: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a point of the grid, by the names that settings have for them."""
    return {RATE if name == "lr" else f"method.{name}": value for name, value in point.items()}
