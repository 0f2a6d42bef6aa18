"""What differs between Linux, macOS and Windows: file locks, limits, memory in use, Ctrl-C."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

fcntl: Any
msvcrt: Any
resource: Any
try:
    import fcntl
except ImportError:
    fcntl = None
try:
    import msvcrt
except ImportError:
    msvcrt = None
try:
    import resource
except ImportError:
    resource = None

LOCKED_BYTE = (1 << 31) - 2
"""On Windows a locked range cannot be read by others: this byte is locked, which no file of ours reaches."""
LOOK_AGAIN = 0.02
"""Seconds between two attempts at a lock on Windows, which cannot wait for it without a limit."""


def lock_file(file: int, *, shared: bool = False, wait: bool = True) -> bool:
    """Lock an open file until it is closed; False if another process holds it and we do not wait.

    Without waiting, the system also refuses a second handle of this process. Windows has no shared locks: there,
    readers take turns. Without `fcntl` and `msvcrt` nothing is locked: such systems run one process at a time.
    """
    if fcntl is not None:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
    elif msvcrt is not None:
        while not _lock_byte(file):
            if not wait:
                return False
            time.sleep(LOOK_AGAIN)
    return True


def _lock_byte(file: int) -> bool:
    position = os.lseek(file, 0, os.SEEK_CUR)
    try:
        os.lseek(file, LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        return True
    except PermissionError:  # another handle has it
        return False
    finally:
        os.lseek(file, position, os.SEEK_SET)


def can_remove_open_files() -> bool:
    """Whether a file can be removed while it is open: not on Windows."""
    return fcntl is not None


def allow_open_files(count: int) -> int:
    """Raise the limit on open files to `count`, or as far as it may be raised; how many can be open now.

    Windows has no limit that matters.
    """
    if resource is None:
        return count
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return count
    reachable = count if hard == resource.RLIM_INFINITY else min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (reachable, hard))
    return int(reachable)


def peak_mb() -> float:
    """The most memory that this process has held, in megabytes; 0 if the system does not say."""
    with suppress(OSError, ValueError, StopIteration):  # Linux: getrusage also counts the parent before exec
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024
    if resource is not None:
        peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    return _windows_peak() / (1 << 20)


class _MemoryCounters(ctypes.Structure):
    """PROCESS_MEMORY_COUNTERS of the Windows API."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("page_faults", ctypes.c_uint32),
        ("peak_working_set", ctypes.c_size_t),
        ("others", ctypes.c_size_t * 7),
    )


def _windows_peak() -> int:
    windll: Any = getattr(ctypes, "windll", None)
    if windll is None:
        return 0
    counters = _MemoryCounters(size=ctypes.sizeof(_MemoryCounters))
    this_process = ctypes.c_void_p(-1)
    known = windll.kernel32.K32GetProcessMemoryInfo(this_process, ctypes.byref(counters), counters.size)
    return int(counters.peak_working_set) if known else 0


def ignore_ctrl_c() -> None:
    """Ctrl-C does not end this process; for workers, whose driver handles it."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    else:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def block_ctrl_c() -> Iterator[None]:
    """Processes that are started inside the block ignore Ctrl-C; on Windows they do so once they have started."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def kill_group(process: subprocess.Popen[Any]) -> None:
    """Kill a process that leads its own session with all its children; on Windows, without them."""
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
