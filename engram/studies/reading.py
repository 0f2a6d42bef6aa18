"""Studies from TOML files: every key is known, every field exists, everything else is refused by name. No torch."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engram.core.messages import unknown
from engram.core.registry import load_file
from engram.core.userfile import one_call
from engram.runs.defaults import read_value
from engram.studies.form import (
    ColumnForm,
    RowForm,
    SearchForm,
    SpreadForm,
    StudyForm,
    VariantForm,
    find_misfit,
)
from engram.studies.study import GROUPS_OF_VALUES, Column, Note, Row, Spread, Study, StudyError, Variant

MAX_SEEDS = 1000
"""Seeds from here on belong to the trials of a search."""


def flatten(values: Mapping[str, Any], plain: str, members: Sequence[str] = ()) -> dict[str, Any]:
    """Values by flat name: groups by their name, members of a combination by theirs, all others under `plain`."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        group, dot, rest = name.partition(".")
        if dot:
            found |= flatten({group: {rest: value}}, plain, members)
        elif name in GROUPS_OF_VALUES and isinstance(value, Mapping):
            found |= {f"{name}.{field}": read_value(field, v) for field, v in value.items()}
        elif name in members and isinstance(value, Mapping):
            found |= {f"{plain}.{name}.{field}": read_value(field, v) for field, v in value.items()}
        else:
            found[f"{plain}.{name}"] = read_value(name, value)
    return found


STUDY_KEYS = frozenset(StudyForm.__annotations__)
ROW_KEYS = frozenset(RowForm.__annotations__)
READERS = ("seeds", "spread", "search", "defaults")
"""Keys whose readers check their values themselves."""


def read_study(
    values: Mapping[str, Any], name: str, folder: Path | None = None, shared: Mapping[str, Any] | None = None
) -> Study:
    """The study that a TOML file, read as a dictionary, describes; `shared` is what all tables of a paper state."""
    for key in values:
        if key not in STUDY_KEYS:
            raise StudyError(f"{name}: {unknown('key', key, sorted(STUDY_KEYS))}")
    shared = shared or {}
    whole = {**shared, **values}
    for part in ("columns", "rows"):
        if not isinstance(whole.get(part), Mapping) or not whole[part]:
            raise StudyError(f"{name}: a study needs [{part}]")
    if problem := find_misfit({key: value for key, value in whole.items() if key not in READERS}, StudyForm):
        raise StudyError(f"{name}: {problem}")
    load_files([whole.get("file"), *whole.get("files", ()), *row_files(whole["rows"])], folder, name)
    columns = {key: read_column(key, value) for key, value in whole["columns"].items()}
    rows = {
        key: read_row(key, value, str(whole.get("row_titles", {}).get(key, "")), columns)
        for key, value in whole["rows"].items()
    }
    table = {key: whole[key] for key in GROUPS_OF_VALUES if key in whole}
    given = {key: dict(value) if isinstance(value, Mapping) else value for key, value in table.items()}
    source = next(
        (str(given[g].pop("source")) for g in given if isinstance(given[g], dict) and "source" in given[g]), ""
    )
    flat = flatten(given, "study")
    baseline = str(whole.get("baseline", ""))
    published = any(row.published for row in rows.values())  # whose numbers may differ from a column's
    if baseline and baseline not in rows and not (published and baseline in columns):
        raise StudyError(f"{name}: {unknown('baseline', baseline, rows)}")
    check_names(values, rows, columns, name)
    return Study(
        name=name,
        title=str(whole.get("title", name)),
        rows=rows,
        columns=columns,
        seeds=read_seeds(whole.get("seeds", 10), name),
        baseline=baseline,
        paper=str(whole.get("paper", "")),
        metric=str(whole.get("metric", "average-accuracy")),
        spread=read_spread(whole.get("spread", {}), name),
        spread_note=str(whole.get("spread_note", "")),
        band=whole.get("band"),
        values=flat,
        sources=dict.fromkeys(flat, source) if source else {},
        defaults=read_choice("defaults", whole.get("defaults", "named"), ("named", "plain"), name),
        first=str(whole.get("first", "method")),
        notes=tuple(read_notes(whole.get("notes", ()), name.rpartition("/")[2])),
        variants={key: read_variant(key, value, rows, columns) for key, value in whole.get("variants", {}).items()},
        groups={title: tuple(names) for title, names in whole.get("groups", {}).items()},
        column_titles=whole.get("column_titles", {}),
        memory_rows=tuple(whole.get("memory_rows", ())),
        search=read_search(whole.get("search", {}), name),
        python=str(whole.get("python", "")),
    )


