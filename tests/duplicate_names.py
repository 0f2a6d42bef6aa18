"""Prints the top-level names that more than one module of engram defines: `python tests/duplicate_names.py`."""

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "engram"


def defined_names(text: str) -> set[str]:
    """The classes, functions and values that a module defines at its top level; not what it imports."""
    found: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if is_annotated(node) else []
        for target in targets:
            found |= {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}
    return {name for name in found if not name.startswith("__")}


def is_annotated(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign)


def duplicate_names(package: Path = PACKAGE) -> dict[str, list[str]]:
    """name → the modules that define it, for names that two or more define."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        for name in sorted(defined_names(path.read_text(encoding="utf-8"))):
            places[name].append(path.relative_to(package).as_posix())
    return {name: modules for name, modules in sorted(places.items()) if len(modules) > 1}


def report(found: dict[str, list[str]]) -> str:
    return "\n".join(f"{name}: {', '.join(modules)}" for name, modules in found.items())


if __name__ == "__main__":
    print(report(duplicate_names()))
