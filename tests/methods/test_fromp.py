"""FROMP: kernels and gradients against explicit Jacobians, memorable images, and what it keeps."""

import numpy as np
import pytest
import torch
from helpers import Run, blobs, everything
from torch import nn

import engram as eg
from engram.learning.step import backward, new_learner
from engram.learning.train import train
from engram.methods.fromp import probability_kernels

TRAINING = eg.Training(epochs=2, batch=12, lr=0.01)
KINDS = ("task", "domain", "class", "class-known")


def scenario(kind: str = "class"):
    return eg.split(blobs(6, train=20, size=4, noise=90), kind=kind)


class Own(nn.Module):
    """The same as an MLP, and batch norm, as a network of one's own."""

    def __init__(self, shape, outputs, norm: bool = False):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 5), nn.BatchNorm1d(5) if norm else nn.Identity(), nn.ReLU())
        self.head = nn.Linear(5, outputs)

    def forward(self, x):
        return self.head(self.body(x.flatten(1)))


def begin(kind="class", method=None, net=None, task=1):
    """A learner and FROMP at the start of a task, with images and information of the tasks before."""
    method = method or eg.FROMP(capacity=24)
    tasks = scenario(kind).tasks(0)
    learner = new_learner(tasks, method, net or eg.MLP(5), TRAINING, 0, torch.device("cpu"))
    for past in range(task):
        learner.begin_task(past, 4)
        method.begin_task(learner, tasks[past])
        learner.steps += 4
        method.end_task(learner, tasks[past])
    learner.begin_task(task, 4)
    return method, learner


def jacobian(learner, batch, outputs):
    """(outputs, images, parameters) of probabilities, image by image."""
    rows = []
    for i in range(len(batch.y)):
        p = torch.softmax(learner.logits(batch.x[i : i + 1], batch.t[i : i + 1])[0, outputs], 0)
        for f in range(len(p)):
            gradients = torch.autograd.grad(p[f], learner.params, retain_graph=True)
            rows.append(torch.cat([g.flatten() for g in gradients]))
    return torch.stack(rows).view(len(batch.y), -1, rows[0].numel()).transpose(0, 1).double()


@pytest.mark.parametrize("kind", KINDS)
def test_kernels_are_those_of_explicit_jacobians(kind):
    method, learner = begin(kind)
    batch = everything(learner.tasks[0].train)
    outputs = learner.active(0)
    variances = [1 / (f + 1e-3) for f in method.information]
    j = jacobian(learner, batch, outputs)
    wanted = torch.einsum("fip,p,fjp->fij", j, torch.cat([v.flatten() for v in variances]).double(), j)
    with torch.no_grad():
        found = probability_kernels(learner, batch, outputs, variances)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6 * float(wanted.abs().max()))


@pytest.mark.parametrize("net", [Own, lambda s, o: Own(s, o, norm=True)], ids=["own", "batch norm"])
def test_kernels_of_other_networks_go_through_torch_func(net):
    record = eg.run(scenario(), eg.FROMP(capacity=24), net=net, training=TRAINING)
    assert record.status == "done"
    method, learner = begin()
    own = new_learner(scenario().tasks(0), eg.Adam(), Recipe(), TRAINING, 0, torch.device("cpu"))
    for p, q in zip(own.params, learner.params, strict=True):
        p.data.copy_(q)
    batch = everything(learner.tasks[0].train)
    variances = [1 / (f + 1e-3) for f in method.information]
    with torch.no_grad():
        one, two = (probability_kernels(who, batch, slice(0, 4), variances) for who in (learner, own))
    torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6 * float(one.abs().max()))


class Recipe(eg.Net):
    def build(self, shape, outputs):
        return Own(shape, outputs)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_the_formula(kind):
    """∇CE + τ Σ_j Σ_f J_fᵀ [K⁻¹]_BB (p − m)_B, here with all images of both past tasks: 6 each, half of a batch."""
    method, learner = begin(kind, eg.FROMP(capacity=18, tau=0.7, jitter=1e-2), task=2)
    method.begin_task(learner, learner.tasks[2])
    batch = everything(learner.tasks[2].train)
    kernels = [inverse.double() for inverse in method.inverses]
    for p in learner.params:  # away from the old outputs
        p.data += 0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(1))
    wanted = torch.cat([g.flatten() for g in learner.gradients(batch)]).double()
    for past, (old, inverse) in enumerate(zip(method.old, kernels, strict=True)):
        memory = method._memories[past]
        assert len(memory.y) == 6
        j = jacobian(learner, memory, learner.active(past))
        moved = torch.softmax(learner.logits(memory.x, memory.t)[:, learner.active(past)], 1).double() - old
        wanted += 0.7 * torch.einsum("fip,fij,jf->p", j, inverse, moved).detach()
    backward(learner, method, batch)
    found = torch.cat([p.grad.flatten() for p in learner.params]).double()
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4 * float(wanted.abs().max()))
    method.adjust_gradients(learner, batch)
    clipped = torch.cat([p.grad.flatten() for p in learner.params]).double()
    torch.testing.assert_close(clipped, found * min(1.0, 1 / float(found.norm())), rtol=1e-4, atol=1e-7)


