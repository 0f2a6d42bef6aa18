"""Tables 5 and 6: the runs on the queue of 78 tasks, and their cells. Works without torch."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Literal, NamedTuple, get_args

from engram.runs.records import Record
from engram.studies.hsu2018.cells import Cell, Protocol, beside, chosen, published, runs_by_label
from engram.studies.hsu2018.twins import Variant

WEIGHTS = (0.01, 0.1, 1.0, 10.0, 50.0, 100.0)
"""Weights of the penalty that are tried. The paper's figures name 0.01, 0.1 and 1, its margin notes 50."""
PENALTIES, PLAIN = ("si", "online-ewc"), ("adam", "adagrad")
NETS = {"table5": "mlp", "table6": "cnn"}
HEADS = ("random", "zero")
Letters = Literal["emnist-letters", "cyrillic-letters"]
SCENARIOS: dict[Letters, str] = {
    "emnist-letters": "long-queue/task",
    "cyrillic-letters": "long-queue-with-cyrillic-letters/task",
}
"""By the set of letters, in the order in which cells take them: the first that has records."""
REMARKS = {SCENARIOS["cyrillic-letters"]: "Cyrillic letters stand in for EMNIST letters"}
"""What everything made with a scenario has to say."""
COPIES = {"sha256:ec811ab3c8140865": "SVHN re-cropped from its photographs"}
"""The same of sets by their content, for a copy that is not the official one."""
OPTIMISERS = {True: "a new optimiser for each task", False: "one optimiser for all tasks"}
"""What there is to say of `reset_optimizer`."""


def resets(scenario: str, method: str) -> bool:
    """Whether the tables' own protocol has a new optimiser for each task. With it penalties come nearer to print than
    with one for all tasks, which the paper's text has: docs/long-queue.md."""
    return scenario in SCENARIOS.values() and method in PENALTIES


class Setting(NamedTuple):
    """What the runs of the long queue differ in, seeds aside."""

    method: str
    weight: float | None = None
    net: str = "mlp"
    heads: str = "random"
    reset: bool = False
    """A new optimiser for each task."""

    def label(self, scenario: str) -> str:
        """As records carry it: `long-queue/task si coef=0.1 reset net=cnn heads=zero`."""
        words = [scenario, self.method]
        words += [f"coef={self.weight:g}"] if self.weight is not None else []
        words += ["reset"] if self.reset else []
        words += ["net=cnn"] if self.net == "cnn" else []
        words += ["heads=zero"] if self.heads == "zero" else []
        return " ".join(words)


def settings(
    net: str, columns: Iterable[str], heads: Iterable[str] = ("random",), protocol: Protocol = "own"
) -> list[Setting]:
    """The runs that columns of a table need: `si/best` and `si/worst` all weights of SI. Only penalties have runs with
    zero heads, for the figures, and a protocol of their own: `resets`."""
    methods = dict.fromkeys(column.partition("/")[0] for column in columns)
    found = []
    for start in heads:
        for method in methods:
            if method in PENALTIES:
                found += [Setting(method, weight, net, start, protocol == "own") for weight in WEIGHTS]
            elif start == "random":
                found.append(Setting(method, None, net))
    return found


@cache
def variants() -> dict[str, Variant]:
    """Every setting by the label that records carry."""
    return {
        setting.label(scenario): Variant(scenario, setting.method, changes(setting))
        for scenario in SCENARIOS.values()
        for net in NETS.values()
        for protocol in get_args(Protocol)
        for setting in settings(net, (*PLAIN, *PENALTIES), HEADS, protocol)
    }


def changes(setting: Setting) -> dict[str, object]:
    """What differs from the preset of the scenario and the method."""
    found: dict[str, object] = {} if setting.weight is None else {"method.coef": setting.weight}
    found |= {"training.reset_optimizer": setting.reset} if setting.method in PENALTIES else {}
    return found | {"net.name": setting.net, "net.heads": setting.heads}


class Shown(NamedTuple):
    """What a column of Table 5 or 6 shows."""

    tried: list[Setting]
    """All weights of its method."""
    setting: Setting | None
    """The one whose runs are shown; None where nothing is recorded."""
    scenario: str
    runs: list[Record]


