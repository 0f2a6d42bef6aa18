"""`engram run`: what it prints, what it records, and that the same call gives the same record."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import Answer, arrays, same_but_for_time, written

Engram = Callable[..., Answer]

KEYS = {
    "key", "spec", "status", "accuracy", "average_accuracy", "forgetting", "steps", "seconds", "memory", "environment",
}  # fmt: skip
ENVIRONMENT = {"commit", "dirty", "torch", "cpu", "threads", "data", "resumed_after_task"}
TINY = ("run", "split-tiny/class", "adam", "--epochs", "2", "--hidden", "20")


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(work: Path, data: Path) -> None:
    pass


def test_json_is_a_record_a_line_and_nothing_else(engram: Engram) -> None:
    answer = engram(*TINY, "--json")
    (record,) = answer.records
    assert answer.status == 0
    assert record.keys() >= KEYS
    assert record["status"] == "done"
    assert [len(row) for row in record["accuracy"]] == [1, 2]
    assert all(0 <= value <= 100 for row in record["accuracy"] for value in row)
    assert record["average_accuracy"] == pytest.approx(sum(record["accuracy"][1]) / 2)
    assert record["forgetting"] == pytest.approx(record["accuracy"][0][0] - record["accuracy"][1][0])
    assert record["steps"] == 2 * 2  # two tasks of 48 images in batches of 128, two passes
    assert record["seconds"] > 0
    assert record["memory"].keys() >= {"kept", "working"}
    assert record["environment"].keys() >= ENVIRONMENT
    assert record["environment"]["threads"] == 1
    assert record["environment"]["resumed_after_task"] == 0
    assert record["environment"]["data"].keys() == {"tiny"}
    assert record["spec"]["seed"] == 0
    assert lines(Path("runs/records.jsonl")) == [record]


def test_without_json_the_table_is_on_standard_output_and_the_rest_beside_it(engram: Engram) -> None:
    answer = engram(*TINY)
    assert answer.status == 0
    assert "average accuracy" in answer.out
    assert "forgetting" in answer.out
    assert "runs/records.jsonl" in answer.err
    assert "2 tasks, kind class" in answer.err
    assert "50.0 %" in answer.err  # the floor


def test_an_own_image_set_is_not_called_a_published_setting(engram: Engram) -> None:
    answer = engram("run", "split-tiny/class", "adam", "--json")
    assert answer.status == 0
    assert "not a published setting" in answer.err


def test_seeds_three_are_0_1_and_2(engram: Engram) -> None:
    records = engram(*TINY, "--seeds", "3", "--workers", "1", "--json").records
    assert [record["seed"] for record in records] == [0, 1, 2]
    assert len({record["key"] for record in records}) == 3
    assert len({str(record["losses"]) for record in records}) == 3
    assert len(lines(Path("runs/records.jsonl"))) == 3


@pytest.mark.slow
def test_two_processes_give_what_one_gives(engram: Engram) -> None:
    one = engram(*TINY, "--seeds", "3", "--workers", "1", "--out", "one", "--json").records
    two = engram(*TINY, "--seeds", "3", "--workers", "2", "--out", "two", "--json")
    assert two.status == 0, two.err
    assert same_but_for_time(sorted(two.records, key=lambda record: record["seed"])) == same_but_for_time(one)
    assert len(lines(Path("two/records.jsonl"))) == 3


def test_the_same_seed_gives_the_same_record_in_another_folder(engram: Engram) -> None:
    first, second = (engram(*TINY, "--seed", "7", "--out", out, "--json").records for out in ("a", "b"))
    assert same_but_for_time(first) == same_but_for_time(second)


def test_what_is_recorded_is_not_run_again(engram: Engram) -> None:
    first = engram(*TINY, "--json")
    second = engram(*TINY, "--json")
    assert second.out == first.out  # seconds included
    assert "task 1/2" not in second.err
    assert len(lines(Path("runs/records.jsonl"))) == 1


def test_a_key_or_a_file_repeats_a_record(engram: Engram) -> None:
    (record,) = engram(*TINY, "--json").records
    Path("record.json").write_text(json.dumps(record))
    Path("spec.json").write_text(json.dumps(record["spec"]))
    results = Path("results")
    results.mkdir()
    Path("runs/records.jsonl").rename(results / "some.jsonl")
    for number, what in enumerate((record["key"], "record.json", "spec.json", "results/some.jsonl")):
        answer = engram("run", "--spec", what, "--out", f"again{number}", "--json")
        assert answer.status == 0
        assert same_but_for_time(answer.records) == same_but_for_time([record])
        assert "task 2/2" in answer.err  # it did run


def test_a_key_in_runs_can_be_repeated_in_another_folder(engram: Engram) -> None:
    (record,) = engram(*TINY, "--json").records
    answer = engram("run", "--spec", record["key"], "--out", "again", "--json")
    assert answer.status == 0, answer.err
    assert answer.records[0]["accuracy"] == record["accuracy"]


def test_a_key_of_other_code_says_so(engram: Engram, tmp_path: Path) -> None:
    file, found = tmp_path / "edited.py", []
    for factor in (1, 2):
        file.write_text(f"import engram as eg\n\nFACTOR = {factor}\n\n\nclass Edited(eg.Method): ...\n")
        call = ("run", "--spec", found[0]) if found else ("run", "split-tiny/class", "edited", *TINY[3:])
        answer = engram(*call, "--method-file", file, "--json")
        assert answer.status == 0, answer.err
        found.append(answer.records[0]["key"])
    assert found[0] != found[1]
    assert f"{found[0]} was made by other code; the key of this run is {found[1]}" in answer.err


def test_a_folder_named_like_a_file_of_records_is_named_and_skipped(engram: Engram) -> None:
    Path("runs/some.jsonl").mkdir(parents=True)
    answer = engram(*TINY)
    assert (answer.status, "runs/some.jsonl: not a regular file, skipped" in answer.err) == (0, True)


def test_spec_may_be_written_with_an_equals_sign(engram: Engram) -> None:
    (record,) = engram(*TINY, "--json").records
    answer = engram("run", f"--spec={record['key']}", "--json")
    assert answer.status == 0, answer.err
    assert answer.records[0]["key"] == record["key"]


def test_a_record_of_a_file_given_by_path_can_be_repeated(engram: Engram, tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", **arrays())
    answer = engram("run", f"split-{tmp_path / 'mine.npz'}/class", *TINY[2:], "--json")
    Path("record.json").write_text(answer.out)
    again = engram("run", "--spec", "record.json", "--out", "again", "--json")
    assert again.status == 0, again.err
    assert again.records[0]["accuracy"] == answer.records[0]["accuracy"]


def test_a_diverged_run_is_recorded_and_the_status_says_so(engram: Engram) -> None:
    call = ("run", "split-tiny/class", "sgd", "--lr", "1e30", "--epochs", "9", "--json")
    answer = engram(*call)
    assert answer.status == 1
    assert answer.records[0]["status"] == "diverged"
    assert answer.records[0]["average_accuracy"] is None
    assert answer.records[0].keys() >= KEYS
    assert engram(*call).status == 1  # also when it is read from the records


def test_a_torn_line_in_the_records_is_reported_and_does_no_harm(engram: Engram) -> None:
    (record,) = engram(*TINY, "--json").records
    with Path("runs/records.jsonl").open("a") as file:
        file.write('{"key": "torn", "sce')
    answer = engram(*TINY, "--seeds", "2", "--workers", "1", "--json")
    assert [r["seed"] for r in answer.records] == [0, 1]
    assert answer.records[0] == record
    assert "line 2: not a whole record" in answer.err
    assert Path("runs/records.jsonl").read_text().splitlines()[2].startswith("{")


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"a text\n\n", b"PK\x03\x04 the start of an archive"])
def test_a_damaged_checkpoint_is_left_aside(engram: Engram, content: bytes) -> None:
    (plain,) = engram(*TINY, "--out", "plain", "--json").records
    checkpoint = Path("runs/checkpoints") / plain["key"] / "task-1.pt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(content)
    answer = engram(*TINY, "--json")
    assert answer.status == 0
    assert "task-1.pt: not a whole checkpoint" in answer.err
    assert same_but_for_time(answer.records) == same_but_for_time([plain])


def test_nothing_but_records_is_left(engram: Engram, work: Path) -> None:
    engram(*TINY, "--out", "here", "--json")
    assert written(work).keys() == {"here/records.jsonl"}


def test_a_dry_run_writes_nothing_and_says_what_it_would_cost(engram: Engram, work: Path) -> None:
    answer = engram(*TINY, "--lr", "0.5", "--dry-run", "--out", "nowhere")
    assert answer.status == 0
    assert "training.lr" in answer.out
    assert "this command" in answer.out
    assert "engram's default" in answer.out
    assert "4 steps per run" in answer.out
    assert "bytes: network" in answer.out
    found = engram(*TINY, "--lr", "0.5", "--dry-run", "--seeds", "3", "--json", "--out", "nowhere").json
    assert found.keys() >= {"spec", "key", "sources", "steps", "seconds", "bytes", "runs"}
    assert (found["steps"], found["runs"]) == (4, 3)
    assert found["seconds"] > 0
    assert found["bytes"]["network"] == 4 * (36 * 20 + 20 + 20 * 4 + 4)
    assert found["bytes"]["images"] == (96 + 24) * 36
    assert found["sources"]["training.lr"] == "this command"
    assert found["sources"]["training.momentum"] == "engram's default"
    assert list(work.iterdir()) == []


@pytest.mark.parametrize(
    "method",
    [
        ["rehearsal", "--capacity", "10"],
        ["rehearsal-c", "--capacity", "3", "--classes-per-task", "1"],
        ["rehearsal", "--capacity", "10", "--mixing", "balanced"],
        ["rehearsal+ewc", "--rehearsal.capacity", "10"],
        ["gem", "--capacity", "20"],
        ["gem-textbook", "--capacity", "20"],
        ["offline"],
        ["dgr", "--steps", "3"],
    ],
    ids=" ".join,
)
def test_a_dry_run_counts_the_steps_that_the_run_takes(engram: Engram, method: list[str]) -> None:
    length = () if "--steps" in method else ("--epochs", "2")
    call = ("run", "split-tiny/class", *method, *length, "--batch", "16", "--hidden", "8", "--json")
    expected = engram(*call, "--dry-run").json["steps"]
    (record,) = engram(*call).records
    assert record["steps"] == expected


def test_a_dry_run_names_the_key_of_the_run(engram: Engram) -> None:
    assert engram(*TINY, "--dry-run", "--json").json["key"] == engram(*TINY, "--json").records[0]["key"]
    fifth = engram(*TINY, "--seed", "5", "--dry-run", "--json").json
    assert fifth["spec"]["seed"] == 5
    assert fifth["key"] == engram(*TINY, "--seed", "5", "--json").records[0]["key"]


def test_another_optimiser_takes_its_own_rate_unless_one_is_given(engram: Engram) -> None:
    def rate(*flags: str) -> tuple[float, str]:
        found = engram("run", "split-tiny/class", "adam", "--optimizer", "sgd", *flags, "--dry-run", "--json").json
        return found["spec"]["training"]["lr"], found["sources"]["training.lr"]

    assert rate("--lr", "0.05") == (0.05, "this command")
    assert rate("--lr=0.05") == (0.05, "this command")
    assert rate()[0] == 0.01  # the default for SGD, not Adam's


def test_a_rate_that_is_a_default_is_not_said_to_come_from_the_command(engram: Engram) -> None:
    found = engram("run", "split-tiny/class", "adam", "--optimizer", "sgd", "--dry-run", "--json").json
    assert found["sources"]["training.lr"] == "engram's choice, after Split MNIST"  # whose scripts have no such set


def test_flags_may_stand_before_between_and_after_the_names(engram: Engram) -> None:
    def key(*arguments: str) -> str:
        answer = engram("run", *arguments, "--dry-run", "--json")
        assert answer.status == 0, answer.err or answer.out
        return answer.json["key"]

    expected = key("split-tiny/class", "adam", "--epochs", "2", "--drop-last")
    assert key("--epochs", "2", "--drop-last", "split-tiny/class", "adam") == expected
    assert key("--epochs=2", "split-tiny/class", "adam", "--drop-last") == expected


def test_an_out_folder_below_another_may_stand_before_the_names(engram: Engram) -> None:
    answer = engram("run", "--out", "runs/x", *TINY[1:], "--json")
    assert answer.status == 0, answer.err
    assert Path("runs/x/records.jsonl").exists()


@pytest.mark.parametrize(("classes", "flags", "tasks"), [(3, ["1"], 3), (3, ["2", "1"], 2), (2, ["1"], 2)])
def test_a_set_whose_classes_do_not_pair_up_can_be_split_otherwise(
    engram: Engram, data: Path, classes: int, flags: list[str], tasks: int
) -> None:
    np.savez(data / "odd.npz", **arrays(classes))
    answer = engram("run", "split-odd/class", "adam", "--epochs", "1", "--classes-per-task", *flags, "--json")
    assert answer.status == 0, answer.err
    assert len(answer.records[0]["accuracy"]) == tasks


def test_the_help_of_a_run_names_values_and_their_sources(engram: Engram) -> None:
    answer = engram("run", "split-tiny/class", "adam", "--help")
    assert answer.status == 0
    for words in ("--lr FLOAT", "(default: 0.001)", "engram's default", "--classes-per-task", "--dry-run", "--out"):
        assert words in answer.out
    for words in ("--net", "--letters", "--file", "--method-file"):
        assert words in answer.out


@pytest.mark.parametrize("scenario", ["split-svhn/class", "permuted-cifar100/domain", "long-queue/class"])
def test_the_help_of_a_run_needs_no_images(engram: Engram, data: Path, scenario: str) -> None:
    answer = engram("run", scenario, "rehearsal+si", "--help")
    assert answer.status == 0, answer.err
    assert "--si.coef" in answer.out
    assert [path.name for path in data.rglob("*")] == ["tiny.npz"]  # nothing was fetched


@pytest.mark.parametrize(("method", "image"), [("rehearsal", 36 * 4 + 2), ("rehearsal-c", 36 + 2), ("gem", 36 * 4 + 2)])
def test_what_is_kept_stays_within_the_memory_budget(engram: Engram, method: str, image: int) -> None:
    budget = 8 * image  # eight images, and nothing for how they are scaled
    call = ("run", "split-tiny/class", method, "--epochs", "1", "--hidden", "8", "--memory-budget", str(budget))
    (record,) = engram(*call, "--json").records
    assert record["spec"]["method"][0]["capacity"] == 7
    assert budget - 4 * image <= sum(record["memory"]["kept"].values()) <= budget


def test_the_metrics_asked_for_are_recorded(engram: Engram) -> None:
    (record,) = engram(*TINY, "--forward-transfer", "--evaluate-every", "2", "--no-mask", "--json").records
    assert isinstance(record["forward_transfer"], float)
    assert [point["step"] for point in record["curve"]] == [2, 4]
    assert record["spec"]["evaluation"]["mask"] is False


def test_a_line_says_that_a_run_was_recorded_before(engram: Engram) -> None:
    engram(*TINY)
    assert "recorded" in engram(*TINY).err.splitlines()[1]


@pytest.mark.parametrize("out", ["runs[red]", "a[/b]"])
def test_a_folder_with_brackets_is_called_by_its_name(engram: Engram, out: str) -> None:
    answer = engram(*TINY, "--out", out)
    assert answer.status == 0
    assert f"records in {out}/records.jsonl" in answer.err


def test_names_with_brackets_are_shown_as_they_are(engram: Engram, data: Path) -> None:
    """Class names and file names are nobody's markup."""
    np.savez(data / "we[ird].npz", **arrays(), classes=np.array(["[/red]", "[bold]", "c", "d"]))
    shown = engram("describe", "split-we[ird]/class")
    assert shown.status == 0, shown.err
    assert "[/red] [bold]" in shown.out
    assert "split-we[ird]/class: 2 tasks" in shown.out
    for more in ([], ["--dry-run"]):
        assert "split-we[ird]/class adam" in engram("run", "split-we[ird]/class", "adam", "--epochs", "1", *more).out


