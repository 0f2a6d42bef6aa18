"""The methods. Each is one file here and nothing else: the file's name is the method's."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import json
import pkgutil
import sys
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import ClassVar, get_origin, get_type_hints

from engram.learning.method import Method

_FILES: dict[str, str] = {}
SOURCE = "__engram_source__"
"""Where a module that `load_file` made has its text."""


@cache
def methods() -> dict[str, type[Method]]:
    """All methods by name: `online_ewc.py` holds `online-ewc`."""
    found = {}
    for module_info in pkgutil.iter_modules(__path__):
        if module_info.name.startswith("_"):  # what a family of methods shares
            continue
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        found[module_info.name.replace("_", "-")] = defined_in(module)[-1]
    return found


def defined_in(module: ModuleType) -> list[type[Method]]:
    """The methods that a file defines; its last is its method."""
    return [
        cls
        for cls in vars(module).values()
        if inspect.isclass(cls) and issubclass(cls, Method) and cls.__module__ == module.__name__
    ]


def load_file(path: Path, text: str | None = None) -> str:
    """Adds the method of a file outside the package and returns its name, the file's.

    With the text of the file it is not read: it may be another machine's, or edited since a sweep began.
    """
    if text is None and not path.is_file():
        raise ValueError(f"method file {path} does not exist")
    if path.suffix != ".py":
        raise ValueError(f"method file {path} is no Python file; its name has to end in .py")
    name = path.stem.replace("_", "-")
    if "+" in name:
        raise ValueError(f"method file {path}: + stands between methods that are combined; give the file another name")
    if name in methods():
        raise ValueError(f"method file {path}: there is a method {name} already; give the file another name")
    module = ModuleType(f"engram_user_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up there
    try:
        text = importlib.util.decode_source(path.read_bytes()) if text is None else text
        exec(compile(text, path, "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        raise ValueError(f"method file {path} cannot be loaded: {type(error).__name__}: {error}") from error
    own = defined_in(module)
    if not own:
        raise ValueError(f"method file {path} defines no subclass of engram.Method")
    try:
        check_fields(own[-1])
    except Exception as error:
        raise ValueError(
            f"method file {path}: {own[-1].__name__} cannot be made of flags: {type(error).__name__}: {error}; give "
            "every field a type and a default, a number, a word, yes or no, or a tuple of them"
        ) from error
    methods()[name] = own[-1]
    vars(module)[SOURCE] = text
    _FILES[str(path.resolve())] = text
    return name


def check_fields(cls: type[Method]) -> None:
    """Refuses a method whose fields cannot be flags, or cannot stand in a record."""
    hints = get_type_hints(cls)
    known = {f.name for f in fields(cls)}
    for plain in set(inspect.get_annotations(cls)) - known:
        if get_origin(hints[plain]) is not ClassVar and hints[plain] is not ClassVar:
            raise ValueError(f"{plain} is annotated but no field; put @dataclass above the class")
    made = cls()
    for f in fields(cls):
        if not f.init:
            raise ValueError(f"field {f.name} has init=False; what is no hyper-parameter is no field")
        hash(value := getattr(made, f.name))
        json.dumps(value)


def loaded_files() -> tuple[tuple[str, str], ...]:
    """The files that `load_file` has added, each with the text that was loaded."""
    return tuple(_FILES.items())


def members_of(text: str) -> list[str]:
    """`rehearsal+si` as the names of its members."""
    names = text.split("+")
    if not all(names):
        raise ValueError(f"method {text!r}: names stand on both sides of a +, as in rehearsal+online-ewc")
    if len(set(names)) < len(names):
        raise ValueError(f"method {text!r}: a method is named twice; a combination has each once")
    return names


def method_class(name: str) -> type[Method]:
    """The method of this name."""
    if name not in methods():
        near = difflib.get_close_matches(name.lower(), methods(), n=2)
        raise ValueError(
            f"method {name!r} is unknown; "
            + (f"did you mean {' or '.join(near)}? " if near else "")
            + f"choose from {', '.join(methods())}"
        )
    return methods()[name]


def name_of(method: Method) -> str:
    """The name of a method; one that is in no file of methods goes by its class."""
    for name, cls in methods().items():
        if type(method) is cls:
            return name
    return type(method).__name__.lower()
