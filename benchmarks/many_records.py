"""Processor time of commands that read many records, with and without an index.

`python benchmarks/many_records.py 100000`

The records are made up: settings that differ in method and learning rate, 100 seeds each. Every command is a process of
its own; `without` hides the index (as in 0.1, each file is parsed), `first` makes it, `with` uses it.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "results" / "hsu2018" / "table2.jsonl"
COMMANDS = {
    "ls runs": ["ls", "runs", "runs", "--json"],
    "compare": ["compare", "table2", "--results", "runs"],
    "table": ["table", "runs", "--columns", "scenario"],
    "report": ["report", "runs", "--out", "report.html"],
}
RESUME = "from pathlib import Path; from engram.runs.store import Store; print(len(Store(Path('runs')).finished()))"
HIDDEN = "import engram.runs.index as i; i.LEAST_SIZE = 1 << 60; "


def make_records(path: Path, count: int) -> None:
    """Records like those of Table 2 with other learning rates, seeds and accuracies."""
    rng = random.Random(0)
    models = [json.loads(line) for line in SOURCE.read_text().splitlines()]
    by_method = list({(one["scenario"], one["method"]): one for one in models}.values())
    path.parent.mkdir(parents=True)
    with path.open("w") as file:
        for i in range(count):
            setting, seed = divmod(i, 100)
            record = json.loads(json.dumps(by_method[setting % len(by_method)]))
            changed = setting // len(by_method)
            if changed:
                record["spec"]["training"]["lr"] = 0.001 + changed / 1000
            record["seed"] = record["spec"]["seed"] = seed
            record["key"] = f"{i:016x}"
            shift = rng.uniform(-1, 1)
            record["accuracy"] = [[min(100.0, abs(a + shift)) for a in row] for row in record["accuracy"]]
            record["average_accuracy"] = sum(record["accuracy"][-1]) / len(record["accuracy"][-1])
            file.write(json.dumps(record) + "\n")


def spent() -> float:
    """Processor time of all processes that ended; others at work on this machine do not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds(code: str, folder: Path) -> float:
    started = spent()
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{code}\n{done.stderr}")
    return spent() - started


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_records(folder / "runs" / "records.jsonl", count)
        size = (folder / "runs" / "records.jsonl").stat().st_size
        print(f"{count:,} records, {size / 1e6:.0f} MB; load of the machine: {os.getloadavg()[0]:.1f}")
        nothing = seconds("import engram.runs.store, engram.cli.compare", folder)
        print(f"starting Python with what these commands import: {nothing:.2f} s")
        codes = {"resume": RESUME}
        for name, words in COMMANDS.items():
            codes[name] = f"from engram.cli import main; main({words!r})"
        before = {name: seconds(HIDDEN + code, folder) for name, code in codes.items()}
        print(f"making the index: {seconds(RESUME, folder):.1f} s")
        after = {name: seconds(code, folder) for name, code in codes.items()}
        print(f"{'':10}{'without':>10}{'with':>10}")
        for name in codes:
            print(f"{name:10}{before[name]:9.2f}s{after[name]:9.2f}s")


if __name__ == "__main__":
    main()
