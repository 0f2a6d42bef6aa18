"""Facts: what a check states, and whether it holds."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
        return Fact(name, False, f"{type(error).__name__}: {error}{user_place(error)}")


def user_place(error: BaseException) -> str:
    """` (mine.py, line 7)`: the last place in code from outside the package that an error came through."""
    package = str(Path(__file__).parents[1])
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        outside = not frame.filename.startswith(package) and "site-packages" not in frame.filename
        if outside and "/lib/python" not in frame.filename and frame.filename != "<string>":
            return f" ({Path(frame.filename).name}, line {frame.lineno})"
    return ""


def all_hold(facts: Iterator[Fact] | list[Fact]) -> bool:
    return all(fact.holds is not False for fact in facts)
