"""Learning without forgetting: distillation and its gradient by the formula, and what is compared with what."""

import math

import pytest
import torch
from helpers import Run, blobs, learner_for
from torch import Tensor
from torch.nn.functional import cross_entropy

import engram as eg
from engram.core.streams import stream
from engram.methods._replay import distillation, distilled, share_of_now, teacher_of

REDUCTIONS = ("mean", "sum")


def logits(*shape: int, seed: int = 0) -> Tensor:
    return 3 * torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# the loss and its gradient --------------------------------------------------------------------------------------------


def test_distillation_of_one_image_by_hand():
    """T = 2, old logits (0, 2 log 3): p = (¼, ¾). New logits equal: q = (½, ½), so T² · log 2, over 2 outputs."""
    old, new = torch.tensor([[0.0, 2 * math.log(3)]]), torch.zeros(1, 2)
    assert float(distillation(old, new, 2.0, "sum")) == pytest.approx(4 * math.log(2))
    assert float(distillation(old, new, 2.0, "mean")) == pytest.approx(2 * math.log(2))


def test_an_output_that_is_new_counts_as_nothing_in_the_old_and_in_the_new():
    """p = (¼, ¾, 0), q = (⅓, ⅓, ⅓): T² · log 3, over all 3 outputs where the mean is taken."""
    old, new = torch.tensor([[0.0, 2 * math.log(3)]]), torch.zeros(1, 3)
    assert float(distillation(old, new, 2.0, "sum")) == pytest.approx(4 * math.log(3))
    assert float(distillation(old, new, 2.0, "mean")) == pytest.approx(4 * math.log(3) / 3)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("known", "now"), [(4, 4), (2, 6)])
@pytest.mark.parametrize("temperature", [1.0, 2.0, 5.0])
def test_its_gradient_is_the_formula_s_and_that_of_finite_differences(reduction, known, now, temperature):
    """T² · (−Σ p log q): dL/dz = T · (q − p) / batch, p padded with zeros; over K too where the mean is taken."""
    old, new = logits(5, known), logits(5, now, seed=1).requires_grad_()
    distillation(old, new, temperature, reduction).backward()
    p = torch.zeros(5, now, dtype=torch.float64)
    p[:, :known] = torch.softmax(old / temperature, 1)
    formula = temperature * (torch.softmax(new.detach() / temperature, 1) - p) / 5
    if reduction == "mean":
        formula /= now
    torch.testing.assert_close(new.grad, formula, rtol=1e-10, atol=1e-12)
    for row, column in ((0, 0), (4, now - 1), (2, known - 1)):
        step = torch.zeros_like(new)
        step[row, column] = 1e-5
        with torch.no_grad():
            ahead, behind = (distillation(old, new + d, temperature, reduction) for d in (step, -step))
        assert float(ahead - behind) / 2e-5 == pytest.approx(float(new.grad[row, column]), rel=1e-5, abs=1e-9)


def test_without_the_square_the_entropy_is_what_it_is():
    """As above, T = 2: log 2 instead of 4 · log 2; the coefficient is the only difference."""
    old, new = torch.tensor([[0.0, 2 * math.log(3)]]), torch.zeros(1, 2)
    assert float(distillation(old, new, 2.0, "sum", squared=False)) == pytest.approx(math.log(2))
    learner = learner_for(eg.split(blobs(8, train=8), kind="task"), task=3)
    old, new = logits(7, 8), logits(7, 8, seed=1)
    with_square, without = (distilled(learner, old, new, 3.0, "sum", squared=s) for s in (True, False))
    torch.testing.assert_close(with_square, 9 * without)


@pytest.mark.parametrize(("kind", "factor"), [("task", 1), ("domain", 2), ("class-known", 1)])
def test_the_form_of_2022(kind, factor):
    """Third task. CE + the sum over heads (task), CE + 2 · KD (domain), CE + KD over all outputs (class-known), with
    KD = −Σ softmax(old/2) log softmax(new/2), the mean over the batch."""
    learner = learner_for(eg.split(blobs(8, train=8), kind=kind), 9, task=2)
    learner.steps = 1
    method = eg.LwF(reduction="sum", weighting="count", squared=False)
    method.begin_task(learner, learner.tasks[2])
    with torch.no_grad():
        for p in learner.params:
            p += 0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(1))
    batch = learner.tasks[2].train.batch(torch.arange(16))
    now, then = learner.logits(batch.x), method.teacher.logits(batch.x)
    outputs = [slice(0, 2), slice(2, 4)] if kind == "task" else [slice(None)]
    entropies = [-(then[:, o] / 2).softmax(1) * (now[:, o] / 2).log_softmax(1) for o in outputs]
    soft = sum(entropy.sum(1).mean() for entropy in entropies)
    torch.testing.assert_close(method.loss(learner, batch), learner.loss(batch) + factor * soft)


@pytest.mark.parametrize("kind", ["domain", "class", "class-known"])
def test_one_head_is_compared_as_a_whole_or_by_the_classes_known_then_among_those_known_now(kind):
    """Third task of pairs of classes: 4 outputs of then among 6 of now (class), else all there are."""
    learner = learner_for(eg.split(blobs(8, train=8), kind=kind), task=2)
    then, now = {"domain": (2, 2), "class": (4, 6), "class-known": (8, 8)}[kind]
    outputs = learner.tasks.outputs
    old, new = logits(7, outputs), logits(7, outputs, seed=1)
    for reduction in REDUCTIONS:
        found = distilled(learner, old, new, 2.0, reduction)
        torch.testing.assert_close(found, distillation(old[:, :then], new[:, :now], 2.0, reduction))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("classes", [2, (1, 3, 2, 2)])
