"""A method's state: what it may hold, what is undone at a boundary, what a checkpoint takes along.

A run that is resumed after a task has what `start` makes and what the method names in `kept`, and nothing else. So an
uninterrupted run has nothing else either: undeclared attributes are refused, all others are undone at every boundary.
"""

from __future__ import annotations

import copy
import hashlib
from dataclasses import fields
from typing import Any

import numpy as np
from torch import Tensor, nn

from engram.learning.buffer import Buffer
from engram.learning.learner import Learner
from engram.learning.method import Method


class UndeclaredStateError(ValueError):
    """A method has state that a resumed run would not have."""


class StateGuard:
    """Holds one method to what it declares, from before `start` to the end of a run."""

    def __init__(self, method: Method) -> None:
        self.members = method.members()
        self.fields = [{f.name: copy.deepcopy(getattr(m, f.name)) for f in fields(m)} for m in self.members]
        self.started: list[dict[str, tuple[Any, str]]] = []

    def after_start(self) -> None:
        """Refuses scratch that is not a task's, and notes the `working` attributes that `start` has made."""
        self.check()
        for member in self.members:
            scratch = next((name for name in vars(member) if name.startswith("_")), None)
            if scratch:
                raise UndeclaredStateError(
                    f"{type(member).__name__} has an attribute {scratch} before the first task; names with an "
                    "underscore are scratch of one task: make it in begin_task, or give it a name without underscore "
                    "and declare that in `working`"
                )
            made = {name: getattr(member, name) for name in working_of(member) if hasattr(member, name)}
            self.started.append({name: (value, fingerprint(value)) for name, value in made.items()})

    def check(self) -> None:
        """Refuses attributes that are not declared, and hyper-parameters that are no longer as they were given."""
        for member, values in zip(self.members, self.fields, strict=True):
            check_attributes(member, values)
            check_fields_unchanged(member, values)

    def at_boundary(self) -> None:
        """Deletes scratch, and puts `working` attributes back to what `start` made of them."""
        for member, made in zip(self.members, self.started, strict=True):
            for name in [name for name in vars(member) if name.startswith("_")] + working_of(member):
                if name in vars(member):
                    delattr(member, name)
            for name, (value, before) in made.items():
                if fingerprint(value) != before:
                    raise UndeclaredStateError(
                        f"{type(member).__name__}.{name} is working state that start has made and that changed since; "
                        f"a resumed run would have it as start makes it: name {name} in `kept` if later tasks need it, "
                        "or make it anew in begin_task"
                    )
                setattr(member, name, value)


def working_of(member: Method) -> list[str]:
    return [name for name in member.working if name not in member.kept]


def check_attributes(member: Method, values: dict[str, Any]) -> None:
    declared = {*values, *member.kept, *member.working, "needs"}  # a field may decide on what is needed
    for name in vars(member):
        if name not in declared and not name.startswith("_"):
            raise UndeclaredStateError(
                f"{type(member).__name__} has an attribute {name} that it does not declare, so a resumed run would "
                f"lose it; name it in `kept` if later tasks need it, in `working` if begin_task makes it anew, or call "
                f"it _{name} if it is scratch; if it is a hyper-parameter, make it a field of the dataclass"
            )


def check_fields_unchanged(member: Method, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if name not in member.kept and fingerprint(getattr(member, name)) != fingerprint(value):
            raise UndeclaredStateError(
                f"{type(member).__name__} changed its hyper-parameter {name} from {value!r} to "
                f"{getattr(member, name)!r}, which a resumed run would not know; hold what changes in another "
                "attribute, and name that in `kept`"
            )


def fingerprint(value: Any) -> str:
    """Equal for equal content: numbers, text, tensors, networks, and lists, tuples and dicts of them."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, Learner):  # a teacher
        return fingerprint(value.net)
    if isinstance(value, nn.Module | Buffer):
        return fingerprint(value.state_dict())
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {fingerprint(v)}' for key, v in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(map(fingerprint, value))})"
    return repr(value) if isinstance(value, bool | int | float | str | None) else type(value).__name__


def state_of(value: Any) -> Any:
    """As it goes into a checkpoint: networks, optimisers and buffers as their state."""
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
