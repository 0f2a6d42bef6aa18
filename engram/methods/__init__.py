"""The methods. Each is one file here and nothing else: the file's name is the method's."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from functools import cache

from engram.learning.method import Method


@cache
def methods() -> dict[str, type[Method]]:
    """All methods by name: `online_ewc.py` holds `online-ewc`."""
    found = {}
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        own = [
            cls
            for cls in vars(module).values()
            if inspect.isclass(cls) and issubclass(cls, Method) and cls.__module__ == module.__name__
        ]
        if own:
            found[module_info.name.replace("_", "-")] = own[-1]
    return found


def method_class(name: str) -> type[Method]:
    """The method of this name."""
    if name not in methods():
        near = difflib.get_close_matches(name, methods(), n=2)
        raise ValueError(
            f"method {name!r} is unknown; "
            + (f"did you mean {' or '.join(near)}? " if near else "")
            + f"choose from {', '.join(methods())}"
        )
    return methods()[name]


def name_of(method: Method) -> str:
    """The name of a method's class."""
    for name, cls in methods().items():
        if type(method) is cls:
            return name
    return type(method).__name__.lower()
