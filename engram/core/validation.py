"""Values of the wrong type are refused by name when a recipe is made, not in the middle of a run."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_values(recipe: Any) -> None:
    """Each field of a dataclass holds what its annotation says: one of its choices, a number, or yes or no."""
    hints = get_type_hints(type(recipe))
    for f in fields(recipe):
        hint, value = hints[f.name], getattr(recipe, f.name)
        if get_origin(hint) is Literal and value not in get_args(hint):
            raise ValueError(f"{f.name} {value!r} is unknown; choose from {', '.join(map(str, get_args(hint)))}")
        if hint is float and not is_number(value):
            raise ValueError(f"{f.name} {value!r} is out of range; give a number")
        if hint is int and type(value) is not int:
            raise ValueError(f"{f.name} {value!r} is out of range; give a whole number")
        if hint is bool and type(value) is not bool:
            raise ValueError(f"{f.name} {value!r} is neither yes nor no; give True or False")
