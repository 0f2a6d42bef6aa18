"""Studies: rows × columns of settings with seeds, as a TOML file states them. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from engram.core.messages import select, unknown
from engram.core.registry import METHODS, NETS
from engram.runs.defaults import Protocol, choose_values, default_setting, plain_setting
from engram.runs.setting import Setting, class_defaults
from engram.scenarios.names import maker_of

GROUPS_OF_VALUES = ("scenario", "net", "training", "evaluation")


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
    columns: tuple[str, ...] = ()
    """Columns in which the row has a cell; empty: all."""
    scenarios: Mapping[str, str] = field(default_factory=dict)
    """column → the scenario of that cell, if it is not the column's."""
    as_published: Mapping[str, Any] = field(default_factory=dict)
    """Values of the published runs, if the row has others."""
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
    """What the row does, and what the variant does instead."""
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
    path: str = ""
    """The file that it was read from, if it does not come with the package."""

    @property
    def short_name(self) -> str:
        """`table2` of `hsu2018/table2`."""
        return self.name.rpartition("/")[2]

    @property
    def is_published(self) -> bool:
        return any(row.published for row in self.rows.values())

    def with_metric(self, metric: str) -> Study:
        """The same table of another metric, which the published numbers are not of."""
        if metric in ("", self.metric):
            return self
        rows = {name: replace(row, published={}) for name, row in self.rows.items()}
        return replace(self, metric=metric, rows=rows)

    def first_seeds(self, count: int) -> tuple[int, ...]:
        """The first so many seeds: 0, 1, 2, …, or those that the study lists."""
        if count < 1:
            raise ValueError(f"seeds {count} is out of range; give 1 or more")
        if self.seeds == tuple(range(len(self.seeds))):
            return tuple(range(count))
        if count > len(self.seeds):
            raise ValueError(f"seeds {count}: {self.name} lists {len(self.seeds)} seeds; give that number or less")
        return self.seeds[:count]

    def has_cell(self, row: str, column: str) -> bool:
        """Whether there is a cell: some rows exist in some columns only."""
        return not self.rows[row].columns or column in self.rows[row].columns

    def row_title(self, row: str) -> str:
        """What a row is called for people: its title, or its method's; its own name if others have that method too."""
        found = self.rows.get(row)
        if found is not None and found.title:
            return found.title
        name, slash, rest = row.partition("/")
        title = method_title(name)  # a row that is not named after its method keeps its own name
        return f"{title}/{rest}" if slash else title

    def scenario_of(self, row: Row, column: Column) -> str:
        """The name of the scenario of a cell: the column's, unless the row has another one there."""
        return row.scenarios.get(column.name, column.scenario)

    def with_precision(self, precision: str) -> Study:
        """The same table, with every run in another precision."""
        if precision == "fp32":
            return self
        note = Note(f"All runs with --precision {precision}; the published numbers are of fp32.")
        return replace(self, values={**self.values, "training.precision": precision}, notes=(*self.notes, note))

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
        scenario = self.scenario_of(row, column)
        base = make(scenario, method, protocol, net, optimizer)
        check_fields_exist(wanted, scenario, method, net, f"row {row.name}, column {column.name}")
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
        for row in plain:
            if row in rows and not any(self.has_cell(row, column) for column in columns):
                own = ", ".join(self.rows[row].columns)
                raise ValueError(f"row {row} has no column {', '.join(columns)}; choose from {own}")
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
    if net not in NETS:
        raise StudyError(f"{where}: {unknown('net', net, NETS)}")
    known = class_defaults(maker_of(scenario), method.split("+"), net)
    for name in values:
        if name not in known:
            group, _, short = name.rpartition(".")
            near = [other.rpartition(".")[2] for other in known if other.startswith(f"{group}.")]
            raise StudyError(f"{where}: {unknown(f'field of {group}', short, near)}")
