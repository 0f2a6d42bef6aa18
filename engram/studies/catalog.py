"""The studies that come with the package, and those in files. No torch."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

from engram.core.facts import ROOT
from engram.core.messages import unknown
from engram.runs.records import Record
from engram.runs.setting import Setting
from engram.scenarios.names import parse_name
from engram.studies.reading import read_study, read_toml
from engram.studies.study import Study, StudyError
from engram.studies.table import Groups, Results

FOLDER = ROOT / "studies"
FIRST = "hsu2018"
"""The paper whose tables go by their short names: `table2` is `hsu2018/table2`."""
NOT_TABLES = ("paper", "claims")


@cache
def study_names() -> tuple[str, ...]:
    """All tables of all papers in the package, the first paper's first."""
    papers = sorted((path.parent for path in FOLDER.glob("*/paper.toml")), key=lambda p: (p.name != FIRST, p.name))
    return tuple(
        f"{paper.name}/{path.stem}"
        for paper in papers
        for path in sorted(paper.glob("*.toml"))
        if path.stem not in NOT_TABLES
    )


def paper_names() -> list[str]:
    return list(dict.fromkeys(name.partition("/")[0] for name in study_names()))


def full_name(name: str) -> str:
    """`table2` → `hsu2018/table2`; other names as they are, refused if there is no such study."""
    names = study_names()
    for candidate in (name, f"{FIRST}/{name}"):
        if candidate in names:
            return candidate
    short = [known.removeprefix(f"{FIRST}/") for known in names]
    raise StudyError(unknown("table", name, [*short, *own_names()]))


def own_names() -> tuple[str, ...]:
    """The studies of the package that are no paper's."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


@cache
def built_in_study(name: str) -> Study:
    """A study of the package: a table of a paper, or one of engram's own."""
    if name in own_names():
        return read_study(read_toml(FOLDER / f"{name}.toml"), name)
    paper, _, table = full_name(name).partition("/")
    shared, values = (read_toml(FOLDER / paper / f"{file}.toml") for file in ("paper", table))
    return read_study(values, f"{paper}/{table}", shared=shared)


def find_study(name: str) -> Study:
    """A study by its name in the package, or by the path of its TOML file."""
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise StudyError(f"study {name} does not exist")
        return replace(read_study(read_toml(path), path.stem, path.parent), path=name)
    known = {*map(short_name, study_names()), *own_names()}
    if "/" not in name and path.with_suffix(".toml").is_file() and name not in known:
        raise StudyError(f"study {name} is unknown; did you mean {name}.toml?")
    return built_in_study(name)


def short_name(name: str) -> str:
    return name.rpartition("/")[2]


def results_of(study: Study, records: Iterable[Record] | Groups = (), metric: str = "") -> Results:
    """The runs behind a study's cells; by the paper's own Python if its table names some."""
    if not study.python:
        return Results(study, records, metric)
    module = importlib.import_module(f"engram.studies.{study.name.partition('/')[0]}.{study.python}")
    found: Results = module.results(study, records, metric)
    return found


@cache
def places_of_settings(scenario: str = "", method: str = "") -> dict[Setting, list[str]]:
    """setting → the cells of published tables that it fills: `hsu2018/table2 gem class`; of one scenario and method, or
    of all."""
    found: dict[Setting, list[str]] = {}
    for name in study_names():
        study = built_in_study(name)
        for row in () if study.python else study.rows:
            if method not in ("", study.rows[row].method):
                continue
            for column in (column for column in study.columns if study.has_cell(row, column)):
                if scenario not in ("", str(parse_name(study.scenario_of(study.rows[row], study.columns[column])))):
                    continue
                setting, exact = study.setting(row, column), study.rows[row].as_published
                for one in [setting, *([setting.with_values(exact)] if exact else [])]:
                    found.setdefault(one, []).append(f"{name} {row} {column}")
    return found


def tables_with(setting: Setting) -> list[str]:
    """The cells of published tables that runs of a setting fill."""
    return places_of_settings(setting.scenario, setting.method).get(setting, [])