def check_names(values: Mapping[str, Any], rows: Iterable[str], columns: Iterable[str], where: str) -> None:
    """Refuses what a study says of rows and columns that it does not have, or says twice."""
    grouped = [row for members in values.get("groups", {}).values() for row in members]
    noted = [
        (kind, one) for note in values.get("notes", ()) for kind in ("rows", "only_with") for one in note.get(kind, ())
    ]
    stated = [("groups", row) for row in grouped] + [("memory_rows", row) for row in values.get("memory_rows", ())]
    stated += [("row_titles", row) for row in values.get("row_titles", {})]
    stated += [(f"{kind} of notes", row) for kind, row in noted]
    for key, row in stated:
        if row not in rows:
            raise StudyError(f"{where}, {key}: {unknown('row', row, rows)}")
    if twice := next((row for row in grouped if grouped.count(row) > 1), ""):
        raise StudyError(f"{where}, groups: row {twice} is in two groups; name it in one")
    for column in (column for note in values.get("notes", ()) for column in note.get("columns", ())):
        if column not in columns:
            raise StudyError(f"{where}, columns of notes: {unknown('column', column, columns)}")


def read_choice(what: str, value: Any, choices: Sequence[str], where: str) -> Any:
    if value not in choices:
        raise StudyError(f"{where}: {unknown(what, value, choices)}")
    return value


def check_keys(what: str, values: Any, known: Sequence[str], where: str) -> None:
    """Refuses a key that does not exist, with the nearest one."""
    if not isinstance(values, Mapping):
        raise StudyError(f"{where}: give {what} as a table with {', '.join(known)}")
    for key in values:
        if key not in known:
            raise StudyError(f"{where}: {unknown(f'key of {what}', key, known)}")


def read_spread(values: Any, where: str) -> Spread:
    check_keys("spread", values, tuple(SpreadForm.__annotations__), where)
    found = Spread(**values)
    read_choice("kind of spread", found.kind, ("std", "sem"), where)
    if type(found.runs) is not int or found.runs < 1:
        raise StudyError(f"{where}: runs {found.runs!r} of spread: give a whole number above 0")
    return found


def read_search(values: Any, where: str) -> Mapping[str, Any]:
    check_keys("search", values, tuple(SearchForm.__annotations__), where)
    read_choice("select_on", values.get("select_on", "holdout"), ("holdout", "test"), where)
    if type(values.get("trials", 1)) is not int or values.get("trials", 1) < 1:
        raise StudyError(f"{where}: trials {values['trials']!r} of search: give a whole number above 0")
    found: Mapping[str, Any] = values
    return found


def read_column(name: str, value: str | Mapping[str, Any]) -> Column:
    given = {"scenario": value} if isinstance(value, str) else dict(value)
    if not isinstance(given.get("scenario"), str):
        raise StudyError(f'column {name}: name its scenario, as in {name} = "split-mnist/class"')
    scenario = str(given.pop("scenario"))
    title = str(given.pop("title", ""))
    more = {key: given.pop(key) for key in ColumnForm.__annotations__ if key in given}
    return Column(name, scenario, flatten(given, "scenario"), title, more)


