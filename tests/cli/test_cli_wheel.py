"""The wheel holds all that the package needs, and works from a folder of its own."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys
import engram
from engram.cli import main

print(json.dumps({"file": engram.__file__}), flush=True)
for call in (
    ["ls", "methods", "--json"],
    ["compare", "table2", "--json"],
    ["compare", "buzzega2020/table2", "--json"],
    ["compare", "vandeven2022/table2", "--json"],
    ["run", "split-tiny/class", "adam", "--epochs", "1", "--json"],
    ["study", "tiny.toml", "--workers", "1", "--json"],
):
    try:
        main(call)
    except SystemExit as ended:
        assert not ended.code, (call, ended.code)
    sys.stdout.flush()
from engram.bench.measure import load_yardstick
print(json.dumps({"yardstick": load_yardstick("dataloader").__file__}))
"""
STUDY = """
seeds = 2
columns.class = "split-tiny/class"
rows = { adam = {}, er = { capacity = 20 } }
training.epochs = 1
"""


def ran(*command: str | Path, cwd: Path, **environment: str) -> str:
    import os

    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist, which is built from a copy, so that the checkout stays as it is; needs no index."""
    tree = tmp_path_factory.mktemp("tree")
    leave = shutil.ignore_patterns("__pycache__", ".*")
    for name in ("engram", "benchmarks", "results"):
        shutil.copytree(ROOT / name, tree / name, ignore=leave)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    ran(sys.executable, "-m", "build", "--no-isolation", "--outdir", tree / "out", ".", cwd=tree)
    (built,) = (tree / "out").glob("engram-*.whl")
    return built


def test_it_holds_the_data_files(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    page = [f"engram/report/page/assets/{name}" for name in ("template.html", "style.css", "page.js")]
    for name in (
        "engram/py.typed",
        "engram/studies/hsu2018/table2.toml",
        "engram/runs/defaults.toml",
        "engram/benchmarks/dataloader.py",
        *page,
    ):
        assert name in names
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"engram"}
    assert not [name for name in names if name.endswith((".pyc", ".pt", ".npz"))]
    records = {str(path.relative_to(ROOT / "results")) for path in (ROOT / "results").rglob("*.jsonl")}
    assert {name.removeprefix("engram/records/") for name in names if name.endswith(".jsonl")} == records


@pytest.mark.slow
def test_it_works_where_it_is_installed(wheel: Path, data: Path, work: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-compile")
    ran(sys.executable, *pip, "--target", site, wheel, cwd=work)
    assert (site / "bin/engram").exists()
    (work / "tiny.toml").write_text(STUDY, encoding="utf-8")
    out = ran(sys.executable, "-P", "-c", PROGRAM, cwd=work, PYTHONPATH=str(site))
    place, methods, table, buzzega, vandeven, record, study, yardstick = map(json.loads, out.splitlines())
    assert Path(place["file"]).is_relative_to(site)
    assert {"adam", "sgd", "adagrad", "offline"} <= {method["method"] for method in methods}
    assert len(table) == 45
    assert {cell["verdict"] for cell in table} == {"agrees"}  # from the records that come with the package
    assert (len(buzzega), len(vandeven)) == (56, 34)
    assert [(cell["row"], cell["n"]) for cell in study] == [("adam", 2), ("er", 2)]
    assert record["status"] == "done"
    assert (record["environment"]["commit"], record["environment"]["dirty"]) == (None, None)
    assert Path(yardstick["yardstick"]).is_relative_to(site)
