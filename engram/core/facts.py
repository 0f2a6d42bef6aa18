"""What a class of this package says of itself, read from its source: nothing is imported, so nothing needs torch."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from engram.core.parsed import PARSED

ROOT = Path(__file__).parents[1]
COMPUTED = object()
"""The default of a field that is no literal."""


@dataclass(frozen=True)
class Facts:
    """A class as its source states it, inherited statements included."""

    module: str
    class_name: str
    doc: str
    literals: Mapping[str, Any] = field(default_factory=dict)
    """Class attributes that are literals: `title`, `family`, `needs`, `optimizer`, …"""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the dataclass and their defaults, in order."""
    docs: Mapping[str, str] = field(default_factory=dict)
    """The docstring below each field."""

    @property
    def summary(self) -> str:
        """The first sentence of the docstring."""
        return self.doc.split("\n")[0].partition(". ")[0].rstrip(".") or "no docstring"


class ClassSource(NamedTuple):
    """What a class states itself, as plain data."""

    bases: tuple[str, ...]
    """Their names as they are called in its module."""
    doc: str
    literals: dict[str, Any]
    computed: tuple[str, ...]
    """Class attributes that are not literals: they hide inherited ones."""
    defaults: dict[str, Any]
    """Of fields; one that is not a literal is in `factories`."""
    factories: tuple[str, ...]
    docs: dict[str, str]


class ModuleSource(NamedTuple):
    """What a module of this package defines and imports, as plain data."""

    classes: dict[str, ClassSource]
    imported: dict[str, tuple[str, str]]
    """name → (module, name there)."""
    typed: dict[str, tuple[str, str]]
    """The same, under `if TYPE_CHECKING`."""


@cache
def parse_module(module: str) -> ModuleSource:
    """Reads a module of this package without importing it."""
    place = ROOT.joinpath(*module.split(".")[1:])
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    if known := PARSED.get(module, path):
        classes, imported, typed = known
        return ModuleSource({name: ClassSource(*one) for name, one in classes.items()}, imported, typed)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = {node.name: class_source(node) for node in tree.body if isinstance(node, ast.ClassDef)}
    conditional = [part for node in tree.body if isinstance(node, ast.If) for part in node.body]
    source = ModuleSource(found, imports_in(tree.body), imports_in(conditional))
    plain = {name: tuple(one) for name, one in source.classes.items()}
    PARSED.add(module, path, (plain, source.imported, source.typed))
    return source


def class_source(node: ast.ClassDef) -> ClassSource:
    """What the statements of a class say."""
    literals: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    docs: dict[str, str] = {}
    for statement, following in zip(node.body, [*node.body[1:], None], strict=False):
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            literals[statement.targets[0].id] = literal(statement.value)
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            if "ClassVar" in ast.unparse(statement.annotation):
                literals[name] = literal(statement.value)
            else:
                defaults[name] = literal(statement.value)
                if text := docstring(following):
                    docs[name] = text
    return ClassSource(
        tuple(base.id for base in node.bases if isinstance(base, ast.Name)),
        ast.get_docstring(node) or "",
        {name: value for name, value in literals.items() if value is not COMPUTED},
        tuple(name for name, value in literals.items() if value is COMPUTED),
        {name: None if value is COMPUTED else value for name, value in defaults.items()},
        tuple(name for name, value in defaults.items() if value is COMPUTED),
        docs,
    )


def imports_in(body: Iterable[ast.stmt]) -> dict[str, tuple[str, str]]:
    """The names that statements import from this package."""
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in body
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("engram")
        for alias in node.names
    }


def bases_of(module: str, class_name: str) -> Iterator[tuple[str, str]]:
    """The classes of this package that a class inherits from directly, as (module, name)."""
    classes, imported, _ = parse_module(module)
    for name in classes[class_name].bases:
        if name in classes:
            yield module, name
        elif name in imported:
            yield imported[name]


def inherits(module: str, class_name: str, base: tuple[str, str]) -> bool:
    """Whether a class of this package is a true subclass of another one."""
    return any(parent == base or inherits(*parent, base) for parent in bases_of(module, class_name))


@cache
def class_facts(module: str, class_name: str) -> Facts:
    """What a class states, on top of what its bases state."""
    literals: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    docs: dict[str, str] = {}
    for parent in reversed(list(bases_of(module, class_name))):  # of several, the first one has its way
        inherited = class_facts(*parent)
        literals |= inherited.literals
        defaults |= inherited.defaults
        docs |= inherited.docs
    own = parse_module(module).classes[class_name]
    literals |= own.literals
    known = {name: value for name, value in literals.items() if name not in own.computed}
    defaults |= {name: COMPUTED if name in own.factories else value for name, value in own.defaults.items()}
    return Facts(module, class_name, own.doc, known, defaults, docs | own.docs)


def add_facts(facts: Facts, added: Facts, name: str) -> Facts:
    """The facts of a class of this name that is made of two: one that stands in front of the other."""
    literals = {**facts.literals, **added.literals, "name": name, "make": name}
    summary = f"{facts.summary}; {added.summary[0].lower()}{added.summary[1:]}"
    doc = "\n".join([f"{summary}.", *facts.doc.split("\n")[1:]])
    defaults, docs = {**facts.defaults, **added.defaults}, {**facts.docs, **added.docs}
    return Facts(added.module, f"{added.class_name}{facts.class_name}", doc, literals, defaults, docs)


def literal(node: ast.expr | None) -> Any:
    """The value of a literal, `frozenset({…})` included; COMPUTED for anything else."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "frozenset":
        return frozenset(literal(node.args[0])) if node.args else frozenset()
    try:
        return COMPUTED if node is None else ast.literal_eval(node)
    except ValueError:
        return COMPUTED


def docstring(node: ast.stmt | None) -> str:
    """The text of a statement that is a string alone."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return " ".join(node.value.value.split())
    return ""
