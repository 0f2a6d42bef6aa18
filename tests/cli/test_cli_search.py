"""`engram search` and `engram diff`: what they print, record and refuse."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_helpers import Answer

Engram = Callable[..., Answer]
SEARCH = ("search", "split-tiny/domain", "sgd", "rehearsal", "--trials", "3", "--seeds", "2", "--workers", "1")


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(work: Path, data: Path) -> None:
    pass


def test_a_search_leaves_records_a_ledger_and_a_figure(engram: Engram) -> None:
    """24 training images a class, 2 of them held out: 4 passes over 2 tasks of one batch are 8 steps a run."""
    answer = engram(*SEARCH, "--json")
    assert answer.status == 0, answer.err
    found = answer.json
    assert [one["method"] for one in found] == ["sgd", "rehearsal"]
    for one in found:
        assert one["trials"] == {"runs": 3, "steps": 24, "seconds": one["trials"]["seconds"], "looks": 0}
        assert one["finals"] == {"runs": 2, "steps": 16, "seconds": one["finals"]["seconds"], "looks": 2}
        assert one["best"] >= one["median"] >= one["worst"]
        assert (one["selected_on"], one["n"]) == ("holdout", 2)
    assert found[0]["point"].keys() == {"lr"}
    assert found[1]["point"].keys() == {"mixing", "lr"}
    records = lines(Path("runs/search/records.jsonl"))
    assert [record["search"]["stage"] for record in records] == ["trial"] * 6 + ["final"] * 4
    assert {record["seed"] for record in records[:6]} == {1000}
    assert [record["seed"] for record in records[6:]] == [0, 0, 1, 1]
    assert {record["environment"]["data"]["tiny"] for record in records} == {
        records[0]["spec"]["scenario"]["images"]["tiny"]  # type: ignore[index]
    }
    assert Path("runs/search/sensitivity.png").read_bytes().startswith(b"\x89PNG")

    again = engram(*SEARCH, "--figure", "plot.svg")
    assert again.status == 0
    assert "recorded before" in again.err
    assert "task 1/2" not in again.err
    assert len(lines(Path("runs/search/records.jsonl"))) == 10
    assert "Tuning ledger" in again.out
    assert "mixing" in again.out
    assert Path("plot.svg").read_text().lstrip().startswith("<?xml")

    refused = engram(*SEARCH, "--select-on", "test")
    assert refused.status == 2
    assert "runs selected on holdout of sgd" in refused.err


def test_the_same_images_by_another_name_are_refused_in_a_folder_of_theirs(engram: Engram, data: Path) -> None:
    """The runs are the same, so that they would be taken from the records, under a name that is not asked for."""
    shutil.copy(data / "tiny.npz", "twin.npz")
    search = ("sgd", "--trials", "2", "--seeds", "1", "--workers", "1")
    assert engram("search", "split-tiny/class", *search).status == 0
    before = Path("runs/search/records.jsonl").read_bytes()
    answer = engram("search", "split-twin.npz/class", *search)
    assert answer.status == 2
    assert "this search of sgd under another name of the same dataset, split-tiny/class" in answer.err
    assert Path("runs/search/records.jsonl").read_bytes() == before


def test_a_figure_that_is_a_folder_is_refused_before_anything_runs(engram: Engram) -> None:
    Path("fold.png").mkdir()
    answer = engram(*SEARCH, "--figure", "fold.png")
    assert (answer.status, "fold.png is a folder; name a file" in answer.err) == (2, True)
    assert not Path("runs").exists()


def test_selecting_on_test_says_so(engram: Engram) -> None:
    answer = engram(
        "search", "split-tiny/class", "sgd", "--trials", "2", "--seeds", "1", "--workers", "1", "--select-on", "test"
    )
    assert answer.status == 0, answer.err
    assert "TEST images" in answer.out
    assert "too good" in answer.out
    records = lines(Path("runs/search/records.jsonl"))
    assert {record["search"]["selected_on"] for record in records} == {"test"}  # type: ignore[index]
    assert {record["spec"]["scenario"]["held_out"] for record in records} == {0}  # type: ignore[index]


def test_a_method_that_looks_at_the_test_images_fails_in_its_trials(engram: Engram) -> None:
    """It takes the image set from whoever runs it."""
    Path("peeks.py").write_text(
        "import sys\n"
        "from dataclasses import dataclass\n"
        "import engram as eg\n"
        "@dataclass\n"
        "class Peeks(eg.Method):\n"
        "    def end_task(self, learner, task):\n"
        "        frame = sys._getframe()\n"
        "        while 'spec' not in frame.f_locals:\n"
        "            frame = frame.f_back\n"
        "        frame.f_locals['spec'].scenario.images[0].x_test\n"
    )
    call = ("search", "split-tiny/class", "peeks", "--method-file", "peeks.py", "--trials", "2", "--seeds", "1")
    answer = engram(*call, "--workers", "1", "--json")
    assert answer.status == 1
    (one,) = answer.json
    assert (one["trials"]["runs"], one["unfinished"], one["finals"]["runs"], one["point"]) == (2, 2, 0, {})
    records = lines(Path("runs/search/records.jsonl"))
    assert {record["status"] for record in records} == {"failed"}
    for record in records:
        assert "the test images of tiny may not be read" in str(record["error"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["search", "split-tiny/domain"], ["one or more methods"]),
        (["search", "split-tiny/doman", "sgd"], ["'split-tiny/doman'", "split-tiny/domain"]),
        (["search", "split-tiny/domain", "sdg"], ["'sdg' is unknown", "did you mean xdg or sgd"]),
        (["search", "split-tiny/domain", "sgd", "sgd"], ["sgd sgd", "twice"]),
        (["search", "split-tiny/domain", "sgd", "--trials", "1"], ["trials 1", "2 or more"]),
        (["search", "split-tiny/domain", "sgd", "--seeds", "0"], ["seeds 0", "1 or more"]),
        (["search", "split-tiny/domain", "sgd", "--seeds", "2000"], ["seeds 2000", "below 1000"]),
        (["search", "split-tiny/domain", "sgd", "--workers", "0"], ["workers 0", "1 or more"]),
        (["search", "split-tiny/domain", "sgd", "--select-on", "train"], ["train", "holdout", "test"]),
        (["search", "split-tiny/domain", "sgd", "--figure", "a.gif"], ["'.gif' is unknown", ".png", ".pdf"]),
        (["diff", "a.jsonl"], ["B: the file of records that is compared with A"]),
        (["diff", "a.jsonl", "b.jsonl"], ["a.jsonl is not a file", "results/hsu2018/table2.jsonl"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_calls_are_refused(engram: Engram, work: Path, arguments: list[str], words: list[str]) -> None:
    answer = engram(*arguments)
    assert answer.status == 2, answer.out + answer.err
    assert "Traceback" not in answer.err
    assert list(work.iterdir()) == []
    message = " ".join(answer.err.replace("│", " ").split())
    for word in words:
        assert word in message


# Diff


def write(path: str, shift: float, seeds: int = 7, failed: tuple[str, ...] = ()) -> None:
    """Records of two cells; those of sgd are the same in every file. Runs in `failed` (si3, say) are not done."""
    with Path(path).open("w") as file:
        for method in ("sgd", "si"):
            for seed in range(seeds):
                value = 50.0 + seed + (shift if method == "si" else 0)
                spec = {"scenario": {"held_out": 0}, "method": [{"name": method}], "seed": seed}
                values = {"key": f"{method}{seed}", "scenario": "split-own/class", "method": method, "seed": seed}
                more = {"spec": spec, "status": "done", "accuracy": [[value]], "average_accuracy": value}
                if values["key"] in failed:
                    more = {"spec": spec, "status": "failed", "accuracy": []}
                file.write(json.dumps(values | more) + "\n")


def test_diff_says_which_cells_moved(engram: Engram) -> None:
    write("a.jsonl", 0)
    write("b.jsonl", 1.5)
    answer = engram("diff", "a.jsonl", "b.jsonl")
    assert answer.status == 0
    assert "1 same bits, 1 higher" in answer.out
    assert "+1.50" in answer.out
    assert "sgd" not in answer.out  # nothing to see there
    found = engram("diff", "a.jsonl", "b.jsonl", "--json").json
    assert [(one["cell"], one["word"]) for one in found] == [("sgd", "same bits"), ("si", "higher")]
    assert found[1]["test"]["p"] == 2 / 2**7


def test_diff_says_where_there_are_too_few_seeds(engram: Engram) -> None:
    write("a.jsonl", 0, seeds=3)
    write("b.jsonl", 1.5, seeds=3)
    answer = engram("diff", "a.jsonl", "b.jsonl")
    assert answer.status == 0
    assert "too few pairs: 3 can give no p below 0.25, 6 or more could" in answer.out
    assert "more common seeds could show a difference" in answer.err


def test_diff_counts_cells_by_their_words_and_runs_by_themselves(engram: Engram) -> None:
    """sgd lost four runs and gained one, and is the same otherwise; of si no run is left to be tested."""
    write("a.jsonl", 0, failed=("sgd6",))
    write("b.jsonl", 0, failed=("sgd1", "sgd2", "sgd3", "sgd4", *(f"si{seed}" for seed in range(7))))
    answer = engram("diff", "a.jsonl", "b.jsonl")
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.splitlines()[-1] == "1 same bits; 11 runs no longer done, 1 run done now"
    assert "4 no longer done, 1 done now, same bits" in " ".join(answer.out.replace("│", " ").split())


def test_diff_of_a_file_with_itself_is_quiet(engram: Engram) -> None:
    write("a.jsonl", 0)
    answer = engram("diff", "a.jsonl", "a.jsonl")
    assert (answer.status, answer.out, answer.err) == (0, "2 same bits\n", "")


def test_diff_reports_a_torn_line_and_refuses_a_file_without_records(engram: Engram) -> None:
    write("a.jsonl", 0)
    torn = Path("a.jsonl").read_text()
    Path("b.jsonl").write_text(torn[:-30])
    answer = engram("diff", "a.jsonl", "b.jsonl")
    assert answer.status == 0
    assert "b.jsonl, line 14: not a whole record, skipped" in answer.err
    Path("empty.jsonl").write_text("nothing\n")
    empty = engram("diff", "a.jsonl", "empty.jsonl")
    assert empty.status == 2
    assert "empty.jsonl has no records" in empty.err
