"""An augmentation from a file: a word of --augment, in workers and from a spec, and edited code gets a new key."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cli_helpers import Answer

Engram = Callable[..., Answer]
CODE = (
    "import torch\n\n\ndef add_noise(images, rng):\n    return images + {} * torch.rand(images.shape, generator=rng)\n"
)
CALL = ("run", "split-tiny/class", "er", "--capacity", "8", "--epochs", "1", "--hidden", "8", "--file", "noise.py")


@pytest.fixture(autouse=True)
def _file(work: Path, data: Path) -> None:
    Path("noise.py").write_text(CODE.format("0.5"))


def test_a_function_in_a_file_is_an_augmentation(engram: Engram) -> None:
    answer = engram(*CALL, "--augment", "crop1", "add-noise", "--seeds", "2", "--workers", "2", "--json")
    assert answer.status == 0, answer.err
    first = min(answer.records, key=lambda record: int(record["seed"]))
    assert first["spec"]["training"]["augment"] == ["crop1", "add-noise"]
    again = engram("run", "--spec", first["key"], "--file", "noise.py", "--out", "again", "--json")
    assert (again.records[0]["key"], again.records[0]["accuracy"]) == (first["key"], first["accuracy"])
    (plain,) = engram(*CALL, "--augment", "crop1", "--out", "plain", "--json").records
    assert plain["losses"] != first["losses"]


def test_edited_code_gets_a_new_key_and_no_noise_changes_nothing(engram: Engram) -> None:
    keys, losses = [], []
    for amount in ("0.5", "0.0"):
        Path("noise.py").write_text(CODE.format(amount))
        (record,) = engram(*CALL, "--augment", "add-noise", "--out", amount, "--json").records
        keys.append(record["key"])
        losses.append(record["losses"])
    (plain,) = engram(*CALL, "--out", "plain", "--json").records
    assert len({*keys, plain["key"]}) == 3
    assert losses[1] == plain["losses"] != losses[0]


def test_a_wrong_shape_is_refused_in_words(engram: Engram) -> None:
    Path("noise.py").write_text("def add_noise(images, rng):\n    return images[:, :, :2]\n")
    (record,) = engram(*CALL, "--augment", "add-noise", "--json").records
    assert record["status"] == "failed"
    assert "augment add-noise returned torch.float32" in record["error"]
