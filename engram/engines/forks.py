"""Where the workers of this machine come from."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from typing import Any

CONTEXT: Any = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
"""Not plain forks of the driver, in which torch's threads may hang: forks of a process that has imported torch, and
has run nothing. So torch is imported once, however many workers there are, and a worker is replaced in no time."""


def get_ready() -> None:
    """Starts that process, if it is not there, and does not wait for it: it imports torch while the caller does."""
    if sys.platform == "linux":
        CONTEXT.set_forkserver_preload(["engram.engines.local"])
        with ctrl_c_is_ours():
            forkserver.ensure_running()


@contextmanager
def ctrl_c_is_ours() -> Iterator[None]:
    """Processes that are started within do not hear it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
