"""Systems without fcntl, resource, fork and signal masks, as Windows is: runs, workers and locks work there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engram.core import system
from engram.core.locks import acquire

ROOT = Path(__file__).parents[2]
WINDOWS = """
import fcntl as _fcntl, os, signal, struct, subprocess, sys, types  # subprocess asks for msvcrt, and would try Windows


def locking(file, mode, count):
    "Windows' own: a range from the current position, held by a handle. Here by Linux's locks of open files."
    kind = _fcntl.F_WRLCK if _fcntl.fcntl(file, _fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY else _fcntl.F_RDLCK
    what = struct.pack("hhqqi4x", kind, os.SEEK_SET, os.lseek(file, 0, os.SEEK_CUR), count, 0)
    try:
        _fcntl.fcntl(file, _fcntl.F_OFD_SETLK, what)
    except BlockingIOError as error:
        raise PermissionError(13, "Permission denied") from error


sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
sys.modules["fcntl"] = sys.modules["resource"] = None
for name in ("fork", "killpg", "sched_getaffinity"):
    delattr(os, name)
del signal.pthread_sigmask
"""
"""What every process of the test runs first."""
MAIN = "from engram.cli import main; main()"


@pytest.fixture
def python(tmp_path):
    """Run Python in a process of its own, and with `windows` as on a system without those modules; what it prints."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(WINDOWS)

    def run(*args: str, windows: bool) -> str:
        path = [str(tmp_path / "site")] * windows + [str(ROOT)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "ENGRAM_DATA": str(tmp_path)}
        done = subprocess.run([sys.executable, *args], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert not done.returncode, done.stderr
        return done.stdout

    return run


def test_nothing_else_imports_what_only_some_systems_have():
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "engram").rglob("*.py"))
    for name in ("fcntl", "resource", "msvcrt", "termios", "pwd"):
        assert code.count(f"import {name}\n") == (name in ("fcntl", "resource", "msvcrt"))  # in core/system.py


def test_a_sweep_of_two_workers_gives_the_same_bits_as_here(tmp_path, python):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (120, 4, 4), np.uint8), np.arange(120) % 4
    np.savez(tmp_path / "own.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    call = ("-c", MAIN, "run", "split-own/class", "adam", "--steps", "3", "--hidden", "8", "--seeds", "2", "--json")
    there = python(*call, "--workers", "2", "--out", "there", windows=True)
    here = python(*call, "--workers", "1", "--out", "here", windows=False)
    by_key = [{row["key"]: row["accuracy"] for row in map(json.loads, text.splitlines())} for text in (there, here)]
    assert len(by_key[0]) == 2
    assert by_key[0] == by_key[1]


def test_a_lock_is_held_by_one_and_a_locked_file_can_be_read(python):
    printed = python(
        "-c",
        """
from pathlib import Path
from engram.core.locks import acquire
from engram.core.system import fcntl, lock_file, resource
assert fcntl is None and resource is None
path = Path("deep/er/one.lock")
first = acquire(path, lambda: False)
print(acquire(path, lambda: False))
first.release()
print(Path("deep").exists())
second = acquire(path, lambda: False)
second.release()
with open("records.jsonl", "a+b") as writer, open("records.jsonl", "rb") as reader:
    writer.write(b"one line")
    writer.flush()
    print(lock_file(writer.fileno()), lock_file(reader.fileno(), shared=True, wait=False), reader.read())
""",
        windows=True,
    )
    assert printed.split("\n")[:3] == ["None", "False", "True False b'one line'"]


def test_a_system_without_any_locks_gives_every_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(system, "fcntl", None)
    monkeypatch.setattr(system, "msvcrt", None)
    lock = acquire(tmp_path / "one.lock", lambda: False)
    assert lock is not None
    lock.release()
    assert not list(tmp_path.iterdir())


def test_memory_and_limits_without_resource(monkeypatch):
    with_resource = system.peak_mb()
    monkeypatch.setattr(system, "resource", None)
    system.allow_open_files(1 << 20)  # says nothing, and changes nothing
    assert system.peak_mb() == pytest.approx(with_resource, rel=0.2)
