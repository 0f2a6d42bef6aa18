"""Tables 5 and 6: the queue of 78 tasks, and the best and worst coefficient of a penalty. No torch."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, get_args

from engram.core.messages import select
from engram.runs.defaults import Protocol, default_setting
from engram.runs.records import Record
from engram.runs.setting import Setting
from engram.studies.study import Study, Variant
from engram.studies.table import CellRuns, Groups, Results

COEFFICIENTS = (0.01, 0.1, 1.0, 10.0, 50.0, 100.0)
"""Coefficients that are tried. The paper's figures name 0.01, 0.1 and 1, its margin notes 50."""
PENALTY_METHODS, PLAIN_METHODS = ("si", "online-ewc"), ("adam", "adagrad")
HEAD_INITS = ("random", "zero")
QUEUE_NETS = ("mlp", "cnn")
Letters = Literal["emnist-letters", "cyrillic-letters"]
QUEUES: dict[Letters, str] = {
    "emnist-letters": "long-queue/task",
    "cyrillic-letters": "long-queue-with-cyrillic-letters/task",
}
"""By the set of letters, in the order in which cells take them: the first that has records."""
STAND_INS = {
    QUEUES["cyrillic-letters"]: "Cyrillic letters stand in for EMNIST letters",
    "sha256:ec811ab3c8140865": "SVHN re-cropped from its photographs",
}
"""What to say of runs of a scenario, or of runs on a dataset with this content."""
OPTIMISERS = {True: "a new optimiser for each task", False: "one optimiser for all tasks"}
"""What to say of `reset_optimizer`."""


def queue_setting(
    scenario: str, method: str, coef: float | None, net: str, heads: str = "random", reset: bool | None = None
) -> Setting:
    """A setting of the queue. `reset`: a new optimiser for each task; None: as the method's default."""
    changes: dict[str, Any] = {"net.heads": heads}
    changes |= {} if coef is None else {"method.coef": coef}
    changes |= {} if reset is None else {"training.reset_optimizer": reset}
    return default_setting(scenario, method, net=net).with_values(changes)


def tried_settings(
    scenario: str, method: str, net: str, heads: str = "random", protocol: Protocol = "own"
) -> list[Setting]:
    """All settings that a column is chosen from: every coefficient of a penalty, or the method alone."""
    if method not in PENALTY_METHODS:
        return [queue_setting(scenario, method, None, net, heads)]
    return [queue_setting(scenario, method, coef, net, heads, protocol == "own") for coef in COEFFICIENTS]


def stand_ins(records: Iterable[Record]) -> list[str]:
    """What stands in for what in these runs."""
    seen: set[str] = set()
    for record in records:
        seen |= {record.scenario, *record.environment.get("data", {}).values()}
    return [text for name, text in STAND_INS.items() if name in seen]


def averages(record: Record) -> list[float]:
    """Average accuracy over the tasks seen so far, after each task."""
    return [statistics.fmean(row) for row in record.accuracy]


def mean_curve(records: Sequence[Record]) -> list[float]:
    """The same, as the mean over runs."""
    return [statistics.fmean(values) for values in zip(*map(averages, records), strict=True)]


