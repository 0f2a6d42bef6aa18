"""A study shows the runs that it asked for.

Not others of the same setting, of other data, of another search, or without its metric.
"""

import json
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import Answer, arrays

Engram = Callable[..., Answer]
STUDY = """
title = "Tiny"
seeds = 2
baseline = "adam"
[columns]
class = "split-tiny/class"
[rows]
adam = {}
er = { capacity = 20, mixing = "union" }
[training]
epochs = 1
batch = 8
[net]
hidden = [8]
"""
SEARCH = "[search]\ntrials = 4\n"


@pytest.fixture
def study(work: Path, data: Path) -> Path:
    (work / "mine.toml").write_text(STUDY)
    return work / "mine.toml"


def other_data(data: Path) -> None:
    """The same name, other images."""
    made = arrays()
    np.savez(data / "tiny.npz", **{**made, "x_train": 255 - made["x_train"], "x_test": 255 - made["x_test"]})


def means(answer: Answer) -> dict[str, tuple[float, int]]:
    assert answer.status == 0, answer.err
    return {cell["row"]: (cell["mean"], cell["n"]) for cell in answer.json}


def test_data_that_come_back_bring_their_runs_back(engram: Engram, study: Path, data: Path) -> None:
    first = means(engram("study", "mine.toml", "--seeds", "3", "--json", "--workers", "1"))
    shutil.copy(data / "tiny.npz", data.parent / "kept.npz")
    other_data(data)
    assert "4 of 4 runs missing" in engram("study", "mine.toml", "--dry-run").out
    other = means(engram("study", "mine.toml", "--seeds", "1", "--json", "--workers", "1"))
    assert all(n == 1 for _, n in other.values())
    assert other != first
    shutil.copy(data.parent / "kept.npz", data / "tiny.npz")
    again = engram("study", "mine.toml", "--seeds", "3", "--json")
    assert "6 of 6 runs recorded before" in again.err
    assert means(again) == first
    assert "0 of 6 runs missing" in engram("study", "mine.toml", "--seeds", "3", "--dry-run").out


def test_runs_in_a_file_that_is_read_later_do_not_take_the_place_of_those_just_made(
    engram: Engram, study: Path, data: Path
) -> None:
    (study.parent / "zz.toml").write_text(STUDY)
    old = means(engram("study", "zz.toml", "--json", "--workers", "1"))
    other_data(data)
    new = means(engram("study", "mine.toml", "--json", "--workers", "1"))
    assert new != old
    assert new == means(engram("study", "mine.toml", "--results", "fresh", "--json", "--workers", "1"))


def test_another_name_of_the_same_data_shows_the_same_runs(engram: Engram, study: Path, data: Path) -> None:
    first = means(engram("study", "mine.toml", "--json", "--workers", "1"))
    shutil.copy(data / "tiny.npz", data / "copy.npz")
    study.write_text(STUDY.replace("split-tiny", "split-copy"))
    renamed = engram("study", "mine.toml", "--json")
    assert "4 of 4 runs recorded before" in renamed.err
    assert means(renamed) == first


def test_a_metric_is_still_there_after_a_study_without_it(engram: Engram, study: Path) -> None:
    first = means(engram("study", "mine.toml", "--metric", "ece", "--json", "--workers", "1"))
    assert all(n == 2 for _, n in first.values())
    engram("study", "mine.toml", "--json", "--workers", "1")
    assert means(engram("study", "mine.toml", "--metric", "ece", "--json")) == first
    shown = {cell["row"]: cell["mean"] for cell in engram("table", "runs", "--metric", "ece", "--json").json}
    assert shown == {row: mean for row, (mean, _) in first.items()}


def test_a_search_after_plain_runs_shows_its_winners(engram: Engram, study: Path) -> None:
    study.write_text(STUDY + SEARCH)
    expected = means(engram("study", "mine.toml", "--results", "fresh", "--json", "--workers", "1"))
    found = {cell["row"]: cell["note"] for cell in engram("study", "mine.toml", "--results", "fresh", "--json").json}
    rate = float(found["adam"].removeprefix("lr ").partition(":")[0])
    study.write_text(STUDY.replace("batch = 8", f"batch = 8\nlr = {rate}"))  # the run that will win
    engram("study", "mine.toml", "--workers", "1")
    study.write_text(STUDY + SEARCH)
    assert means(engram("study", "mine.toml", "--json", "--workers", "1")) == expected


def test_each_search_shows_its_own_winner_and_says_what_it_was_chosen_on(engram: Engram, study: Path) -> None:
    tables = {}
    for name, text in {
        "four": SEARCH, "three": "[search]\ntrials = 3\n", "test": SEARCH + 'select_on = "test"\n'
    }.items():  # fmt: skip
        study.write_text(STUDY + text)
        answer = engram("study", "mine.toml", "--json", "--workers", "1")
        tables[name] = (means(answer), [cell["note"] for cell in answer.json])
    study.write_text(STUDY + SEARCH)
    again = engram("study", "mine.toml", "--json", "--workers", "1")
    assert (means(again), [cell["note"] for cell in again.json]) == tables["four"]
    assert all("best of 4 trials" in note and "test" not in note.lower() for note in tables["four"][1])
    assert all("best of 3 trials" in note for note in tables["three"][1])
    assert all("best of 4 trials, chosen on the TEST images" in note for note in tables["test"][1])


