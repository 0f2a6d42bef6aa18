"""What values hold, as text: equal for equal content, wherever it is held."""

from __future__ import annotations

import functools
import hashlib
import itertools
import random
from argparse import Namespace
from collections import deque
from collections.abc import Iterator, Mapping
from enum import Enum
from io import IOBase
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, MethodType, SimpleNamespace
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
GENERATORS = (torch.Generator, np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)
NO_OBJECTS = (
    *CHANGEABLE, *GENERATORS, type, tuple, frozenset, str, int, float, Enum, FunctionType, MethodType,
    BuiltinFunctionType, Mapping, functools.partial, nn.Module, Method, torch.optim.Optimizer,
)  # fmt: skip
"""What is not described by its attributes, even if a class of the user's inherits from it."""
PRIMITIVE = (bool, int, float, complex, str, bytes, type(None))
WITH_ATTRIBUTES = (*CHANGEABLE, tuple, frozenset, FunctionType)
"""What has content of its own, and may have attributes beside it."""
READINGS = itertools.count()
"""One for each time that an iterator is met."""


def is_own_object(value: Any) -> bool:
    """Whether it is a plain object of a class from outside the package: its attributes are its content."""
    if isinstance(value, NO_OBJECTS):
        return False
    kind = type(value)
    return isinstance(value, SimpleNamespace | Namespace) or (
        is_outside(kind) and (hasattr(value, "__dict__") or bool(slots_of(kind)))
    )


def slots_of(kind: type) -> list[str]:
    """Names of its slots, as its objects have them: __calls is _Tally__calls there."""
    members = [item for cls in kind.__mro__ for item in vars(cls).items()] if is_outside(kind) else []
    return [name for name, member in members if isinstance(member, MemberDescriptorType)]


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes of an object, in its dictionary and in slots."""
    in_slots = {name: getattr(value, name) for name in slots_of(type(value)) if hasattr(value, name)}
    return {**in_slots, **getattr(value, "__dict__", {})}


def fingerprint(value: Any, parts: Mapping[int, str] | None = None) -> str:
    """Equal for equal content: numbers, text, tensors, networks, generators, objects, functions by what they hold, and
    collections of them. What occurs twice is told once. An iterator is never equal: nobody can tell where it is.

    Args:
        value: Anything.
        parts: What is told by name, by its id: the parts of a network.
    """
    texts: list[str] = []
    seen: dict[int, tuple[int, Any]] = {}
    """(number, value) by id: a value that is held here keeps its id to itself."""
    left: list[Any] = [value]
    while left:
        one = left.pop()
        if parts and id(one) in parts:
            texts.append(f"part {parts[id(one)]}")
        elif id(one) in seen:
            texts.append(f"number {seen[id(one)][0]}")
        elif (text := text_of_leaf(one)) is not None:
            texts.append(text)
        else:
            seen[id(one)] = len(seen), one
            label, inside = open_value(one)
            texts.append(f"{label} {len(inside)}")
            left += reversed(inside)
    return "\n".join(texts)


def text_of_leaf(value: Any) -> str | None:
    """Of a value that has no others in it; None if it has."""
    if isinstance(value, PRIMITIVE):
        return repr(value)
    if isinstance(value, Learner):  # a teacher
        return fingerprint(value.net)
    if isinstance(value, nn.Module | Buffer | torch.optim.Optimizer):
        return f"{type(value).__name__} {fingerprint(dict(value.state_dict()))}"
    if isinstance(value, GENERATORS):
        return f"{type(value).__name__} {fingerprint(generator_state(value))}"
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, torch.device | torch.dtype):
        return repr(value)
    if isinstance(value, type):
        return f"class {value.__qualname__}"
    if isinstance(value, Iterator) and not isinstance(value, IOBase) and not is_own_object(value):
        return f"{type(value).__name__} {next(READINGS)}"
    return None


def open_value(value: Any) -> tuple[str, list[Any]]:
    """(what it is, the values in it)."""
    label, inside = content_of(value)
    attributes = getattr(value, "__dict__", {}) if isinstance(value, WITH_ATTRIBUTES) else {}
    return f"{label} {[*attributes]}", [*inside, *attributes.values()]


def content_of(value: Any) -> tuple[str, list[Any]]:
    """The same without the attributes that are not its content."""
    kind = type(value).__name__
    if isinstance(value, Tensor) and is_dense(value):
        return f"{kind} {value.dtype} {tuple(value.shape)} {hash_of_tensor(value)}", []
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return f"{kind} {value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}", []
    if isinstance(value, np.ndarray):
        return f"{kind} {value.dtype} {value.shape}", value.ravel().tolist()
    if isinstance(value, dict):
        return f"{kind} {len(value)}", [*value, *value.values()]
    if isinstance(value, list | tuple | deque):
        return f"{kind} {getattr(value, 'maxlen', '')}", [*value]
    if isinstance(value, set | frozenset):
        return kind, sorted(value, key=place_in_set)
    if isinstance(value, FunctionType):
        inside = dict(held_around(value)) if is_outside(value) else {}
        return f"function {value.__qualname__} {hash(value.__code__)} {[*inside]}", [*inside.values()]
    if isinstance(value, MethodType | BuiltinFunctionType):
        return f"method {getattr(value, '__qualname__', '')}", [value.__self__]
    if isinstance(value, functools.partial):
        return "partial", [value.func, *value.args, *value.keywords.values()]
    if is_own_object(value):
        attributes = attributes_of(value)
        return f"{kind} {[*attributes]}", [*attributes.values()]
    return f"{kind} {getattr(value, '__qualname__', '')}", pickled(value)


def is_dense(value: Tensor) -> bool:
    """Whether it holds all of its numbers as they are."""
    return value.layout is torch.strided and not value.is_quantized and not value.is_meta


def hash_of_tensor(value: Tensor) -> str:
    """Of its bytes, since NumPy has no bfloat16."""
    value = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return hashlib.sha256(value.reshape(-1).view(torch.uint8).numpy().data).hexdigest()


def place_in_set(value: Any) -> str:
    """Numbers, text and tuples of them stand in one order, whatever order they came in."""
    parts = value if isinstance(value, tuple) else (value,)
    return repr(value) if all(isinstance(part, PRIMITIVE) for part in parts) else type(value).__name__


def pickled(value: Any) -> list[Any]:
    """What a file would take of a value of Python's, NumPy's or PyTorch's; nothing of a lock or an open file."""
    try:
        taken = value.__reduce_ex__(4)
    except Exception:  # each class refuses with a type of its own
        return []
    if isinstance(taken, str):
        return [taken]
    return [[*part] if isinstance(part, Iterator) else part for part in taken[1:5]]


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
    if isinstance(rng, np.random.RandomState):
        return rng.get_state(legacy=False)
    if isinstance(rng, random.Random):
        return list(rng.getstate())
    return rng.bit_generator.state if isinstance(rng, np.random.Generator) else rng.state


def set_generator_state(rng: Any, state: Any) -> None:
    if isinstance(rng, torch.Generator | np.random.RandomState):
        rng.set_state(state)
    elif isinstance(rng, random.Random):
        version, numbers, gauss = state
        rng.setstate((version, tuple(numbers), gauss))
    elif isinstance(rng, np.random.Generator):
        rng.bit_generator.state = state
    else:
        rng.state = state
