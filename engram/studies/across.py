"""Methods across papers: every method in every published protocol, and where two papers disagree. No torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from engram.core.messages import select
from engram.core.registry import METHODS
from engram.runs.setting import Setting
from engram.studies.bridge import Bridge, bridges_over, cross
from engram.studies.catalog import built_in_study, results_of, study_names
from engram.studies.study import Spread, Study, method_title
from engram.studies.table import COMPARED, Cell, Groups, make_cells
from engram.studies.verdict import LEAST_BAND

NUMBER_OF_TASKS = ("scenario.classes_per_task", "scenario.groups", "scenario.permutations", "scenario.rotations")
"""Scenarios of one name that differ in these are not the same."""


@dataclass(frozen=True)
class Place:
    """A method in a published protocol."""

    method: str
    study: Study
    cell: Cell

    @property
    def paper(self) -> str:
        return self.study.name.partition("/")[0]

    @property
    def title(self) -> str:
        """The method, with what tells rows of a table apart: `ER/200`."""
        name = self.cell.column if self.study.python else self.cell.row
        return self.study.row_title(name) if "/" in name else method_title(self.method)

    @property
    def protocol(self) -> str:
        """`hsu2018/table2 task`; of a queue, how many tasks were learned."""
        return f"{self.study.name} {self.cell.row if self.study.python else self.cell.column}"

    @property
    def scenario(self) -> str:
        return self.study.rows[self.cell.row].scenarios.get(
            self.cell.column, self.study.columns[self.cell.column].scenario
        )

    @property
    def same(self) -> tuple[Any, ...]:
        """Equal for equal methods and scenarios."""
        values = self.cell.setting.values if self.cell.setting else {}  # what is not there is the default
        return (self.method, self.scenario, *(str(values.get(name)) for name in NUMBER_OF_TASKS))

    @property
    def error(self) -> float:
        """The standard error of the published mean; 0 if none was published."""
        spread: Spread = self.study.rows[self.cell.row].spread or self.study.spread
        if self.cell.paper_std is None:
            return 0.0
        return self.cell.paper_std if spread.kind == "sem" else self.cell.paper_std / math.sqrt(spread.runs)

    def to_json(self) -> dict[str, Any]:
        own = {"method": self.method, "study": self.study.name, "scenario": self.scenario}
        return own | {name: getattr(self.cell, name) for name in COMPARED if name != "note"}


@dataclass(frozen=True)
class Disagreement:
    """Two papers with different numbers for the same method in the same scenario."""

    first: Place
    second: Place
    bridges: tuple[Bridge, ...] = ()
    """Experiments that change one difference between their protocols at a time."""

    @property
    def apart(self) -> float:
        """Points between the two published means."""
        first, second = self.first.cell.paper, self.second.cell.paper
        assert first is not None
        assert second is not None
        return second - first

    @property
    def band(self) -> float:
        """Points by which the two could differ by chance."""
        return max(LEAST_BAND, 3 * math.hypot(self.first.error, self.second.error))

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.first.method,
            "scenario": self.first.scenario,
            "cells": [place.to_json() for place in (self.first, self.second)],
            "apart": self.apart,
            "band": self.band,
            "bridges": [bridge.to_json() for bridge in self.bridges],
        }


def find_places(groups: Groups, methods: Sequence[str] = ()) -> list[Place]:
    """Every method in every published protocol, by method; a cell that a paper has in two tables only once."""
    found: dict[tuple[str, str, Setting | str], Place] = {}
    for name in study_names():
        study = built_in_study(name)
        last = [list(study.rows)[-1]] if study.python else []  # of a queue, all that was learned
        for cell in make_cells(results_of(study, groups), last, tests=False):
            method = str(study.columns[cell.column].more["method"]) if study.python else study.rows[cell.row].method
            place = Place(method, study, cell)
            own = f"{name} {cell.column}" if study.python or cell.setting is None else cell.setting
            found.setdefault((place.paper, method, own), place)
    known = [method for method in METHODS if any(place.method == method for place in found.values())]
    asked = select("method", methods, known)
    return [place for method in asked for place in found.values() if place.method == method]


def find_disagreements(places: Sequence[Place], groups: Groups) -> list[Disagreement]:
    """Pairs of papers whose numbers differ by more than chance allows, the farthest apart first."""
    alike: dict[tuple[Any, ...], list[Place]] = {}
    for place in places:
        if place.cell.paper is not None:
            alike.setdefault(place.same, []).append(place)
    pairs = [
        Disagreement(first, second)
        for members in alike.values()
        for first, second in combinations(members, 2)
        if first.paper != second.paper
    ]
    found = sorted((pair for pair in pairs if abs(pair.apart) > pair.band), key=lambda pair: -abs(pair.apart))
    return [
        Disagreement(pair.first, pair.second, tuple(bridges_between(pair.first, pair.second, groups))) for pair in found
    ]


def bridges_between(first: Place, second: Place, groups: Groups) -> Iterable[Bridge]:
    """The experiments whose ends are these two cells."""
    for study in bridges_over(first.scenario, first.method):
        bridge = cross(results_of(study, groups), first.method)
        (column,) = study.columns
        if {study.setting(end, column) for end in bridge.ends} == {first.cell.setting, second.cell.setting}:
            yield bridge
