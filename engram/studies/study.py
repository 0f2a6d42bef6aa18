"""Studies: rows × columns of settings with seeds, as a TOML file states them. No torch."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from engram.core.messages import select, unknown
from engram.core.registry import METHODS, load_file
from engram.runs.defaults import Protocol, choose_values, default_setting, plain_setting, read_value
from engram.runs.setting import Setting, class_defaults, scenario_class

GROUPS_OF_VALUES = ("scenario", "net", "training", "evaluation")
MAX_SEEDS = 1000
"""Seeds from here on belong to the trials of a search."""


class StudyError(ValueError):
    """A study that cannot be read."""


@dataclass(frozen=True)
class Spread:
    """What the ± of published numbers is: a standard deviation over runs, or the standard error of their mean."""

    kind: Literal["std", "sem"] = "std"
    runs: int = 10


@dataclass(frozen=True)
class Column:
    """A column: a scenario, and values that differ from its defaults."""

    name: str
    scenario: str
    values: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    """What only the Python of a study understands."""


@dataclass(frozen=True)
class Row:
    """A row: a method, and values that differ from its defaults."""

    name: str
    method: str
    title: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    at: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """column → values of that cell alone."""
    published: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    """column → (mean, what follows ±)."""
    spread: Spread | None = None
    as_published: Mapping[str, Any] = field(default_factory=dict)
    """Values that the published number was made with, if runs with the row's values stand in for them."""
    stand_in: str = ""
    """What to say of runs that stand in."""
    source: str = ""


@dataclass(frozen=True)
class Variant:
    """A row with some values changed. It is never a cell of the table: it is shown below it, beside its row."""

    name: str
    """After its row: `gem/one-slot`."""
    row: str
    columns: tuple[str, ...]
    why: str
    """How the row was made, and what the variant does instead."""
    method: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    """field → column → values that are tried besides the row's own; the best by accuracy is the variant's."""


@dataclass(frozen=True)
class Note:
    """What to know about some cells, or about a whole table."""

    text: str
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    only_with: tuple[str, ...] = ()
    """A note about the table that matters only if one of these rows is shown."""


