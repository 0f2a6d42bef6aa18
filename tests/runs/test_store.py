"""The folder of a sweep: records are read once, and a key belongs to one driver at a time."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engram.core import durable, system
from engram.runs import records, store
from engram.runs.records import Record, append_record, read_records
from engram.runs.store import Store


def record(key: str, status: str = "done", **values) -> Record:
    return Record(key=key, scenario="split-own/class", method="adam", seed=0, spec={"seed": 0}, status=status, **values)


def test_what_failed_is_not_finished_and_the_first_of_a_key_counts(tmp_path):
    for file, one in (
        ("b.jsonl", record("x", steps=2)),
        ("a.jsonl", record("x", "failed")),
        ("a.jsonl", record("y", "diverged")),
        ("c.jsonl", record("x", steps=3)),
    ):
        append_record(tmp_path / file, one)
    found = Store(tmp_path).finished()
    assert {key: one.steps for key, one in found.items()} == {"x": 2, "y": 0}
    assert all(one.reused for one in found.values())


def test_every_line_is_read_once_also_what_others_add(tmp_path, monkeypatch):
    parsed, plain = [], records.parse_records
    path, said = tmp_path / "records.jsonl", []

    def watched(text, path, first, say):
        parsed.extend([text] if say == said.append else [])  # what the first of the two reads
        return plain(text, path, first, say)

    monkeypatch.setattr(store, "parse_records", watched)
    mine, other = Store(tmp_path, said.append), Store(tmp_path)
    for i in range(20):
        (mine if i % 2 else other).add(record(f"k{i}"))
        assert set(mine.finished()) == {f"k{j}" for j in range(i + 1)}
    assert "".join(parsed) == path.read_text()
    with path.open("a") as file:
        file.write('{"key": "torn')
    assert len(mine.finished()) == 20
    assert len(mine.finished()) == 20
    assert said == [f"{path}, line 21: not a whole record, skipped"]
    other.add(record("last"))
    assert "last" in mine.finished()
    assert len(said) == 1


def test_a_file_that_was_replaced_is_read_again(tmp_path):
    path = tmp_path / "records.jsonl"
    append_record(path, record("a", steps=1))
    folder = Store(tmp_path)
    folder.finished()
    append_record(tmp_path / "new", record("b"))
    (tmp_path / "new").replace(path)
    assert set(folder.finished()) == {"a", "b"}


def test_a_key_is_locked_once_until_it_is_released(tmp_path):
    one, other = Store(tmp_path), Store(tmp_path)
    lock = one.lock_run("k")
    assert other.lock_run("k") is None
    assert one.lock_run("k") is None
    other.lock_run("another").release()
    lock.release()
    assert not list(tmp_path.iterdir())
    other.lock_run("k", wait=True).release()


def test_a_lock_whose_file_was_removed_meanwhile_is_nobodys(tmp_path, monkeypatch):
    """Between opening and locking the file the holder releases: the file that was opened is no lock any more."""
    folder = Store(tmp_path)
    lock = folder.lock_run("k")
    plain = system.fcntl.flock

    def released_just_before(file, how):
        monkeypatch.setattr(system.fcntl, "flock", plain)
        lock.release()
        plain(file, how)

    monkeypatch.setattr(system.fcntl, "flock", released_just_before)
    mine = folder.lock_run("k")
    assert folder.lock_run("k") is None
    mine.release()


def test_drivers_that_come_and_go_share_a_folder_of_locks_that_the_last_removes(tmp_path):
    def come_and_go(number: int) -> int:
        for i in range(300):
            Store(tmp_path).lock_run(f"{number}-{i}").release()
        return number

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(come_and_go, range(4))) == [0, 1, 2, 3]
    assert not list(tmp_path.iterdir())


def test_a_folder_of_locks_that_is_removed_while_a_lock_is_made_is_made_again(tmp_path, monkeypatch):
    plain = store.os.open

    def removed_just_before(path, *others):
        monkeypatch.setattr(store.os, "open", plain)
        path.parent.rmdir()
        return plain(path, *others)

    monkeypatch.setattr(store.os, "open", removed_just_before)
    Store(tmp_path).lock_run("k").release()
    assert not list(tmp_path.iterdir())


HOLDER = """
import sys
from pathlib import Path
from engram.runs.store import Store
lock = Store(Path(sys.argv[1])).lock_run("k")
print("torch" in sys.modules, flush=True)
sys.stdin.readline()
"""


def test_the_lock_of_a_process_that_is_killed_is_free(tmp_path):
    command = [sys.executable, "-c", HOLDER, tmp_path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "False\n"  # all this works without torch
        folder = Store(tmp_path)
        assert folder.lock_run("k") is None
        holder.kill()
        lock = folder.lock_run("k", wait=True)
        assert folder.lock_run("k") is None
        lock.release()


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "checkpoints").write_text("a file")
    with pytest.raises(records.UnwritableError, match=f"cannot be written to {tmp_path}"):
        Store(tmp_path).lock_run("k")


def test_a_record_takes_the_checkpoints_away_unless_it_failed(tmp_path):
    folder = Store(tmp_path)
    checkpoint = folder.checkpoints("k") / "task-1.pt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_text("")
    folder.add(record("k", "failed"))
    assert checkpoint.exists()
    folder.add(record("k"))
    assert not checkpoint.parent.exists()
    assert [one.status for one in read_records(Path(tmp_path, "records.jsonl"))] == ["failed", "done"]


def test_stray_files_are_named_once_and_skipped(tmp_path, monkeypatch):
    """An editor's lock, a pipe (which would be waited for without end), a dangling link, a folder, a closed file."""
    append_record(tmp_path / "records.jsonl", record("x"))
    append_record(tmp_path / "closed.jsonl", record("y"))
    (tmp_path / ".#records.jsonl").symlink_to("user@host.123:456")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")

    class Closed(durable.Disk):
        def open(self, path, flags):
            if path.name == "closed.jsonl":
                raise PermissionError(13, "Permission denied", str(path))
            return super().open(path, flags)

    monkeypatch.setattr(durable, "DISK", Closed())
    expected = {
        *(f"{tmp_path / name}.jsonl: not a regular file, skipped" for name in (".#records", "link", "folder", "pipe")),
        f"{tmp_path / 'closed.jsonl'} cannot be read: Permission denied; skipped",
    }
    said: list[str] = []
    found = Store(tmp_path, said.append)
    assert found.finished().keys() == found.finished().keys() == {"x"}
    assert (len(said), set(said)) == (5, expected)
    said.clear()
    assert [one.key for one in read_records(tmp_path, say=said.append)] == ["x"]
    assert (len(said), set(said)) == (5, expected)
    with pytest.raises(PermissionError):
        read_records(tmp_path / "closed.jsonl")


