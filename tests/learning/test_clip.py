"""Clipped gradients: those of torch, after the method has had its say, and none at all if it is off."""

import pytest
import torch
from helpers import Run, blobs, learner_for

import engram as eg

PLAIN = {"epochs": 2, "batch": 16, "lr": 0.01, "optimizer": "sgd"}


def tasks():
    return eg.split(blobs(6), kind="class").tasks(0)


class Norms(eg.Method):
    """Makes every gradient ten times as long and notes its norm at the step."""

    kept = ("norms",)

    def start(self, learner, tasks):
        self.norms = []

    def adjust_gradients(self, learner, batch):
        for p in learner.params:
            p.grad *= 10

    def after_step(self, learner, batch):
        self.norms.append(float(torch.cat([p.grad.flatten() for p in learner.params]).norm()))


def test_gradients_are_those_of_torch():
    scenario = eg.split(blobs(4))
    ours, theirs = (learner_for(scenario, clip=clip) for clip in (0.01, 0.0))
    batch = ours.tasks[0].train.batch(torch.arange(16))
    for learner in (ours, theirs):
        learner.loss(batch).backward()
    ours.clip_gradients()
    theirs.clip_gradients()  # off
    assert any(not torch.equal(p.grad, q.grad) for p, q in zip(ours.params, theirs.params, strict=True))
    norm = torch.nn.utils.clip_grad_norm_(theirs.params, 0.01)
    assert norm > 0.01
    assert all(torch.equal(p.grad, q.grad) for p, q in zip(ours.params, theirs.params, strict=True))
    assert torch.cat([p.grad.flatten() for p in ours.params]).norm() == pytest.approx(0.01, rel=1e-4)


def test_what_a_method_makes_of_the_gradient_is_clipped():
    free, clipped = Norms(), Norms()
    Run(tasks(), lambda: free, eg.Training(**PLAIN))
    Run(tasks(), lambda: clipped, eg.Training(**PLAIN, clip=0.5))
    assert max(free.norms) > 1
    assert max(clipped.norms) == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize("method", [eg.Adam, eg.EWC, eg.GEM, eg.LwF])
def test_a_norm_that_is_never_reached_changes_no_bit(method):
    plain = Run(tasks(), method, eg.Training(**PLAIN)).bits()
    assert Run(tasks(), method, eg.Training(**PLAIN, clip=0)).bits() == plain
    assert Run(tasks(), method, eg.Training(**PLAIN, clip=1e9)).bits() == plain
    assert Run(tasks(), method, eg.Training(**PLAIN, clip=0.01)).bits() != plain


def test_a_resumed_run_has_the_bits_of_one_that_was_not_interrupted():
    training = eg.Training(**PLAIN, clip=0.1)
    whole = Run(tasks(), eg.EWC, training)
    assert Run(tasks(), eg.EWC, training, resume=whole.checkpoints[0]).bits() == whole.bits()


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_wrong_norms_are_refused(value):
    with pytest.raises(ValueError, match=f"clip {value} is out of range; give 0 or more"):
        eg.Training(clip=value)
