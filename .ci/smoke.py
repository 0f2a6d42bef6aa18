"""Builds the sdist and the wheel, installs each in a clean environment outside the checkout, and uses it there.

python .ci/smoke.py     # Linux, macOS, Windows; downloads PyTorch unless pip has it in its cache

pip's own environment variables hold: a further package index, such as that of PyTorch for the CPU, comes from there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ARRAYS = """
import numpy as np
rng = np.random.default_rng(0)
y = np.arange(200) % 4
x = (rng.integers(0, 60, (200, 6, 6)) + 40 * y[:, None, None]).astype(np.uint8)
np.savez("tiny.npz", x_train=x, y_train=y, x_test=x[:80], y_test=y[:80])
"""
STUDY = """
seeds = 2
baseline = "adam"
columns.class = "split-tiny.npz/class"
rows = { adam = {}, er = { capacity = 40 } }
training = { epochs = 1, batch = 20 }
"""
CELLS = {"hsu2018/table2": 45, "buzzega2020/table2": 56, "vandeven2022/table2": 34}


def call(*command: str | Path, cwd: Path) -> str:
    """What a command prints; its errors end the program."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "ENGRAM_DATA")}
    return subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environment, check=True, stdout=subprocess.PIPE, encoding="utf-8"
    ).stdout


def use(python: Path, folder: Path) -> None:
    """What somebody does first who has installed the package."""

    def engram(*arguments: str) -> str:
        return call(python, "-P", "-X", "utf8", "-c", "from engram.cli import main; main()", *arguments, cwd=folder)

    place = call(python, "-P", "-c", "import engram; print(engram.__file__)", cwd=folder).strip()
    assert not Path(place).is_relative_to(ROOT), place
    print(engram("--version").strip(), "in", place, flush=True)
    for table, count in CELLS.items():
        cells = json.loads(engram("compare", table, "--json"))
        assert len(cells) == count, (table, len(cells))
        agree = sum(cell["verdict"] == "agrees" for cell in cells)
        print(f"compare {table}: {count} cells, {agree} agree", flush=True)
        assert agree == count or not table.startswith("hsu2018"), cells  # from the records that come with the package
    call(python, "-c", ARRAYS, cwd=folder)
    (folder / "tiny.toml").write_text(STUDY, encoding="utf-8")
    cells = json.loads(engram("study", "tiny.toml", "--workers", "1", "--json"))
    assert [(cell["row"], cell["n"]) for cell in cells] == [("adam", 2), ("er", 2)], cells
    print("study:", ", ".join(f"{cell['row']} {cell['mean']:.1f}" for cell in cells), flush=True)
    json.loads(engram("schema", "study"))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="engram-smoke-") as temporary:
        work = Path(temporary)
        call(sys.executable, "-m", "build", "--outdir", work / "dist", ROOT, cwd=work)
        for number, pattern in enumerate(("*.whl", "*.tar.gz")):
            (built,) = (work / "dist").glob(pattern)
            home, folder = work / f"venv{number}", work / f"use{number}"
            venv.create(home, with_pip=True)
            folder.mkdir()
            python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
            call(python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", built, cwd=folder)
            print(built.name, flush=True)
            use(python, folder)


if __name__ == "__main__":
    main()
