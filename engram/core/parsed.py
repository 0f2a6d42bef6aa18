"""What was read from sources of this package, kept in the user's cache folder: parsing 74 modules takes 0.2 s.

An entry counts as long as its file has the same size and time. What is kept is derived: a cache that is damaged, or of
another version, is made anew, and one that cannot be written is done without.
"""

from __future__ import annotations

import atexit
import hashlib
import marshal
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

FORMAT = "parsed sources 1"


class ParsedSources:
    """Plain data by module."""

    def __init__(self) -> None:
        self.entries: dict[str, tuple[int, int, Any]] | None = None
        self.changed = False

    def get(self, module: str, path: Path) -> Any:
        """What is known of a module whose file has not changed since; None if nothing is."""
        if self.entries is None:
            self.entries = read_entries(cache_file())
        *state, content = self.entries.get(module, (0, 0, None))
        return content if state == size_and_time(path) else None

    def add(self, module: str, path: Path, content: Any) -> None:
        """Keep what was parsed; it is written when the process ends."""
        if self.entries is None:
            self.entries = {}
        size, time = size_and_time(path)
        self.entries[module] = (size, time, content)
        if not self.changed:
            self.changed = True
            atexit.register(self.save, os.getpid())

    def save(self, process: int) -> None:
        """Write under another name first: others may read meanwhile."""
        if process != os.getpid():  # a fork, of which there may be many
            return
        path = cache_file()
        part = path.with_name(f"{path.name}.{process}")
        with suppress(OSError, ValueError):
            path.parent.mkdir(parents=True, exist_ok=True)
            content = marshal.dumps(self.entries)
            part.write_bytes(hashlib.sha256(content).digest() + content)
            part.replace(path)
        with suppress(OSError):
            part.unlink(missing_ok=True)


def size_and_time(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]


def cache_file() -> Path:
    """One per place of the package and version of Python, in the user's own folder."""
    what = hashlib.sha256(f"{FORMAT} {sys.version} {__file__}".encode()).hexdigest()[:16]
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 (Path's raises without a home)
    return Path(home) / "engram" / "parsed" / what


def read_entries(path: Path) -> dict[str, tuple[int, int, Any]]:
    """What a file holds, if it is whole."""
    try:
        content = path.read_bytes()
        if hashlib.sha256(content[32:]).digest() == content[:32]:
            return dict(marshal.loads(content[32:]))  # our own file, as Python's own caches of modules
    except (OSError, ValueError, TypeError, EOFError):
        pass
    return {}


PARSED = ParsedSources()
