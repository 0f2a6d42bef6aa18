"""Checks of field values when a dataclass is created, so that a wrong type is not found in the middle of a run."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from engram.core.messages import unknown


def is_number(value: object) -> bool:
    """Whether a value is an int or a float; bool does not count."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_values(instance: Any) -> None:
    """Check that each field of a dataclass holds what its annotation says: a choice, a number, or True or False."""
    hints = get_type_hints(type(instance))
    for f in fields(instance):
        hint, value = hints[f.name], getattr(instance, f.name)
        if get_origin(hint) is Literal and value not in get_args(hint):
            raise ValueError(unknown(f.name, value, map(str, get_args(hint))))
        if hint is float and not is_number(value):
            raise ValueError(f"{f.name} {value!r} has the wrong type; give a number")
        if hint is int and type(value) is not int:
            raise ValueError(f"{f.name} {value!r} has the wrong type; give a whole number")
        if hint is bool and type(value) is not bool:
            raise ValueError(f"{f.name} {value!r} is neither True nor False")
