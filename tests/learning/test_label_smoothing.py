"""Smoothed labels: (1 − ε) of the cross-entropy of the class, ε of the mean over the active outputs."""

import pytest
import torch
from helpers import Run, blobs, everything, learner_for

import engram as eg
from engram.learning import fast
from engram.learning.learner import Learner
from engram.scenarios.task import Batch

QUEUE = [3, 1, 2]
"""Classes per task: heads of different sizes."""


def pooled(learner: Learner) -> Batch:
    """Images of all tasks."""
    parts = [everything(task.train) for task in learner.tasks]
    x, y, t = (torch.cat(part) for part in list(zip(*parts, strict=True))[:3])
    return Batch(x, y, t, (0, 1, 2))


def closed_form(learner: Learner, batch: Batch, smoothing: float) -> float:
    logits = learner.logits(batch.x).detach()
    losses = []
    for row, y, t in zip(logits, batch.y.tolist(), batch.t.tolist(), strict=True):
        outputs = learner.active(t)
        logs = torch.log_softmax(row[outputs], 0)
        losses.append(-(1 - smoothing) * logs[y - outputs.start] - smoothing * logs.mean())
    return float(torch.stack(losses).mean())


@pytest.mark.parametrize(
    ("kind", "classes"), [("task", 2), ("task", QUEUE), ("domain", 2), ("class", 2), ("class", QUEUE)]
)
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_the_closed_form(kind, classes, smoothing):
    scenario = eg.split(blobs(6, train=8), kind=kind, classes_per_task=classes)
    learner = learner_for(scenario, task=2, label_smoothing=smoothing)
    for batch in (everything(learner.tasks[2].train), pooled(learner)):
        assert learner.loss(batch).item() == pytest.approx(closed_form(learner, batch, smoothing), rel=1e-5)


@pytest.mark.parametrize("kind", ["task", "class"])
def test_the_faster_path_has_the_same_bits(kind):
    learner = learner_for(eg.split(blobs(6), kind=kind), task=1, label_smoothing=0.2)
    assert fast.has_closed_form(learner.net)
    batch = everything(learner.tasks[1].train)
    loss, gradients = learner.loss_and_gradients(batch)
    reference = learner.loss(batch)
    reference.backward()
    assert torch.equal(loss, reference)
    assert all(torch.equal(g, p.grad) for g, p in zip(gradients, learner.params, strict=True))


@pytest.mark.parametrize("method", [eg.Adam, eg.GEM, eg.LwF])
def test_smoothing_reaches_every_method_and_none_changes_no_bit(method):
    def bits(**values):
        return Run(eg.split(blobs(6)).tasks(0), method, eg.Training(epochs=2, batch=16, lr=0.01, **values)).bits()

    assert bits(label_smoothing=0) == bits()
    assert bits(label_smoothing=0.1)["losses"] != bits()["losses"]


@pytest.mark.parametrize("value", [-0.1, 1, float("nan")])
def test_shares_out_of_range_are_refused(value):
    with pytest.raises(ValueError, match=f"label_smoothing {value} is out of range; give 0 or more, below 1"):
        eg.Training(label_smoothing=value)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (eg.ICaRL(capacity=8), "label_smoothing 0.1 would have no effect: the method has a loss of its own"),
        (eg.ERACE(capacity=8), "ER-ACE leaves outputs out of its loss, to which no label can be spread"),
    ],
)
def test_a_method_whose_loss_smooths_nothing_is_refused(method, message):
    """Else a record would say of its runs that labels were smoothed."""
    training = eg.Training(epochs=1, batch=16, label_smoothing=0.1)
    with pytest.raises(ValueError, match=message):
        eg.run(eg.split(blobs(4), kind="class"), method, net=eg.MLP(8), training=training)
