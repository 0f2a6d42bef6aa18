"""Queues, the CNN, and Tables 5 and 6 on the command line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_helpers import Answer, arrays
from setting_records import run_of

from engram.runs.records import append_record
from engram.runs.setting import Setting
from engram.studies.catalog import results_of
from engram.studies.hsu2018.queue import QUEUES
from engram.studies.made import Made
from engram.studies.study import Study

Engram = Callable[..., Answer]
UNLIKE = ["normalised by different statistics", "normalise all datasets alike", "or use another method"]
PAPER = "mnist+fashion-mnist+emnist-letters+svhn+cifar100"


@pytest.fixture
def queue(data: Path) -> Path:
    """Small sets under the names of the long queue's; EMNIST letters are missing."""
    sizes = {"mnist": 28, "fashion-mnist": 28, "cyrillic-letters": 28, "svhn": 32, "cifar100": 32}
    classes = {"cyrillic-letters": 26, "cifar100": 100}
    for i, (name, size) in enumerate(sizes.items()):
        made = arrays(classes.get(name, 10), train=3, test=2, size=size)
        made["x_train"][0, 0, 0] = i  # no two sets have the same content
        np.savez(data / f"{name}.npz", **made)
    return data


def test_describe_shows_the_network(engram: Engram, work: Path, queue: Path) -> None:
    answer = engram("describe", "--net", "cnn", "queue-mnist+svhn/domain", "--classes-per-task", "all", "--json")
    assert answer.status == 0, answer.err
    found = answer.json
    assert [(len(task["classes"]), task["outputs"]) for task in found["tasks"]] == [(10, [0, 10]), (10, [0, 10])]
    assert found["net"]["name"] == "cnn"
    assert [layer["activation"] for layer in found["net"]["layers"]][::2] == [
        [10, 28, 28],
        [20, 14, 14],
        [40, 3, 3],
        [256],
    ]
    assert found["net"]["parameters"] == sum(layer["parameters"] for layer in found["net"]["layers"]) == 259_496
    assert "net" not in engram("describe", "queue-mnist+svhn/domain", "--json").json
    shown = engram("describe", "queue-mnist+svhn/domain", "--net", "mlp").out
    assert "net mlp: 267,266 parameters" in shown


def test_runs_name_what_stands_in_for_emnist_letters(engram: Engram, work: Path, queue: Path) -> None:
    answer = engram("run", "long-queue/task", "adam", "--letters", "cyrillic-letters", "--epochs", "1", "--json")
    assert answer.status == 0, answer.err
    (record,) = answer.records
    assert record["scenario"] == QUEUES["cyrillic-letters"] == "long-queue-with-cyrillic-letters/task"
    assert list(record["spec"]["scenario"]["images"]) == PAPER.replace("emnist", "cyrillic").split("+")
    assert list(record["environment"]["data"]) == PAPER.replace("emnist", "cyrillic").split("+")
    assert [len(row) for row in record["accuracy"]] == list(range(1, 79))
    again = engram("run", "--spec", record["key"], "--json")
    assert (again.status, again.records[0]["key"]) == (0, record["key"])
    unnamed = engram("run", "long-queue/task", "adam")
    assert (unnamed.status, "--letters cyrillic-letters" in unnamed.err) == (2, True)


def test_sets_whose_classes_have_no_common_divisor_are_a_task_each(engram: Engram, work: Path, data: Path) -> None:
    """4 and 5 classes; 4 and 6 make tasks of two, 3 and 9 of three."""
    for classes in (3, 5, 6, 9):
        np.savez(data / f"of{classes}.npz", **arrays(classes))
    for other, tasks in (("tiny+of5", [4, 5]), ("tiny+of6", [2] * 5), ("of3+of9", [3] * 4)):
        found = engram("describe", f"queue-{other}/task", "--json").json
        assert [len(task["classes"]) for task in found["tasks"]] == tasks
    assert engram("run", "queue-tiny+of5/task", "adam", "--epochs", "1").status == 0
    single = engram("describe", "queue-tiny+of5/task", "--classes-per-task", "1", "--json").json
    assert len(single["tasks"]) == 9
    wrong = engram("describe", "queue-tiny+of6/task", "--classes-per-task", "4")
    assert (wrong.status, "those of every dataset: 1, 2\n" in wrong.err) == (2, True)


@pytest.mark.parametrize("kind", ["task", "domain", "class", "class-known", "iid"])
def test_every_kind_of_queue_runs(engram: Engram, work: Path, queue: Path, kind: str) -> None:
    call = ("run", f"queue-mnist+svhn/{kind}", "ewc", "--epochs", "1", "--order", "shuffled", "--fit", "crop", "--json")
    answer = engram(*call)
    assert answer.status == 0, answer.err
    assert len(answer.records[0]["accuracy"]) == 10


def test_the_cnn_runs_by_a_flag_and_has_its_own_key(engram: Engram, work: Path, queue: Path) -> None:
    call = ("run", "split-mnist/task", "online-ewc", "--epochs", "1", "--json")
    mlp, cnn, zero = (engram(*call, *more) for more in ((), ("--net", "cnn"), ("--net=cnn", "--heads", "zero")))
    assert [answer.status for answer in (mlp, cnn, zero)] == [0, 0, 0]
    nets = [answer.records[0]["spec"]["net"] for answer in (mlp, cnn, zero)]
    assert nets == [
        {"name": "mlp", "hidden": [400, 400], "heads": "random", "init": "torch"},
        {"name": "cnn", "heads": "random"},
        {"name": "cnn", "heads": "zero"},
    ]
    assert len({answer.records[0]["key"] for answer in (mlp, cnn, zero)}) == 3


