"""State in places where nobody looks for it: a run goes on to the same bits, or it is refused in words."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from helpers import blobs
from odd_state import Plain, Tally, learn
from torch import nn

import engram as eg
from engram.learning.state import UndeclaredStateError
from engram.scenarios.split import Split

SHARED = []


class Shares(Plain):
    seen = []  # noqa: RUF012 (the mistake)

    def forward(self, x):
        self.seen.append(len(x))
        return super().forward(x)


class SharesInMethod(eg.Method):
    seen = []  # noqa: RUF012 (the mistake)

    def end_task(self, learner, task):
        self.seen.append(task.index)


class WritesOnLearner(eg.Method):
    def end_task(self, learner, task):
        learner.prototypes = 1


class NewHead(eg.Method):
    def begin_task(self, learner, task):
        if task.index == 1:
            learner.net.out = nn.Linear(8, 4)


class NewNet(eg.Method):
    def begin_task(self, learner, task):
        if task.index == 1:
            learner.net = Plain((1, 6, 6), 4)


class LeavesEvalMode(eg.Method):
    def end_task(self, learner, task):
        learner.net.eval()


class ChangesObject(eg.Method):
    working = ("tally",)

    def start(self, learner, tasks):
        self.tally = Tally(None)

    def after_step(self, learner, batch):
        self.tally.mean += 1


class DrawsFromStart(eg.Method):
    working = ("rng",)

    def start(self, learner, tasks):
        self.rng = torch.Generator().manual_seed(1)

    def loss(self, learner, batch):
        return learner.loss(batch) * torch.rand((), generator=self.rng)


class DrawsAsBefore(DrawsFromStart):
    def start(self, learner, tasks):
        self.rng = np.random.RandomState(1)

    def loss(self, learner, batch):
        return learner.loss(batch) * self.rng.rand()


@pytest.mark.parametrize(
    ("method", "net", "message"),
    [
        (eg.Adam, Shares, "Shares.seen is an attribute of the class, which all runs share, and it changed"),
        (SharesInMethod, Plain, "SharesInMethod.seen is an attribute of the class, which all runs share"),
        (WritesOnLearner, Plain, "learner.prototypes was made by the method, and a resumed run would lose it"),
        (NewHead, Plain, "the network was changed, and its parameter out.weight is not trained"),
        (NewNet, Plain, "the network was changed, and its parameter hidden.weight is not trained"),
        (LeavesEvalMode, Plain, "LeavesEvalMode.end_task leaves the network's layers in another mode"),
        (ChangesObject, Plain, "ChangesObject.tally is working state that start has made and that changed since"),
        (DrawsFromStart, Plain, "DrawsFromStart.rng is working state that start has made and that changed since"),
        (DrawsAsBefore, Plain, "DrawsAsBefore.rng is working state that start has made and that changed since"),
    ],
)
def test_state_that_would_be_lost_is_refused(method, net, message):
    with pytest.raises(UndeclaredStateError, match=message):
        learn(method(), net)
    Shares.seen.clear(), SharesInMethod.seen.clear()


class CountsInClass(Plain):
    calls, tally = 0, Tally(None)

    def forward(self, x):
        type(self).calls += 1
        self.tally.mean += 1
        return super().forward(x)


class Remembers(eg.Method):
    def end_task(self, learner, task):
        SHARED.append(task.index)


def test_a_variable_of_a_module_that_changes_is_said_once(capsys):
    learn(Remembers(), Plain)
    said = capsys.readouterr().err
    assert said.count("test_hidden_state.SHARED is shared by all runs and changed while this one ran") == 1


@pytest.mark.parametrize("name", ["calls", "tally"])
def test_a_number_or_object_of_a_class_that_changes_is_said_once(name, capsys):
    learn(eg.Adam(), CountsInClass)
    said = capsys.readouterr().err
    assert said.count(f"CountsInClass.{name} is shared by all runs and changed while this one ran") == 1


class Doubles(Plain):
    def forward(self, x):
        x *= 2
        return super().forward(x)


@pytest.mark.parametrize("method", [eg.Adam(), eg.ER(capacity=20)])
def test_a_network_that_changes_its_input_is_refused(method):
    """Replay would store what the network has changed."""
    with pytest.raises(ValueError, match="Doubles changes its input in place, which is used again after it"):
        learn(method, Doubles)


class Undefined(Plain):
    def forward(self, x):
        return super().forward(x) * (1 if self.training else float("nan"))


def test_scores_that_are_not_numbers_are_no_result():
    """The largest of them is the first, which would be right for a class of two."""
    outcome = learn(eg.Adam(), Undefined)
    assert outcome.status == "diverged"
    assert outcome.accuracy == []


class AddsInPlace(eg.Method):
    def loss(self, learner, batch):
        batch.x.add_(1)
        return learner.loss(batch)


def test_a_loss_that_changes_its_batch_is_refused():
    """Later hooks, which store images, would get the changed ones."""
    with pytest.raises(ValueError, match=r"AddsInPlace.loss changes batch.x in place, which later hooks get too"):
        learn(AddsInPlace(), Plain)


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnDraw(Split):
    """Draws from the global generator, and not from the seed that it is given."""

    def tasks(self, seed=0, device="cpu"):
        return super().tasks(int(torch.randint(0, 1 << 30, ())), device)


def test_what_an_own_scenario_draws_follows_from_the_seed():
    scenario = OwnDraw(images=(blobs(6),), kind="class", order="shuffled")
    before = torch.random.get_rng_state()
    drawn = [[task.classes for task in scenario.tasks(seed)] for seed in (0, 0, 1, 2, 3)]
    assert drawn[0] == drawn[1]
    assert len(set(map(str, drawn))) > 1
    assert torch.equal(torch.random.get_rng_state(), before)
