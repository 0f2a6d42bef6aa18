"""The loss is the mean cross-entropy over each sample's active outputs, and so are its gradients."""

from math import log

import pytest
import torch
from helpers import blobs, everything, learner_for
from torch import nn

import engram as eg
from engram.learning.fast import loss_and_delta
from engram.learning.learner import Learner
from engram.scenarios.task import Batch, pool


def split(kind: str, groups=2, classes: int = 6):
    return eg.split(blobs(classes), kind=kind, classes_per_task=groups)


def batch_of(y: list[int], t: list[int]) -> Batch:
    return Batch(torch.empty(len(y), 36), torch.tensor(y), torch.tensor(t), tuple(sorted(set(t))))


# Logits are logarithms, so that probabilities are ratios of these numbers.
WEIGHTS = torch.tensor([[1.0, 3.0, 2.0, 2.0, 1.0, 7.0], [4.0, 1.0, 1.0, 2.0, 5.0, 3.0]])


@pytest.mark.parametrize(
    ("kind", "groups", "seen", "y", "t", "probabilities"),
    [
        # domain: 2 outputs, of the first two columns
        ("domain", 2, 1, [1, 0], [1, 1], [3 / 4, 4 / 5]),
        # task: own head
        ("task", 2, 0, [1, 0], [0, 0], [3 / 4, 4 / 5]),
        ("task", 2, 2, [4, 5], [2, 2], [1 / 8, 3 / 8]),
        # class: those seen so far
        ("class", 2, 0, [1, 0], [0, 0], [3 / 4, 4 / 5]),
        ("class", 2, 1, [2, 3], [1, 1], [2 / 8, 2 / 8]),
        ("class", 2, 2, [4, 5], [2, 2], [1 / 16, 3 / 16]),
        # known in advance, or no increments: all from the start
        ("class-known", 2, 0, [1, 0], [0, 0], [3 / 16, 4 / 16]),
        ("iid", 2, 0, [1, 0], [0, 0], [3 / 16, 4 / 16]),
        # mixed tasks, equal heads
        ("task", 2, 2, [1, 4], [0, 2], [3 / 4, 5 / 8]),
        ("class", 2, 2, [1, 4], [0, 2], [3 / 16, 5 / 16]),
        ("class", 2, 1, [1, 2], [0, 1], [3 / 8, 1 / 8]),
        ("domain", 2, 2, [1, 0], [0, 2], [3 / 4, 4 / 5]),
        # mixed tasks, heads of 2, 3 and 1
        ("task", (2, 3, 1), 2, [1, 4], [0, 1], [3 / 4, 5 / 8]),
        ("task", (2, 3, 1), 2, [5, 2], [2, 1], [1.0, 1 / 8]),
        ("task", (2, 3, 1), 1, [3, 3], [1, 1], [2 / 5, 2 / 8]),
        ("class", (2, 3, 1), 1, [0, 4], [0, 1], [1 / 9, 5 / 13]),
    ],
)
def test_loss_by_hand(kind, groups, seen, y, t, probabilities):
    learner = learner_for(split(kind, groups), task=seen)
    logits = WEIGHTS[:, : learner.tasks.outputs].log()
    expected = -sum(log(p) for p in probabilities) / len(y)
    batch = batch_of(y, t)
    assert learner.loss_of(logits, batch).item() == pytest.approx(expected, rel=1e-6, abs=1e-7)
    loss, delta = loss_and_delta(learner, logits, batch)
    assert loss.item() == pytest.approx(expected, rel=1e-6, abs=1e-7)
    # (p − 1) / n at the right output; all of a row sums to 0, for its active outputs are a distribution
    assert delta.gather(1, batch.y[:, None]).flatten().tolist() == pytest.approx(
        [(p - 1) / len(y) for p in probabilities], abs=1e-6
    )
    assert delta.sum(1).tolist() == pytest.approx([0, 0], abs=1e-6)


@pytest.mark.parametrize("groups", [2, (2, 3, 1)])
def test_mixed_tasks_are_averaged_over_samples_not_over_tasks(groups):
    """Two of the first task, 3/4 and 3/4, and one of the second with probability 4/9 or 4/11."""
    learner = learner_for(split("task", groups), task=1)
    weights = torch.tensor([[1.0, 3.0, 1.0, 1.0, 1.0, 1.0]] * 2 + [[1.0, 1.0, 4.0, 5.0, 2.0, 1.0]])
    expected = -(2 * log(3 / 4) + log(4 / (9 if groups == 2 else 11))) / 3
    batch = batch_of([1, 1, 2], [0, 0, 1])
    assert learner.loss_of(weights.log(), batch).item() == pytest.approx(expected, rel=1e-6)
    assert loss_and_delta(learner, weights.log(), batch)[0].item() == pytest.approx(expected, rel=1e-6)


