"""How worker processes are started on this machine."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from typing import Any

CONTEXT: Any = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
"""On Linux, workers are forks of a server process that has imported torch and run nothing. Forks of the driver could
hang in torch's threads. With the server, torch is imported once for all workers, and a worker is replaced quickly."""


def start_fork_server() -> None:
    """Start the server process if it is not running. It imports torch in the background: this call does not wait."""
    if sys.platform == "linux":
        CONTEXT.set_forkserver_preload(["engram.engines.local"])
        with block_ctrl_c():
            forkserver.ensure_running()


@contextmanager
def block_ctrl_c() -> Iterator[None]:
    """Processes that are started inside the block ignore Ctrl-C; the driver handles it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
