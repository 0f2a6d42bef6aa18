"""Records: a line each, whole or skipped, none lost."""

import fcntl
import json
import math
import subprocess
import sys
import threading

import pandas
import pytest

from engram.runs.records import Record, append_record, read_records


def record(key: str = "k", **values) -> Record:
    return Record(key=key, scenario="split-own/class", method="adam", seed=0, spec={"seed": 0}, status="done", **values)


FULL = record(
    "full", accuracy=[[90.0], [80.5, 70.25]], average_accuracy=75.375, forgetting=9.5, backward_transfer=-9.5,
    average_incremental_accuracy=82.6875, forward_transfer=0.1 + 0.2, pooled_accuracy=75.0, losses=[0.1, 1e-17],
    curve=[{"step": 5, "task": 1, "current": 50.0, "first": 50.0}], steps=12, seconds=0.5,
    memory={"kept": {"buffer": 7}, "working": {}}, environment={"dirty": False},
    error="größer",
)  # fmt: skip


def test_a_record_comes_back_as_it_was(tmp_path):
    path = tmp_path / "some" / "folder" / "records.jsonl"
    for one in (record("a"), FULL, record("b", steps=0, forgetting=0.0)):
        append_record(path, one)
    assert read_records(path) == [record("a"), FULL, record("b", steps=0, forgetting=0.0)]
    assert path.read_text().count("\n") == 3


def test_a_line_has_the_keys_that_are_promised():
    promised = {"key", "spec", "status", "accuracy", "average_accuracy", "forgetting", "steps", "seconds", "memory"}
    assert promised <= json.loads(record().to_json()).keys()
    assert promised | {"environment"} <= json.loads(FULL.to_json()).keys()


def test_unknown_keys_are_ignored():
    line = json.dumps({**json.loads(FULL.to_json()), "from the future": [1]})
    assert Record.from_json(line) == FULL


def test_there_need_not_be_a_file(tmp_path):
    assert read_records(tmp_path / "none.jsonl") == []


@pytest.mark.parametrize("cut", [1, 20, 60, 150])
def test_a_torn_last_line_is_reported_and_skipped_and_kept_away_from(tmp_path, cut):
    path = tmp_path / "records.jsonl"
    append_record(path, record("a"))
    append_record(path, FULL)
    whole = path.read_bytes()
    path.write_bytes(whole[: -cut - 1])  # the line end too
    said = []
    assert read_records(path, say=said.append) == [record("a")]
    assert said == [f"{path}, line 2: not a whole record, skipped"]
    append_record(path, record("c"))
    said.clear()
    assert read_records(path, say=said.append) == [record("a"), record("c")]
    assert len(said) == 1


def test_a_record_without_its_line_end_is_still_one(tmp_path):
    path = tmp_path / "records.jsonl"
    append_record(path, record("a"))
    path.write_bytes(path.read_bytes()[:-1])
    append_record(path, record("b"))
    said = []
    assert [r.key for r in read_records(path, say=said.append)] == ["a", "b"]
    assert said == []


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"seed": 1' + "0" * 5000 + "}",
        "{}",
        "[]",
        "7",
        "null",
        '"text"',
        '{"key": "a"}',
        "\x00\x00",
        "\udcff",
    ],
)
def test_a_line_that_is_no_record_is_skipped(tmp_path, line):
    path = tmp_path / "records.jsonl"
    append_record(path, record("a"))
    with path.open("ab") as file:
        file.write(line.encode(errors="surrogateescape") + b"\n\n")
    append_record(path, record("b"))
    said = []
    assert [r.key for r in read_records(path, say=said.append)] == ["a", "b"]
    assert len(said) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"average_accuracy": "50"},
        {"average_accuracy": math.nan},
        {"accuracy": [["a"]]},
        {"accuracy": [[math.inf]]},
        {"search": []},
        {"search": {"stage": "trial"}},
        {"spec": {"method": 3}},
        {"environment": {"data": 3}},
        {"seed": "0"},
        {"memory": []},
    ],
)
def test_a_line_whose_values_are_of_other_types_is_skipped(tmp_path, wrong):
    path = tmp_path / "records.jsonl"
    append_record(path, record("a"))
    with path.open("a") as file:
        file.write(json.dumps(json.loads(record("b").to_json()) | wrong) + "\n")
    said = []
    assert [r.key for r in read_records(path, say=said.append)] == ["a"]
    assert said == [f"{path}, line 2: not a whole record, skipped"]


def test_a_line_that_another_is_writing_is_waited_for(tmp_path):
    """Half a line is on the disk, and its writer holds the lock: it is not a torn one."""
    path = tmp_path / "records.jsonl"
    line = record("a").to_json().encode() + b"\n"
    with path.open("ab", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(line[:50])
        other = threading.Thread(target=append_record, args=(path, record("b")))
        other.start()
        other.join(0.3)  # it cannot end before the lock is given back
        file.write(line[50:])
    other.join(30)
    said = []
    assert [r.key for r in read_records(path, say=said.append)] == ["a", "b"]
    assert said == []


APPENDS = """
import sys
from pathlib import Path
from engram.runs.records import Record, append_record
print("ready", flush=True)
sys.stdin.readline()
for i in range(50):
    append_record(Path(sys.argv[1]), Record(f"{sys.argv[2]}-{i}", "s", "m", i, {"long": "x" * 20_000}, "done"))
"""


def test_two_processes_at_once_lose_no_record(tmp_path):
    path = tmp_path / "records.jsonl"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", APPENDS, str(path), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in "ab"
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:  # both are waiting for this
        writer.stdin.write("\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=60)
        assert writer.returncode == 0
    said = []
    keys = [r.key for r in read_records(path, say=said.append)]
    assert said == []
    assert sorted(keys) == sorted(f"{name}-{i}" for name in "ab" for i in range(50))


def test_pandas_reads_records_in_one_line(tmp_path):
    path = tmp_path / "records.jsonl"
    for one in (record("a", average_accuracy=70.5), FULL, record("c")):
        append_record(path, one)
    frame = pandas.read_json(path, lines=True)
    assert frame.key.tolist() == ["a", "full", "c"]
    assert frame.average_accuracy.tolist()[:2] == [70.5, 75.375]
    assert math.isnan(frame.average_accuracy[2])
    assert frame.accuracy[1] == [[90.0], [80.5, 70.25]]
    assert frame.spec[0] == {"seed": 0}