def test_delta_by_hand():
    """Class kind after the first of three tasks: 1 : 3 and 4 : 1, right are the second and the first."""
    learner = learner_for(split("class"))
    _, delta = loss_and_delta(learner, WEIGHTS.log(), batch_of([1, 0], [0, 0]))
    assert delta[0].tolist() == pytest.approx([1 / 8, -1 / 8, 0, 0, 0, 0])
    assert delta[1].tolist() == pytest.approx([-1 / 10, 1 / 10, 0, 0, 0, 0])
    assert (delta[:, 2:] == 0).all()


@pytest.mark.parametrize(
    ("kind", "groups", "task", "inactive"),
    [
        ("task", 2, 1, [0, 1, 4, 5]),
        ("task", (2, 3, 1), 1, [0, 1, 5]),
        ("class", 2, 1, [4, 5]),
        ("class", 2, 2, []),
        ("class-known", 2, 0, []),
    ],
)
def test_inactive_outputs_get_no_gradient_at_all(kind, groups, task, inactive):
    learner = learner_for(split(kind, groups), task=task)
    weight, bias = learner.gradients(everything(learner.tasks[task].train))[-2:]
    active = [i for i in range(6) if i not in inactive]
    assert (weight[inactive] == 0).all()
    assert (bias[inactive] == 0).all()
    assert weight[active].any(1).all()
    assert bias[active].all()


KINDS = [
    ("task", 2), ("domain", 2), ("class", 2), ("class-known", 2), ("iid", 2), ("task", (2, 3, 1)), ("class", (2, 3, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "groups"), KINDS)
@pytest.mark.parametrize("mixed", [False, True])
def test_closed_form_gradients_have_autograd_s_bits(kind, groups, mixed):
    learner = learner_for(split(kind, groups), 33, 17, task=1)
    task = pool(learner.tasks[:2]) if mixed else learner.tasks[1]
    order = torch.randperm(len(task.train), generator=torch.Generator().manual_seed(0))
    batch = task.train.batch(order[:50])
    loss = learner.loss(batch)
    auto = torch.autograd.grad(loss, learner.params)
    closed_loss, closed = learner.loss_and_gradients(batch)
    assert closed_loss.item() == loss.item()
    for a, b in zip(closed, auto, strict=True):
        assert torch.equal(a, b)
    assert all(p.grad is None for p in learner.params)


def test_a_network_without_a_closed_form_has_autograd_s_gradients():
    tasks = split("class").deal(0)
    net = nn.Sequential(nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, 6))
    learner = Learner(net, tasks, eg.Training(), 0, torch.device("cpu"))
    batch = everything(tasks[0].train)
    loss, gradients = learner.loss_and_gradients(batch)
    expected = learner.loss(batch)
    expected.backward()
    assert loss.item() == expected.item()
    for g, p in zip(gradients, learner.params, strict=True):
        assert torch.equal(g, p.grad)


def test_a_frozen_copy_keeps_its_weights_and_has_no_gradients():
    learner = learner_for(split("task"), task=1)
    batch = everything(learner.tasks[1].train)
    teacher = learner.frozen()
    before = teacher.logits(batch.x)
    with torch.no_grad():
        for p in learner.params:
            p.add_(1)
    learner.task = 2
    assert torch.equal(teacher.logits(batch.x), before)
    assert not before.requires_grad
    assert teacher.task == 1


def test_stepping_a_frozen_copy_does_not_train_the_learner():
    learner = learner_for(split("task"))
    teacher = learner.frozen()
    for p in learner.params:
        p.grad = torch.ones_like(p)
    before = [p.clone() for p in learner.params]
    optimizer = getattr(teacher, "optimizer", None)  # none at all would be as good
    if optimizer is not None:
        optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(learner.params, before, strict=True))


def test_streams_of_a_learner_follow_its_task():
    learner = learner_for(split("task"), seed=3)
    draws = []
    for learner.task in (0, 1, 1):
        draws.append(torch.rand((), generator=learner.rng("buffer")).item())
    assert len(set(draws)) == 3, "a second call in a task goes on where the first stopped"
    again = learner.fresh_rng("buffer")
    assert torch.rand(2, generator=again).tolist() == draws[1:]
