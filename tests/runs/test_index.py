"""Indexes of large files: the same records as without, brought up to date, made anew, and never in the way."""

import json
import os
import sqlite3
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

from engram.runs import index
from engram.runs.index import IndexedFile
from engram.runs.indexed import IndexedRecord
from engram.runs.records import Record, append_record, parse_records, read_records
from engram.runs.setting import group_by_setting
from engram.runs.store import Store

LINES = (Path(__file__).parents[2] / "results/hsu2018/table2.jsonl").read_text().splitlines()[:60]
SEARCH = (Path(__file__).parents[2] / "results/search/split-mnist-domain/records.jsonl").read_text().splitlines()[:5]


@pytest.fixture(autouse=True)
def small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "LEAST_SIZE", 1)
    monkeypatch.setattr(index, "RECORDS_PER_CHUNK", 7)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    odd = json.loads(LINES[0])
    odd["spec"]["seed"] = 99  # not the record's
    bare = {**odd, "spec": {}, "environment": {}, "extra": {"own": [[1.5]]}}
    failed = {**odd, "key": "f", "status": "failed", "error": "Traceback\n  x", "accuracy": []}
    path = tmp_path / "records.jsonl"
    more = [json.dumps(one) for one in (odd, bare, failed)]
    path.write_text("\ufeff" + "\n".join([*LINES, "torn {", "", *SEARCH, *more]) + "\n", encoding="utf-8")
    return path


def plainly(path: Path) -> tuple[list[Record], list[str]]:
    said: list[str] = []
    return parse_records(path.read_text(encoding="utf-8"), path, 1, said.append), said


def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines that are parsed from now on, while an index is made."""
    lines: list[str] = []
    plain = index.sound_record
    monkeypatch.setattr(index, "sound_record", lambda line: lines.append(line) or plain(line))
    return lines


def check(path: Path) -> None:
    """Every field of every record is as without an index, and so is what is said."""
    said: list[str] = []
    found = read_records(path, say=said.append)
    expected, told = plainly(path)
    assert said == told
    assert [asdict(record) for record in found] == [asdict(record) for record in expected]
    assert [record.stated for record in found] == [record.stated for record in expected]
    assert all(type(record) is IndexedRecord for record in found)
    groups, others = group_by_setting(found), group_by_setting(expected)
    assert [(s, [r.key for r in runs.records]) for s, runs in groups.items()] == [
        (s, [r.key for r in runs.records]) for s, runs in others.items()
    ]


def test_records_are_the_same_with_and_without_an_index(path: Path, monkeypatch) -> None:
    check(path)
    assert (path.parent / ".records.jsonl.index").is_file()
    lines = parsed(monkeypatch)
    found = IndexedFile(path)
    found.read(lambda _: None)
    assert found.records[3].average_accuracy == json.loads(LINES[3])["average_accuracy"]
    assert lines == []  # nothing was parsed
    assert found.records[3].extra == {}
    assert "accuracy" not in vars(found.records[3])  # and this is read when it is asked for
    assert found.records[3].accuracy == json.loads(LINES[3])["accuracy"]
    check(path)


def test_what_is_appended_is_added_and_nothing_else_is_read_again(path: Path, monkeypatch) -> None:
    check(path)
    append_record(path, plainly(path)[0][0])
    lines = parsed(monkeypatch)
    IndexedFile(path).read(lambda _: None)
    assert len(lines) == 1
    IndexedFile(path).read(lambda _: None)
    assert len(lines) == 1
    with path.open("a") as file:
        file.write(LINES[5][:100])  # being written, or torn
    check(path)
    with path.open("a") as file:
        file.write(LINES[5][100:] + "\n")
    check(path)


def test_a_line_edited_in_place_is_seen_whatever_the_files_time_says(path: Path) -> None:
    check(path)
    before = path.stat()
    content = path.read_bytes()
    value = json.loads(LINES[2])["average_accuracy"]
    changed = content.replace(
        f'"average_accuracy": {value}'.encode(), f'"average_accuracy": {value + 10}'.encode()[: -0 or None], 1
    )
    changed = content.replace(b'"status": "done"', b'"status": "dome"', 1)
    assert len(changed) == len(content)
    path.write_bytes(changed)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    check(path)
    assert read_records(path, say=lambda _: None)[0].status == "dome"


def test_an_index_that_came_with_another_file_does_not_count(path: Path, tmp_path: Path) -> None:
    """As in an archive that somebody else made: its index could say anything."""
    check(path)
    other = tmp_path / "other"
    other.mkdir()
    (other / path.name).write_bytes(path.read_bytes())
    (other / ".records.jsonl.index").write_bytes((tmp_path / ".records.jsonl.index").read_bytes())
    found = IndexedFile(other / path.name)
    found.load_index()
    assert found.records
    assert not found.is_current((other / path.name).stat())
    check(other / path.name)


@pytest.mark.parametrize("damage", ["flip", "cut", "text", "empty", "format"])
def test_a_damaged_index_is_made_anew(path: Path, damage: str) -> None:
    check(path)
    place = path.parent / ".records.jsonl.index"
    content = bytearray(place.read_bytes())
    if damage == "flip":
        for at in range(5000, len(content), 997):
            content[at] ^= 4
    elif damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "format":
        content = content.replace(b"engram index 2", b"engram index 0")
    else:
        content = bytearray(b"hello" if damage == "text" else b"")
    place.write_bytes(content)
    check(path)
    sound = IndexedFile(path)
    sound.load_index()
    assert sound.records  # it is whole again


def test_an_index_with_a_view_is_not_read(path: Path) -> None:
    """A view may give rows without end."""
    check(path)
    place = path.parent / ".records.jsonl.index"
    endless = "WITH RECURSIVE c(name, value) AS (SELECT 'a', 1 UNION ALL SELECT 'a', value + 1 FROM c) SELECT * FROM c"
    with closing(sqlite3.connect(place)) as base, base:
        base.execute("DROP TABLE state")
        base.execute(f"CREATE VIEW state AS {endless}")
    check(path)


def test_a_flipped_digit_in_an_index_is_not_believed(path: Path) -> None:
    check(path)
    place = path.parent / ".records.jsonl.index"
    value = str(json.loads(LINES[2])["average_accuracy"]).encode()
    content = place.read_bytes()
    assert value in content
    place.write_bytes(content.replace(value, bytes([value[0] ^ 1]) + value[1:]))
    check(path)


def test_where_no_index_can_be_written_records_are_read_all_the_same(path: Path, monkeypatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise index.sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr(index.sqlite3, "connect", refuse)
    check(path)
    assert [file.name for file in path.parent.iterdir()] == ["records.jsonl"]


def test_a_store_reads_through_the_index_and_then_what_is_new(path: Path, monkeypatch) -> None:
    said: list[str] = []
    store = Store(path.parent, said.append)
    expected, told = plainly(path)
    assert store.finished().keys() == {record.key for record in expected if record.status != "failed"}
    assert (said, all(record.reused for record in store.finished().values())) == (told, True)
    lines = parsed(monkeypatch)
    new = Record("new", "split-own/class", "adam", 0, {"seed": 0}, "done")
    store.add(new)
    assert store.finished()["new"].key == "new"
    assert lines == []
    assert said == told
    with path.open("a") as file:
        file.write(LINES[5][:100])
    torn = Store(path.parent, said.append)
    torn.finished()
    assert said == [*told, *told, f"{path}, line 72: not a whole record, skipped"]
