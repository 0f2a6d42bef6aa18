"""What a network holds beside its state: a run goes on to the same bits, or writes no checkpoint and says why."""

import copy
import enum
import itertools
import random
from collections import deque
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers import through_a_file
from odd_state import Plain, Tally, learn
from torch import nn

import engram as eg
from engram.learning.outcome import MisfitError


class Counts(Plain):
    """A number and a set that nobody calls buffers."""

    calls = 0

    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.shapes = set()

    def forward(self, x):
        if self.training:
            self.calls += 1
            self.shapes.add(tuple(x.shape))
        return super().forward(x) * (1 + self.calls / 10 + len(self.shapes))


class Centres(Plain):
    """A buffer that the state dict does not have."""

    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.register_buffer("mean", torch.zeros(36), persistent=False)

    def forward(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * self.flat(x).mean(0).detach()
        return self.out(self.hidden(self.flat(x) - self.mean).relu())


class Draws(Plain):
    """Generators of its own."""

    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.torch, self.numpy = torch.Generator().manual_seed(0), np.random.default_rng(0)

    def forward(self, x):
        if self.training:
            x = x + 0.1 * torch.randn(x.shape, generator=self.torch) + self.numpy.random()
        return super().forward(x)


class Looks(Plain):
    """Keeps what it computed last, with its graph."""

    def forward(self, x):
        self.last = self.hidden(self.flat(x))
        return self.out(self.last.relu())


class HoldsObject(Plain):
    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.tally = Tally(self.hidden)
        self.tally.own = Tally(None)

    def forward(self, x):
        if self.training:
            self.tally.mean += 0.1
            self.tally.own.inner["calls"] += 1
        return super().forward(x - self.tally.mean) * (1 + self.tally.own.inner["calls"] / 10)


class NamesItsParts(Plain):
    """Reaches its weights, a buffer and a layer by other ways; a copy of them would not learn."""

    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.register_buffer("calls", torch.zeros(()))
        self.ways, self.tally = [self.hidden.weight, self.hidden.bias, self.calls], Tally([self.out])

    def forward(self, x):
        if self.training:
            self.ways[2].add_(0.1)
            self.tally.mean += 0.1
        hidden = nn.functional.linear(self.flat(x), self.ways[0], self.ways[1])
        return self.tally.layer[0](hidden.relu()) * (1 + self.calls + self.tally.mean)


class HeldTwice(Plain):
    """A list and a tensor that are reached by two ways."""

    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.calls, self.mean = [0.0], torch.zeros(1)
        self.again = {"calls": self.calls, "mean": self.mean}

    def forward(self, x):
        if self.training:
            self.calls[0] += 0.1
            self.mean += 0.1
        return super().forward(x) * (1 + self.again["calls"][0] + self.again["mean"])


class ViewsBuffer(Plain):
    """A view of a buffer, through which the buffer is changed."""

    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.register_buffer("counts", torch.zeros(2))
        self.first = self.counts[:1]

    def forward(self, x):
        if self.training:
            self.first += 0.1
        return super().forward(x) * (1 + self.counts.sum())


class Slots:
    __slots__ = ("calls",)

    def __init__(self):
        self.calls = 0


class HoldsCollections(Plain):
    """A deque with a length, an array, a namespace, an object with slots, a list of objects."""

    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.last, self.sums = deque(maxlen=3), np.zeros(2)
        self.space, self.slots, self.tallies = SimpleNamespace(calls=0), Slots(), [Tally(None), Tally(None)]

    def forward(self, x):
        if self.training:
            self.last.append(0.1 * (1 + len(self.last)))
            self.sums += 0.1
            self.space.calls += 1
            self.slots.calls += 2
            self.tallies[1].mean += 0.1
        count = self.space.calls + self.slots.calls + self.tallies[1].mean
        return super().forward(x) * (1 + sum(self.last) + float(self.sums.sum()) + count / 10)


class OddNumbers(Plain):
    """Numbers that NumPy does not have, or not in the order of this machine; a generator of another kind."""

    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.half, self.few = torch.zeros(1, dtype=torch.bfloat16), torch.eye(3).to_sparse()
        self.turned, self.read = torch.ones(1, dtype=torch.cfloat).conj(), np.zeros(2, ">f4")
        self.old, self.fast = np.random.RandomState(0), np.random.Generator(np.random.SFC64(0))
        self.draw, self.size, self.drawn = random.Random(0).random, None, 0

    def forward(self, x):
        if self.training:
            self.half += 0.5
            self.few = self.few * 1.1
            self.turned = self.turned + 0.1
            self.read = self.read + np.array(0.5, ">f4")
            self.size = x.shape
            self.drawn = self.old.rand() + self.fast.random() + self.draw()
        odd = self.half.float() + self.few.to_dense().sum() + self.turned.real + float(self.read.sum())
        return super().forward(x) * (odd + self.drawn + len(self.size or ()))


class Hidden(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.register_buffer("mean", torch.zeros(1), persistent=False)


class HoldsModules(Plain):
    """Modules where `modules()` does not see them: a copy that follows, and one with state of its own."""

    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.others = [copy.deepcopy(self.hidden), Hidden()]

    def forward(self, x):
        if self.training:
            self.others[0].weight.data.lerp_(self.hidden.weight.data, 0.1)
            self.others[1].calls += 1
            self.others[1].mean += 0.1
        follower, counter = self.others
        return super().forward(x) * (1 + follower.weight.detach().sum() + counter.calls / 10 + counter.mean)


class OnWeight(Plain):
    """A number that is an attribute of a weight, in a slot with two underscores, in a flag."""

    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.hidden.weight.calls, self.secret, self.flag = 0, Secret(), Flag.ONE

    def forward(self, x):
        if self.training:
            self.hidden.weight.calls += 1
            self.secret.add()
            self.flag = Flag.ONE | Flag.TWO
        return super().forward(x) * (1 + self.hidden.weight.calls / 10 + self.secret.calls() + self.flag.value)


class Secret:
    __slots__ = ("__calls",)

    def __init__(self):
        self.__calls = 0

    def add(self):
        self.__calls += 1

    def calls(self):
        return self.__calls


class Flag(enum.Flag):
    ONE = 1
    TWO = 2


class MakesViews(Plain):
    """Views that are made in training, of a buffer, of a tensor, and of one that is itself made there."""

    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.register_buffer("counts", torch.zeros(4))
        self.sums, self.new, self.steps, self.views = torch.zeros(4), torch.zeros(4), 0, []

    def forward(self, x):
        if self.training:
            for view in self.views:
                view += 0.1
            self.steps += 1
            self.new = self.new.clone()
            self.views = [rows[self.steps % 4 :][:1] for rows in (self.counts, self.sums, self.new)]
        return super().forward(x) * (1 + self.counts.sum() + self.sums[0] + self.new[1])


class HoldsInDeque(Plain):
    """A list in a deque, which goes on being the same one; a tensor that grows, and is reached by two ways."""

    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.now, self.rows = [0.0], torch.zeros(1)
        self.last, self.again = deque([self.now], maxlen=2), [self.rows]

    def forward(self, x):
        if self.training:
            self.now[0] += 0.1
            self.rows.data = torch.cat([self.rows.data, torch.ones(1)])
        return super().forward(x) * (1 + self.last[0][0] + self.again[0].sum())


class LeavesBuffer(Plain):
    """Another name of a buffer goes on with what the buffer was."""

    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.register_buffer("mean", torch.zeros(1))
        self.names = [self.mean]

    def forward(self, x):
        if self.training:
            self.mean = self.mean + 1
            self.names[0] += 0.1
        return super().forward(x) * (1 + self.names[0] + self.mean)


class FreezesLayer(eg.Method):
    def begin_task(self, learner, task):
        if task.index == 1:
            learner.net.hidden.requires_grad_(False)
            self._before = learner.net.hidden.weight.clone()

    def end_task(self, learner, task):
        if task.index == 1:
            assert torch.equal(self._before, learner.net.hidden.weight)


@pytest.mark.parametrize(
    "net",
    [
        Counts,
        Centres,
        Draws,
        Looks,
        HoldsObject,
        NamesItsParts,
        HeldTwice,
        ViewsBuffer,
        HoldsCollections,
        OddNumbers,
        HoldsModules,
        OnWeight,
        MakesViews,
        HoldsInDeque,
        LeavesBuffer,
    ],
)
def test_what_a_network_holds_beside_its_state_is_resumed(net):
    """Also a second time: a resumed run compares with the network that it began with itself."""
    checkpoints, later = [], []
    whole = learn(eg.Adam(), net, save=lambda c: checkpoints.append(through_a_file(c)))
    resumed = learn(eg.Adam(), net, resume=checkpoints[0], save=lambda c: later.append(through_a_file(c)))
    again = learn(eg.Adam(), net, resume=later[0])
    assert [run.resumed_after_task for run in (resumed, again)] == [1, 2]
    assert resumed.losses == again.losses == whole.losses
    assert resumed.accuracy == again.accuracy == whole.accuracy


def test_a_layer_that_is_frozen_meanwhile_stays_frozen():
    """Adam's momentum would move it on, had it gradients of 0."""
    checkpoints = []
    whole = learn(FreezesLayer(), Plain, save=lambda c: checkpoints.append(through_a_file(c)))
    assert "beside" not in checkpoints[0]
    frozen = [((f"hidden.{name}", "requires_grad"), "set", False) for name in ("weight", "bias")]
    assert checkpoints[1]["beside"] == frozen
    assert learn(FreezesLayer(), Plain, resume=checkpoints[0]).losses == whole.losses


class Odd(Plain):
    def forward(self, x):
        self.odd = slice(0, len(x))
        return super().forward(x)


class PutsObject(eg.Method):
    def begin_task(self, learner, task):
        learner.net.tally = Tally(None)


class HooksLayer(eg.Method):
    def start(self, learner, tasks):
        seen = []
        learner.net.hidden.register_forward_hook(lambda module, given, found: seen.append(float(found.detach().mean())))


class HooksLast(eg.Method):
    def start(self, learner, tasks):
        last = {}

        def look(module, given, found):
            last["found"] = found.detach()

        learner.net.hidden.register_forward_hook(look)


class CountsInClosure(Plain):
    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        calls = [0]

        def count(more):
            calls[0] += more
            return calls[0]

        self.count = count

    def forward(self, x):
        return super().forward(x) * (1 + self.count(int(self.training)))


class Iterates(Plain):
    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.numbers = itertools.cycle([1.0, 2.0, 3.0])

    def forward(self, x):
        return super().forward(x) * (next(self.numbers) if self.training else 1)


class Sums(Plain):
    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.sum = Fraction(1)

    def forward(self, x):
        self.sum += Fraction(1, 10)
        return super().forward(x) * float(self.sum)


class Replaces(Plain):
    """The second of two functions that have one name and hold the same."""

    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.both = (lambda x: x), (lambda x: 2 * x)
        self.last = self.both[0]

    def forward(self, x):
        self.last = self.both[1]
        return self.last(super().forward(x))


class CountsOnFunction(Plain):
    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)

        def scale(x):
            scale.calls += 1
            return x * scale.calls

        scale.calls = 0
        self.scale = scale

    def forward(self, x):
        return self.scale(super().forward(x))


class CountsOnList(Plain):
    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.history = History()
        self.history.calls = 0

    def forward(self, x):
        self.history.calls += 1
        return super().forward(x) * self.history.calls


class History(list):
    pass


class SwitchesPart(Plain):
    """Its state has all weights of the current layer twice, and a fresh network would read both into the first."""

    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.current = self.layers[0]

    def forward(self, x):
        self.current = self.layers[1]
        return super().forward(x)


class ReplacesPart(Plain):
    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.drop = nn.Identity()

    def forward(self, x):
        self.drop = nn.Dropout(0.5).train(self.training)
        return super().forward(self.drop(x))


class HooksWeight(Plain):
    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        calls = [0]

        def scale(gradient):
            calls[0] += 1
            return gradient * calls[0]

        self.hidden.weight.register_hook(scale)


class Perturbs(Plain):
    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.delta = torch.zeros(36, requires_grad=True)

    def forward(self, x):
        if self.delta.grad is not None:
            self.delta = (self.delta + self.delta.grad.sign()).detach().requires_grad_()
        return super().forward(self.flat(x) + self.delta)


class Nests(Plain):
    last = None

    def forward(self, x):
        for _ in range(1000):
            self.last = [self.last, "more"]
        return super().forward(x)


@pytest.mark.parametrize(
    ("method", "net", "message"),
    [
        (eg.Adam, Odd, "the network's attribute odd changed, and has a slice in it"),
        (eg.Adam, CountsInClosure, "the network's attribute count changed, and has a function in it"),
        (eg.Adam, Iterates, "the network's attribute numbers changed, and has a cycle in it"),
        (eg.Adam, Sums, "the network's attribute sum changed, and has a Fraction in it"),
        (eg.Adam, Replaces, "the network's attribute last changed, and has a function in it"),
        (eg.Adam, CountsOnFunction, "the network's attribute scale changed, and has a function in it"),
        (eg.Adam, CountsOnList, "the network's attribute history changed, and is a History with attributes"),
        (eg.Adam, SwitchesPart, "the network has another part as current now"),
        (eg.Adam, ReplacesPart, "the network's attribute drop.__class__ changed, and has a type in it"),
        (eg.Adam, Perturbs, "the network's attribute delta changed, and is a tensor with a gradient of its own"),
        (eg.Adam, Nests, "the network's attribute last changed, and has more than 50 collections inside one another"),
        (
            eg.Adam,
            HooksWeight,
            "calls of HooksWeight.__init__.<locals>.scale at hidden.weight, which a hook of its layers uses, changed",
        ),
        (PutsObject, Plain, "the network's attribute tally changed, and has a Tally in it"),
        (
            HooksLayer,
            Plain,
            "seen of HooksLayer.start.<locals>.<lambda> at hidden, which a hook of its layers uses, changed",
        ),
    ],
)
def test_what_no_checkpoint_can_hold_is_said_once_and_none_is_written(method, net, message, capsys):
    checkpoints = []
    whole = learn(method(), net, save=checkpoints.append)
    assert checkpoints == []
    assert len(whole.accuracy) == 3
    said = capsys.readouterr().err
    assert said.count(f"{message}: no checkpoint can hold that, so that this run starts again if it is stopped") == 1


def test_what_a_hook_computed_last_begins_anew_in_words(capsys):
    """A resumed run has it after its first step."""
    checkpoints = []
    whole = learn(HooksLast(), Plain, save=lambda c: checkpoints.append(through_a_file(c)))
    assert capsys.readouterr().err == ""
    assert learn(HooksLast(), Plain, resume=checkpoints[0]).losses == whole.losses
    said = capsys.readouterr().err
    assert "last of HooksLast.start.<locals>.look at hidden, which a hook of the network's layers uses, begins" in said


def test_a_checkpoint_whose_plain_attributes_have_another_form_does_not_fit():
    checkpoints = []
    learn(eg.Adam(), Counts, save=lambda c: checkpoints.append(through_a_file(c)))
    with pytest.raises(MisfitError):
        learn(eg.Adam(), Counts, resume={**checkpoints[0], "beside net": []})
