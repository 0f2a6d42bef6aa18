"""What a method puts on the network counts as kept; what the network is or keeps by itself does not."""

from dataclasses import dataclass

import pytest
import torch
from helpers import blobs, through_a_file
from torch import nn

import engram as eg
from engram.learning.memory import MemoryBudgetError
from engram.learning.train import train
from engram.nets._module import recipe_class

SCENARIO = eg.split(blobs(6), kind="class")  # 3 tasks of 80 images with 36 pixels
TRAINING = eg.Training(epochs=1, batch=16)
IMAGES = 80 * 36 * 4
"""Bytes of the images of a task, as floats."""


class Plain(nn.Module):
    def __init__(self, shape, outputs):
        super().__init__()
        self.flat, self.hidden, self.out = nn.Flatten(), nn.Linear(36, 64), nn.Linear(64, outputs)

    def forward(self, x):
        return self.out(self.hidden(self.flat(x)).relu())


def learn(method, net=Plain, **options):
    return train(SCENARIO.tasks(0), method, recipe_class(net)(), TRAINING, **options)


def kept_with(method, net=Plain, **options):
    return learn(method, net, **options).memory["kept"]


def images_of(task):
    return task.train.batch(torch.arange(80)).x


class Declares(eg.Method):
    def kept_bytes(self, net, pixels):
        return 1_000_000


class OnAttribute(Declares):
    def end_task(self, learner, task):
        learner.net.stash = [*getattr(learner.net, "stash", []), images_of(task)]


class OnLayer(Declares):
    def end_task(self, learner, task):
        learner.net.hidden.stash = {**getattr(learner.net.hidden, "stash", {}), task.index: images_of(task)}


class InNumbers(Declares):
    def end_task(self, learner, task):
        learner.net.stash = getattr(learner.net, "stash", []) + images_of(task).flatten().tolist()


class InBuffers(Declares):
    def end_task(self, learner, task):
        learner.net.register_buffer(f"stash{task.index}", images_of(task))


class InParameters(Declares):
    def end_task(self, learner, task):
        learner.net.register_parameter(f"stash{task.index}", nn.Parameter(images_of(task), requires_grad=False))


class InStart(Declares):
    """Makes room when it starts, and fills that in place."""

    def start(self, learner, tasks):
        learner.net.stash = torch.zeros(3, 80, 36)

    def end_task(self, learner, task):
        learner.net.stash[task.index] = images_of(task)


class InNetwork(Declares):
    def network(self, net, tasks):
        net.register_buffer("stash", torch.zeros(3, 80, 36))
        return net

    end_task = InStart.end_task


@pytest.mark.parametrize("method", [OnAttribute, OnLayer, InBuffers, InParameters, InStart, InNetwork])
def test_images_that_a_method_puts_on_the_network_count_as_kept(method):
    kept = kept_with(method())
    assert sum(kept.values()) == 3 * IMAGES
    assert all(name.startswith(("network.stash", "network.hidden.stash")) for name in kept)


def test_pixels_in_a_list_of_numbers_count_eight_bytes_each():
    assert kept_with(InNumbers()) == {"network.stash": 3 * 80 * 36 * 8}


class TeacherOnNetwork(Declares):
    def end_task(self, learner, task):
        teacher = Plain((1, 6, 6), 6).requires_grad_(False)
        learner.net.teachers = [*getattr(learner.net, "teachers", []), teacher]


def test_networks_in_a_list_on_the_network_count():
    assert kept_with(TeacherOnNetwork()) == {"network.teachers": 3 * 4 * (36 * 64 + 64 + 64 * 6 + 6)}


class Undeclared(OnAttribute):
    kept_bytes = eg.Method.kept_bytes


def test_what_is_on_the_network_and_not_declared_is_refused_by_name():
    message = (
        r"Undeclared keeps 11,520 bytes after task 1 \(network.stash 11,520\) and declares 0; .*name that in `kept`"
    )
    with pytest.raises(MemoryBudgetError, match=message):
        learn(Undeclared())


def test_what_is_on_the_network_is_held_to_the_budget():
    assert learn(OnAttribute(), memory_budget=3 * IMAGES).status == "done"
    with pytest.raises(
        MemoryBudgetError, match=r"after task 3 \(network.stash 34,560\), more than memory_budget 34,559"
    ):
        learn(OnAttribute(), memory_budget=3 * IMAGES - 1)


def test_a_resumed_run_measures_the_same_on_the_network():
    checkpoints = []
    whole = learn(OnAttribute(), save=lambda c: checkpoints.append(through_a_file(c)))
    assert learn(OnAttribute(), resume=checkpoints[0]).memory == whole.memory


class Both(Declares):
    """The network uses what the method keeps."""

    kept = ("images",)

    def end_task(self, learner, task):
        self.images = learner.net.images = images_of(task)


def test_what_is_kept_and_on_the_network_counts_once():
    assert kept_with(Both()) == {"images": IMAGES}


class Bank(Plain):
    """A network with a place for images, which it does not fill itself."""

    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.bank = []


class FillsBank(Declares):
    def end_task(self, learner, task):
        learner.net.bank.append(images_of(task))


def test_a_list_of_the_networks_own_that_the_method_fills_counts():
    assert kept_with(FillsBank(), Bank) == {"network.bank": 3 * IMAGES}


class Rows:
    def __init__(self):
        self.rows = []


class Memory(Plain):
    """A network with places for images: in a buffer, behind a function, in an object."""

    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.register_buffer("slots", torch.zeros(3, 80, 36))
        self.heap, self.rows = [], Rows()

    def remember(self, images):
        self.heap.append(images)


