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


def methods_without_boundaries() -> list[str]:
    """The methods that can run without boundaries, with the flag that some need for it."""
    return [f"{name} {flag}".rstrip() for name in METHODS if (flag := without_boundaries(name)) is not None]
