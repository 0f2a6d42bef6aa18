"""HAT: gates, their annealing, what gradients are multiplied by, and that nothing is forgotten."""

import numpy as np
import pytest
import torch
from helpers import Run, blobs

import engram as eg
from engram.learning.metrics import forgetting
from engram.learning.step import backward, new_learner
from engram.learning.train import train
from engram.methods.hat import compensation

TRAINING = eg.Training(epochs=2, batch=10, lr=0.01)


def begin(task: int = 0, method: eg.HAT | None = None, training: eg.Training = TRAINING):
    """A learner with HAT at the start of a task, and a batch of it."""
    method = method or eg.HAT()
    tasks = eg.split(blobs(6, train=20, size=5), kind="task").tasks(0)
    learner = new_learner(tasks, method, eg.MLP(7, 6), training, 0, torch.device("cpu"))
    learner.begin_task(task, 8)
    learner.steps = 8 * task
    method.begin_task(learner, tasks[task])
    return method, learner, tasks[task].train.batch(torch.arange(10))


def test_gates_multiply_the_hidden_units_after_relu():
    _, learner, batch = begin()
    net = learner.net.net
    t = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2, 0])
    a = batch.x
    for layer, embedding in zip((net.layer1, net.layer2), learner.net.embeddings, strict=True):
        a = torch.sigmoid(400 * embedding[t]) * torch.relu(a @ layer.weight.t() + layer.bias)
    torch.testing.assert_close(learner.logits(batch.x, t), net.layer3(a))


def test_the_steepness_rises_within_each_epoch():
    """40 images in batches of 10: 1/400, a third, two thirds, 400, and again."""
    method, learner, _ = begin()
    found = []
    for learner.step_of_task in range(8):
        found.append(method.scale_at(learner))
    np.testing.assert_allclose(found, [1 / 400, 133.335, 266.6675, 400] * 2)


def test_the_loss_adds_the_share_of_units_that_are_newly_used():
    method, learner, batch = begin()
    learner.step_of_task = 3  # s is 400
    gates = torch.cat([torch.sigmoid(400 * e[0]) for e in learner.net.embeddings])
    torch.testing.assert_close(method.loss(learner, batch), learner.loss(batch) + 0.75 * gates.mean())
    method, learner, batch = begin(2)
    learner.step_of_task = 3
    gates = torch.cat([torch.sigmoid(400 * e[2]) for e in learner.net.embeddings])
    used = torch.cat([torch.sigmoid(400 * e[:2]).amax(0) for e in learner.net.embeddings])
    share = (gates * (1 - used)).sum() / (1 - used).sum()
    torch.testing.assert_close(method.loss(learner, batch), learner.loss(batch) + 0.75 * share)


@pytest.mark.parametrize("task", [0, 2])
def test_gradients_of_weights_are_multiplied_by_the_formula(task):
    method, learner, batch = begin(task)
    names = [name for name, _ in learner.net.named_parameters()]
    backward(learner, method, batch)
    before = {name: p.grad.clone() for name, p in zip(names, learner.params, strict=True)}
    method.adjust_gradients(learner, batch)
    after = {name: p.grad for name, p in zip(names, learner.params, strict=True)}
    a = [torch.sigmoid(400 * e[:task]).amax(0) if task else torch.zeros(e.shape[1]) for e in method.embeddings]
    for i in range(7):
        for j in range(25):
            torch.testing.assert_close(
                after["net.layer1.weight"][i, j], before["net.layer1.weight"][i, j] * (1 - a[0][i])
            )
    for i in range(6):
        for j in range(7):
            wanted = before["net.layer2.weight"][i, j] * (1 - min(a[1][i], a[0][j]))
            torch.testing.assert_close(after["net.layer2.weight"][i, j], wanted)
    torch.testing.assert_close(after["net.layer2.bias"], before["net.layer2.bias"] * (1 - a[1]))
    own = slice(2 * task, 2 * task + 2)  # the head of the task is its own
    assert torch.equal(after["net.layer3.weight"][own], before["net.layer3.weight"][own])


