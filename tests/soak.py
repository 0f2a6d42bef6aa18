"""Soak: random SIGKILLs over sweeps with two drivers. `make soak`, or `python tests/soak.py KILLS MINUTES`.

Two drivers share a folder; a random one of them or of their workers is killed at a random moment. A killed driver is
started again. When a sweep is complete, every run is recorded once, with the bits of a run that nobody disturbed.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from sweep_helpers import Sweep, load_held
from sweep_helpers import bits as all_bits

from engram.runs.records import Record
from engram.runs.run import compute

SEEDS = 6
DRIVER = """
import sys
from contextlib import closing
from pathlib import Path
from sweep_helpers import Sweep, load_held
from engram.engines.driver import run_jobs
from engram.engines.local import Local

load_held()
sweep = Sweep(Path(sys.argv[1]), Path(sys.argv[1]) / "out")
with closing(Local(2)) as engine:
    list(run_jobs(sweep.jobs(int(sys.argv[2])), sweep.out, engine=engine))
"""


def bits(record: Record) -> dict[str, Any]:
    """What all runs of a spec share, whatever is committed meanwhile."""
    found = all_bits(record)
    found["environment"].pop("commit")
    return found


def start(folder: Path) -> subprocess.Popen[bytes]:
    told = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", DRIVER, str(folder), str(SEEDS)]
    return subprocess.Popen(command, env=told, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def children(pid: int) -> list[int]:
    """The processes that a driver has started, directly or not: the fork server and its workers."""
    try:
        found = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return found + [one for child in found for one in children(child)]


def kill_somebody(drivers: list[subprocess.Popen[bytes]], rng: random.Random) -> bool:
    living = [driver for driver in drivers if driver.poll() is None]
    if not living:
        return False
    driver = rng.choice(living)
    victims = [driver.pid, *children(driver.pid)] if rng.random() < 0.5 else children(driver.pid) or [driver.pid]
    try:
        os.kill(rng.choice(victims), signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def soak_once(expected: list[dict[str, object]], rng: random.Random, kills: int, deadline: float) -> int:
    """One sweep with at most so many kills; how many there were."""
    done = 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        drivers = [start(folder), start(folder)]
        while any(driver.poll() is None for driver in drivers) or any(driver.returncode for driver in drivers):
            time.sleep(rng.uniform(0.2, 3.0))
            if done < kills and time.monotonic() < deadline:
                done += kill_somebody(drivers, rng)
            drivers = [start(folder) if driver.poll() else driver for driver in drivers]
        sweep = Sweep(folder, folder / "out")
        found = sorted((one for one in sweep.found() if one.status == "done"), key=lambda one: one.seed)
        assert [one.seed for one in found] == list(range(SEEDS)), "a record is lost or doubled"
        assert [bits(one) for one in found] == expected, "other bits"
        left = [path.name for path in sweep.out.rglob("*") if path.is_file() and path.suffix in (".pt", ".part")]
        assert not left, f"left behind: {left}"
    return done


def main() -> None:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    minutes = float(sys.argv[2]) if len(sys.argv) > 2 else 10.0
    seed = random.randrange(10_000)
    rng, started = random.Random(seed), time.monotonic()
    deadline = started + 60 * minutes
    load_held()
    expected = [bits(compute(job.spec)) for job in Sweep(Path(), Path()).jobs(SEEDS)]
    done = sweeps = 0
    while done < kills and time.monotonic() < deadline:
        done += soak_once(expected, rng, min(20, kills - done), deadline)
        sweeps += 1
        print(f"{done} kills in {sweeps} sweeps, {time.monotonic() - started:.0f} s", flush=True)
    print(f"seed {seed}: {done} SIGKILLs over {sweeps} sweeps of {SEEDS} runs: 0 lost, 0 doubled, 0 other bits, 0 left")


if __name__ == "__main__":
    main()
