"""State that a resumed run would not have is refused by name, or undone at every boundary."""

from dataclasses import dataclass

import pytest
import torch
from helpers import Run, blobs

import engram as eg
from engram.learning.combine import combine
from engram.learning.state import UndeclaredStateError

TRAINING = eg.Training(epochs=1, batch=16, lr=0.01)


def go(method, **options) -> Run:
    return Run(eg.split(blobs(6), kind="class").deal(0), method, TRAINING, eg.MLP(12), **options)


class Forgetful(eg.Method):
    """Counts what it has seen, and does not say so."""

    def end_task(self, learner, task):
        self.seen = getattr(self, "seen", 0) + len(task.train)


def test_undeclared_state_is_refused_at_the_first_boundary_with_what_to_do():
    with pytest.raises(
        UndeclaredStateError, match=r"Forgetful has an attribute seen .*`kept`.*`working`.*_seen"
    ) as error:
        go(Forgetful)
    assert "resumed run would lose it" in str(error.value)


def test_undeclared_state_of_start_is_refused_before_the_first_task():
    class Starts(eg.Method):
        def start(self, learner, tasks):
            self.seen = 0

    told = []
    with pytest.raises(UndeclaredStateError, match="attribute seen"):
        go(Starts, watch=told.append)
    assert told == []


def test_declared_state_is_kept():
    class Counts(Forgetful):
        kept = ("seen",)

    whole = go(Counts)
    assert [checkpoint["method"] for checkpoint in whole.checkpoints] == [[{"seen": n}] for n in (80, 160, 240)]


def test_each_member_of_a_combination_declares_its_own():
    with pytest.raises(UndeclaredStateError, match="Forgetful has an attribute seen"):
        go(lambda: combine([eg.L2(), Forgetful()]))


def test_scratch_and_working_state_are_gone_after_each_boundary():
    found = []

    class Scratch(eg.Method):
        working = ("teacher",)

        def begin_task(self, learner, task):
            found.append((hasattr(self, "_count"), hasattr(self, "teacher")))
            self._count, self.teacher = 1, learner.frozen()

    go(Scratch)
    assert found == [(False, False)] * 3


def test_scratch_that_start_makes_is_refused_because_later_tasks_would_not_have_it():
    class Allocates(eg.Method):
        def start(self, learner, tasks):
            self._pull = torch.zeros(3)

    with pytest.raises(UndeclaredStateError, match=r"_pull before the first task.*begin_task"):
        go(Allocates)


def test_working_state_is_as_start_made_it_in_every_task():
    found = []

    class Gates(eg.Method):
        working = ("gates", "last")

        def start(self, learner, tasks):
            self.gates, self.last = torch.rand(3, generator=learner.rng("gates")), -1

        def begin_task(self, learner, task):
            found.append((self.gates.tolist(), self.last))
            self.last = task.index

    whole = go(Gates)
    assert len(found) == 3
    assert len({str(state) for state in found}) == 1
    go(Gates, resume=whole.checkpoints[0])
    assert found[3:] == found[:2]


def test_working_state_of_start_that_is_changed_in_place_is_refused():
    class Mutates(eg.Method):
        working = ("gates",)

        def start(self, learner, tasks):
            self.gates = torch.zeros(3)

        def end_task(self, learner, task):
            self.gates += 1

    with pytest.raises(UndeclaredStateError, match=r"Mutates.gates is working state .*`kept`"):
        go(Mutates)


def test_a_hyper_parameter_that_changes_is_refused():
    @dataclass
    class Decays(eg.Method):
        rate: float = 1.0

        def end_task(self, learner, task):
            self.rate /= 2

    with pytest.raises(UndeclaredStateError, match=r"hyper-parameter rate from 1\.0 to 0\.5.*`kept`"):
        go(Decays)