def test_names_of_classes_command_no_terminal(engram: Engram, data: Path) -> None:
    np.savez(data / "odd.npz", **arrays(), classes=np.array(["\x1b[2J", "b\x07", "c", "d"]))
    shown = engram("describe", "split-odd/class")
    assert shown.status == 0, shown.err
    assert "[2J b" in shown.out
    assert not {"\x1b", "\x07"} & {*shown.out}


def plant_number(folder: Path) -> None:
    np.savez(folder / "stray.npz", **{**arrays(), "x_train": np.uint8(3)})


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (plant_number, "x_train has shape ()"),
        (lambda folder: os.mkfifo(folder / "stray.npz"), "dataset 'stray' is unknown"),
        (lambda folder: (folder / "stray.npz").mkdir(), "dataset 'stray' is unknown"),
    ],
    ids=["a number", "a pipe", "a folder"],
)
def test_what_is_no_dataset_is_refused_in_a_line(engram: Engram, data: Path, plant, words: str) -> None:
    plant(data)
    for call in (("describe", "split-stray/class"), ("run", "split-stray/class", "adam", "--dry-run")):
        answer = engram(*call)
        assert answer.status == 2
        assert words in answer.err


def test_a_method_that_ends_the_process_has_failed(engram: Engram) -> None:
    Path("leaves.py").write_text(
        "import sys\nimport engram as eg\n"
        "class Leaves(eg.Method):\n    def end_task(self, learner, task):\n        sys.exit(3)\n"
    )
    answer = engram("run", "split-tiny/class", "leaves", "--method-file", "leaves.py", "--epochs", "1", "--json")
    assert answer.status == 1
    assert (answer.records[0]["status"], "SystemExit: 3" in answer.records[0]["error"]) == ("failed", True)
