"""Python files from outside the package: how one is read with what it imports from beside it, and loaded."""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

SOURCE = "__engram_source__"
"""Where a module that `load_user_file` made has the text of all files it consists of."""
OF_OTHERS = frozenset({"engram", *sys.stdlib_module_names})
INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders that an installer puts code into."""


class UserFile(NamedTuple):
    """A Python file from outside the package, and the files beside it that it imports, as they were when read."""

    path: str
    text: str
    beside: tuple[tuple[str, str, str], ...] = ()
    """(name it is imported by, path, text)."""
    elsewhere: tuple[tuple[str, str], ...] = ()
    """(name, text) of what it imports from elsewhere and no installer has put there: Python finds it by itself."""

    @property
    def whole(self) -> str:
        """All of its text: what the hash is made of."""
        further = [(name, text) for name, _, text in self.beside] + [*self.elsewhere]
        return "\n".join([self.text, *(f"# {name}\n{text}" for name, text in further)])


_LOADED: dict[str, UserFile] = {}


def loaded_files() -> tuple[UserFile, ...]:
    """The files that this process has loaded: other processes load the same texts, whatever becomes of the files."""
    return tuple(_LOADED.values())


def read_user_file(path: Path, package: str = "") -> UserFile:
    """Reads a file and what it imports, directly or not, from beside it or from elsewhere.

    Args:
        path: The file.
        package: The package that its module belongs to, if it was imported as a part of one.
    """
    text = importlib.util.decode_source(path.read_bytes())
    beside: dict[str, tuple[str, str]] = {}
    elsewhere: dict[str, str] = {}
    known, waiting = {path.resolve()}, [(text, package)]
    while waiting:
        for name in imported_names(*waiting.pop()):
            near = module_file(path.parent, name)
            file = near or file_elsewhere(name)
            if file is None or file.resolve() in known:
                continue
            known.add(file.resolve())
            found = importlib.util.decode_source(file.read_bytes())
            if near:
                beside[name] = (str(file), found)
            else:
                elsewhere[name] = found
            waiting.append((found, name if file.name == "__init__.py" else name.rpartition(".")[0]))
    return UserFile(
        str(path.resolve()),
        text,
        tuple((name, *beside[name]) for name in sorted(beside)),
        tuple(sorted(elsewhere.items())),
    )


def module_file(folder: Path, name: str) -> Path | None:
    """The file of a module in a folder, or of a package."""
    place = folder.joinpath(*name.split("."))
    found = (place / "__init__.py", place.with_suffix(".py"))
    return next((file for file in found if file.is_file()), None)


def file_elsewhere(name: str) -> Path | None:
    """The file of a module where Python would find it; None if it is not the user's own."""
    if (module := sys.modules.get(name)) is not None:
        return (
            Path(str(module.__file__)) if is_outside_module(module) and Path(str(module.__file__)).is_file() else None
        )
    top = name.partition(".")[0]
    for entry in sys.path:
        folder = Path(entry or ".")
        if module_file(folder, top) or folder.joinpath(top).is_dir():
            return None if INSTALLED & set(folder.parts) else module_file(folder, name)
    return None


def is_outside_module(module: ModuleType) -> bool:
    """A module of the user's own: a file that no installer put there."""
    file = getattr(module, "__file__", None) or ""
    top = module.__name__.partition(".")[0]
    return file.endswith(".py") and top not in OF_OTHERS and not INSTALLED & set(Path(file).parts)


def imported_names(text: str, package: str = "") -> Iterator[str]:
    """The modules that a text imports, with the packages that they are in; `package` is its own."""
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: max(0, package.count(".") + 2 - node.level)] if node.level else []
            stem = ".".join([part for part in (*above, node.module or "") if part])
            names = [stem, *(f"{stem}.{alias.name}".lstrip(".") for alias in node.names)]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[: i + 1]) for i in range(len(parts)) if parts[0] and parts[0] not in OF_OTHERS)


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
    """Notes that a file was loaded and taken: other processes will load it too, in the same order."""
    _LOADED.pop(file.path, None)  # one that is loaded again comes last, as what it defines does here
    _LOADED[file.path] = file


_DEFINED: ContextVar[dict[tuple[str, str], str] | None] = ContextVar("what the files of this call define", default=None)


@contextmanager
def one_call() -> Iterator[None]:
    """Files that are loaded inside belong together: two of them cannot define the same name.

    A command is one call, and so is the reading of a study. Inside another call it is a part of that one.
    """
    token = _DEFINED.set({}) if _DEFINED.get() is None else None
    try:
        yield
    finally:
        if token is not None:
            _DEFINED.reset(token)


def claim_names(path: str, names: Sequence[tuple[str, str]]) -> None:
    """Refuses names (of what kind, name) that another file of the same call has defined: only one of them would run."""
    defined = _DEFINED.get()
    if defined is None:
        return
    for what, name in names:
        if (other := defined.get((what, name), path)) != path:
            raise ValueError(
                f"it defines the {what} {name}, and so does {other}, which belongs to the same call: the name would "
                f"stand for one of them only; rename one of the two files, or state another name in one of the classes"
            )
    for key in [key for key, of in defined.items() if of == path]:  # it was edited since
        del defined[key]
    defined.update(dict.fromkeys(names, path))


def told_fault(error: BaseException) -> str:
    """`TypeError: object is not callable (mine.py, line 7)`: a fault in a line, with its place in a user's code."""
    trace = "" if isinstance(error, SyntaxError) else "".join(traceback.format_exception(error))
    return f"{type(error).__name__}: {error}{user_place(trace)}"


def user_place(trace: str) -> str:
    """` (mine.py, line 7)`: the last place in code from outside the package that a traceback names; else nothing."""
    package = str(Path(__file__).parents[1])
    for path, line in reversed(re.findall(r'File "([^"]+)", line (\d+)', trace)):
        library = INSTALLED & set(Path(path).parts) or "/lib/python" in path
        if not path.startswith(package) and not library and not path.startswith("<"):
            return f" ({Path(path).name}, line {line})"
    return ""