class FillsSlots(Declares):
    def end_task(self, learner, task):
        learner.net.slots[task.index] = images_of(task)


class AsksToRemember(Declares):
    def end_task(self, learner, task):
        learner.net.remember(images_of(task))


class FillsObject(Declares):
    def end_task(self, learner, task):
        learner.net.rows.rows.append(images_of(task))


@pytest.mark.parametrize(("method", "name"), [(FillsSlots, "slots"), (AsksToRemember, "heap"), (FillsObject, "rows")])
def test_places_of_the_network_that_the_method_fills_count(method, name):
    assert kept_with(method(), Memory) == {f"network.{name}": 3 * IMAGES}


# what does not count --------------------------------------------------------------------------------------------------


class KeepsState(Plain):
    """Batch norm, a counter, and what it computed last, with its graph and without."""

    def __init__(self, shape, outputs):
        super().__init__(shape, outputs)
        self.norm, self.calls, self.sizes = nn.BatchNorm1d(64), 0, []

    def forward(self, x):
        if self.training:
            self.calls += 1
            self.sizes.append(len(x))
        self.last = self.norm(self.hidden(self.flat(x)))  # 16 × 64 floats
        self.seen = self.last.detach()
        return self.out(self.last.relu())


class Own(eg.Method):
    """Plain training, from outside the package."""


class Looks(eg.Method):
    def loss(self, learner, batch):
        return learner.loss(batch) + 0 * learner.net.last.square().mean()


class Marks(eg.Method):
    """Small notes, which the network may want to read."""

    def begin_task(self, learner, task):
        learner.net.task, learner.net.classes = task.index, [*getattr(learner.net, "classes", []), *task.classes]


class SharedHead(nn.Module):
    """Made of the parts that are there already."""

    def __init__(self, net):
        super().__init__()
        self.norm, self.out = nn.BatchNorm1d(64), nn.Linear(64, 6)
        self.norm_of, self.parts = net.flat, [self.norm, self.out]

    def forward(self, x):
        return self.out(self.norm(x))


class LastFeatures(Plain):
    """Keeps what it computed last under the name of a function of the learner's."""

    def forward(self, x):
        self.features = self.hidden(self.flat(x)).relu()
        return self.out(self.features)


class AsksForFeatures(eg.Method):
    output_layer = "out"

    def loss(self, learner, batch):
        return learner.loss(batch) + 0 * learner.features(batch.x).square().mean()


class ResetsStatistics(eg.Method):
    def begin_task(self, learner, task):
        learner.net.norm.running_mean.zero_()


def notes_spread(module, given, found):
    module.spread.append(float(found.detach().std()))


def with_history(shape, outputs):
    """A network whose maker gives it a list, and a hook that fills that."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, outputs))
    net.spread = []
    net.register_forward_hook(notes_spread)
    return net


class Adapts(eg.Method):
    """Each task gets a layer, which is frozen when the task ends."""

    def begin_task(self, learner, task):
        self._add(learner, f"adapter{task.index}")

    def _add(self, learner, name):
        learner.net.add_module(name, nn.Linear(36, 36))
        learner.params = [p for p in learner.net.parameters() if p.requires_grad]
        learner.new_optimizer()

    def end_task(self, learner, task):
        getattr(learner.net, f"adapter{task.index}").requires_grad_(False)
        learner.params = [p for p in learner.net.parameters() if p.requires_grad]
        learner.new_optimizer()


class Grows(eg.Method):
    """Each task gets a new head, and the old one is frozen and stays."""

    def begin_task(self, learner, task):
        if task.index:
            setattr(learner.net, f"old{task.index}", learner.net.out.requires_grad_(False))
            learner.net.out = SharedHead(learner.net)
            learner.params = [p for p in learner.net.parameters() if p.requires_grad]
            learner.new_optimizer()


@pytest.mark.parametrize("net", [Plain, KeepsState])
@pytest.mark.parametrize("method", [eg.Adam, Own, Marks, Grows])
def test_the_network_and_its_own_state_do_not_count(method, net):
    assert kept_with(method(), net) == {}


def test_the_list_of_a_networks_maker_does_not_count(monkeypatch):
    monkeypatch.setattr("engram.learning.on_network.NOTES", 0)
    assert kept_with(Own(), with_history) == {}


@pytest.mark.parametrize(
    ("method", "net"), [(AsksForFeatures, LastFeatures), (ResetsStatistics, KeepsState), (Adapts, Plain)]
)
def test_what_is_the_networks_does_not_count_although_the_method_names_it(method, net, monkeypatch):
    monkeypatch.setattr("engram.learning.on_network.NOTES", 0)
    net.output_layer = "out"
    assert kept_with(method(), net) == {}


@pytest.mark.parametrize("net", [Plain, KeepsState])
def test_running_statistics_of_frozen_heads_do_not_count(net, monkeypatch):
    monkeypatch.setattr("engram.learning.on_network.NOTES", 0)
    assert kept_with(Grows(), net) == {}


def test_what_the_network_computed_last_does_not_count_although_the_method_reads_it():
    assert kept_with(Looks(), KeepsState) == {}


@dataclass
class OwnRehearsal(eg.Rehearsal):
    """A subclass of one of the package's methods."""

    capacity: int = 30


def test_a_subclass_keeps_what_its_parent_keeps():
    own, parent = (learn(make(capacity=30), KeepsState).memory for make in (OwnRehearsal, eg.Rehearsal))
    assert own == parent == {"kept": {"pixels": 30 * 36 * 4, "labels": 60, "owners": 0, "scalings": 0}, "working": {}}
