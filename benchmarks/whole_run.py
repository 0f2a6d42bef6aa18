"""Times engram on the work of docs/compared.md: whole runs of Split MNIST, 1,884 steps, in processes of their own.

    python benchmarks/whole_run.py [METHOD]

Prints seconds and processor seconds of one run, and seconds per run of six runs with two workers, start-up included.
"""

import os
import subprocess
import sys
import tempfile
import time

SETTING = ("--batch", "128")


def time_command(method: str, *words: str) -> tuple[float, float]:
    """(seconds, processor seconds) of `engram run split-mnist/class METHOD`."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-c", "from engram.cli import main; main()"]
        before, start = os.times(), time.perf_counter()
        subprocess.run(
            [*command, "run", "split-mnist/class", method, *SETTING, *words, "--out", out, "--json"],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        seconds, after = time.perf_counter() - start, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, used


def main() -> None:
    method = sys.argv[1] if len(sys.argv) > 1 else "adam"
    time_command(method, "--steps", "1")  # the data are here, and files are in the system's cache
    seconds, used = time_command(method, "--epochs", "4")
    print(f"one run: {seconds:.1f} s, {used:.1f} s of processor time")
    seconds, _ = time_command(method, "--epochs", "4", "--seeds", "6", "--workers", "2")
    print(f"six runs with two workers: {seconds / 6:.1f} s per run")


if __name__ == "__main__":
    main()