def test_reproduce_makes_the_runs_of_columns_and_compare_takes_the_stand_in(
    engram: Engram, work: Path, queue: Path
) -> None:
    call = ("reproduce", "table5", "--columns", "adam", "--letters", "cyrillic-letters", "--seeds", "1")
    answer = engram(*call, "--workers", "1")
    assert answer.status == 0, answer.err
    assert "Cyrillic letters stand in for EMNIST letters" in answer.out
    assert (work / "results/hsu2018/table5.jsonl").is_file()
    found = engram("compare", "table5", "--columns", "adam", "adagrad", "--json").json
    assert [cell["row"] for cell in found[::2]] == ["1", "11", "21", "31", "41", "51", "61", "71", "78"]
    assert {(cell["column"], cell["n"], cell["note"]) for cell in found} == {
        ("adam", 1, "Cyrillic letters stand in for EMNIST letters"),
        ("adagrad", 0, "no runs are recorded"),
    }
    assert all(cell["verdict"] == "missing" for cell in found if cell["column"] == "adagrad")
    again = engram(*call, "--workers", "1")
    assert "recorded before" in " ".join(again.err.split())


def test_the_protocol_decides_which_runs_are_made_and_compared(
    engram: Engram, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No run is made: the settings are looked at, and records are written by hand."""
    made: dict[str, list[Setting]] = {}
    for protocol, accuracy in (("own", 80.0), ("common", 85.0)):

        def note(study: Study, *_: object, protocol: str, columns: list[str], letters: Any, **__: object) -> Made:
            found = results_of(study).settings_to_run([], columns, protocol, letters=letters)
            made[protocol] = found
            return Made()

        monkeypatch.setattr("engram.cli.study.make_runs", note)
        call = ("reproduce", "table5", "--columns", "adam", "si/best", "--protocol", protocol)
        assert engram(*call, "--letters", "cyrillic-letters").status == 0
        rows = [[accuracy] * i for i in range(1, 79)]
        append_record(Path("results/table5.jsonl"), run_of(made[protocol][1], 0, accuracy, accuracy=rows))
    for protocol, reset in (("own", True), ("common", False)):
        adam, si, *_ = made[protocol]
        assert adam.method == "adam"
        assert (si.method, si.scenario) == ("si", QUEUES["cyrillic-letters"])
        assert (si.value("method.coef"), si.value("training.reset_optimizer")) == (0.01, reset)
    assert [len(settings) for settings in made.values()] == [7, 7]
    for protocol, accuracy in (("own", 80.0), ("common", 85.0)):
        call = ("compare", "table5", "--rows", "78", "--columns", "si/best", "--protocol", protocol, "--json")
        assert [cell["ours"] for cell in engram(*call).json] == [accuracy]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["run", "split-mnist/task", "adam", "--net", "resnet"], ["net 'resnet' is unknown", "did you mean resnet18"]),
        (["run", "split-tiny/task", "adam", "--net", "cnn"], ["images of 6×6 pixels are too small for net cnn"]),
        (["run", "split-mnist/task", "adam", "--letters", "cyrillic-letters"], ["has no letters to replace"]),
        (["run", "long-queue/task", "adam", "--letters", "greek"], ["dataset 'greek' is unknown"]),
        (["run", "queue-mnist+mnist/task", "adam"], ["mnist is in the queue twice"]),
        (["run", "queue-mnist+svhn/task", "adam", "--classes-per-task", "3"], ["classes_per_task 3", "mnist"]),
        (["run", "queue-mnist+svhn/task", "adam", "--classes-per-task", "few"], ["classes_per_task few"]),
        (["run", "split-mnist/task", "adam", "--classes-per-task", "all"], ["classes_per_task all"]),
        (["run", "queue-mnist+svhn/task", "adam", "--size", "0"], ["size 0 is out of range"]),
        (["describe", "queue-mnist+svhn/task", "--net", "rnn"], ["net 'rnn' is unknown"]),
        (["run", "queue-mnist+svhn/iid", "rehearsal-c"], UNLIKE),
        (["search", "queue-mnist+svhn/iid", "rehearsal-c"], UNLIKE),
        (["run", "queue-mnist+svhn/class", "rtf", "--protocol", "common"], UNLIKE),
        (["run", "queue-mnist+svhn/task", "offline+dgr", "--protocol", "common"], UNLIKE),
        (["search", "queue-mnist+svhn/task", "offline+dgr", "--protocol", "common"], UNLIKE),
        (["reproduce", "table5", "--columns", "sgd"], ["column 'sgd' is unknown"]),
        (["reproduce", "table5", "--columns", "adam", "--seeds", "1"], ["--letters cyrillic-letters"]),
        (["compare", "table6", "--rows", "2"], ["row '2' is unknown"]),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(
    engram: Engram, work: Path, queue: Path, call: list[str], words: list[str]
) -> None:
    answer = engram(*call)
    assert answer.status == 2, answer.err
    assert all(word in " ".join(answer.err.split()) for word in words), answer.err
    assert list(work.iterdir()) == []


def test_bench_measures_the_cnn_on_a_queue(
    engram: Engram, work: Path, queue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engram.bench.measure.ROUNDS", 1)
    monkeypatch.setattr("engram.bench.measure.STEPS", 2)
    answer = engram("bench", "long-queue/task", "si", "--letters", "cyrillic-letters", "--net", "cnn", "--json")
    assert answer.status == 0, answer.err
    found = answer.json
    assert (found["scenario"], found["net"], found["dataloader_ratio"]) == (QUEUES["cyrillic-letters"], "cnn", None)
    assert 0 < found["products_ms"] == pytest.approx(found["gemm_share"] * found["step_ms"])
    assert 100 < found["peak_mb"] < 1500
