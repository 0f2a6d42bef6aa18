"""The form of a study file: which keys a TOML file may have, and what each holds. No torch.

The reader refuses every other key, and `engram schema study` turns these types into a JSON schema.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Union, get_args, get_origin, get_type_hints, is_typeddict

Values = dict[str, Any]


class SpreadForm(TypedDict, total=False):
    """What the ± of published numbers is."""

    kind: Literal["std", "sem"]
    """A standard deviation over runs, or the standard error of their mean."""
    runs: int
    """Number of published runs."""


class SearchForm(TypedDict, total=False):
    """Tuning with the same number of trials for each row, before the reported runs."""

    trials: int
    """Trials per row."""
    select_on: Literal["holdout", "test"]
    """Score trials on held-out training data (the default), or on test data."""


class ColumnForm(TypedDict, total=False):
    """A column; all other keys are fields of its scenario, or the groups `net`, `training` and `evaluation`."""

    scenario: str
    """Name of the scenario, such as `split-mnist/class`."""
    title: str
    """Heading of the column."""
    method: str
    """For a study with Python of its own: the method of the column."""
    pick: str
    """For a study with Python of its own: which of several settings the column shows."""


class RowForm(TypedDict, total=False):
    """A row; all other keys are fields of its method, or the groups `net`, `training`, `scenario` and `evaluation`."""

    method: str
    """The method; by default the name of the row up to the first slash."""
    title: str
    """What the row is called in the table."""
    file: str
    """Python file with a method or network of your own, relative to the study file."""
    published: dict[str, float | list[float]]
    """column = mean, [mean], or [mean, what follows ±]."""
    spread: SpreadForm
    """What the ± of this row is, if it is not the study's."""
    at: dict[str, Values]
    """column = values of that cell alone."""
    columns: list[str]
    """Columns in which the row has a cell; by default all."""
    scenarios: dict[str, str]
    """column = scenario of that cell, if it is not the column's."""
    as_published: Values
    """Values of the published runs, if the row has others."""
    stand_in: str
    """What the table says about these runs."""
    source: str
    """Where the values of the row come from."""


class VariantForm(TypedDict, total=False):
    """A row with some values changed; all other keys are the changed values."""

    why: str
    """What the row does, and what the variant does instead."""
    method: str
    """Another method than the row's."""
    columns: list[str]
    """Columns of the variant; by default those of its row."""
    grid: dict[str, dict[str, list[float]]]
    """field = { column = values }: the best of these values, by accuracy, is the variant's."""


class NoteForm(TypedDict, total=False):
    """A note below the table."""

    text: str
    """The note."""
    rows: list[str]
    """Rows that it is about; without rows it is about the table."""
    columns: list[str]
    """Columns that it is about; by default all."""
    only_with: list[str]
    """Show a note about the table only if one of these rows is shown."""
    at: dict[str, list[str]]
    """In the file that the tables of a paper share: table = columns."""


class StudyForm(TypedDict, total=False):
    """A table: rows × columns of settings with seeds and, if it was published, the published numbers."""

    title: str
    """Title of the table."""
    seeds: int | list[int]
    """Number of seeds (0, 1, 2, …), or a list of seeds."""
    baseline: str
    """Row that differences are tested against."""
    metric: str
    """Metric that the table shows; by default `average-accuracy`."""
    columns: dict[str, str | ColumnForm]
    """name = scenario, or a table with the scenario and its fields."""
    rows: dict[str, RowForm]
    """name = fields of the method."""
    training: Values
    """Values of the training in all cells; `source` says where they come from."""
    net: Values
    """Network of all cells: its `name` and its fields."""
    scenario: Values
    """Values of the scenario in all cells."""
    evaluation: Values
    """Values of the evaluation in all cells."""
    search: SearchForm
    """Tune every row first."""
    file: str
    """Python file with methods, networks, scenarios or metrics of your own, relative to the study file."""
    files: list[str]
    """Several such files."""
    defaults: Literal["named", "plain"]
    """Where values come from that a cell does not set: the defaults of the named scenario, or those of the classes."""
    source: str
    """Where the study comes from."""
    paper: str
    """Who published the table."""
    spread: SpreadForm
    """What the ± of the published numbers is."""
    spread_note: str
    """Text about the published ±."""
    band: float
    """Points that count as agreement if no spread is known."""
    notes: list[NoteForm]
    """Notes below the table."""
    variants: dict[str, VariantForm]
    """ROW/NAME = a row with some values changed, shown below the table."""
    groups: dict[str, list[str]]
    """title = rows that stand together."""
    column_titles: dict[str, str]
    """column = its heading."""
    row_titles: dict[str, str]
    """row = what it is called."""
    memory_rows: list[str]
    """Rows with a check mark in a column Memory."""
    first: str
    """Heading of the first column; by default `method`."""
    python: str
    """Module in the paper's folder that finds the runs of cells, if a setting alone does not."""


OPEN_FORMS = (ColumnForm, RowForm, VariantForm)
"""Forms with further keys: the fields of what they name."""


def find_misfit(value: Any, form: Any) -> str:
    """Where a value is not what its form states, and what was expected; empty if all fits. Keys are not checked."""
    where, expected, found = misfit(value, form) or ("", "", None)
    return f"{where.removeprefix('.')}: give {expected}, not {found!r:.80}" if expected else ""


def misfit(value: Any, form: Any) -> tuple[str, str, Any] | None:
    """The place of the first misfit, what was expected there, and what was found."""
    origin, inner = get_origin(form), get_args(form)
    if form is Any or origin is Literal:
        return None
    if origin in (Union, types.UnionType):
        found = [misfit(value, one) for one in inner]
        if None in found:
            return None
        inside = next((one for one in found if one and one[0]), None)
        return inside or ("", " or ".join(one[1] for one in found if one), value)
    if is_typeddict(form) or origin is dict:
        if not isinstance(value, Mapping):
            return "", "a table", value
        forms = get_type_hints(form) if is_typeddict(form) else dict.fromkeys(value, inner[1])
        parts = [(key, one, forms[key]) for key, one in value.items() if key in forms]
    elif origin is list:
        if isinstance(value, str) or not isinstance(value, Sequence):
            return "", "a list", value
        parts = [(index, one, inner[0]) for index, one in enumerate(value)]
    else:
        return None if is_plain_value(value, form) else ("", PLAIN[form], value)
    for key, one, its_form in parts:
        if found_inside := misfit(one, its_form):
            where, expected, wrong = found_inside
            return f".{key}{where}", expected, wrong
    return None


PLAIN = {str: "text", int: "a whole number", float: "a number"}


def is_plain_value(value: Any, form: type) -> bool:
    """Whether it is text or a number of this type; every whole number is one."""
    if form is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, form) and not isinstance(value, bool)
