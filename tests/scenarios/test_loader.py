"""A scenario in one's own loop: the batches that engram's own loop trains on, with the shapes that networks expect."""

import numpy as np
import pytest
import torch
from helpers import blobs
from torch.nn.functional import cross_entropy

import engram as eg
from engram.learning.train import train
from engram.runs.run import compute
from engram.scenarios.task import ClosedDataError

SEEN = []


class Watching(eg.Adam):
    """Plain training that shows what it is given."""

    def loss(self, learner, batch):
        SEEN.append((batch.x.clone(), batch.y.clone(), batch.t.clone()))
        return learner.loss(batch)


class Peeking(eg.Adam):
    def begin_task(self, learner, task):
        next(iter(task.loader("test")))


@pytest.mark.parametrize("kind", ["task", "domain", "class", "iid"])
@pytest.mark.parametrize("drop_last", [False, True])
def test_a_loop_of_ones_own_gets_the_batches_of_engrams_loop_bit_for_bit(kind, drop_last):
    scenario = eg.split(blobs(4, train=27, channels=3), kind=kind, normalize="train")
    SEEN.clear()
    training = eg.Training(epochs=2, batch=16, drop_last=drop_last)
    eg.run(scenario, Watching(), net=eg.MLP(4), training=training, seed=3)
    mine = []
    for task in scenario.tasks(seed=3):
        loader = task.loader("train", batch=16, drop_last=drop_last)
        for _ in range(2):
            epoch = list(loader)
            assert len(epoch) == len(loader)
            mine += epoch
    assert len(mine) == len(SEEN) > 10
    for (x, y, t), (their_x, their_y, their_t) in zip(mine, SEEN, strict=True):
        assert x.shape == (len(y), 3, 6, 6)
        assert torch.equal(x.flatten(1), their_x.flatten(1))
        assert torch.equal(y, their_y)
        assert torch.equal(t, their_t)


def test_plain_pytorch_over_a_scenario_trains_to_the_same_weights():
    """The loop that anyone would write, with engram's first weights, against the run."""
    scenario = eg.permute(blobs(3), kind="domain", permutations=3)
    saved = []
    spec = eg.Spec(scenario, eg.SGD(), eg.MLP(8), eg.Training(epochs=2, batch=32, optimizer="sgd", lr=0.1), seed=5)
    train(
        scenario.tasks(5), eg.SGD(), spec.net, eg.Training(steps=1, optimizer="sgd", lr=1e-30), seed=5,
        save=saved.append,
    )  # fmt: skip
    net = spec.net.build((1, 6, 6), 3)
    net.load_state_dict(saved[0]["net"])  # as it was drawn: the one step was too short to change a bit
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for task in scenario.tasks(seed=5):
        loader = task.loader("train", batch=32)
        for _ in range(2):
            for x, y, _ in loader:
                optimizer.zero_grad()
                cross_entropy(net(x), y).backward()
                optimizer.step()
    compute(spec, save=saved.append)
    for name, value in net.state_dict().items():
        torch.testing.assert_close(value, saved[-1]["net"][name])


def test_shapes_and_lengths_of_vectors_and_signals():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 4
    for shape in [(5,), (2, 7)]:
        x = rng.standard_normal((40, *shape)).astype(np.float32)
        task = eg.split(eg.Arrays(x, y, x, y)).tasks()[0]
        (given, _, _), last = task.loader("train", batch=12)
        assert (given.shape, last[0].shape) == ((12, *shape), (8, *shape))
        assert len(task.loader("train", batch=12, drop_last=True)) == 1
        assert len(task.loader("train", batch=30, drop_last=True)) == 1  # as training does: an epoch is never empty
        (test,) = task.loader("test", batch=20)
        assert torch.equal(test[0], torch.from_numpy(x[y < 2]))
        assert test[1].tolist() == y[y < 2].tolist()


def test_each_epoch_has_an_order_of_its_own_and_a_new_loader_begins_again():
    task = eg.split(blobs(4)).tasks(seed=1)[1]
    loader = task.loader("train", batch=1000)
    first, second = (next(iter(loader))[0] for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(next(iter(task.loader("train", batch=1000)))[0], first)
    other = eg.split(blobs(4)).tasks(seed=2)[1]
    assert not torch.equal(next(iter(other.loader("train", batch=1000)))[0], first)


def test_test_data_stay_closed_inside_a_run():
    with pytest.raises(ClosedDataError, match="test data of task 1 may not be read now"):
        eg.run(eg.split(blobs(4)), Peeking(), training=eg.Training(steps=1))


def test_wrong_values_are_refused():
    task = eg.split(blobs(4)).tasks()[0]
    with pytest.raises(ValueError, match="give 'train' or 'test'"):
        task.loader("valid")
    with pytest.raises(ValueError, match="batch 0 is out of range"):
        task.loader("train", batch=0)
