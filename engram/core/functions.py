"""What a function depends on, as text: its code and the values that it brings with it. A hash of that is in keys."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from engram.core.code import compiled_text, hash_code


def function_name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def hash_function(function: Any) -> str:
    """`code blur 0123456789abcdef`: names a function by its code, and by the values that it brings with it."""
    parts = "\n".join(function_parts(function, set()))
    return f"code {function_name(function)} {hashlib.sha256(parts.encode()).hexdigest()[:16]}"


def function_parts(value: Any, seen: set[int]) -> list[str]:
    """What a function depends on, as text: its code, the values of its closure and its defaults, an object's fields."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return [repr(value)]
    if type(value).__module__ == "torch" and type(value).__name__ in ("dtype", "device"):  # torch is not imported here
        return [repr(value)]
    if isinstance(value, np.ndarray | np.generic) or (hasattr(value, "detach") and hasattr(value, "__array__")):
        array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        return [f"{array.shape} {array.dtype}", hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()]
    if isinstance(value, type) or inspect.isbuiltin(value) or inspect.ismodule(value):
        return [f"{getattr(value, '__module__', '')}.{value.__name__}", hash_code(value) if callable(value) else ""]
    if id(value) in seen:
        return ["seen"]
    seen = seen | {id(value)}
    if isinstance(value, FunctionType):
        closure = [cell.cell_contents for cell in value.__closure__ or ()]
        brought = [closure, value.__defaults__, value.__kwdefaults__]
        text = [value.__module__, value.__qualname__, hash_code(value), compiled_text(value.__code__)]
        return text + function_parts(brought, seen)
    if isinstance(value, functools.partial):
        return ["partial", *function_parts([value.func, value.args, value.keywords], seen)]
    if inspect.ismethod(value):
        return function_parts([value.__func__, value.__self__], seen)
    if isinstance(value, Mapping):
        return [text for k, v in value.items() for text in (repr(k), *function_parts(v, seen))]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, Sequence):
        return [f"{len(value)}", *(text for one in value for text in function_parts(one, seen))]
    if hasattr(value, "__dict__"):
        return [*function_parts(type(value), seen), *function_parts(vars(value), seen)]
    raise ValueError(
        f"a function uses {value!r:.60}, whose content cannot be part of a key; give it numbers, words, arrays, "
        "functions or objects made of them"
    )
