"""Messages that many places need, written once."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress

Say = Callable[[str], None]
"""Where a function sends a line meant for people."""


def tell(message: str) -> None:
    """The default `Say`: one line on standard error."""
    with suppress(BrokenPipeError):  # nobody reads it: no reason to stop
        print(message, file=sys.stderr, flush=True)


def join_words(words: Iterable[str]) -> str:
    """`a, b and c`"""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def unknown(what: str, name: object, choices: Iterable[str], *, nearest: int = 1) -> str:
    """`method 'ewcc' is unknown; did you mean ewc? choose from adam, …`"""
    known = list(choices)
    near = difflib.get_close_matches(str(name).lower(), known, n=nearest)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{what} {name!r} is unknown; {hint}choose from {', '.join(known) or 'nothing: there is none'}"


def select(what: str, names: Iterable[str] | None, choices: Iterable[str]) -> list[str]:
    """The choices that are named, in the order of the choices; all of them if nothing is named."""
    known, asked = list(choices), list(names or ())
    for name in asked:
        if name not in known:
            raise ValueError(unknown(what, name, known))
    return [name for name in known if name in asked] if asked else known


def count(number: int, noun: str) -> str:
    """`1 run`, `3 runs`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def duration(seconds: float) -> str:
    """`90 s`, `45 min`, `3 h 20 min`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def size(count_of_bytes: int) -> str:
    """`2.7 MB`, `12.0 kB`."""
    return f"{count_of_bytes / 1e6:.1f} MB" if count_of_bytes >= 1e5 else f"{count_of_bytes / 1e3:.1f} kB"