class Runs:
    """The records of the long queue, by setting and seed: of the first scenario that has any of the method."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.by_label = runs_by_label(records)

    def scenario(self, found: Sequence[Setting]) -> str:
        """The first, in the order of acceptance, with a finished run of one of these settings, else with any record."""
        names = list(SCENARIOS.values())
        done = [name for name in names if any(self.done(s, name) for s in found)]
        return next(iter(done or [name for name in names if any(self.all(s, name) for s in found)] or names))

    def done(self, setting: Setting, scenario: str) -> list[Record]:
        return [record for record in self.all(setting, scenario) if record.status == "done" and record.accuracy]

    def all(self, setting: Setting, scenario: str) -> list[Record]:
        return list(self.by_label.get(setting.label(scenario), {}).values())

    def extreme(self, which: str, found: Sequence[Setting], scenario: str) -> Setting | None:
        """The setting with the best or the worst final average over seeds; None where nothing is recorded."""
        finals = {s: curve(self.done(s, scenario))[-1] for s in found if self.done(s, scenario)}
        if not finals:
            return None
        return (min if which == "worst" else max)(finals, key=lambda s: finals[s])

    def column(self, net: str, name: str, protocol: Protocol = "own") -> Shown:
        """The runs of the best or the worst weight, as the name of the column says."""
        tried = settings(net, [name], protocol=protocol)
        scenario = self.scenario(tried)
        setting = self.extreme(name.partition("/")[2], tried, scenario)
        return Shown(tried, setting, scenario, self.done(setting, scenario) if setting else [])

    def untried(self, net: str, name: str) -> list[Setting]:
        """The settings of a column that have no finished run: among them may be the best or the worst."""
        shown = self.column(net, name)
        return [setting for setting in shown.tried if not self.done(setting, shown.scenario)]

    def failed(self, shown: Shown) -> int:
        """How many runs of a column's method failed, of all weights."""
        return sum(record.status != "done" for s in shown.tried for record in self.all(s, shown.scenario))

    def note(self, shown: Shown) -> str:
        """What there is to say of a column."""
        said = remarks(shown.runs)
        if shown.setting and shown.setting.weight is not None:
            left = [f"{s.weight:g}" for s in shown.tried if not self.done(s, shown.scenario)]
            said.append(OPTIMISERS[shown.setting.reset])
            said.append(f"weight {shown.setting.weight:g}" + (f" (not tried yet: {', '.join(left)})" if left else ""))
        return "; ".join(said)


def remarks(records: Iterable[Record]) -> list[str]:
    """What everything made of these runs has to say."""
    scenarios: set[str] = set()
    contents: set[str] = set()
    for record in records:
        scenarios.add(record.scenario)
        contents.update(record.environment.get("data", {}).values())
    return [text for name, text in (REMARKS | COPIES).items() if name in scenarios | contents]


def runs_of(table: str, records: Sequence[Record], columns: Iterable[str], protocol: Protocol) -> list[Record]:
    """The runs behind columns of a table, those of all weights."""
    runs = Runs(records)
    found = []
    for column in dict.fromkeys(column.partition("/")[0] for column in columns):
        tried = settings(NETS[table], [column], protocol=protocol)
        scenario = runs.scenario(tried)
        found += [record for setting in tried for record in runs.all(setting, scenario)]
    return found


def averages(record: Record) -> list[float]:
    """Average accuracy over the tasks seen so far, after each task."""
    return [statistics.fmean(row) for row in record.accuracy]


def curve(records: Sequence[Record]) -> list[float]:
    """The same, as the mean over runs."""
    return [statistics.fmean(values) for values in zip(*map(averages, records), strict=True)]


def cells(
    table: str,
    records: Sequence[Record],
    rows: Iterable[str] | None,
    columns: Iterable[str] | None,
    protocol: Protocol,
) -> list[Cell]:
    """The cells of Table 5 or 6 in print's order: a row for so many tasks, a column for a method."""
    printed = published()[table]
    runs = Runs(records)
    chosen_columns = chosen("column", columns, list(printed["1"]))
    by_column = {column: runs.column(NETS[table], column, protocol) for column in chosen_columns}
    found = []
    for row in chosen("row", rows, list(printed)):
        for column, shown in by_column.items():
            found.append(
                beside(
                    row,
                    column,
                    values=[averages(record)[int(row) - 1] for record in shown.runs],
                    paper=printed[row][column],
                    paper_std=None,
                    adam=printed[row]["adam"],
                    failed=runs.failed(shown),
                    note=runs.note(shown),
                )
            )
    return found