@dataclass(frozen=True)
class Study:
    """A table: what is run for each of its cells and, if it was published, the numbers."""

    name: str
    title: str
    rows: Mapping[str, Row]
    columns: Mapping[str, Column]
    seeds: tuple[int, ...] = tuple(range(10))
    baseline: str = ""
    """The row that differences are tested against."""
    paper: str = ""
    metric: str = "average-accuracy"
    spread: Spread = Spread()
    spread_note: str = ""
    band: float | None = None
    """Points that count as agreement if nothing is known of the published spread."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values of all cells."""
    sources: Mapping[str, str] = field(default_factory=dict)
    defaults: Literal["named", "plain"] = "named"
    """What cells leave open: the defaults of the named scenario, or those of the classes alone."""
    first: str = "method"
    """The heading of the first column; a second line of it stands beside the lower headings."""
    notes: tuple[Note, ...] = ()
    variants: Mapping[str, Variant] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """title → rows that stand together."""
    column_titles: Mapping[str, str] = field(default_factory=dict)
    memory_rows: tuple[str, ...] = ()
    """Rows with a check mark in a column Memory; the best of each group is bold. None: there is no such column."""
    search: Mapping[str, Any] = field(default_factory=dict)
    """`trials` and `select_on`, if rows are tuned first."""
    python: str = ""
    """The module of the paper's folder that finds the runs of cells, if no other study could use it."""

    @property
    def short_name(self) -> str:
        """`table2` of `hsu2018/table2`."""
        return self.name.rpartition("/")[2]

    @property
    def is_published(self) -> bool:
        return any(row.published for row in self.rows.values())

    def row_title(self, row: str) -> str:
        """What a row is called for people."""
        found = self.rows.get(row)
        if found is not None and found.title:
            return found.title
        name, slash, rest = row.partition("/")
        title = method_title(found.method if found and not slash else name)
        return f"{title}/{rest}" if slash else title

    def setting(self, row: str, column: str, protocol: Protocol = "own") -> Setting:
        """What a cell runs."""
        return self.setting_with(self.rows[row], self.columns[column], {}, protocol)

    def setting_with(self, row: Row, column: Column, changes: Mapping[str, Any], protocol: Protocol) -> Setting:
        """The setting of a row and column with some values changed."""
        method = row.method
        wanted = {**self.values, **column.values, **row.values, **row.at.get(column.name, {}), **changes}
        net = str(wanted.get("net.name", "mlp"))
        optimizer = wanted.get("training.optimizer")
        make = default_setting if self.defaults == "named" else plain_setting
        base = make(column.scenario, method, protocol, net, optimizer)
        check_fields_exist(wanted, column.scenario, method, net, f"row {row.name}, column {column.name}")
        sources = {name: row.source or self.sources.get(name, "the study") for name in wanted}
        return choose_values(base, wanted, sources)

    def variant_settings(self, variant: Variant, column: str) -> dict[str, Setting]:
        """What a variant runs in a column: one setting, or one per value of its grid, by that value."""
        row = self.rows[variant.row]
        changed = Row(**{**vars(row), "method": variant.method or row.method})
        if variant.method and variant.method != row.method:  # another method has other fields
            kept = {name: value for name, value in row.values.items() if not name.startswith("method.")}
            changed = Row(**{**vars(changed), "values": kept, "at": {}})
        place = self.columns[column]
        if not variant.grid:
            return {"": self.setting_with(changed, place, variant.values, "own")}
        return {
            f"{value:g}": self.setting_with(changed, place, {f"method.{name}": value}, "own")
            for name, by_column in variant.grid.items()
            for value in by_column[column]
        }

    def notes_of(self, row: str, column: str) -> list[str]:
        """The notes of a cell."""
        return [n.text for n in self.notes if row in n.rows and (not n.columns or column in n.columns)]

    def table_notes(self, rows: Iterable[str]) -> list[str]:
        """The notes of the table as a whole, if these rows are shown."""
        shown = set(rows)
        return [n.text for n in self.notes if not n.rows and (not n.only_with or shown & set(n.only_with))]

    def select_rows(
        self, names: Sequence[str], columns: Sequence[str], with_variants: bool, skip: Sequence[str] = ()
    ) -> tuple[list[str], list[Variant]]:
        """The rows and variants that are asked for; no names: all rows. A name with a slash can be a variant's."""
        for name in skip:
            select("row", [name], self.rows)
        plain = [name for name in names if name in self.rows or (name not in self.variants and "/" not in name)]
        named = [name for name in names if name not in plain]
        for name in named:
            if name not in self.variants:
                raise ValueError(unknown(f"variant of {self.short_name}", name, self.variants))
        rows = select("row", plain, self.rows) if plain or not named else []
        rows = [row for row in rows if row not in skip]
        asked = set(named)
        if with_variants:
            asked |= {variant.name for variant in self.variants.values() if variant.row in rows}
        found = [variant for variant in self.variants.values() if variant.name in asked]
        for variant in found:
            if variant.name in names and not set(columns) & set(variant.columns):
                raise ValueError(
                    f"variant {variant.name} has no column {', '.join(columns)}; "
                    f"choose from {', '.join(variant.columns)}"
                )
        return rows, found


def method_title(method: str) -> str:
    """What a method, or a combination of methods, is called in tables and figures."""
    titles = [str(METHODS.facts(m).literals.get("title") or m) if m in METHODS else m for m in method.split("+")]
    return " + ".join(titles)


def check_fields_exist(values: Mapping[str, Any], scenario: str, method: str, net: str, where: str) -> None:
    """Refuses values of fields that do not exist: a misspelt one would silently change nothing."""
    known = class_defaults(scenario_class(scenario), method.split("+"), net)
    for name in values:
        if name not in known:
            group, _, short = name.rpartition(".")
            near = [other.rpartition(".")[2] for other in known if other.startswith(f"{group}.")]
            raise StudyError(f"{where}: {unknown(f'field of {group}', short, near)}")


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