@pytest.mark.parametrize("step", [0, 1, 2])
def test_gradients_of_embeddings_are_compensated_as_finite_differences_say(step):
    """Multiplied, they are ∂L/∂gate · s_max · σ′(e): as if the gate were σ(e), s_max times as steep."""
    method, learner, batch = begin(method=eg.HAT(steepness=5.0))
    learner.net.double()
    batch = batch._replace(x=batch.x.double())
    method.embeddings[0].data.clamp_(-1, 1)  # at s e = 0 ± 5 differences can be seen
    learner.step_of_task = step
    scale = method.scale_at(learner)
    backward(learner, method, batch)
    method.adjust_gradients(learner, batch)
    embedding = method.embeddings[0]
    for unit in range(7):
        start, h = float(embedding.detach()[0, unit]), 1e-5
        losses, gates = [], []
        for e in (start + h, start - h):
            embedding.data[0, unit] = e
            losses.append(float(method.loss(learner, batch).detach()))
            gates.append(1 / (1 + np.exp(-scale * e)))
        embedding.data[0, unit] = start
        per_gate = (losses[0] - losses[1]) / (gates[0] - gates[1])
        slope = np.exp(-start) / (1 + np.exp(-start)) ** 2
        np.testing.assert_allclose(float(embedding.grad[0, unit]), per_gate * 5 * slope, rtol=1e-4, atol=1e-9)
    assert (embedding.grad[1:] == 0).all()


def test_the_compensation_is_finite_for_the_largest_embeddings():
    found = compensation(torch.tensor([-6.0, 0.0, 6.0]), 400.0, 400.0)
    assert torch.isfinite(found).all()
    assert float(found[1]) == 1.0
    torch.testing.assert_close(found[0], (torch.cosh(torch.tensor(50.0)) + 1) / (torch.cosh(torch.tensor(6.0)) + 1))


@pytest.mark.parametrize(
    "training",
    [
        eg.Training(epochs=10, batch=32, lr=0.01),
        eg.Training(epochs=10, batch=32, lr=0.01, optimizer="adamw", weight_decay=0.1),
        eg.Training(epochs=10, batch=32, lr=0.05, optimizer="sgd", momentum=0.9, weight_decay=1e-3),
        eg.Training(epochs=10, batch=32, lr=0.1, optimizer="sgd"),
    ],
    ids=["adam", "adamw", "momentum", "sgd"],
)
def test_it_forgets_at_most_a_tenth_of_a_point(training):
    """Four domains, one head; plain Adam ends near 40 %."""
    images = blobs(6, train=60, test=50, size=6, noise=60)
    tasks = eg.permute(images, kind="domain", permutations=4, normalize="train").tasks(0)
    outcome = train(tasks, eg.HAT(), eg.MLP(100, 60), training, evaluation=eg.Evaluation(give_task_identity=True))
    assert forgetting(outcome.accuracy) <= 0.1
    assert np.mean(outcome.accuracy[-1]) > 95


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_embeddings_of_past_tasks_and_units_that_they_use_keep_their_bits(optimizer):
    training = eg.Training(epochs=6, batch=10, lr=0.02, optimizer=optimizer, weight_decay=0.1)
    run = Run(eg.split(blobs(6, train=20, size=5), kind="task").tasks(0), eg.HAT, training, eg.MLP(7, 6))
    first, last = (run.checkpoints[i]["net"] for i in (0, 2))
    for name in ("embeddings.0", "embeddings.1"):
        assert torch.equal(first[name][0], last[name][0])
        assert not torch.equal(first[name][1], last[name][1])
        assert last[name].abs().max() <= 6
    full = torch.sigmoid(400 * first["embeddings.0"][0]) == 1
    assert full.any()
    assert torch.equal(first["net.layer1.weight"][full], last["net.layer1.weight"][full])
    assert not torch.equal(first["net.layer1.weight"], last["net.layer1.weight"])


def test_memory_is_an_embedding_per_unit_and_task():
    run = Run(eg.split(blobs(6, train=20, size=5), kind="task").tasks(0), eg.HAT, TRAINING, eg.MLP(7, 6))
    assert run.outcome.memory["kept"] == {"embeddings": 4 * 3 * (7 + 6)}


def test_other_networks_and_wrong_values_are_refused():
    with pytest.raises(ValueError, match="written for an MLP, and the network is CNNNet; give mlp"):
        Run(eg.split(blobs(4, size=20), kind="task").tasks(0), eg.HAT, net=eg.CNN())
    with pytest.raises(ValueError, match=r"steepness 0.5 is out of range"):
        eg.HAT(steepness=0.5)
    with pytest.raises(ValueError, match="sparsity -1 is out of range"):
        eg.HAT(sparsity=-1)
