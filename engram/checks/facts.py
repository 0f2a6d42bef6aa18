"""Facts: what a check states, and whether it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from engram.core.userfile import told_fault


@dataclass(frozen=True)
class Fact:
    """One thing that was checked."""

    name: str
    holds: bool | None
    """None: it could not be checked here, and the detail says why."""
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"fact": self.name, "holds": self.holds, "detail": self.detail}


class SkippedError(Exception):
    """A fact that cannot be checked here, with the reason."""


class BrokenError(Exception):
    """A fact that does not hold, with what was seen."""


def state_fact(name: str, check: Callable[[], str | None]) -> Fact:
    """Runs a check: it returns a detail, or raises SkippedError or BrokenError; any other error breaks the fact too."""
    try:
        return Fact(name, True, check() or "")
    except SkippedError as reason:
        return Fact(name, None, str(reason))
    except BrokenError as error:
        return Fact(name, False, str(error))
    except Exception as error:
        return Fact(name, False, told_fault(error))


def all_hold(facts: Iterator[Fact] | list[Fact]) -> bool:
    return all(fact.holds is not False for fact in facts)