STUDY_KEYS = frozenset(
    {"title", "paper", "seeds", "baseline", "metric", "spread", "spread_note", "band", "defaults", "first", "columns",
     "rows", "notes", "variants", "groups", "column_titles", "row_titles", "memory_rows", "search", "file", "files",
     "python", "source", *GROUPS_OF_VALUES}
)  # fmt: skip
ROW_KEYS = frozenset({"method", "title", "file", "published", "spread", "at", "as_published", "stand_in", "source"})


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
    if baseline and baseline not in rows and baseline not in columns:
        raise StudyError(f"{name}: {unknown('baseline', baseline, rows)}")
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
    check_keys("spread", values, ("kind", "runs"), where)
    found = Spread(**values)
    read_choice("kind of spread", found.kind, ("std", "sem"), where)
    if type(found.runs) is not int or found.runs < 1:
        raise StudyError(f"{where}: runs {found.runs!r} of spread: give a whole number above 0")
    return found


def read_search(values: Any, where: str) -> Mapping[str, Any]:
    check_keys("search", values, ("trials", "select_on"), where)
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
    more = {key: given.pop(key) for key in ("method", "pick") if key in given}
    return Column(name, scenario, flatten(given, "scenario"), title, more)


def read_row(name: str, value: Mapping[str, Any], title: str, columns: Mapping[str, Column]) -> Row:
    if not isinstance(value, Mapping):
        raise StudyError(f"row {name}: give its values as a table, as in {name} = {{}}")
    method = str(value.get("method", name.partition("/")[0]))
    members = method.split("+")
    rest = {key: v for key, v in value.items() if key not in ROW_KEYS}
    published = {
        column: (float(v[0]), float(v[1]) if len(v) > 1 else None) if isinstance(v, list) else (float(v), None)
        for column, v in value.get("published", {}).items()
    }
    at = {column: flatten(v, "method", members) for column, v in value.get("at", {}).items()}
    for column in (*published, *at):
        if column not in columns:
            raise StudyError(f"row {name}: {unknown('column', column, columns)}")
    return Row(
        name,
        method,
        str(value.get("title", title)),
        flatten(rest, "method", members),
        at,
        published,
        read_spread(value["spread"], f"row {name}") if "spread" in value else None,
        flatten(value.get("as_published", {}), "method", members),
        str(value.get("stand_in", "")),
        str(value.get("source", "")),
    )


def read_variant(
    name: str, value: Mapping[str, Any], rows: Mapping[str, Row], columns: Mapping[str, Column]
) -> Variant:
    row = name.partition("/")[0]
    if row not in rows:
        raise StudyError(f"variant {name}: {unknown('row', row, rows)}")
    rest = {key: v for key, v in value.items() if key not in ("columns", "method", "why", "grid")}
    grid = {
        field: {column: tuple(values) for column, values in by_column.items()}
        for field, by_column in value.get("grid", {}).items()
    }
    return Variant(
        name,
        row,
        tuple(value.get("columns", columns)),
        str(value.get("why", "")),
        str(value.get("method", "")),
        flatten(rest, "method"),
        grid,
    )


def read_notes(values: Iterable[Mapping[str, Any]], table: str) -> Iterator[Note]:
    """The notes that concern a table."""
    for note in values:
        if "at" not in note or table in note["at"]:
            columns = tuple(note.get("columns", note.get("at", {}).get(table, ())))
            yield Note(str(note["text"]), tuple(note.get("rows", ())), columns, tuple(note.get("only_with", ())))


def read_seeds(value: Any, name: str) -> tuple[int, ...]:
    seeds = tuple(range(value)) if type(value) is int else tuple(value) if isinstance(value, list) else ()
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
    for file in dict.fromkeys(file for file in files if file):
        try:
            load_file((folder or Path()) / str(file))
        except ValueError as error:
            raise StudyError(f"{name}: {error}") from error


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file, or an error that names it and the line."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StudyError(f"{path} is not TOML: {error}") from error
