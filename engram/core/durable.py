"""Durable files: what stays after the power fails."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk: a new or renamed file is otherwise lost if the power fails."""
    with suppress(OSError):  # some file systems, and Windows, cannot; the files themselves were synced
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
