"""Processor time of a short run outside its training: imports, data, flags, records, processes. Linux only.

    python benchmarks/around_steps.py OTHER [PAIRS]

OTHER is a checkout of another commit; runs of both are measured in turns. A run is one epoch of Split MNIST, with and
without the flag `--seeds 1`. Training is what is spent in steps and in the network's forward passes. Processes that a
run leaves behind are waited for and counted, too.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
COMMAND = ("run", "split-mnist/class", "adam", "--epochs", "1", "--json")
CODE = """
import sys, time
spent, depth = [0.0], [0]

def timed(function):
    def call(*args, **kwargs):
        start = time.process_time()
        depth[0] += 1
        try:
            return function(*args, **kwargs)
        finally:
            depth[0] -= 1
            spent[0] += 0 if depth[0] else time.process_time() - start
    return call

from engram.cli import main
import engram.learning.train as train
import engram.nets.mlp as mlp
train.learn, mlp.MLPNet.forward = timed(train.learn), timed(mlp.MLPNet.forward)
try:
    main(sys.argv[2:])
finally:
    open(sys.argv[1], "w").write(str(spent[0]))
"""


def outside_training(tree: Path, *words: str) -> tuple[float, float]:
    """(processor seconds outside training, in training) of a run with the code of a tree."""
    with tempfile.TemporaryDirectory() as out:
        spent = Path(out) / "training"
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", CODE, str(spent), *COMMAND, *words, "--out", out],
            env={**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"},  # -P: not the folder it is called in
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        used = 0.0
        while True:
            try:
                pid, status, usage = os.wait4(-1, 0)  # the run, and what it left behind
            except ChildProcessError:
                break
            used += usage.ru_utime + usage.ru_stime
            if pid == process.pid:
                process.returncode = status
                assert status == 0, f"the run failed in {tree}"
        training = float(spent.read_text())
    return used - training, training


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    trees = {"here": Path(__file__).parents[1], "other": Path(sys.argv[1]).absolute()}
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    for words in ((), ("--seeds", "1")):
        for tree in trees.values():
            outside_training(tree, *words)  # files are in the system's cache
        measured: dict[str, list[tuple[float, float]]] = {name: [] for name in trees}
        for _ in range(pairs):
            for name, tree in trees.items():
                measured[name].append(outside_training(tree, *words))
        ratios = [h[0] / o[0] for h, o in zip(measured["here"], measured["other"], strict=True)]
        for name, times in measured.items():
            outside, training = (statistics.median(part) for part in zip(*times, strict=True))
            print(f"{' '.join(words) or 'no flag':10} {name:6} outside {outside:.2f} s, training {training:.2f} s")
        print(f"{'':10} ratio  {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


if __name__ == "__main__":
    main()
