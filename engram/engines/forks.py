"""How worker processes are started on this machine."""

from __future__ import annotations

import multiprocessing
import os
import sys
from typing import Any

from engram.core.system import block_ctrl_c

HAS_SERVER = sys.platform == "linux" and hasattr(os, "fork")
CONTEXT: Any = multiprocessing.get_context("forkserver" if HAS_SERVER else "spawn")
"""On Linux, workers are forks of a server process that has imported torch and run nothing. Forks of the driver could
hang in torch's threads. With the server, torch is imported once for all workers, and a worker is replaced quickly.
macOS and Windows start each worker from nothing."""


def start_fork_server() -> None:
    """Start the server process if it is not running. It imports torch in the background: this call does not wait."""
    if HAS_SERVER:
        from multiprocessing import forkserver  # not on Windows

        CONTEXT.set_forkserver_preload(["engram.engines.local"])
        with block_ctrl_c():
            forkserver.ensure_running()