def test_past_heads_are_compared_one_by_one_and_the_mean_is_taken(reduction, classes):
    learner = learner_for(eg.split(blobs(8, train=8), kind="task", classes_per_task=classes), task=3)
    ends = [2, 4, 6] if classes == 2 else [1, 4, 6]
    old, new = logits(7, 8), logits(7, 8, seed=1)
    by_head = [
        distillation(old[:, start:end], new[:, start:end], 2.0, reduction)
        for start, end in zip([0, *ends], ends, strict=False)
    ]
    torch.testing.assert_close(distilled(learner, old, new, 2.0, reduction), sum(by_head) / 3)


# what a step minimises ------------------------------------------------------------------------------------------------


def test_the_task_at_hand_counts_one_over_t():
    learner = learner_for(eg.split(blobs(8, train=8)))
    shares = []
    for learner.task in range(4):
        shares.append(share_of_now(learner))
    assert shares == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4])


def test_a_teacher_is_the_network_as_the_last_task_left_it():
    learner = learner_for(eg.split(blobs(8, train=8)), 5)
    assert teacher_of(learner) is None
    learner.task = 2
    assert teacher_of(learner) is None, "with all tasks at once there is none either"
    learner.steps = 1
    teacher = teacher_of(learner)
    assert teacher.active(0) == slice(0, 4)
    before = [p.clone() for p in teacher.net.parameters()]
    with torch.no_grad():
        for p in learner.params:
            p += 1
    assert all(torch.equal(a, b) for a, b in zip(before, teacher.net.parameters(), strict=True))
    assert not any(p.requires_grad for p in teacher.net.parameters())
    assert not teacher.net.training


@pytest.mark.parametrize("kind", ["task", "domain", "class"])
@pytest.mark.parametrize(
    ("weighting", "weights"),
    [
        ("share", {"task": (1 / 3, 2 / 3), "domain": (1 / 3, 2 / 3), "class": (1 / 3, 2 / 3)}),
        ("count", {"task": (1, 2), "domain": (1, 2), "class": (1, 1)}),
    ],
)
def test_the_loss_of_the_third_task_is_weighted(kind, weighting, weights):
    """By a third and two thirds, or by 1 and 2 (in class learning 1)."""
    learner = learner_for(eg.split(blobs(6, train=8), kind=kind), 9, task=2)
    learner.steps = 1
    method = eg.LwF(weighting=weighting)
    method.begin_task(learner, learner.tasks[2])
    with torch.no_grad():
        for p in learner.params:
            p += 0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(1))
    batch = learner.tasks[2].train.batch(torch.arange(16))
    now, then = learner.logits(batch.x), method.teacher.logits(batch.x)
    new, old = learner.loss(batch), distilled(learner, then, now, 2.0, "mean")
    assert float((old - new).detach().abs()) > 0.05, "else weights could not be told apart"
    one, other = weights[kind]
    torch.testing.assert_close(method.loss(learner, batch), one * new + other * old)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_whole_run_is_the_sequence_written_out(reduction):
    """Class learning, two tasks, by autograd and torch's own Adam; one half of each loss in the second."""
    images = blobs(4, train=20, size=5)
    training = eg.Training(epochs=2, batch=16, lr=0.01)
    run = Run(eg.split(images).deal(0), lambda: eg.LwF(reduction=reduction), training, eg.MLP(7, 6))
    learner = learner_for(eg.split(images), 7, 6)
    net = learner.net
    adam = torch.optim.Adam(net.parameters(), lr=0.01)
    old = None
    for task in learner.tasks:
        shuffle = stream(0, "shuffle", task.index)
        for _ in range(2):
            for rows in torch.split(torch.randperm(40, generator=shuffle), 16):
                batch = task.train.batch(rows)
                found = net(batch.x)
                if old is None:
                    loss = cross_entropy(found[:, :2], batch.y)
                else:
                    with torch.no_grad():
                        p = torch.softmax(old(batch.x)[:, :2] / 2, 1)
                    soft = -4 * (p * torch.log_softmax(found / 2, 1)[:, :2]).sum(1).mean()
                    loss = 0.5 * cross_entropy(found, batch.y) + 0.5 * soft / (4 if reduction == "mean" else 1)
                adam.zero_grad()
                loss.backward()
                adam.step()
        old = eg.MLP(7, 6).build((1, 5, 5), 4)
        old.load_state_dict(net.state_dict())
    for found, wanted in zip(run.checkpoints[-1]["net"].values(), net.parameters(), strict=True):
        torch.testing.assert_close(found, wanted.detach(), rtol=1e-3, atol=1e-4)


# what it costs, and what it refuses -----------------------------------------------------------------------------------


def test_it_keeps_nothing_and_works_with_a_copy_of_the_network():
    run = Run(eg.split(blobs(6, train=10, size=5)).deal(0), eg.LwF, eg.Training(epochs=1, batch=16), eg.MLP(7, 6))
    parameters = 25 * 7 + 7 + 7 * 6 + 6 + 6 * 6 + 6
    assert run.outcome.memory == {"kept": {}, "working": {"teacher": 4 * parameters}}
    assert eg.LwF().kept_bytes(eg.MLP(7, 6).build((1, 5, 5), 6), 25) == 0


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"temperature": 0.0}, "temperature 0.0.*above 0"),
        ({"temperature": float("nan")}, "temperature nan.*above 0"),
        ({"temperature": float("inf")}, "temperature inf.*above 0"),
        ({"reduction": "average"}, "reduction 'average'.*mean, sum"),
        ({"weighting": "half"}, "weighting 'half'.*share, count"),
    ],
)
def test_values_that_mean_nothing_are_refused(fields, says):
    with pytest.raises(ValueError, match=says):
        eg.LwF(**fields)
    if "weighting" not in fields:
        with pytest.raises(ValueError, match=says):
            eg.RtF(**fields)
