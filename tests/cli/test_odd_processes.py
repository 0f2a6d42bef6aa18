"""Closed standard streams, an output that takes ASCII only, few open files, long names: words, and no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "results"
COMPARE = f"compare table2 --rows adam --results {RESULTS}"


def engram(arguments: str, shell: str = "", **variables: str) -> subprocess.CompletedProcess[bytes]:
    """The command in a shell, where streams can be closed and limits set."""
    command = f"{shell} exec {sys.executable} -c 'from engram.cli import main; main()' {arguments}"
    told = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    return subprocess.run(["/bin/sh", "-c", command], env=told, capture_output=True, check=False)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_silence(closed: str, tmp_path: Path) -> None:
    done = engram(f"{COMPARE} --format csv --out {tmp_path / 'table.csv'} {closed}")
    assert (done.returncode, done.stdout) == (0, b"")
    assert (tmp_path / "table.csv").read_text().startswith("row,")  # and nothing of a stream got into it


def test_an_output_that_takes_ascii_only_gets_question_marks() -> None:
    plain = engram(COMPARE, PYTHONIOENCODING="ascii")
    assert plain.returncode == 0, plain.stderr
    assert b"? " in plain.stdout
    assert plain.stdout.isascii()
    assert b"\xc2\xb1" in engram(COMPARE, PYTHONIOENCODING="utf-8").stdout  # ±


@pytest.mark.parametrize("files", [6, 20])
def test_few_open_files_are_enough_or_are_named(files: int) -> None:
    done = engram(COMPARE, shell=f"ulimit -n {files};")
    assert b"Traceback" not in done.stderr
    assert done.returncode == 0 or b"raise the limit (ulimit -n)" in done.stderr


LONG = "x" * 300


@pytest.mark.parametrize(
    "arguments",
    [
        f"compare {LONG}.toml", f"ls runs {LONG}", f"report {LONG}", f"diff {LONG} {LONG}", f"table {LONG}",
        f"verify --results {LONG}", f"study {LONG}.toml", f"{COMPARE} --out {LONG}", f"compare table2 --results {LONG}",
    ],
)  # fmt: skip
def test_a_name_of_300_characters_is_refused_in_a_line(arguments: str, capsys, monkeypatch, tmp_path) -> None:
    from engram.cli import dispatch

    monkeypatch.chdir(tmp_path)
    assert dispatch(arguments.split()) == 2
    assert LONG in capsys.readouterr().err


def test_the_package_runs_as_a_module_also_with_workers(data: Path, work: Path) -> None:
    call = "run split-tiny/class sgd --epochs 1 --seeds 2 --workers 2"
    told = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-m", "engram", *call.split()], env=told, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len((work / "runs" / "records.jsonl").read_text().splitlines()) == 2
