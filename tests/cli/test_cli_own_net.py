"""A network that is plain PyTorch on the command line: its parameters are flags, and it works in workers."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from cli_helpers import Answer

import engram as eg

Engram = Callable[..., Answer]
NET = '''
from torch import nn


class Small(nn.Module):
    """One convolution."""

    def __init__(self, shape, outputs, width: int = 6):
        super().__init__()
        pixels = (shape[1] // 3) * (shape[2] // 3)
        self.body = nn.Sequential(nn.Conv2d(shape[0], width, 3, stride=3), nn.BatchNorm2d(width), nn.ReLU())
        self.head = nn.Linear(width * pixels, outputs)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))
'''


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_module_class_in_a_file_is_a_network(engram: Engram, work: Path, data: Path, workers: str) -> None:
    (work / "my_net.py").write_text(NET)
    call = ("run", "split-tiny/class", "ewc", "--net", "my-net", "--file", "my_net.py", "--width", "4", "--epochs", "1")
    answer = engram(*call, "--seeds", "2", "--workers", workers, "--json")
    assert answer.status == 0, answer.err
    first = min(answer.records, key=lambda record: int(record["seed"]))
    assert (first["status"], first["spec"]["net"]["name"], first["spec"]["net"]["width"]) == ("done", "my-net", 4)
    again = engram("run", "--spec", first["key"], "--file", "my_net.py", "--out", "again", "--json")
    assert again.status == 0, again.err
    assert (again.records[0]["key"], again.records[0]["accuracy"]) == (first["key"], first["accuracy"])


def test_its_layers_are_described_and_it_is_listed(engram: Engram, work: Path, data: Path) -> None:
    (work / "my_net.py").write_text(NET)
    net = engram("describe", "split-tiny/class", "--net", "my-net", "--file", "my_net.py", "--json").json["net"]
    assert [layer["layer"] for layer in net["layers"]] == ["body.0: Conv2d", "body.1: BatchNorm2d", "head: Linear"]
    assert [layer["parameters"] for layer in net["layers"][:2]] == [6 * 9 + 6, 12]
    rows = engram("ls", "nets", "--file", "my_net.py", "--json").json
    assert {"net": "my-net", "what": "One convolution", "fields": ["width"]} in rows
    assert engram("run", "split-tiny/class", "adam", "--net", "my-net", "--file", "my_net.py", "--help").status == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_run_starts_from_a_file_of_weights(engram: Engram, work: Path, data: Path, workers: str) -> None:
    torch.save(eg.ConvNet(width=3).build((1, 6, 6), 10).state_dict(), work / "w.pt")
    call = ("run", "split-tiny/class", "ewc", "--net", "convnet", "--width", "3", "--epochs", "1", "--seeds", "2")
    answer = engram(*call, "--workers", workers, "--weights", "w.pt", "--freeze", "backbone", "--json")
    assert answer.status == 0, answer.err
    first = answer.records[0]
    assert (first["status"], first["spec"]["start"]["freeze"]) == ("done", "backbone")
    outputs = first["memory"]["kept"]["weights"] // 4 // 13
    assert first["memory"]["kept"]["weights"] == 4 * 13 * outputs  # 12 features and a bias, nothing of the backbone
    again = engram("run", "--spec", first["key"], "--out", "again", "--json")
    assert again.records[0]["accuracy"] == first["accuracy"]
    assert engram(*call, "--weights", "nothing.pt").status == 2
