"""Studies whose rows are tuned first: a cell shows the runs with the values that its search found. No torch."""

from __future__ import annotations

from engram.runs.defaults import Protocol
from engram.runs.setting import Setting, SettingRuns
from engram.studies.table import CellRuns, Results

RATE = "training.lr"


class SearchedResults(Results):
    """The reported runs of searches, by the setting that the search began with."""

    def cell_runs(self, row: str, column: str, protocol: Protocol = "own") -> CellRuns:
        base = self.study.setting(row, column, protocol)
        found = [runs for setting, runs in self.groups.items() if is_winner(base, setting, runs)]
        if not found:
            return CellRuns(setting=base)
        runs = found[-1]
        point = next(iter(runs.by_seed.values())).search["point"]
        words = ", ".join(
            f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in point.items()
        )
        trials = next(iter(runs.by_seed.values())).search.get("trials")
        return CellRuns(self.values_of(runs), tuple(runs.records), runs.setting, (f"{words}: best of {trials} trials",))


def is_winner(base: Setting, setting: Setting, runs: SettingRuns) -> bool:
    """Whether runs are the reported ones of a search that began with this setting."""
    first = next(iter(runs.by_seed.values()))
    if first.search.get("stage") != "final" or (base.scenario, base.method) != (setting.scenario, setting.method):
        return False
    names = [RATE if name == "lr" else f"method.{name}" for name in first.search.get("point", {})]
    point = {name: setting.value(name) for name in names}
    return base.with_values(point).counted() == setting
