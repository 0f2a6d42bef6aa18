"""The command line called in this process or in one of its own, with small image sets in a folder of the test's own."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import Answer, arrays

from engram.cli import main
from engram.core.registry import REGISTRIES
from engram.data.catalog import images
from engram.data.errors import DataError

START = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from engram.cli import main; main()"
"""The command, with Ctrl-C in force also where the test's own process was started in the background."""


@pytest.fixture(autouse=True)
def _own_entries_end_with_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test loads from files is not there for the next one."""
    for registry in REGISTRIES:
        monkeypatch.setattr(registry, "added", dict(registry.added))


@pytest.fixture
def engram(capfd: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Calls the command line in this process; an exception other than SystemExit is the traceback a user would see."""

    def call(*arguments: str | Path) -> Answer:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        sys.stdout.flush()
        return Answer(int(ended.value.code or 0), *capfd.readouterr())

    return call


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the command line in a process of its own, which does not outlive the test."""
    started: list[subprocess.Popen[str]] = []

    def call(*arguments: str | Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", START, *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(command, start_new_session=True, **pipes))  # as a terminal's foreground has one
        return started[-1]

    yield call
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """ENGRAM_DATA with the set `tiny` (4 classes) and nothing else; the user's own folders are out of sight."""
    folder = tmp_path / "data"
    folder.mkdir()
    np.savez(folder / "tiny.npz", **arrays())
    monkeypatch.setenv("ENGRAM_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return folder


@pytest.fixture(scope="session")
def mnist() -> None:
    """MNIST is there, in the user's own data folders."""
    try:
        images("mnist")
    except DataError as error:
        pytest.skip(f"no place has MNIST: {error}")
