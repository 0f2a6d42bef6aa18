"""A method for tests: plain training that waits, or dies, before its second task where a file tells it to.

The folder is named by HELD; `hold-3` holds the run of seed 3, which says by `at-3` that it is there, and in which
process; `kill-3`, `crash-3` and `exit-3` end that process.
"""

import faulthandler
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import engram as eg


@dataclass
class Held(eg.Method):
    """Plain training."""

    def begin_task(self, learner: eg.Learner, task: eg.Task) -> None:
        if task.index == 1 and "HELD" in os.environ:
            obey(Path(os.environ["HELD"]), learner.seed)


def obey(folder: Path, seed: int) -> None:
    if (folder / f"hold-{seed}").exists():
        part = folder / f"at-{seed}.{os.getpid()}"
        part.write_text(str(os.getpid()))
        part.replace(folder / f"at-{seed}")
        while (folder / f"hold-{seed}").exists():
            time.sleep(0.005)
    if (folder / f"kill-{seed}").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    if (folder / f"crash-{seed}").exists():
        faulthandler._sigsegv()
    if (folder / f"exit-{seed}").exists():
        os._exit(3)
