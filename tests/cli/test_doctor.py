"""The doctor finds and mends each planted damage, and leaves a copy of what it changed."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import blobs

import engram as eg
from engram.cli import dispatch
from engram.cli.doctor import examine_datasets
from engram.data.files import Form
from engram.data.sets import CATALOG
from engram.data.sources import File
from engram.learning.train import Checkpoint
from engram.runs.checkpoints import Checkpoints
from engram.runs.doctor import Doctor
from engram.runs.records import read_records
from engram.runs.run import compute
from engram.runs.spec import Spec
from engram.runs.store import Store

RESULTS = Path(__file__).parents[2] / "results"
LINES = (RESULTS / "hsu2018/table2.jsonl").read_text().splitlines()[:4]
KEYS = [json.loads(line)["key"] for line in LINES]
UNFINISHED = Spec(eg.split(blobs(4), kind="class"), eg.Adam(), eg.MLP(3), eg.Training(epochs=1, batch=16))


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    kept: list[Checkpoint] = []
    compute(UNFINISHED, save=kept.append)
    return kept[0]


@pytest.fixture
def folder(tmp_path: Path, checkpoint: Checkpoint) -> Path:
    """Four records, and a run that can continue."""
    (tmp_path / "records.jsonl").write_text("".join(f"{line}\n" for line in LINES))
    Checkpoints(Store(tmp_path).checkpoints(UNFINISHED.key)).save(checkpoint)
    return tmp_path


def doctor(folder: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, list[dict[str, str]]]:
    status = dispatch(["doctor", str(folder), "--no-data", "--json", *flags])
    return status, json.loads(capsys.readouterr().out)


def append_text(folder: Path, text: str) -> None:
    with (folder / "records.jsonl").open("a") as file:
        file.write(text)


def change(folder: Path, number: int, **values: object) -> None:
    lines = (folder / "records.jsonl").read_text().splitlines()
    lines[number] = json.dumps({**json.loads(lines[number]), **values})
    (folder / "records.jsonl").write_text("\n".join(lines) + "\n")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def checkpoint_of(folder: Path) -> Path:
    return next(Store(folder).checkpoints(UNFINISHED.key).glob("*.pt"))


def plant_orphan(folder: Path) -> None:
    Store(folder).checkpoints(KEYS[0]).mkdir()
    (Store(folder).checkpoints(KEYS[0]) / "task-1.pt").write_bytes(b"x")


def plant_pipe(folder: Path) -> None:
    checkpoint_of(folder).unlink()
    os.mkfifo(Store(folder).checkpoints(UNFINISHED.key) / "task-1.pt")


DAMAGES: dict[str, tuple[Callable[[Path], object], str, str, list[str]]] = {
    "torn": (lambda f: append_text(f, LINES[0][:300]), "records.jsonl, line 5", "not a whole record", KEYS),
    "foreign": (lambda f: append_text(f, "hello\n"), "records.jsonl, line 5", "not a whole record", KEYS),
    "twice": (lambda f: append_text(f, LINES[1] + "\n"), "records.jsonl, line 5", "in line 2 already", KEYS),
    "key": (lambda f: change(f, 2, key="0123456789abcdef"), "line 3", "but its spec has the key", [*KEYS[:2], KEYS[3]]),
    "seed": (lambda f: change(f, 0, seed=77), "line 1", "but its spec has the key", KEYS[1:]),
    "average": (lambda f: change(f, 3, average_accuracy=99.5), "line 4", "accuracy is 99.5, but its matrix", KEYS[:3]),
    "checkpoint": (lambda f: flip(checkpoint_of(f)), "task-1.pt", "not a whole checkpoint of this run (damaged)", KEYS),
    "pipe": (plant_pipe, "task-1.pt", "not a regular file", KEYS),
    "orphan": (plant_orphan, KEYS[0], "checkpoints of a run that is recorded", KEYS),
    "empty": (lambda f: checkpoint_of(f).unlink(), UNFINISHED.key, "no checkpoint in it", KEYS),
    "part": (lambda f: checkpoint_of(f).with_suffix(".7.part").touch(), "7.part", "that was not finished", KEYS),
    "lock": (lambda f: (f / "checkpoints/k.lock").touch(), "k.lock", "a lock that nobody holds", KEYS),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_is_found_and_mended(damage: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant, where, what, left = DAMAGES[damage]
    plant(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    status, (finding,) = doctor(folder, capsys)
    assert (status, finding["mended"]) == (1, False)
    assert where in finding["where"]
    assert what in finding["what"]
    assert finding["remedy"]
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}  # it only looked

    status, (finding,) = doctor(folder, capsys, "--fix")
    assert (status, finding["mended"]) == (0, True)
    assert doctor(folder, capsys) == (0, [])
    said: list[str] = []
    assert [record.key for record in read_records(folder, say=said.append)] == left
    assert said == []
    changed = {path for path, content in before.items() if not path.exists() or path.read_bytes() != content}
    kept = [path.read_bytes() for path in (folder / "before-doctor-1").rglob("*") if path.is_file()]
    assert sorted(kept) == sorted(before[path] for path in changed)


def test_a_sound_folder_has_no_findings_and_what_can_go_on_stays(folder: Path, capsys) -> None:
    assert doctor(folder, capsys, "--fix") == (0, [])
    assert checkpoint_of(folder).is_file()
    assert not list(folder.glob("before-doctor*"))
    assert dispatch(["doctor", str(folder), "--no-data"]) == 0
    assert "0 findings" in (told := capsys.readouterr().out)
    assert "4 records, 1 run that can continue" in told


def test_several_damages_of_a_file_are_mended_at_once(folder: Path, capsys) -> None:
    append_text(folder, LINES[1] + "\nhello\n")
    change(folder, 0, seed=77)
    status, found = doctor(folder, capsys, "--fix")
    assert (status, len(found)) == (0, 3)
    assert [record.key for record in read_records(folder)] == KEYS[1:]


def test_a_line_that_was_changed_meanwhile_stays(folder: Path) -> None:
    """As if two doctors were at work: the second finds another line under the number that it noted."""
    append_text(folder, "hello\n")
    first, second = Doctor(folder).examine(), Doctor(folder).examine()
    first[0].mend()
    added = LINES[0].replace(KEYS[0], "k" * 16)
    append_text(folder, added + "\n")
    second[0].mend()
    assert (folder / "records.jsonl").read_text() == "".join(f"{line}\n" for line in [*LINES, added])


def test_nothing_is_mended_while_a_run_is_computed(folder: Path, capsys) -> None:
    append_text(folder, "hello\n")
    lock = Store(folder).lock_run("busy")
    assert dispatch(["doctor", str(folder), "--no-data", "--fix"]) == 2
    lock.release()
    assert "1 run of" in capsys.readouterr().err
    assert (folder / "records.jsonl").read_text().endswith("hello\n")


def test_a_run_of_ones_own_code_keeps_its_key(tmp_path: Path, capsys) -> None:
    """Its key cannot be recomputed without its file: that is said, and is not damage."""
    record = json.loads(LINES[0])
    record["spec"]["method"][0]["own code"] = "sha256:1234"
    (tmp_path / "records.jsonl").write_text(json.dumps(record) + "\n")
    assert dispatch(["doctor", str(tmp_path), "--no-data"]) == 0
    assert "1 key not recomputed" in capsys.readouterr().out


def test_datasets_that_are_not_as_published_are_set_aside(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("ENGRAM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    form = Form((File("a.bin", hashlib.sha256(b"right").hexdigest()),), lambda _: None, ())
    known = type(CATALOG["mnist"])(**{**vars(CATALOG["mnist"]), "forms": (form,)})
    monkeypatch.setitem(CATALOG, "mnist", known)
    (tmp_path / "mnist/.part-1").mkdir(parents=True)
    (tmp_path / "mnist/a.bin").write_bytes(b"wrong")
    found = examine_datasets()
    assert [(Path(one.where).name, one.what[:20]) for one in found] == [
        ("a.bin", "is not the published"),
        (".part-1", "part of a download t"),
    ]
    for one in found:
        one.mend()
    assert examine_datasets() == []
    assert (tmp_path / "mnist/a.bin.damaged").read_bytes() == b"wrong"
