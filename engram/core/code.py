"""Code from outside the package: how a file of it is loaded, and the hash that puts it into the key of a run."""

from __future__ import annotations

import ast
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

SOURCE = "__engram_source__"
"""Where a module that `load_user_file` made has the text of all files it consists of."""
SCRIPTS = ("__main__", "__mp_main__")
"""The script that is run, here and in a process that it started."""
OURS = frozenset({"engram", *sys.stdlib_module_names})


class UserFile(NamedTuple):
    """A Python file from outside the package, and the files beside it that it imports, as they were when read."""

    path: str
    text: str
    beside: tuple[tuple[str, str, str], ...] = ()
    """(name it is imported by, path, text)."""

    @property
    def whole(self) -> str:
        """All of its text: what the hash is made of."""
        return "\n".join([self.text, *(f"# {name}\n{text}" for name, _, text in self.beside)])


_LOADED: dict[str, UserFile] = {}


def loaded_files() -> tuple[UserFile, ...]:
    """The files that this process has loaded: other processes load the same texts, whatever becomes of the files."""
    return tuple(_LOADED.values())


def read_user_file(path: Path) -> UserFile:
    """Reads a file and what it imports from beside it, directly or not."""
    text = importlib.util.decode_source(path.read_bytes())
    found: dict[str, tuple[str, str]] = {}
    waiting = [text]
    while waiting:
        for name in imported_names(waiting.pop()):
            beside = path.parent.joinpath(*name.split("."))
            file = beside / "__init__.py" if (beside / "__init__.py").is_file() else beside.with_suffix(".py")
            if name not in found and file.is_file() and file.resolve() != path.resolve():
                found[name] = (str(file), importlib.util.decode_source(file.read_bytes()))
                waiting.append(found[name][1])
    return UserFile(str(path.resolve()), text, tuple((name, *found[name]) for name in sorted(found)))


def imported_names(text: str) -> Iterator[str]:
    """The modules that a text imports, with the packages that they are in."""
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            stem = node.module or ""
            names = [stem, *(f"{stem}.{alias.name}".lstrip(".") for alias in node.names)]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[: i + 1]) for i in range(len(parts)) if parts[0] and parts[0] not in OURS)


