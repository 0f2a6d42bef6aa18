"""Measured memory above the declared or the allowed is an error; the outcome describes the network that was trained."""

from dataclasses import dataclass

import numpy as np
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


@dataclass
class Notes(Hoards):
    """Keeps no more images than it declares, and numbers besides."""

    kept = ("buffer", "numbers")
    numbers_of_task: int = 1

    def start(self, learner, tasks):
        self.buffer, self.numbers = [torch.zeros(200)], []

    def end_task(self, learner, task):
        self.numbers += [0.5] * self.numbers_of_task


def test_a_few_numbers_need_not_be_declared():
    assert go(Notes).outcome.memory["kept"] == {"buffer": 800, "numbers": 24}
    assert go(Notes, memory_budget=800).outcome.status == "done"
    with pytest.raises(MemoryBudgetError, match=r"keeps 2,000 bytes .*buffer 800, numbers 1,200\) and declares 800"):
        go(lambda: Notes(numbers_of_task=150))


def keeping(value, **options):
    """A run of a method that keeps one value."""

    class KeepsOne(eg.Method):
        kept = ("value",)

        def end_task(self, learner, task):
            self.value = value

    return go(KeepsOne, **options)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ([[0.5] * 36] * 10, 10 * 36 * 8),
        ([True, False, 1, 2.5], 1 + 1 + 8 + 8),
        ({"a": [1, 2], 3: 4.0, (5, 6): None}, 2 * 8 + 8 + 2 * 8),
        ("Käse", 5),
        (["ab", "c"], 3),
        ([torch.zeros(3), 1], 12 + 8),
        (7, 0),
        (0.5, 0),
        (1 << 79, 10),  # its bits hold more than a counter
        (None, 0),
    ],
)
def test_numbers_and_text_are_counted(value, size):
    assert keeping(value).outcome.memory["kept"] == {"value": size}


def test_pixels_in_a_list_are_held_to_the_budget():
    with pytest.raises(MemoryBudgetError, match=r"value 2,880\), more than memory_budget 10"):
        keeping([[0.5] * 36] * 10, memory_budget=10)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({1, 2}, "set"),
        ([np.zeros(3)], "ndarray"),
        (lambda: torch.zeros(3), "function"),
        (eg.split(blobs(6, size=5)).deal(0)[0], "Task"),
    ],
)
def test_what_no_checkpoint_could_hold_is_refused_without_checkpoints_too(value, kind):
    with pytest.raises(ValueError, match=rf"value is kept and holds a {kind}; keep tensors, numbers, text"):
        keeping(value)


class Store:
    """A store with a state of its own, as torch's optimisers and networks have."""

    def __init__(self):
        self.rows = []

    def state_dict(self):
        return {"rows": self.rows}

    def load_state_dict(self, state):
        self.rows = state["rows"]


def test_an_object_with_a_state_counts_what_is_in_that():
    class KeepsStore(eg.Method):
        kept = ("store",)

        def start(self, learner, tasks):
            self.store = Store()

        def end_task(self, learner, task):
            self.store.rows.append(torch.zeros(100))

    assert go(KeepsStore).outcome.memory["kept"] == {"store": 1200}


@pytest.mark.parametrize("make", [eg.DGR, eg.RtF, lambda: eg.Rehearsal(capacity=60)])
def test_notes_and_optimisers_of_the_packages_own_methods_are_not_counted(make):
    kept = go(make).outcome.memory["kept"]
    assert {name for name, size in kept.items() if not size} == {*kept} & {
        "owners", "scalings", "scales", "generator_optimizer",
    }  # fmt: skip


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
