"""What values hold, as text: equal for equal content, wherever it is held."""

from __future__ import annotations

import functools
import hashlib
import random
from argparse import Namespace
from collections import deque
from collections.abc import Iterator, Mapping
from enum import Enum
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engram.core.code import is_outside
from engram.learning.buffer import Buffer
from engram.learning.learner import Learner
from engram.learning.method import Method

CHANGEABLE = (list, dict, set, deque, np.ndarray, Tensor, bytearray)
"""What can be changed in place."""
GENERATORS = (torch.Generator, np.random.Generator, random.Random)
NO_OBJECTS = (
    *CHANGEABLE, *GENERATORS, type, tuple, frozenset, str, int, float, Enum, FunctionType, MethodType, Mapping,
    functools.partial, nn.Module, Method, torch.optim.Optimizer,
)  # fmt: skip
"""What is not described by its attributes, even if a class of the user's inherits from it."""
PRIMITIVE = (bool, int, float, complex, str, bytes, type(None))


def is_own_object(value: Any) -> bool:
    """Whether it is a plain object of a class from outside the package: its attributes are its content."""
    if isinstance(value, NO_OBJECTS):
        return False
    kind = type(value)
    return isinstance(value, SimpleNamespace | Namespace) or (
        is_outside(kind) and (hasattr(value, "__dict__") or bool(slots_of(kind)))
    )


def slots_of(kind: type) -> list[str]:
    found: list[str] = []
    for cls in kind.__mro__ if is_outside(kind) else ():
        slots = vars(cls).get("__slots__", ())
        found += [slots] if isinstance(slots, str) else list(slots)
    return [name for name in found if name not in ("__dict__", "__weakref__")]


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes of an object, in its dictionary and in slots."""
    in_slots = {name: getattr(value, name) for name in slots_of(type(value)) if hasattr(value, name)}
    return {**in_slots, **getattr(value, "__dict__", {})}


def fingerprint(value: Any, parts: Mapping[int, str] | None = None) -> str:
    """Equal for equal content: numbers, text, tensors, networks, generators, objects, functions by what they hold, and
    collections of them. What occurs twice is told once.

    Args:
        value: Anything.
        parts: What is told by name, by its id: the parts of a network.
    """
    texts: list[str] = []
    seen: dict[int, int] = {}
    left: list[Any] = [value]
    while left:
        one = left.pop()
        if parts and id(one) in parts:
            texts.append(f"part {parts[id(one)]}")
        elif id(one) in seen:
            texts.append(f"number {seen[id(one)]}")
        elif (text := text_of_leaf(one)) is not None:
            texts.append(text)
        else:
            seen[id(one)] = len(seen)
            label, inside = opened(one)
            texts.append(f"{label} {len(inside)}")
            left += reversed(inside)
    return "\n".join(texts)


def text_of_leaf(value: Any) -> str | None:
    """Of a value that has no others in it; None if it has."""
    if isinstance(value, PRIMITIVE):
        return repr(value)
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, Learner):  # a teacher
        return fingerprint(value.net)
    if isinstance(value, nn.Module | Buffer | torch.optim.Optimizer):
        return f"{type(value).__name__} {fingerprint(dict(value.state_dict()))}"
    if isinstance(value, GENERATORS):
        return f"{type(value).__name__} {fingerprint(generator_state(value))}"
    if isinstance(value, set | frozenset):
        return f"{type(value).__name__} {sorted(map(fingerprint, value))}"
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, torch.device | torch.dtype):
        return repr(value)
    if opened(value)[0]:
        return None
    return f"{type(value).__name__} {getattr(value, '__qualname__', '')}"  # of a class or a built-in function


def opened(value: Any) -> tuple[str, list[Any]]:
    """(what it is, the values in it); ("", []) if nobody can tell."""
    kind = type(value).__name__
    if isinstance(value, dict):
        keys = [key if isinstance(key, PRIMITIVE) else type(key).__name__ for key in value]
        return f"{kind} {keys}", [*value.values()]
    if isinstance(value, list | tuple | deque):
        return f"{kind} {getattr(value, 'maxlen', '')}", [*value]
    if isinstance(value, FunctionType):
        inside = dict(held_around(value)) if is_outside(value) else {}
        return f"function {value.__qualname__} {[*inside]}", [*inside.values()]
    if isinstance(value, MethodType):
        return f"method {value.__name__}", [value.__self__]
    if isinstance(value, functools.partial):
        return "partial", [value.func, *value.args, *value.keywords.values()]
    if is_own_object(value):
        attributes = attributes_of(value)
        return f"{kind} {[*attributes]}", [*attributes.values()]
    return "", []


def held_around(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The variables of the functions around one that it uses, and its default arguments."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not filled yet
            continue
    yield from enumerate_named(function.__defaults__ or ())
    yield from (function.__kwdefaults__ or {}).items()


def enumerate_named(values: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    for number, value in enumerate(values):
        yield f"default {number}", value


def generator_state(rng: Any) -> Any:
    if isinstance(rng, torch.Generator):
        return rng.get_state()
    return rng.bit_generator.state if isinstance(rng, np.random.Generator) else list(rng.getstate())


def set_generator_state(rng: Any, state: Any) -> None:
    if isinstance(rng, torch.Generator):
        rng.set_state(state)
    elif isinstance(rng, np.random.Generator):
        rng.bit_generator.state = state
    else:
        version, numbers, gauss = state
        rng.setstate((version, tuple(numbers), gauss))
