"""Methods of one's own on the command line: what they need is enforced, and where they fail is said."""

from pathlib import Path

import pytest

from engram.core.registry import METHODS

FLAGS = ("--hidden", "8", "--epochs", "1", "--batch", "8")
GATED = """
from dataclasses import dataclass

import engram as eg


@dataclass
class Gated(eg.Method):
    needs = frozenset({"task identity"})

    def scores(self, learner, x, task):
        return learner.logits(x) * (1 + task)
"""
FAILING = """
from dataclasses import dataclass

import engram as eg


@dataclass
class Failing(eg.Method):
    def after_step(self, learner, batch):
        raise RuntimeError("too late")
"""


@pytest.fixture(autouse=True)
def _apart(data, work, monkeypatch):
    monkeypatch.setattr(METHODS, "added", {})
    monkeypatch.setattr("engram.core.userfile._LOADED", {})


def test_task_identity_is_refused_outside_task_learning_unless_it_is_given_and_recorded(engram, tmp_path: Path):
    file = tmp_path / "gated.py"
    file.write_text(GATED)
    call = ("run", "split-tiny/domain", "gated", "--file", file, *FLAGS, "--json")
    refused = engram(*call)
    assert refused.status == 2
    assert "Gated needs task identity, which domain learning does not have" in refused.err
    assert "--give-task-identity" in refused.err
    given = engram(*call, "--give-task-identity")
    assert given.status == 0, given.err
    assert given.records[0]["spec"]["evaluation"]["give_task_identity"] is True


def test_a_failure_names_the_file_the_line_and_the_record(engram, tmp_path: Path):
    file = tmp_path / "failing.py"
    file.write_text(FAILING)
    answer = engram("run", "split-tiny/class", "failing", "--file", file, *FLAGS)
    assert answer.status == 1
    assert (
        "RuntimeError: too late (failing.py, line 10); the whole traceback is in the field error of record"
        in answer.err
    )


def test_a_class_without_a_docstring_has_no_signature_in_its_place(engram, tmp_path: Path):
    file = tmp_path / "gated.py"
    file.write_text(GATED)
    listed = engram("ls", "methods", "--file", file, "--all")
    assert "no docstring" in listed.out
    helped = engram("run", "split-tiny/task", "gated", "--file", file, "--help")
    for answer in (listed, helped):
        assert answer.status == 0, answer.err
        assert "Gated(" not in answer.out


STUDY = """
seeds = 1
[columns]
task = "split-tiny/task"
[rows]
mine = { file = "v1/gated.py", method = "gated" }
"""


def test_files_of_a_call_and_of_its_study_cannot_define_the_same_name(engram, work: Path):
    for version in ("v1", "v2"):
        (work / version).mkdir()
        (work / version / "gated.py").write_text(f"{GATED}\n# {version}\n")
    (work / "mine.toml").write_text(STUDY)
    for call in (
        ("run", "split-tiny/task", "gated", "--file", "v1/gated.py", "--file", "v2/gated.py", *FLAGS),
        ("study", "mine.toml", "--file", "v2/gated.py", "--dry-run"),
    ):
        refused = engram(*call)
        assert (refused.status, refused.out) == (2, "")
        assert "defines the method gated, and so does" in refused.err
        assert all(f"{version}/gated.py" in refused.err for version in ("v1", "v2"))
        assert "rename one of the two files" in refused.err
    for file in ("v1/gated.py", "./v1/../v1/gated.py"):  # the study's own
        assert engram("study", "mine.toml", "--file", file, "--dry-run").status == 0
    assert engram("ls", "methods", "--file", "v2/gated.py").status == 0
