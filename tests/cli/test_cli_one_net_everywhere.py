"""One network of a user's own, with batch norm and dropout: the same bits wherever it is run."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_helpers import Answer

import engram as eg
from engram.runs.spec import from_json

Engram = Callable[..., Answer]
NET = """
from torch import nn


class Small(nn.Module):
    def __init__(self, shape, outputs, width: int = 6):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(shape[0], width, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Dropout(0.3)
        )
        self.head = nn.Linear(4 * width, outputs)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))
"""
CALL = ("run", "split-tiny/class", "er", "--net", "small", "--file", "small.py", "--epochs", "1", "--json")
ENGINES = [("--workers", "1"), ("--workers", "2"), pytest.param(("--engine", "ray"), marks=pytest.mark.slow)]


def bits(record: dict[str, object]) -> tuple[object, ...]:
    """Mean losses per task are sums over all steps: another bit in a weight shows there."""
    return record["key"], record["losses"], record["accuracy"]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_command_line_its_engines_a_spec_and_a_resumed_run_agree(
    engram: Engram, work: Path, data: Path, engine: tuple[str, str]
) -> None:
    if "ray" in engine:
        pytest.importorskip("ray", reason="the extra ray is not installed")
    (work / "small.py").write_text(NET)
    answer = engram(*CALL, "--seeds", "2", *engine)
    assert answer.status == 0, answer.err
    first, second = sorted(answer.records, key=lambda record: int(record["seed"]))
    assert first["losses"] != second["losses"]
    again = engram("run", "--spec", first["key"], "--file", "small.py", "--out", "again", "--json")
    assert again.status == 0, again.err
    assert bits(again.records[0]) == bits(first)

    spec = from_json(first["spec"])
    ended = False

    def end_after_a_task(progress: object) -> None:
        nonlocal ended
        if progress.accuracy and not ended:
            ended = True
            raise KeyboardInterrupt

    options = {"seed": 0, "net": spec.net, "training": spec.training, "out": work / "resumed"}
    with pytest.raises(KeyboardInterrupt):
        eg.run(spec.scenario, eg.ER(), watch=end_after_a_task, **options)
    resumed = eg.run(spec.scenario, eg.ER(), watch=end_after_a_task, **options)
    assert (resumed.key, resumed.losses, resumed.accuracy) == bits(first)

    (work / "small.py").write_text(NET.replace("Dropout(0.3)", "Dropout(0.4)"))
    edited = engram(*CALL)
    assert edited.status == 0, edited.err
    assert edited.records[0]["key"] != first["key"]


def test_python_gives_the_same(engram: Engram, work: Path, data: Path) -> None:
    (work / "small.py").write_text(NET)
    (first,) = engram(*CALL).records
    found = importlib.util.spec_from_file_location("small", work / "small.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    spec = from_json(first["spec"])
    record = eg.run(spec.scenario, eg.ER(), seed=0, net=module.Small, training=spec.training)
    assert (record.losses, record.accuracy) == bits(first)[1:]