def test_a_byte_order_mark_hides_no_record(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text("\ufeff" + record("x").to_json() + "\n", encoding="utf-8")
    said: list[str] = []
    assert [one.key for one in read_records(path, say=said.append)] == ["x"]
    assert Store(tmp_path, said.append).finished().keys() == {"x"}
    assert said == []


def test_checkpoints_of_recorded_runs_are_removed_unless_somebody_holds_them(tmp_path):
    """A kill between appending a record and removing its checkpoints leaves them."""
    folder = Store(tmp_path)
    for key in ("done", "held", "unfinished"):
        folder.checkpoints(key).mkdir(parents=True)
        (folder.checkpoints(key) / "task-1.pt").touch()
    for key in ("done", "held"):
        append_record(tmp_path / "records.jsonl", record(key))
    lock = Store(tmp_path).lock_run("held")
    folder.remove_orphans()
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["held", "held.lock", "unfinished"]
    lock.release()


def test_without_locks_on_reading_a_line_that_is_being_written_waits(tmp_path, monkeypatch):
    def no_locks(*_, **__):
        raise OSError(37, "No locks available")

    path = tmp_path / "records.jsonl"
    append_record(path, record("whole"))
    monkeypatch.setattr(store, "lock_file", no_locks)
    text = record("half").to_json().encode()
    with path.open("ab") as file:
        file.write(text[:50])
    said: list[str] = []
    folder = Store(tmp_path, said.append)
    assert set(folder.finished()) == {"whole"}
    with path.open("ab") as file:
        file.write(text[50:] + b"\n")
    assert set(folder.finished()) == {"whole", "half"}
    assert said == []


def test_a_lock_file_that_is_a_link_is_refused_and_nothing_is_created_elsewhere(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "runs/checkpoints").mkdir(parents=True)
    (tmp_path / "runs/checkpoints/k.lock").symlink_to(elsewhere)
    with pytest.raises(records.UnwritableError, match=r"k\.lock: it is a symbolic link; remove it"):
        Store(tmp_path / "runs").lock_run("k")
    assert not elsewhere.exists()