def read_row(name: str, value: Mapping[str, Any], title: str, columns: Mapping[str, Column]) -> Row:
    method = str(value.get("method", name.partition("/")[0]))
    members = method.split("+")
    rest = {key: v for key, v in value.items() if key not in ROW_KEYS}
    if empty := [column for column, v in value.get("published", {}).items() if v == []]:
        raise StudyError(f"row {name}: published.{empty[0]} is empty; give [mean] or [mean, what follows ±]")
    published = {
        column: (float(v[0]), float(v[1]) if len(v) > 1 else None) if isinstance(v, list) else (float(v), None)
        for column, v in value.get("published", {}).items()
    }
    at = {column: flatten(v, "method", members) for column, v in value.get("at", {}).items()}
    own, scenarios = tuple(value.get("columns", ())), value.get("scenarios", {})
    for column in (*published, *at, *own, *scenarios):
        if column not in columns:
            raise StudyError(f"row {name}: {unknown('column', column, columns)}")
        if own and column not in own:
            raise StudyError(f"row {name}: it has values for column {column}, and its columns are {', '.join(own)}")
    return Row(
        name,
        method,
        str(value.get("title", title)),
        flatten(rest, "method", members),
        at,
        published,
        read_spread(value["spread"], f"row {name}") if "spread" in value else None,
        own,
        {column: str(scenario) for column, scenario in scenarios.items()},
        flatten(value.get("as_published", {}), "method", members),
        str(value.get("stand_in", "")),
        str(value.get("source", "")),
    )


def read_variant(
    name: str, value: Mapping[str, Any], rows: Mapping[str, Row], columns: Mapping[str, Column]
) -> Variant:
    row = name.rpartition("/")[0]
    if row not in rows:
        raise StudyError(f"variant {name}: {unknown('row', row, rows)}")
    rest = {key: v for key, v in value.items() if key not in VariantForm.__annotations__}
    grid = {
        field: {column: tuple(values) for column, values in by_column.items()}
        for field, by_column in value.get("grid", {}).items()
    }
    return Variant(
        name,
        row,
        tuple(value.get("columns", rows[row].columns or columns)),
        str(value.get("why", "")),
        str(value.get("method", "")),
        flatten(rest, "method"),
        grid,
    )


def read_notes(values: Iterable[Mapping[str, Any]], table: str) -> Iterator[Note]:
    """The notes that concern a table."""
    for note in values:
        if "text" not in note:
            raise StudyError(f"{table}: a note needs text")
        if "at" not in note or table in note["at"]:
            columns = tuple(note.get("columns", note.get("at", {}).get(table, ())))
            yield Note(str(note["text"]), tuple(note.get("rows", ())), columns, tuple(note.get("only_with", ())))


def read_seeds(value: Any, name: str) -> tuple[int, ...]:
    numbered = range(min(value, MAX_SEEDS + 1)) if type(value) is int else value if isinstance(value, list) else ()
    seeds = tuple(numbered)
    if not seeds or not all(type(seed) is int and 0 <= seed < MAX_SEEDS for seed in seeds):
        raise StudyError(
            f"{name}: seeds {value!r}: give a number of seeds, or a list of seeds from 0 to {MAX_SEEDS - 1}"
        )
    return seeds


def row_files(rows: Mapping[str, Any]) -> Iterator[str]:
    for row in rows.values():
        if isinstance(row, Mapping) and "file" in row:
            yield str(row["file"])


def load_files(files: Iterable[Any], folder: Path | None, name: str) -> None:
    """Loads the files of methods, networks, scenarios and metrics that a study names, relative to its own."""
    with one_call():
        for file in dict.fromkeys(file for file in files if file):
            try:
                load_file((folder or Path()) / str(file))
            except ValueError as error:
                raise StudyError(f"{name}: {error}") from error


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file, or an error that names it and the line."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise StudyError(f"{path} is not TOML: {error}") from error
