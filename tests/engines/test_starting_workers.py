"""Workers that die while they start, a server that dies, long temporary paths, and workers that report nothing."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from multiprocessing import forkserver
from pathlib import Path

import pytest
from sweep_helpers import Sweep

from engram.cli import needs_workers
from engram.engines import local
from engram.engines.driver import EngineError, run_jobs
from engram.engines.forks import start_fork_server
from engram.engines.local import Local, Worker

SWEEP = """
import tempfile
from pathlib import Path
from sweep_helpers import Sweep, load_held
from engram.engines.driver import run_jobs
from engram.engines.local import Local

load_held()
sweep = Sweep(Path.cwd(), Path("out"))
engine = Local(2)
print([record.status for _, record in run_jobs(sweep.jobs(2), sweep.out, engine=engine)], len(engine.workers))
engine.close()
"""


def kill_first(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """The first so many workers are killed while they import what they need."""

    class Killed(Worker):
        def __init__(self, number: int) -> None:
            super().__init__(number)
            if number <= times:
                self.process.kill()

    monkeypatch.setattr(local, "Worker", Killed)


def test_workers_killed_while_they_start_are_replaced(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    kill_first(monkeypatch, 2)
    said: list[str] = []
    with closing(Local(1)) as engine:
        done = [record.status for _, record in run_jobs(sweep.jobs(2), sweep.out, engine=engine, say=said.append)]
    assert done == ["done", "done"]
    killed = "its process was killed by SIGKILL (the system does this if memory runs out)"
    assert said == [f"a worker ended before it was ready: {killed}; starting another"] * 2
    sweep.check(2)


def test_three_workers_in_a_row_that_never_get_ready_end_the_sweep(sweep: Sweep, monkeypatch) -> None:
    kill_first(monkeypatch, 100)
    with (
        closing(Local(1)) as engine,
        pytest.raises(EngineError, match=r"3 in a row ended before they were ready; of the last one .* by SIGKILL"),
    ):
        list(run_jobs(sweep.jobs(2), sweep.out, engine=engine, say=lambda _: None))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a fork server here")
def test_a_fork_server_that_is_killed_is_started_again(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = []

    def start_and_kill() -> None:
        start_fork_server()
        if len(killed) < 2:
            killed.append(forkserver._forkserver._forkserver_pid)
            os.kill(killed[-1], signal.SIGKILL)

    monkeypatch.setattr(local, "start_fork_server", start_and_kill)
    with closing(Local(1)) as engine:
        done = [record.status for _, record in run_jobs(sweep.jobs(2), sweep.out, engine=engine, say=lambda _: None)]
    assert (done, len(killed)) == (["done", "done"], 2)
    sweep.check(2)


SERVER = """
from multiprocessing import forkserver
from pathlib import Path
from engram.engines.forks import start_fork_server

start_fork_server()
print(Path(f"/proc/{forkserver._forkserver._forkserver_pid}/status").read_text().split("SigBlk:")[1].split()[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a fork server here")
def test_ctrl_c_on_a_terminal_does_not_reach_a_fork_server_that_starts() -> None:
    """It goes to all processes of the terminal, and the server would show a traceback of its imports."""
    told = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", SERVER], env=told, capture_output=True, text=True, check=False)
    assert int(done.stdout, 16) & 1 << signal.SIGINT - 1, done.stderr


def test_a_temporary_folder_with_a_long_path_stops_no_sweep(sweep: Sweep, tmp_path: Path) -> None:
    deep = tmp_path / ("a" * 60) / ("b" * 60)
    deep.mkdir(parents=True)
    told = {**os.environ, "TMPDIR": str(deep), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", SWEEP], env=told, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("['done', 'done'] 2\n", "")


def test_a_stopped_worker_is_named_and_replaced_if_asked(sweep: Sweep) -> None:
    """Seed 0 is stopped in its second task; the run goes on in another process, from the checkpoint of the first."""
    hold = sweep.tell("hold", 0)

    def stop() -> None:
        os.kill(sweep.pid_at(0), signal.SIGSTOP)
        hold.unlink()

    threading.Thread(target=stop).start()
    said: list[str] = []
    with closing(Local(1, stall_timeout=8, named_after=4)) as engine:
        ((_, record),) = run_jobs([sweep.job(0)], sweep.out, engine=engine, say=said.append)
    assert (record.status, record.environment["resumed_after_task"]) == ("done", 1)
    named, replaced = said
    assert named.startswith("worker 1 (process ")
    assert "has reported nothing for 4 s: split-own/class held seed 0" in named
    assert "its process reported nothing for 8 s and was replaced; trying again" in replaced
    sweep.check(1)


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        ("run split-mnist/class adam", False),
        ("run split-mnist/class adam --seeds 1", False),
        ("run split-mnist/class adam --seeds=1", False),
        ("run split-mnist/class adam --seeds 2", True),
        ("run split-mnist/class adam --seeds=10", True),
        ("run split-mnist/class adam --seeds 10 --dry-run", False),
        ("study mine.toml --seeds 1", True),
        ("study --help", False),
    ],
)
def test_workers_are_started_ahead_only_if_there_are_several_runs(words: str, needed: bool) -> None:
    assert needs_workers(words.split()) == needed