def test_the_ledger_has_what_this_study_spent_on_each_row(engram: Engram, study: Path) -> None:
    study.write_text(STUDY.replace("[training]", "small = { method = 'er', capacity = 8 }\n[training]") + SEARCH)
    assert "18 of 18 runs missing" in engram("study", "mine.toml", "--dry-run").out  # 3 rows, 4 trials and 2 seeds each
    answer = engram("study", "mine.toml", "--workers", "1")
    assert answer.status == 0, answer.err
    assert "0 of 18 runs missing" in engram("study", "mine.toml", "--dry-run").out
    ledger = answer.out.partition("Tuning ledger")[2]
    for row in ("adam", "er", "small"):
        (line,) = [line for line in ledger.splitlines() if row in line.split()]
        cells = [cell.strip() for cell in line.replace("│", "┃").strip("┃").split("┃")]
        assert (cells[0], cells[1], cells[5]) == (row, "4", "2")
        assert int(cells[2].replace(",", "")) > 0


def test_published_numbers_are_not_held_against_another_metric(engram: Engram, study: Path) -> None:
    study.write_text(STUDY.replace("adam = {}", "adam = { published = { class = [30.0, 4.0] } }"))
    own = engram("study", "mine.toml", "--json", "--workers", "1").json
    assert own[0]["paper"] == 30
    other = engram("study", "mine.toml", "--metric", "forgetting", "--json").json
    assert "paper" not in other[0]
    records = [json.loads(line) for line in (study.parent / "results/mine/records.jsonl").read_text().splitlines()]
    forgot = [record["forgetting"] for record in records if record["method"] == "adam"]
    assert other[0]["mean"] == pytest.approx(statistics.fmean(forgot))
    assert "published" not in engram("study", "mine.toml", "--metric", "forgetting").out


CANNOT = """
seeds = 2
[columns]
stream = "blurry-split-tiny/class"
class = "split-tiny/class"
[rows.er]
method = "er"
[rows.ewc]
method = "ewc"
[rows.xdg]
method = "xdg"
columns = ["class"]
"""


@pytest.mark.parametrize("search", ["", "[search]\ntrials = 2\n"])
def test_a_dry_run_names_the_cells_that_cannot_run_and_why(engram: Engram, work: Path, data: Path, search: str) -> None:
    (work / "cannot.toml").write_text(CANNOT + search)
    answer = engram("study", "cannot.toml", "--dry-run")
    assert answer.status == 1
    refused = " ".join(answer.err.split()).split("cannot run: ")
    assert len(refused) == 3
    assert refused[0].endswith("ewc in stream ")
    assert refused[1].startswith("method ewc needs task boundaries")
    assert refused[1].endswith("xdg in class ")
    assert engram("study", "cannot.toml", "--rows", "er", "--dry-run").status == 0


FAULTY = """
from dataclasses import dataclass
import engram as eg
from engram.scenarios.split import Split

@dataclass
class Unmade(eg.Method):
    name = "unmade"
    def __post_init__(self):
        super().__post_init__()
        len(3)

@dataclass
class Unstarted(eg.Method):
    name = "unstarted"
    def start(self, learner, tasks):
        self.nothing.append(1)

@dataclass
class Mistyped(eg.Method):
    name = "mistyped"
    def after_step(self, learner):
        pass

@dataclass
class Leaves(eg.Method):
    name = "leaves"
    def start(self, learner, tasks):
        raise SystemExit("left")

@dataclass(frozen=True, eq=False)
class Undrawn(Split):
    name = "undrawn"
    def tasks(self, seed=0):
        return super().tasks(seed)
"""
FAULTS = {
    "unmade": "TypeError: object of type 'int' has no len() (faulty.py, line 11)",
    "unstarted": "AttributeError: 'Unstarted' object has no attribute 'nothing' (faulty.py, line 17)",
    "mistyped": "TypeError: Mistyped.after_step(self, learner) cannot be called",
    "leaves": "SystemExit: left (faulty.py, line 29)",
    "hal": "capacity 1 has no image for each of 2 tasks",
}


@pytest.fixture
def faulty(work: Path, data: Path) -> None:
    (work / "faulty.py").write_text(FAULTY)
    rows = "".join(f"[rows.{name}]\n" for name in FAULTS) + 'memory = "ring"\ncapacity = 1\n'
    columns = '[columns]\nclass = "split-tiny/class"\ndrawn = "undrawn-tiny/class"\n'
    (work / "faulty.toml").write_text(f'file = "faulty.py"\n{columns}{rows}')


@pytest.mark.usefixtures("faulty")
def test_a_dry_run_tells_faults_in_ones_own_code(engram: Engram) -> None:
    answer = engram("study", "faulty.toml", "--dry-run")
    assert answer.status == 1
    told = " ".join(answer.err.split())
    assert all(f"{name} in class cannot run: {fault}" in told for name, fault in FAULTS.items())
    assert "hal in drawn cannot run: scenario undrawn-tiny/class cannot be drawn: TypeError: Undrawn.tasks()" in told


@pytest.mark.usefixtures("faulty")
@pytest.mark.parametrize("name", [name for name in FAULTS if name != "hal"])
def test_a_dry_run_of_one_run_tells_them_too(engram: Engram, name: str) -> None:
    answer = engram("run", "split-tiny/class", name, "--file", "faulty.py", "--dry-run")
    assert answer.status == 2
    assert answer.err.startswith(f"engram: {FAULTS[name]}")


@pytest.mark.usefixtures("faulty")
def test_a_study_with_a_method_that_cannot_be_made_says_so(engram: Engram) -> None:
    answer = engram("study", "faulty.toml", "--rows", "mistyped", "--columns", "class")
    assert answer.status == 2
    assert answer.err.startswith(f"engram: {FAULTS['mistyped']}")
