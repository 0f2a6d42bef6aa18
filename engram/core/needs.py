"""Which methods can run without task boundaries, as their classes state it. No torch."""

from __future__ import annotations

from engram.core.registry import METHODS


def without_boundaries(name: str) -> str | None:
    """How a method runs without boundaries: as it is (empty), with a flag (`--memory reservoir`), or not (None)."""
    literals = METHODS.facts(name).literals
    if "boundaries" not in literals.get("needs", ()):
        return ""
    free = literals.get("without_boundaries", ())
    return f"--{free[0].replace('_', '-')} {free[1]}" if free else None


def methods_without_boundaries(kind: str = "task") -> list[str]:
    """The methods that can run without boundaries in this kind of learning, with the flag that some need for it."""
    found = []
    for name in METHODS:
        flag = without_boundaries(name)
        if flag is not None and (
            kind == "task" or "task identity" not in METHODS.facts(name).literals.get("needs", ())
        ):
            found.append(f"{name} {flag}".rstrip())
    return found
