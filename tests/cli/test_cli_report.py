"""`engram report` and `engram serve`: from records to a page, and what they refuse."""

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_helpers import Answer

from engram.runs.records import Record, append_record

Engram = Callable[..., Answer]
Start = Callable[..., "subprocess.Popen[str]"]


def made(path: Path, **changes: object) -> Path:
    values = {
        "key": "k", "scenario": "split-mnist/class", "method": "adam", "seed": 0, "spec": {"seed": 0}, "status": "done",
        "average_accuracy": 20.0,
    }  # fmt: skip
    append_record(path, Record(**{**values, **changes}))
    return path


def data_of(page: Path) -> dict:
    text = page.read_text(encoding="utf-8").partition('id="data">')[2].partition("</script>")[0]
    return json.loads(text)


def test_all_records_of_results_become_one_file(engram: Engram, work: Path) -> None:
    made(work / "results/a.jsonl")
    made(work / "results/b.jsonl", key="l", method="own", seed=1)
    (work / "results/notes.txt").write_text("no record")
    answer = engram("report")
    assert (answer.status, answer.out) == (0, "")
    assert "report.html: " in answer.err
    data = data_of(work / "report.html")
    assert (data["records"], data["sources"]) == (2, "results/a.jsonl, results/b.jsonl")
    assert [setting["mean"] for setting in data["settings"].values()] == [20.0, 20.0]


def test_files_and_folders_can_be_named(engram: Engram, work: Path) -> None:
    made(work / "runs/a.jsonl")
    made(work / "runs/search/mine/records.jsonl", key="m", method="ewc")
    made(work / "more.jsonl", key="l", method="si")
    assert engram("report", "runs", "more.jsonl", "--out", "deep/page.html").status == 0
    assert data_of(work / "deep/page.html")["records"] == 3


def test_a_torn_line_is_reported_and_the_rest_is_shown(engram: Engram, work: Path) -> None:
    file = made(work / "results/a.jsonl")
    file.write_text(file.read_text() + '{"key": "half')
    answer = engram("report")
    assert "line 2: not a whole record" in answer.err
    assert data_of(work / "report.html")["records"] == 1


def test_samples_are_put_into_the_page(engram: Engram, work: Path) -> None:
    made(work / "results/a.jsonl", key="abc", method="dgr")
    folder = work / "samples"
    folder.mkdir()
    (folder / "abc-task-1.png").write_bytes(b"\x89PNG\r\n\x1a\nrest")
    (folder / "other.png").write_bytes(b"<svg onload=alert(1)>")
    answer = engram("report", "--samples", folder)
    assert "other.png is not a PNG file, left out" in answer.err
    (sample,) = data_of(work / "report.html")["samples"]
    assert (sample["task"], sample["uri"][:22]) == ("1", "data:image/png;base64,")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["report"], "no records in results"),
        (["report", "empty.jsonl"], "no records in empty.jsonl"),
        (["report", "other.jsonl"], "line 1: not a whole record, skipped\nengram: no records in other.jsonl"),
        (["report", "nowhere.jsonl"], "records nowhere.jsonl do not exist"),
        (["report", "a.jsonl", "--samples", "nowhere"], "samples nowhere is not a folder"),
        (["report", "a.jsonl", "--out", "folder"], "out folder is a folder"),
        (["report", "a.jsonl", "--out", "a.jsonl/page.html"], "is not a folder"),
        (["serve", "nowhere"], "records nowhere do not exist"),
        (["serve", "--port", "70000"], "port 70000 is out of range"),
    ],
)
def test_wrong_calls_are_refused(engram: Engram, work: Path, call: list[str], words: str) -> None:
    made(work / "a.jsonl")
    (work / "folder").mkdir()
    (work / "empty.jsonl").touch()
    (work / "other.jsonl").write_text("{}\n")
    before = sorted(work.iterdir())
    answer = engram(*call)
    assert answer.status == 2
    assert words in answer.err
    assert sorted(work.iterdir()) == before


def test_a_report_is_made_without_torch(work: Path) -> None:
    made(work / "results/a.jsonl")
    code = (
        "import sys\nfrom engram.cli import main\n"
        "try:\n    main()\n"
        "finally:\n    print(','.join({'torch', 'matplotlib'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, "report"], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_serve_says_where_it_is_and_ends_by_ctrl_c(start: Start, work: Path) -> None:
    made(work / "results/a.jsonl")
    process = start("serve")
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    with urllib.request.urlopen(f"{address}data.json", timeout=20) as answer:
        assert json.load(answer)["records"] == 1
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize(
    "call",
    [
        ["ewc", "--net", "cnn", "--pad", "11", "--heads", "zero"],
        ["si", "--coef", "0", "--lr", "0.01", "--hidden", "7", "5", "--normalize", "none", "--drop-last"],
        ["rehearsal+online-ewc", "--online-ewc.coef", "2.5", "--rehearsal.capacity", "8", "--no-mask"],
        ["lwf", "--temperature", "3", "--epochs", "1"],
        ["adam", "--normalize", "0.5", "0.25", "--forward-transfer", "--threads", "2", "--steps", "3"],
    ],
)
def test_the_command_of_a_setting_repeats_it(engram: Engram, work: Path, data: Path, call: list[str]) -> None:
    """Run it, read the command off the page, and the same key comes out."""
    import shlex

    length = () if "--steps" in call else ("--epochs", "1")
    (record,) = engram("run", "split-tiny/class", *call, *length, "--seed", "3", "--json").records
    engram("report", "runs")
    (setting,) = data_of(work / "report.html")["settings"].values()
    program, *words = shlex.split(setting["command"])
    assert program == "engram"
    assert engram(*words, "--json").records[0]["key"] == record["key"]