class QueueResults(Results):
    """The runs of the queue: a row is a number of tasks, a column a method, or its best or worst coefficient."""

    def __init__(self, study: Study, records: Iterable[Record] | Groups, metric: str = "") -> None:
        super().__init__(study, records, metric)
        self.net = str(study.values["net.name"])
        self.found: dict[tuple[str, Protocol], CellRuns] = {}

    def finished(self, setting: Setting) -> list[Record]:
        runs = self.group_of(setting)
        return [r for r in runs.done.values() if r.accuracy] if runs else []

    def recorded(self, setting: Setting) -> list[Record]:
        runs = self.group_of(setting)
        return runs.records if runs else []

    def scenario_with_runs(self, method: str, heads: str = "random", protocol: Protocol = "own") -> str:
        """The first queue, in the order of preference, with a finished run of the method, else with any record."""
        names = list(QUEUES.values())
        tried = {name: tried_settings(name, method, self.net, heads, protocol) for name in names}
        done = [name for name in names if any(self.finished(s) for s in tried[name])]
        some = [name for name in names if any(self.recorded(s) for s in tried[name])]
        return next(iter(done or some or names))

    def column_runs(self, column: str, protocol: Protocol = "own") -> CellRuns:
        """The runs of the setting that a column shows, and of the others that it was chosen from."""
        if (column, protocol) not in self.found:
            self.found[column, protocol] = self.find_column(column, protocol)
        return self.found[column, protocol]

    def find_column(self, column: str, protocol: Protocol) -> CellRuns:
        more = self.study.columns[column].more
        method, pick = str(more["method"]), more.get("pick")
        tried = tried_settings(self.scenario_with_runs(method, protocol=protocol), method, self.net, "random", protocol)
        finals = {s: mean_curve(self.finished(s))[-1] for s in tried if self.finished(s)}
        everything = [record for setting in tried for record in self.recorded(setting)]
        complete = len(finals) == len(tried)
        if not finals:
            return CellRuns(tried=tuple(everything), complete=False)
        chosen = (min if pick == "worst" else max)(finals, key=lambda s: finals[s])
        runs = self.finished(chosen)
        notes = stand_ins(runs)
        if pick:
            left = [f"{s.value('method.coef'):g}" for s in tried if s not in finals]
            notes.append(OPTIMISERS[bool(chosen.value("training.reset_optimizer"))])
            untried = f" (not tried yet: {', '.join(left)})" if left else ""
            notes.append(f"coefficient {chosen.value('method.coef'):g}{untried}")
        others = tuple(record for record in everything if record not in runs)
        return CellRuns({}, tuple(runs), chosen, tuple(notes), others, complete)

    def cell_runs(self, row: str, column: str, protocol: Protocol = "own") -> CellRuns:
        runs = self.column_runs(column, protocol)
        values = {record.seed: averages(record)[int(row) - 1] for record in runs.records}
        return CellRuns(values, runs.records, runs.setting, runs.notes, runs.tried, runs.complete)

    def has_own_protocol(self, row: str, column: str) -> bool:
        return False  # the note of a column says which optimiser it has

    def settings_to_run(
        self,
        rows: Sequence[str],
        columns: Sequence[str],
        protocol: Protocol,
        variants: Sequence[Variant] = (),
        *,
        heads: Sequence[str] = ("random",),
        letters: Letters = "emnist-letters",
    ) -> list[Setting]:
        """All settings that these columns are chosen from. Only penalties have runs with zero heads, for figures."""
        methods = dict.fromkeys(str(self.study.columns[column].more["method"]) for column in columns)
        return [
            setting
            for start in heads
            for method in methods
            if start == "random" or method in PENALTY_METHODS
            for setting in tried_settings(QUEUES[letters], method, self.net, start, protocol)
        ]


def results(study: Study, records: Iterable[Record] | Groups, metric: str = "") -> QueueResults:
    """What the catalog asks this module for."""
    return QueueResults(study, records, metric)


@dataclass(frozen=True)
class Heads:
    """A comparison of claim 9: random heads against zero heads, in runs that are otherwise the same."""

    method: str
    by: float = 10.0
    expected: str = "above"

    @property
    def thresholds(self) -> tuple[float, ...]:
        return (self.by,)

    @property
    def text(self) -> str:
        return f"long queue, {self.method}: random − zero heads above {self.by:g}"

    def pairs(self, tables: dict[str, Results]) -> tuple[list[tuple[float, float]], list[Record]]:
        """((random, zero) of every coefficient, network and seed that has both, the runs with zero heads)."""
        found: list[tuple[float, float]] = []
        behind: list[Record] = []
        groups = tables["table5"].groups
        for scenario, net in product(QUEUES.values(), QUEUE_NETS):
            for zero in tried_settings(scenario, self.method, net, "zero"):
                random, of_zero = groups.get(zero.with_values({"net.heads": "random"})), groups.get(zero)
                if of_zero is None:
                    continue
                a = random.accuracies if random else {}
                found += [(a[seed], accuracy) for seed, accuracy in of_zero.accuracies.items() if seed in a]
                behind += of_zero.by_seed.values()
        return found, behind

    def remarks(self, records: Iterable[Record]) -> list[str]:
        return stand_ins(records)


def select_letters(name: str) -> Letters:
    """A set of letters, refused if it is none of those that cells take."""
    (found,) = select("letters", [name], get_args(Letters))
    return "cyrillic-letters" if found == "cyrillic-letters" else "emnist-letters"