def test_a_part_of_the_images_takes_its_block_of_the_whole_inverse():
    """With 4 of 8 images per step, the mean over draws of the distance is what the pairs' frequencies say."""
    method, learner = begin("domain", eg.FROMP(capacity=24, jitter=1e-2))
    method.begin_task(learner, learner.tasks[1])
    learner.training = eg.Training(batch=4)
    for p in learner.params:
        p.data += 0.05
    batch = learner.tasks[1].train.batch(torch.arange(8))
    with torch.no_grad():
        base = float(learner.loss(batch))
        draws = [float(method.loss(learner, batch)) - base for _ in range(600)]
        memory = method._memories[0]
        moved = torch.softmax(learner.logits(memory.x), 1) - method.old[0]
        pairs = 0.5 * torch.einsum("if,fij,jf->ij", moved, method.inverses[0], moved)
    alone = float(pairs.diagonal().sum())
    wanted = 0.5 * alone + 4 * 3 / (8 * 7) * (float(pairs.sum()) - alone)
    assert abs(np.mean(draws) - wanted) < 4 * np.std(draws) / 600**0.5


@pytest.mark.parametrize("kind", ["task", "class"])
def test_information_is_the_sum_over_images_of_j_lambda_j(kind):
    method, learner = begin(kind)
    learner.task = 0
    batch, outputs = everything(learner.tasks[0].train), learner.active(0)
    total = 0.0
    for i in range(len(batch.y)):
        logits = learner.logits(batch.x[i : i + 1])[0, outputs]
        s = torch.softmax(logits, 0).detach()
        j = torch.stack(
            [
                torch.cat([g.flatten() for g in torch.autograd.grad(z, learner.params, retain_graph=True)])
                for z in logits
            ]
        )
        total = total + (j * ((torch.diag(s) - torch.outer(s, s)) @ j)).sum(0)
    found = torch.cat([f.flatten() for f in method.information])
    torch.testing.assert_close(found, total, rtol=1e-4, atol=1e-5)


def test_the_images_of_each_class_that_the_network_is_least_sure_of_are_kept():
    """24 images for 3 tasks of 2 classes: 4 each."""
    method, learner = begin("task")
    batch = everything(learner.tasks[0].train)
    p = torch.softmax(learner.logits(batch.x)[:, :2], 1)
    unsure = (p * (1 - p)).sum(1)
    held = method.buffer.everything()
    assert held.y.tolist() == [0] * 4 + [1] * 4
    for label in (0, 1):
        own = batch.x[batch.y == label]
        wanted = own[unsure[batch.y == label].argsort(descending=True)[:4]]
        torch.testing.assert_close(held.x[held.y == label], wanted, atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_it_resumes_to_the_same_bits_and_keeps_what_it_declares(kind):
    whole = Run(scenario(kind).tasks(0), lambda: eg.FROMP(capacity=24), TRAINING, eg.MLP(5))
    for checkpoint in whole.checkpoints[:-1]:
        resumed = Run(scenario(kind).tasks(0), lambda: eg.FROMP(capacity=24), TRAINING, eg.MLP(5), resume=checkpoint)
        assert resumed.bits() == whole.bits()
    outputs = 2 if kind == "domain" else 6
    parameters = 16 * 5 + 5 + 5 * outputs + outputs
    assert whole.outcome.memory["kept"] == {"buffer": 24 * (16 + 4), "information": 4 * parameters}
    net = eg.MLP(5).build((1, 4, 4), outputs)
    assert eg.FROMP(capacity=24).kept_bytes(net, 16) == 24 * 20 + 4 * parameters


def test_without_its_coefficient_and_clipping_it_is_plain_training():
    plain, found = (
        Run(scenario().tasks(0), make, TRAINING, eg.MLP(5))
        for make in (eg.Adam, lambda: eg.FROMP(capacity=24, tau=0.0, largest=0.0))
    )
    assert found.outcome.losses == plain.outcome.losses
    assert found.outcome.accuracy == plain.outcome.accuracy


@pytest.mark.parametrize(("kind", "margin"), [("domain", 40), ("class", 50)])
def test_it_forgets_less_than_plain_training(kind, margin):
    images = blobs(6, train=60, test=50, size=6, noise=60)
    made = eg.permute(images, kind=kind, permutations=4, normalize="train") if kind == "domain" else eg.split(images)
    training = eg.Training(epochs=10, batch=32, lr=0.01)
    plain, found = (
        float(np.mean(train(made.tasks(0), method, eg.MLP(60), training).accuracy[-1]))
        for method in (eg.Adam(), eg.FROMP(capacity=120))
    )
    assert found > plain + margin
    assert found > 90


def test_too_few_images_large_networks_and_wrong_values_are_refused():
    with pytest.raises(
        ValueError, match="capacity 5 leaves 1 images for each of 3 tasks, which have 2 classes; give 6"
    ):
        Run(scenario().tasks(0), lambda: eg.FROMP(capacity=5), TRAINING, eg.MLP(5))
    tasks = eg.split(blobs(4, train=5, test=2, size=32, channels=3), kind="class").tasks(0)
    with pytest.raises(ValueError, match=r"500 images and 11,\d+,\d+ parameters, which takes 22.3 GB; lower capacity"):
        Run(tasks, eg.FROMP, TRAINING, eg.ResNet18())
    with pytest.raises(ValueError, match="jitter 0 is out of range"):
        eg.FROMP(jitter=0)
    with pytest.raises(ValueError, match="tau -1 is out of range"):
        eg.FROMP(tau=-1)
