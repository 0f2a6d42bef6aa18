"""A method's state: what it may hold, what goes at a boundary, what a checkpoint takes along.

A run that is resumed after a task has what the method names in `kept`, and nothing else. So an uninterrupted run has
nothing else either: undeclared attributes are refused, and all others are deleted at every boundary.
"""

from __future__ import annotations

import copy
from dataclasses import fields
from typing import Any

from engram.learning.method import Method


class UndeclaredStateError(ValueError):
    """A method has state that a resumed run would not have."""


def field_values(method: Method) -> list[dict[str, Any]]:
    """The hyper-parameters of each member, which a run does not change."""
    return [{f.name: copy.deepcopy(getattr(member, f.name)) for f in fields(member)} for member in method.members()]


def check_state(method: Method, given: list[dict[str, Any]]) -> None:
    """Refuses attributes that are not declared, and hyper-parameters that are no longer as they were given."""
    for member, values in zip(method.members(), given, strict=True):
        name = type(member).__name__
        for attribute in vars(member):
            if attribute not in (*values, *member.kept, *member.working) and not attribute.startswith("_"):
                raise UndeclaredStateError(
                    f"{name} has an attribute {attribute} that it does not declare, so a resumed run would lose it; "
                    f"name it in `kept` if later tasks need it, in `working` if begin_task makes it anew, or call it "
                    f"_{attribute} if it is scratch"
                )
        for attribute, value in values.items():
            if attribute not in member.kept and not equal(getattr(member, attribute), value):
                raise UndeclaredStateError(
                    f"{name} changed its hyper-parameter {attribute} from {value!r} to "
                    f"{getattr(member, attribute)!r}, which a resumed run would not know; keep what changes in another "
                    "attribute, and name that in `kept`"
                )


def drop_scratch(method: Method) -> None:
    """Deletes what a resumed run would not have: `working` attributes, and those that begin with an underscore."""
    for member in method.members():
        for attribute in list(vars(member)):
            if attribute.startswith("_") or (attribute in member.working and attribute not in member.kept):
                delattr(member, attribute)


def equal(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except (RuntimeError, TypeError, ValueError):  # of arrays and tensors
        return a is b


def state_of(value: Any) -> Any:
    """As it goes into a checkpoint: networks and optimisers as their state."""
    return value.state_dict() if hasattr(value, "state_dict") else value


def kept_state(method: Method) -> list[dict[str, Any]]:
    """What each member keeps, for a checkpoint."""
    return [{name: state_of(getattr(member, name)) for name in member.kept} for member in method.members()]


def restore_kept_state(method: Method, states: list[dict[str, Any]]) -> None:
    """Puts back what `kept_state` took."""
    for member, kept in zip(method.members(), states, strict=True):
        for name in member.kept:
            now: Any = getattr(member, name, None)
            value = kept.pop(name)
            if hasattr(now, "load_state_dict"):
                now.load_state_dict(value)
            else:
                setattr(member, name, value)
        if kept:
            raise ValueError(f"{', '.join(kept)} is kept by no method")
