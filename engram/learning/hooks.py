"""Mistakes in a method's class that would go unnoticed: misspelt hooks, signatures of 0.1, annotated declarations."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from typing import Any

DECLARATIONS = (
    "kept", "working", "needs", "without_boundaries", "target_kinds", "optimizer", "networks", "gradient_stage",
    "checkpoints", "gradient_steps",
)  # fmt: skip
"""What a class says about itself: class attributes, not hyper-parameters."""
STAGES = ("read", "add", "project")
KNOWN_NEEDS = ("boundaries", "task identity", "past data")
OTHER_NAMES = {
    "predict": "scores",
    "classify": "scores",
    "before_task": "begin_task",
    "start_task": "begin_task",
    "after_task": "end_task",
    "finish_task": "end_task",
    "before_training": "start",
    "after_batch": "after_step",
    "before_step": "adjust_gradients",
    "after_backward": "adjust_gradients",
    "train_data": "data",
}
"""What other libraries call these hooks."""
NEAR = 0.85
"""Likeness from which on a name is taken for a misspelt hook."""


def check_class(cls: type, base: type) -> None:
    """Refuses a subclass of `base` (Method) that would not do what its author thinks, and says what to change."""
    check_class_once(cls, base)


@cache
def check_class_once(cls: type, base: type) -> None:
    check_declarations(cls)
    hooks: dict[str, Callable[..., Any]] = {
        name: value for name, value in vars(base).items() if inspect.isfunction(value) and name[0] != "_"
    }
    for owner, name, function in public_functions(cls, base):
        if name in hooks:
            check_signature(owner, name, function, hooks[name])
        elif not hasattr(base, name) and (meant := nearest_hook(name, hooks)):
            raise TypeError(
                f"{owner.__name__}.{name} is not a hook and would never be called; did you mean {meant}? "
                "If it is a helper, begin its name with an underscore"
            )


def check_declarations(cls: type) -> None:
    if "turn" in dir(cls):
        raise TypeError(
            f'{cls.__name__}.turn has another name since version 0.2: write gradient_stage = "read" for turn 0, '
            '"add" for 1, "project" for 2'
        )
    for f in fields(cls):
        if f.name in DECLARATIONS:
            raise TypeError(
                f"{cls.__name__}.{f.name} has an annotation and would become a hyper-parameter with a flag; "
                f"write it without: {f.name} = {f.default!r}"
            )
    for name in ("kept", "working", "needs", "target_kinds"):
        if isinstance(value := getattr(cls, name), str):
            raise TypeError(f"{cls.__name__}.{name} is a string; write a tuple: {name} = ({value!r},)")
    for need in getattr(cls, "needs", ()):
        if need not in KNOWN_NEEDS:
            raise TypeError(f"{cls.__name__} needs {need!r}, which is unknown; choose from {', '.join(KNOWN_NEEDS)}")
    stage = getattr(cls, "gradient_stage", "add")
    if stage not in STAGES:
        raise TypeError(f"{cls.__name__}.gradient_stage {stage!r} is unknown; choose from {', '.join(STAGES)}")


def public_functions(cls: type, base: type) -> Iterator[tuple[type, str, Callable[..., Any]]]:
    """(class, name, function) of all that `cls` and the classes between it and `base` define."""
    for owner in cls.__mro__:
        if owner is base:
            return
        for name, value in vars(owner).items():
            function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            if not name.startswith("_") and inspect.isfunction(function):
                yield owner, name, function


def nearest_hook(name: str, hooks: dict[str, Callable[..., Any]]) -> str | None:
    if name in OTHER_NAMES:
        return OTHER_NAMES[name]
    return next(iter(difflib.get_close_matches(name, hooks, n=1, cutoff=NEAR)), None)


def check_signature(owner: type, name: str, function: Callable[..., Any], hook: Callable[..., Any]) -> None:
    """Refuses a hook that cannot be called as it is going to be."""
    wanted = list(inspect.signature(hook).parameters)
    if isinstance(vars(owner)[name], staticmethod):
        wanted = wanted[1:]
    try:
        inspect.signature(function).bind(*wanted)
    except TypeError:
        since = " since version 0.2" if name == "after_step" else ""
        raise TypeError(
            f"{owner.__name__}.{name}{inspect.signature(function)} cannot be called: {name} is given "
            f"{', '.join(wanted[1:])}{since}; write def {name}({', '.join(wanted)})"
        ) from None
