"""Dropout, noise and augmentation come from the run's own streams: same seed, same bits, resumed or not."""

import random

import numpy as np
import pytest
import torch
from helpers import Run, blobs
from torch import nn

import engram as eg


class Dropout:
    """A recipe of a network with dropout and batch norm."""

    def build(self, shape, outputs):
        width = shape[0] * shape[1] * shape[2]
        return nn.Sequential(
            nn.Linear(width, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.5), nn.Linear(12, outputs)
        )


class Epochs(eg.Adam):
    checkpoints = "epoch"


class Noisy(eg.Method):
    """Draws from every global generator, as users' augmentation does."""

    def loss(self, learner, batch):
        noise = float(np.random.rand()) + random.random() + torch.rand(())  # noqa: NPY002
        return learner.loss(batch._replace(x=batch.x * (0.5 + noise)))


def go(seed=0, method=eg.Adam, net=None, **options) -> Run:
    training = eg.Training(epochs=2, batch=16, lr=0.01)
    tasks = eg.split(blobs(6), kind="class").deal(0)
    return Run(tasks, method, training, net or Dropout(), seed=seed, **options)


@pytest.mark.parametrize(("method", "net"), [(eg.Adam, None), (eg.EWC, None), (Noisy, eg.MLP(12))])
def test_same_seed_same_bits_whatever_the_caller_drew_before(method, net):
    torch.manual_seed(1)
    one = go(method=method, net=net)
    torch.manual_seed(2)
    np.random.seed(2)  # noqa: NPY002
    random.seed(2)
    two = go(method=method, net=net)
    assert one.bits() == two.bits()
    assert go(seed=1, method=method, net=net).outcome.losses != one.outcome.losses


def test_dropout_is_really_drawn():
    """The same network without it learns other weights."""

    class Without(Dropout):
        def build(self, shape, outputs):
            net = super().build(shape, outputs)
            net[3].p = 0.0
            return net

    assert go(net=Without()).outcome.losses != go().outcome.losses


@pytest.mark.parametrize("method", [eg.Adam, Epochs, Noisy])
def test_resumed_from_any_checkpoint_it_ends_with_the_same_bits(method):
    whole = go(method=method)
    assert len(whole.checkpoints) == (9 if method is Epochs else 3)
    for checkpoint in whole.checkpoints[:-1]:
        assert go(method=method, resume=checkpoint).bits() == whole.bits()


def test_the_caller_s_generators_are_left_as_they_were():
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    expected = (torch.rand(()).item(), float(np.random.rand()), random.random())  # noqa: NPY002
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    go(method=Noisy)
    assert (torch.rand(()).item(), float(np.random.rand()), random.random()) == expected  # noqa: NPY002


def test_measuring_more_often_changes_no_weights():
    """Even if the scores draw from the global generator."""

    class Draws(eg.Method):
        def scores(self, learner, x, task):
            return learner.logits(x) + torch.rand(len(x), 6)

    often, once = go(method=Draws, evaluation=eg.Evaluation(evaluate_every=2)).bits(), go(method=Draws).bits()
    assert len(often["curve"]) == 15
    assert often["net"] == once["net"]
    assert often["accuracy"] == once["accuracy"]
