"""A method in a loop of one's own, as docs/one-part.md shows it, ends with the bits of a run."""

from functools import partial

import pytest
import torch
from helpers import blobs
from torch import nn

import engram as eg
from engram.core.registry import METHODS

TRAINING = eg.Training(epochs=(2, 1), batch=16, lr=0.01)
NEEDS_TASKS = {"separate", "xdg", "packnet", "hat", "fromp"}


class Dropped(nn.Module):
    """Draws from the global generators in each step, and has statistics beside its weights."""

    def __init__(self, shape, outputs):
        super().__init__()
        pixels = shape[0] * shape[1] * shape[2]
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(pixels, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3))
        self.head = nn.Linear(8, outputs)

    def forward(self, x):
        return self.head(self.body(x))


def own_loop(scenario, method, **options):
    loop = eg.Loop(scenario, method, seed=4, **options)
    rows = []
    for task in loop.tasks:
        for batch in loop.batches(task):
            loop.step(batch)
        rows.append([loop.accuracy(seen) for seen in loop.learner.tasks[: task.index + 1]])
    return loop.learner.net.state_dict(), rows


def assert_same(found, record):
    net, rows = found
    assert rows == record.accuracy
    assert net.keys() == record.net.state_dict().keys()
    assert all(torch.equal(value, record.net.state_dict()[name]) for name, value in net.items())


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_in_ones_own_loop_ends_with_the_bits_of_a_run(name):
    scenario = eg.split(blobs(6, train=12, size=4), kind="task" if name in NEEDS_TASKS else "class")
    fields = {"units": 50} if name == "ranpac" else {}
    method = partial(METHODS[name], **fields)
    options = {"training": TRAINING, "net": eg.MLP(8)}
    record = eg.run(scenario, method(), seed=4, keep=("net",), **options)
    assert_same(own_loop(scenario, method(), **options), record)


@pytest.mark.parametrize("method", [eg.GEM, eg.LwF])
def test_so_it_does_with_a_schedule_dropout_augmentation_and_clipping(method):
    scenario = eg.split(blobs(4, train=20), kind="class")
    training = eg.Training(
        epochs=2, batch=16, lr=0.01, schedule="cosine", schedule_over="run", warmup=2, clip=0.5, augment=("flip",),
        reset_optimizer=True, label_smoothing=0.1,
    )  # fmt: skip
    options = {"training": training, "net": Dropped}
    record = eg.run(scenario, method(), seed=4, keep=("net",), **options)
    assert_same(own_loop(scenario, method(), **options), record)


@pytest.mark.parametrize("method", [eg.EWC, eg.GEM, eg.DERpp])
def test_a_step_that_is_spelled_out_is_the_same(method):
    scenario = eg.split(blobs(6, train=12), kind="class")
    record = eg.run(scenario, method(), seed=4, keep=("net",), net=eg.MLP(8), training=TRAINING)
    loop = eg.Loop(scenario, method(), seed=4, net=eg.MLP(8), training=TRAINING)
    learner, mine = loop.learner, loop.method
    for task in loop.tasks:
        for batch in loop.batches(task):
            learner.optimizer.zero_grad()
            mine.loss(learner, batch).backward()
            mine.adjust_gradients(learner, batch)
            learner.optimizer.step()
            mine.after_step(learner, batch)
    expected = record.net.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in learner.net.state_dict().items())


def test_the_callers_process_is_as_it_was_between_tasks_and_after_a_break():
    torch.manual_seed(5)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    loop = eg.Loop(eg.split(blobs(4), kind="class"), eg.Adam(), net=Dropped, training=TRAINING)
    batches = loop.batches(loop.tasks[0])
    next(batches)
    assert not torch.equal(torch.get_rng_state(), before)  # seeded by the run
    batches.close()
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_tasks_out_of_order_and_streams_without_boundaries_are_refused():
    scenario = eg.split(blobs(4), kind="class")
    loop = eg.Loop(scenario, eg.Adam(), net=eg.MLP(8), training=TRAINING)
    with pytest.raises(ValueError, match="each task is learned once, in order"):
        next(loop.batches(loop.tasks[1]))
    with pytest.raises(ValueError, match="tells no boundaries"):
        eg.Loop(eg.blend(scenario, 0.5), eg.Adam(), net=eg.MLP(8))
    with pytest.raises(TypeError, match="is a class"):
        eg.Loop(scenario, eg.Adam)
