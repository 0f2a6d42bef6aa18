"""Measured memory above the declared or the allowed is an error; the outcome describes the network that was trained."""

from dataclasses import dataclass

import pytest
import torch
from helpers import Run, blobs
from torch import nn

import engram as eg
from engram.learning.combine import combine
from engram.learning.memory import MemoryBudgetError

TRAINING = eg.Training(epochs=1, batch=16, lr=0.01)
NET = eg.MLP(12)


def go(method, kind="class", **options) -> Run:
    return Run(eg.split(blobs(6, size=5), kind=kind).deal(0), method, TRAINING, NET, **options)


@dataclass
class Hoards(eg.Method):
    """Keeps 100 floats per task, and declares those of two tasks."""

    kept = ("buffer",)

    def start(self, learner, tasks):
        self.buffer = []

    def end_task(self, learner, task):
        self.buffer.append(torch.zeros(100))

    def kept_bytes(self, net, pixels):
        return 800


def test_keeping_more_than_declared_is_an_error_that_says_how_much():
    told = []
    with pytest.raises(
        MemoryBudgetError, match=r"Hoards keeps 1,200 bytes after task 3 \(buffer 1,200\) and declares 800"
    ):
        Run(eg.split(blobs(6, size=5), kind="class").deal(0), Hoards, TRAINING, NET, watch=told.append)
    assert [progress.task for progress in told if progress.accuracy] == [1, 2]


def test_the_member_that_keeps_too_much_is_named():
    with pytest.raises(MemoryBudgetError, match="Hoards keeps"):
        go(lambda: combine([eg.L2(), Hoards()]))


def test_a_method_that_declares_nothing_is_held_to_the_budget_alone():
    class Undeclared(Hoards):
        kept_bytes = eg.Method.kept_bytes

    assert sum(go(Undeclared).outcome.memory["kept"].values()) == 1200
    assert go(Undeclared, memory_budget=1200).outcome.status == "done"
    with pytest.raises(MemoryBudgetError, match=r"1,200 bytes after task 3 .*more than memory_budget 1,000"):
        go(Undeclared, memory_budget=1000)


@pytest.mark.parametrize(
    "make",
    [
        eg.L2, eg.EWC, eg.OnlineEWC, eg.SI, eg.MAS, eg.LwF, eg.DGR, eg.RtF,
        lambda: eg.Rehearsal(capacity=60), lambda: eg.RehearsalC(capacity=60), lambda: eg.GEM(capacity=60),
        lambda: eg.GEMTextbook(capacity=60), lambda: combine([eg.RtF(), eg.OnlineEWC()]),
        lambda: combine([eg.Rehearsal(capacity=60), eg.SI()]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["task", "class"])
def test_built_in_methods_keep_what_they_declare(make, kind):
    """Buffers are full after three tasks: the declared bytes are those that are kept, exactly."""
    method = make()
    run = Run(eg.split(blobs(6, size=5), kind=kind).deal(0), lambda: method, TRAINING, eg.MLP(12, 10))
    measured = sum(run.outcome.memory["kept"].values())
    net = eg.MLP(12, 10).build((1, 5, 5), 6)
    trained = method.network(net, eg.split(blobs(6, size=5), kind=kind).deal(0))
    assert measured == method.kept_bytes(trained, 25)


# the network that was trained -----------------------------------------------------------------------------------------


class Replaces(eg.Method):
    def network(self, net, tasks):
        return nn.Sequential(nn.Linear(25, 3), nn.ReLU(), nn.Linear(3, 6))


def test_a_network_that_the_method_puts_in_place_is_described():
    facts = {"class": "Sequential", "parameters": 25 * 3 + 3 + 3 * 6 + 6}
    assert go(Replaces).outcome.network == facts
    assert go(eg.Adam).outcome.network == {}
    record = eg.run(eg.split(blobs(6, size=5), kind="class"), Replaces(), net=NET, training=TRAINING)
    assert record.environment["network"] == facts
    assert "network" not in eg.run(eg.split(blobs(6, size=5)), eg.Adam(), net=NET, training=TRAINING).environment
