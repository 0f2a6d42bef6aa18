"""The training recipe on the command line: every part is a flag, and is in the record."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_helpers import Answer

Engram = Callable[..., Answer]
TINY = ("run", "split-tiny/class", "sgd", "--hidden", "8", "--batch", "16")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(work: Path, data: Path) -> None:
    pass


def test_a_recipe_is_recorded_and_repeated_from_its_spec(engram: Engram) -> None:
    recipe = (
        "--epochs", "3", "1", "--schedule", "step", "--lr-drops", "0.4", "0.8", "--lr-factor", "0.5", "--warmup", "2",
        "--clip", "1.5", "--label-smoothing", "0.1", "--optimizer", "adamw", "--betas", "0.9", "0.99",
        "--augment", "crop1", "flip",
    )  # fmt: skip
    (record,) = engram(*TINY, *recipe, "--json").records
    assert record["status"] == "done"
    assert record["steps"] == 3 * 3 + 3  # tasks of 48 images
    chosen = {"epochs": [3, 1], "schedule": "step", "lr_drops": [0.4, 0.8], "lr_factor": 0.5, "warmup": 2,
              "clip": 1.5, "label_smoothing": 0.1, "optimizer": "adamw", "betas": [0.9, 0.99],
              "augment": ["crop1", "flip"]}  # fmt: skip
    assert record["spec"]["training"].items() >= chosen.items()
    Path("record.json").write_text(json.dumps(record))
    (again,) = engram("run", "--spec", "record.json", "--out", "again", "--json").records
    assert (again["key"], again["accuracy"]) == (record["key"], record["accuracy"])


def test_a_record_without_a_recipe_states_none(engram: Engram) -> None:
    (record,) = engram(*TINY, "--epochs", "1", "--json").records
    assert record["spec"]["training"].keys() == {
        "epochs", "steps", "batch", "optimizer", "lr", "momentum", "weight_decay", "drop_last", "reset_optimizer",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--epochs", "3", "2", "1"), "epochs 3 2 1: give one number, or two: first task, other tasks"),
        (("--epochs", "3", "0"), "epochs 0 is out of range"),
        (("--lr-end", "0.1"), "lr_end 0.1: schedule constant has no lr_end; choose from cosine, linear"),
        (("--augment", "flop"), "augment 'flop' is unknown; did you mean flip"),
        (("--augment", "crop99"), "augment crop99: the padding is larger than the images; give at most"),
        (("--clip", "-1"), "clip -1.0 is out of range; give 0 or more"),
    ],
)
def test_wrong_values_are_refused_before_anything_runs(engram: Engram, flags: tuple[str, ...], message: str) -> None:
    answer = engram(*TINY, *flags)
    assert answer.status == 2
    assert message in answer.err


def test_an_optimisers_own_fields_are_flags(engram: Engram) -> None:
    flags = ("--optimizer", "rmsprop", "--optimizer.alpha", "0.9", "--optimizer.centered", "true", "--epochs", "1")
    (record,) = engram(*TINY, *flags, "--optimizer.momentum", "0.5", "--json").records
    training = record["spec"]["training"]
    assert (training["optimizer_options"], training["momentum"]) == (["alpha=0.9", "centered=true"], 0.5)
    Path("record.json").write_text(json.dumps(record))
    (again,) = engram("run", "--spec", "record.json", "--out", "again", "--json").records
    assert (again["key"], again["accuracy"]) == (record["key"], record["accuracy"])
    answer = engram(*TINY, "--optimizer.rho", "0.9")
    assert answer.status == 2
    assert "optimizer option 'rho' is unknown" in answer.err
