"""Commands that only look: help, `ls`, `data ls`, `describe`, `compare`; fast ones without torch."""

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import Answer, arrays
from rich.console import Console
from setting_records import run

from engram.cli import COMMANDS
from engram.data.catalog import images
from engram.report.written import show_table
from engram.runs.records import append_record
from engram.studies.catalog import built_in_study
from engram.workbench import make_table

Engram = Callable[..., Answer]
CELL = {"row", "column", "ours", "std", "n", "paper", "paper_std", "verdict", "telling", "failed", "note"}


@pytest.mark.parametrize("call", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_command(engram: Engram, call: list[str]) -> None:
    answer = engram(*call)
    assert (answer.status, answer.err) == (0, "")
    for command in COMMANDS:
        assert f"\n  {command} " in answer.out


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help(engram: Engram, command: str) -> None:
    answer = engram(command, "--help")
    assert (answer.status, answer.err) == (0, "")
    assert f"usage: engram {command}" in answer.out


@pytest.mark.parametrize(
    ("call", "workers"),
    [(["reproduce", "--help"], 0), (["run", "-h", "--seeds", "3"], 0), (["run", "split-none/class", "--seeds=3"], 1)],
)
def test_help_gets_no_workers_ready(
    engram: Engram, work: Path, monkeypatch: pytest.MonkeyPatch, call: list[str], workers: int
) -> None:
    ready: list[int] = []
    monkeypatch.setattr("engram.engines.forks.start_fork_server", lambda: ready.append(1))
    engram(*call)
    assert len(ready) == workers


def test_the_version_is_the_package_s(engram: Engram) -> None:
    import engram as package

    assert engram("--version").out == f"engram {package.__version__}\n"


@pytest.mark.parametrize(
    "call",
    [
        ["--help"],
        ["ls", "tables"],
        ["compare", "table2"],
        ["compare", "table2", "--json"],
        ["compare", "claims"],
        ["ls", "studies"],
        ["ls", "runs"],
        ["bogus"],
    ],
)
def test_torch_is_not_imported(call: list[str], work: Path) -> None:
    code = (
        "import sys\nfrom engram.cli import main\n"
        "try:\n    main()\n"
        "finally:\n    sys.stderr.write(','.join({'torch', 'scipy', 'pooch'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *call], capture_output=True, text=True)
    assert done.returncode == (2 if call == ["bogus"] else 0)
    assert "torch" not in done.stderr


@pytest.mark.parametrize(
    ("what", "keys", "first"),
    [
        ("methods", {"method", "what", "fields", "needs", "optimizer"}, "a-gem"),
        ("scenarios", {"scenario", "kinds"}, "split-mnist"),
        ("datasets", {"dataset", "source", "licence", "citation", "here"}, "mnist"),
        ("tables", {"table", "rows", "columns"}, "table2"),
        ("studies", {"study", "paper", "cells", "published", "seeds", "variants"}, "hsu2018/table2"),
        ("nets", {"net", "what", "fields"}, "cnn"),
        ("metrics", {"metric", "what"}, "average-accuracy"),
    ],
)
def test_listings_are_tables_or_json(engram: Engram, what: str, keys: set[str], first: str) -> None:
    rows = engram("ls", what, "--json").json
    assert all(row.keys() >= keys for row in rows)
    assert first in rows[0].values()
    shown = engram("ls", what)
    assert shown.status == 0
    for row in rows:
        assert next(iter(row.values())) in shown.out


def test_every_known_set_has_a_source_a_licence_and_a_citation(engram: Engram, data: Path) -> None:
    rows = {row["dataset"]: row for row in engram("data", "ls", "--json").json}
    assert rows.keys() >= {"mnist", "fashion-mnist", "svhn", "cifar10", "cifar100", "tiny"}
    for name, row in rows.items():
        if name != "tiny":
            assert row["source"].startswith("http")
            assert row["licence"]
            assert row["citation"]
            assert row["here"] == "not fetched"
    assert rows["tiny"]["here"] == str(data / "tiny.npz")


def test_data_get_says_where_a_set_is(engram: Engram, data: Path) -> None:
    assert engram("data", "get", "tiny").out == f"tiny: {data}\n"


@pytest.mark.parametrize(
    ("scenario", "kind", "tasks", "floor"),
    [
        ("split-tiny/task", "task", 2, 75),
        ("split-tiny/domain", "domain", 2, 75),
        ("split-tiny/class", "class", 2, 50),
        ("split-tiny/class-known", "class", 2, 50),
        ("permuted-tiny/task", "task", 3, 50),
        ("permuted-tiny/domain", "domain", 3, 50),
        ("permuted-tiny/class", "class", 3, 100 / 3),
        ("permuted-tiny/class-known", "class", 3, 100 / 3),
        ("permuted-tiny/iid", "iid", 3, 50),
    ],
)
def test_describe_reads_the_kind_off_the_data(
    engram: Engram, data: Path, scenario: str, kind: str, tasks: int, floor: float
) -> None:
    flags = ["--permutations", "3"] if scenario.startswith("permuted") else []
    found = engram("describe", scenario, *flags, "--json").json
    assert found.keys() >= {"kind", "evidence", "tasks", "floor"}
    assert (found["kind"], len(found["tasks"])) == (kind, tasks)
    assert found["floor"] == pytest.approx(floor)


def test_describe_names_classes_sizes_and_outputs(engram: Engram, data: Path) -> None:
    found = engram("describe", "split-tiny/class", "--json").json
    assert [task["classes"] for task in found["tasks"]] == [["0", "1"], ["2", "3"]]
    assert [(task["train"], task["test"]) for task in found["tasks"]] == [(48, 12)] * 2
    assert [task["outputs"] for task in found["tasks"]] == [[0, 2], [0, 4]]
    shown = engram("describe", "split-tiny/class")
    assert "incremental class" in shown.out
    assert "50.00 %" in shown.out


def test_describe_takes_flags_before_the_name(engram: Engram, data: Path) -> None:
    answer = engram("describe", "--seed", "1", "--json", "split-tiny/class")
    assert answer.status == 0, answer.err or answer.out
    assert answer.json["kind"] == "class"


def test_describe_splits_a_set_whose_classes_do_not_pair_up(engram: Engram, data: Path) -> None:
    np.savez(data / "odd.npz", **arrays(3))
    answer = engram("describe", "split-odd/class", "--classes-per-task", "1", "--json")
    assert answer.status == 0, answer.err
    assert len(answer.json["tasks"]) == 3


def test_describe_of_iid_tasks_speaks_of_no_forgetting(engram: Engram, data: Path) -> None:
    assert "near it means forgetting" not in engram("describe", "permuted-tiny/iid", "--permutations", "2").out


@pytest.fixture(scope="module")
def digits(mnist: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with `digits`: the first 60 training and 20 test images of each class of MNIST."""
    whole = images("mnist")
    rows = np.sort(np.concatenate([np.flatnonzero(whole.y_train == label)[:60] for label in range(10)]))
    test = np.sort(np.concatenate([np.flatnonzero(whole.y_test == label)[:20] for label in range(10)]))
    folder = tmp_path_factory.mktemp("digits")
    np.savez(
        folder / "digits.npz",
        x_train=whole.x_train[rows],
        y_train=whole.y_train[rows],
        x_test=whole.x_test[test],
        y_test=whole.y_test[test],
    )
    return folder


@pytest.mark.mnist
@pytest.mark.parametrize("kind", ["task", "domain", "class", "class-known", "iid"])
@pytest.mark.parametrize("maker", ["split", "permuted"])
def test_describe_is_right_on_handwritten_digits(
    engram: Engram, digits: Path, monkeypatch: pytest.MonkeyPatch, maker: str, kind: str
) -> None:
    monkeypatch.setenv("ENGRAM_DATA", str(digits))
    flags = ["--permutations", "3"] if maker == "permuted" else []
    found = engram("describe", f"{maker}-digits/{kind}", *flags, "--json").json
    tasks, outputs = (5, 2) if maker == "split" else (3, 10)
    guess = 0 if kind.startswith("class") else 10 if kind == "iid" else 100 / outputs
    assert found["kind"] == kind.removesuffix("-known")
    assert len(found["tasks"]) == tasks
    assert found["floor"] == pytest.approx((100 + (tasks - 1) * guess) / tasks)
    assert found["evidence"]["x_differs"] == (kind != "iid")


@pytest.mark.mnist
@pytest.mark.slow
def test_describe_is_right_on_all_of_mnist(engram: Engram, mnist: None, work: Path) -> None:
    found = engram("describe", "split-mnist/class", "--classes-per-task", "5", "--json").json
    assert (found["kind"], found["floor"], found["shape"]) == ("class", 50, [1, 32, 32])
    assert [task["classes"] for task in found["tasks"]] == [list("01234"), list("56789")]
    assert sum(task["train"] for task in found["tasks"]) == 60_000
    assert sum(task["test"] for task in found["tasks"]) == 10_000
    assert list(work.iterdir()) == []


def test_table_2_has_45_cells_also_without_records(engram: Engram, work: Path) -> None:
    found = engram("compare", "table2", "--json").json
    assert len(found) == 45
    assert all(cell.keys() == CELL for cell in found)
    assert {cell["verdict"] for cell in found} == {"missing"}
    assert {cell["n"] for cell in found} == {0}
    adam = next(cell for cell in found if (cell["row"], cell["column"]) == ("adam", "class"))
    assert (adam["paper"], adam["paper_std"], adam["ours"], adam["telling"]) == (19.71, 0.08, None, False)
    assert list(work.iterdir()) == []


def test_an_empty_results_folder_is_said_to_be_empty(engram: Engram, work: Path) -> None:
    Path("nothing").mkdir()
    answer = engram("compare", "table2", "--results", "nothing")
    assert answer.status == 0
    assert "no records in nothing" in answer.out + answer.err


def test_records_are_compared_with_published_numbers(engram: Engram, work: Path) -> None:
    for seed, accuracy in enumerate((19.70, 19.80, 19.90)):
        append_record(Path("results/table2.jsonl"), run("adam", "class", seed, accuracy))
    append_record(Path("results/table2.jsonl"), run("sgd", "class", 0, 50.0))
    found = {cell["row"]: cell for cell in engram("compare", "table2", "--columns", "class", "--json").json}
    assert found["adam"]["ours"] == pytest.approx(19.8)
    assert found["adam"]["std"] == pytest.approx(0.0816, abs=1e-4)
    assert (found["adam"]["n"], found["adam"]["verdict"]) == (3, "agrees")
    assert (found["sgd"]["n"], found["sgd"]["verdict"]) == (1, "higher")
    assert found["offline"]["verdict"] == "missing"
    shown = engram("compare", "table2", "--rows", "adam", "--columns", "class").out
    assert "19.80 ± 0.08 n=3 (19.71 ± 0.08) ✓" in shown


def test_a_seed_counts_once_however_many_records_it_has(engram: Engram, work: Path) -> None:
    one = run("adam", "class", 0, 19.7)
    other = run("adam", "class", 0, 19.7)
    other.key = "the same run with more threads, or looked at more often"
    for record in (one, other):
        append_record(Path("results/table2.jsonl"), record)
    (cell,) = engram("compare", "table2", "--rows", "adam", "--columns", "class", "--json").json
    assert cell["n"] == 1


@pytest.mark.parametrize(("table", "width"), [("table2", 80), ("table3", 80), ("table4", 100), ("table4", 150)])
def test_a_narrow_terminal_loses_neither_names_nor_numbers(table: str, width: int) -> None:
    records = [
        run(row, column, seed, 91.0 + seed, table)
        for row in ("adam", "rehearsal-c")
        for column in built_in_study(table).columns
        for seed in range(10)
    ]
    study = built_in_study(table)
    found = make_table(study, records, rows=["adam", "rehearsal-c"]).cells
    page = io.StringIO()
    show_table(study, found, [], Console(file=page, width=width))
    text = " ".join(page.getvalue().replace("│", " ").split())
    for cell in found:
        assert study.row_title(cell.row).split()[0] in text
        assert f"{cell.paper:.2f} ± {cell.paper_std:.2f}" in text
    assert text.count("95.50 ± 2.87") == len(found)


@pytest.mark.parametrize("call", [["compare", "table2"], ["compare", "table2", "--json"], ["ls", "datasets"]])
def test_a_closed_pipe_is_not_an_error(call: list[str], work: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", "from engram.cli import main; main()", *call]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert "rror" not in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 141)


def test_a_copy_that_is_not_the_official_set_is_named(engram: Engram, data: Path, work: Path) -> None:
    """In describe, and before a run: nobody is to take it for the other."""
    np.savez(data / "svhn-gray.npz", **arrays(10))
    said = "svhn: prepared grey copy, re-cropped from the photographs: not the official pixels"
    found = engram("describe", "queue-svhn+tiny/domain", "--json").json
    assert found["copies"] == [said]
    assert said in " ".join(engram("describe", "queue-svhn+tiny/domain").out.split())
    ran = engram("run", "queue-svhn+tiny/task", "adam", "--epochs", "1")
    assert ran.status == 0
    assert said in " ".join(ran.err.split())


def test_the_table_may_follow_the_options(engram: Engram, work: Path) -> None:
    first = engram("compare", "vandeven2022/table2", "--columns", "task", "--json").json
    assert engram("compare", "--json", "--columns", "task", "vandeven2022/table2").json == first
    assert {cell["column"] for cell in first} == {"task"}


def test_all_of_a_listing_is_in_lines_of_their_own(engram: Engram) -> None:
    lines = engram("ls", "methods", "--all").out.splitlines()
    assert lines[lines.index("er") :][3].strip() == "needs: past data"
    assert "needs" not in engram("ls", "methods").out.splitlines()[1]
