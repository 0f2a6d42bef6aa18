"""GSS: products of gradients against a loop over single images, scores, and what may replace what."""

import math

import numpy as np
import pytest
import torch
from helpers import Run, blobs, learner_for

import engram as eg
from engram.learning.train import new_learner, train
from engram.methods.gss import FIRST_SCORE, inner_products, score_of, single_gradients, squared_lengths


def scenario(kind: str = "class"):
    return eg.split(blobs(6, train=20, size=5), kind=kind)


def loop_of_gradients(learner, batch: eg.Batch) -> torch.Tensor:
    """(images, parameters): the gradient of each image alone."""
    rows = []
    for i in range(len(batch.y)):
        one = eg.Batch(batch.x[i : i + 1], batch.y[i : i + 1], batch.t[i : i + 1], batch.tasks)
        rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(learner.loss(one), learner.params)]))
    return torch.stack(rows)


def started(method: eg.GSS, kind: str = "class", task: int = 0, net: eg.Net | None = None):
    tasks = scenario(kind).tasks(0)
    learner = new_learner(tasks, method, net or eg.MLP(7, 6), eg.Training(batch=10), 0, torch.device("cpu"))
    learner.task = task
    return learner


def batch_of(learner, task: int, rows) -> eg.Batch:
    return learner.tasks[task].train.batch(torch.tensor(list(rows)))