class Beside(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules that stand beside a loaded file, and makes them from the texts that were read."""

    def __init__(self) -> None:
        self.texts: dict[str, tuple[str, str]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self.texts:
            return None
        file = self.texts[name][0]
        is_package = Path(file).name == "__init__.py"
        return importlib.util.spec_from_loader(name, self, origin=file, is_package=is_package)

    def exec_module(self, module: ModuleType) -> None:
        file, text = self.texts[module.__name__]
        module.__file__ = file
        exec(compile(text, file, "exec", dont_inherit=True), vars(module))


_BESIDE = Beside()


def load_user_file(file: UserFile) -> ModuleType:
    """Runs the text of a file as a module; what it imports from beside it comes from the texts as well."""
    if _BESIDE not in sys.meta_path:
        sys.meta_path.insert(0, _BESIDE)
    texts = {name: (path, text) for name, path, text in file.beside}
    if any(_BESIDE.texts.get(name) != text for name, text in texts.items()):
        _BESIDE.texts |= texts
        for name in texts:  # all of them: one that is unchanged may import from one that was edited
            sys.modules.pop(name, None)
    module = ModuleType(f"engram_user_{Path(file.path).stem}")
    module.__file__ = file.path
    sys.modules[module.__name__] = module  # dataclasses look their module up there
    vars(module)[SOURCE] = file.whole
    exec(compile(file.text, file.path, "exec", dont_inherit=True), vars(module))
    return module


def remember_file(file: UserFile) -> None:
    """Notes that a file was loaded and taken: other processes will load it too."""
    _LOADED[file.path] = file


@cache
def hash_code(thing: Any) -> str:
    """A hash of the code of a class or function from outside the package, and of all that it inherits from or uses
    beside it; empty if it is the package's own.

    It is taken when it is first asked for: a process goes on with the code that it has, whatever becomes of the file.
    """
    parts = thing.__mro__ if isinstance(thing, type) else (thing,)
    texts = [code_text(part) for part in parts if is_outside(part)]
    return hashlib.sha256("".join(dict.fromkeys(texts)).encode()).hexdigest()[:16] if texts else ""


def is_outside(thing: Any) -> bool:
    module = getattr(thing, "__module__", None) or ""
    top = module.partition(".")[0]
    return thing is not object and top not in ("torch", "numpy") and (top not in OURS or module in SCRIPTS)


def code_text(thing: Any) -> str:
    """The text of the module that something comes from; of a script or a notebook, only what the thing itself uses."""
    module = sys.modules.get(thing.__module__)
    if loaded := getattr(module, SOURCE, None):
        return str(loaded)
    file = getattr(module, "__file__", None)
    if file and thing.__module__ not in SCRIPTS and Path(file).suffix == ".py" and Path(file).is_file():
        return read_user_file(Path(file)).whole
    return json.dumps(used_by(thing, {}), sort_keys=True)


def used_by(thing: Any, seen: dict[str, str]) -> dict[str, str]:
    """What a class or function consists of, and the functions, classes and plain values of its script that it names."""
    name = f"{thing.__module__}.{thing.__qualname__}"
    if name in seen:
        return seen
    functions = list(functions_of(thing))
    try:
        seen[name] = inspect.getsource(thing)
    except (OSError, TypeError):  # typed in at a prompt
        values = vars(thing) if isinstance(thing, type) else {}
        plain = {n: repr(v) for n, v in values.items() if is_plain(v) and not n.startswith("__")}
        codes = [f"{compiled_text(f.__code__)} {f.__defaults__} {f.__kwdefaults__}" for f in functions]
        seen[name] = json.dumps([plain, codes], sort_keys=True)
    for function in functions:
        for word in names_in(function.__code__):
            value = function.__globals__.get(word)
            if is_plain(value) and word in function.__globals__:
                seen[f"{function.__module__}.{word}"] = repr(value)
            elif isinstance(value, ModuleType) and is_outside_module(value):
                seen[value.__name__] = read_user_file(Path(str(value.__file__))).whole
            elif isinstance(value, type | FunctionType) and is_outside(value):
                if value.__module__ in SCRIPTS:
                    used_by(value, seen)
                else:
                    seen[f"{value.__module__}.{value.__qualname__}"] = code_text(value)
    return seen


def user_place(trace: str) -> str:
    """` (mine.py, line 7)`: the last place in code from outside the package that a traceback names; else nothing."""
    package = str(Path(__file__).parents[1])
    for path, line in reversed(re.findall(r'File "([^"]+)", line (\d+)', trace)):
        library = {"site-packages", "dist-packages"} & set(Path(path).parts) or "/lib/python" in path
        if not path.startswith(package) and not library and not path.startswith("<"):
            return f" ({Path(path).name}, line {line})"
    return ""


def is_plain(value: Any) -> bool:
    return isinstance(value, int | float | str | tuple | list | dict | bytes | None)


def is_outside_module(module: ModuleType) -> bool:
    """A module of the user's own: a file that no installer put there."""
    file = getattr(module, "__file__", None) or ""
    top = module.__name__.partition(".")[0]
    return file.endswith(".py") and top not in OURS and not {"site-packages", "dist-packages"} & set(Path(file).parts)


def functions_of(thing: Any) -> Iterator[FunctionType]:
    """The functions that a class or function consists of."""
    for value in vars(thing).values() if isinstance(thing, type) else (thing,):
        for part in (getattr(value, name, None) for name in ("__func__", "fget", "fset")):
            if inspect.isfunction(part):
                yield part
        if inspect.isfunction(value):
            yield value


def names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def compiled_text(code: CodeType) -> str:
    """Bytes, names and constants; a set of constants is put in order."""
    constants = [
        compiled_text(c)
        if isinstance(c, CodeType)
        else str(sorted(map(repr, c)))
        if isinstance(c, frozenset)
        else repr(c)
        for c in code.co_consts
    ]
    return " ".join([code.co_code.hex(), *code.co_names, *code.co_varnames, *code.co_freevars, *constants])
