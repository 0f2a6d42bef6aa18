"""How worker processes are started on this machine."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from contextlib import suppress
from functools import cache
from multiprocessing import util
from typing import Any

from engram.core.system import block_ctrl_c

HAS_SERVER = sys.platform == "linux" and hasattr(os, "fork")
LONGEST_SOCKET = 107
"""Characters that the path of a Unix socket can have."""
SOCKET_NAME = "/listener-12345678"
SHORT_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")
"""Where the server's socket goes if the path of the temporary folder is too long, as TMPDIR is on some clusters."""


@cache
def worker_context() -> Any:
    """How workers are started.

    On Linux, workers are forks of a server process that has imported torch and run nothing. Forks of the driver could
    hang in torch's threads. With the server, torch is imported once for all workers, and a worker is replaced quickly.
    macOS and Windows start each worker from nothing, and so does Linux if there is no folder for the server's socket.
    """
    return multiprocessing.get_context("forkserver" if HAS_SERVER and has_short_folder() else "spawn")


def has_short_folder() -> bool:
    """Whether the folder for sockets of this process has a path that is short enough; one is made elsewhere if not."""
    before = tempfile.tempdir
    for folder in (tempfile.gettempdir(), *SHORT_FOLDERS):
        if len(os.fsencode(folder)) + len("/pymp-12345678") + len(SOCKET_NAME) > LONGEST_SOCKET:
            continue
        try:
            tempfile.tempdir = folder  # multiprocessing makes a folder inside at its first use, and removes it
            with suppress(OSError):
                return len(os.fsencode(util.get_temp_dir()) + SOCKET_NAME.encode()) <= LONGEST_SOCKET
        finally:
            tempfile.tempdir = before
    return False


def start_fork_server() -> None:
    """Start the server process if it is not running. It imports torch in the background: this call does not wait."""
    if worker_context().get_start_method() == "forkserver":
        from multiprocessing import forkserver, resource_tracker  # not on Windows

        worker_context().set_forkserver_preload(["engram.engines.local"])
        resource_tracker.ensure_running()  # before the block, since it lets Ctrl-C through again when it has started
        with block_ctrl_c():
            forkserver.ensure_running()