@pytest.mark.parametrize("kind", ["task", "domain", "class"])
@pytest.mark.parametrize("net", [eg.MLP(7, 6), eg.Linear()], ids=["closed form", "torch.func"])
def test_products_of_gradients_by_their_factors_are_those_of_a_loop(kind, net):
    learner = started(eg.GSS(), kind, task=1, net=net)
    new, old = batch_of(learner, 1, range(6)), batch_of(learner, 1, range(9, 14))
    g, h = loop_of_gradients(learner, new), loop_of_gradients(learner, old)
    a, b = single_gradients(learner, new), single_gradients(learner, old)
    torch.testing.assert_close(inner_products(a, b), g @ h.t(), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(squared_lengths(a), g.square().sum(1), rtol=1e-4, atol=1e-6)
    # the gradient of a batch's mean loss, by the mean of the products
    mean = g.mean(0)
    torch.testing.assert_close(inner_products(a, b).mean(0), h @ mean, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(inner_products(a, a).mean(), mean @ mean, rtol=1e-4, atol=1e-6)


def test_the_score_is_one_more_than_the_largest_cosine():
    assert score_of(torch.tensor([[0.5, -0.25], [-1.0, -1.0 - 1e-6]])).tolist() == [1.5, 0.0]


def test_the_buffer_is_filled_with_the_score_of_the_whole_batch():
    """The first batch scores 0.1; the second 1 + the largest cosine of its mean gradient with a stored one's."""
    method = eg.GSS(capacity=18, comparisons=100)
    learner = started(method)
    first, second = batch_of(learner, 0, range(10)), batch_of(learner, 0, range(10, 20))
    method.after_step(learner, first)
    assert method.buffer.columns["score"][:10, 0].tolist() == pytest.approx([FIRST_SCORE] * 10)
    method.after_step(learner, second)
    mean, stored = loop_of_gradients(learner, second).mean(0), loop_of_gradients(learner, first)
    wanted = 1 + float((stored @ mean / stored.norm(dim=1) / mean.norm()).max())
    assert wanted > 1  # so the last two found no place
    assert method.buffer.columns["score"][10:, 0].tolist() == pytest.approx([wanted] * 8, rel=1e-4)
    assert len(method.buffer) == 18
    torch.testing.assert_close(method.buffer.batch(torch.arange(18)).x, torch.cat([first.x, second.x[:8]]))


def test_a_batch_that_is_like_a_stored_image_is_not_stored():
    method = eg.GSS(capacity=10)
    learner = started(method)
    method.after_step(learner, batch_of(learner, 0, range(10)))
    before = method.buffer.columns["x"].clone()
    method.after_step(learner, batch_of(learner, 0, range(10)))
    assert torch.equal(method.buffer.columns["x"], before)


def opposed_learner(method: eg.GSS):
    """Two outputs without hidden layers and with weights 0: gradients are ±½ (x, 1), so cosines are −1 · cos(x, x')."""
    images = eg.Images(
        np.full((40, 2, 2), 255, np.uint8), np.arange(40) % 2, np.full((4, 2, 2), 255, np.uint8), np.arange(4) % 2
    )
    tasks = eg.permute(images, kind="domain", permutations=2).tasks(0)
    learner = new_learner(tasks, method, eg.Linear(), eg.Training(batch=8), 0, torch.device("cpu"))
    with torch.no_grad():
        for p in learner.params:
            p.zero_()
    data = learner.tasks[0].train
    y = data.batch(torch.arange(40)).y
    return learner, [data.batch((y == label).nonzero().squeeze(1)[:8]) for label in (0, 1)]


def test_images_that_oppose_all_stored_ones_replace_them():
    """A stored score s and a new one c = 1 + cos = 0: the new image takes its slot with probability s / (s + c) = 1."""
    method = eg.GSS(capacity=8)
    learner, (zeros, ones) = opposed_learner(method)
    method.after_step(learner, zeros)
    assert len(method.buffer) == 8
    method.after_step(learner, ones)
    held, scores = method.buffer.columns["y"].tolist(), method.buffer.columns["score"][:, 0].tolist()
    assert all(math.isclose(s, 0.0 if y else FIRST_SCORE, abs_tol=1e-6) for y, s in zip(held, scores, strict=True))
    assert sum(held) == 8  # a slot of score 0 is never challenged, so each of the eight took another one


def test_a_slot_is_lost_with_probability_s_over_s_plus_c():
    """Stored scores 0.1 and new ones 0.3: a challenger wins with probability ¼, a repeated one less."""
    won = 0
    for seed in range(400):
        method = eg.GSS(capacity=8)
        learner, (zeros, _) = opposed_learner(method)
        learner.seed = seed
        method.after_step(learner, zeros)
        places: dict[int, int] = {}
        scores = torch.tensor([0.3])
        method._replace(learner, scores, places)
        won += len(places)
    assert won / 400 == pytest.approx(0.25, abs=0.07)


def test_scores_are_kept_and_counted():
    method = eg.GSS(capacity=30)
    outcome = train(scenario().tasks(0), method, eg.MLP(7, 6), eg.Training(epochs=1, batch=16, lr=0.01))
    assert (
        outcome.memory["kept"]["buffer"] == 30 * (25 + 4 + 4) == method.kept_bytes(eg.MLP(7, 6).build((1, 5, 5), 6), 25)
    )


def test_it_replays_as_er_does():
    """With the same buffer, the loss is the mean over new and replayed images."""
    method = eg.GSS(replay=5)
    learner = started(method)
    new, old = batch_of(learner, 0, range(10)), batch_of(learner, 0, range(20, 25))
    assert torch.equal(method.loss(learner, new), learner.loss(new))
    method.buffer.put(old, {i: i for i in range(5)}, score=torch.ones(5, 1))
    torch.testing.assert_close(method.loss(learner, new), (10 * learner.loss(new) + 5 * learner.loss(old)) / 15)


def test_it_is_refused_if_the_gradients_of_single_images_do_not_fit():
    learner = learner_for(eg.split(blobs(4, size=20), kind="class"), 12, batch=10)
    learner.net = eg.ResNet18().build((1, 20, 20), 4)
    learner.params = list(learner.net.parameters())
    with pytest.raises(ValueError, match=r"GSS forms the gradients of 138 single images.* 6\.2 GB; lower comparisons"):
        eg.GSS(capacity=500).start(learner, learner.tasks)
    eg.GSS(capacity=500, comparisons=10).start(learner, learner.tasks)


@pytest.mark.parametrize("kind", ["task", "domain", "class"])
def test_resumed_at_any_boundary_it_ends_with_the_same_bits(kind):
    training = eg.Training(epochs=2, batch=10, lr=0.02)
    whole = Run(scenario(kind).tasks(0), lambda: eg.GSS(capacity=30), training, eg.MLP(7, 6))
    for checkpoint in whole.checkpoints[:-1]:
        resumed = Run(scenario(kind).tasks(0), lambda: eg.GSS(capacity=30), training, eg.MLP(7, 6), resume=checkpoint)
        assert resumed.bits() == whole.bits()
