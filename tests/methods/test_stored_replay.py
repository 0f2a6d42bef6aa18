"""Methods with a buffer: their losses and gradients against formulas, and what is in the buffer when."""

import numpy as np
import pytest
import torch
from helpers import Run, blobs, learner_for
from torch.nn.functional import cross_entropy, log_softmax

import engram as eg
from engram.core.registry import METHODS
from engram.learning.memory import bytes_of
from engram.learning.train import train
from engram.methods.a_gem import project_on_reference
from engram.methods.er_ace import asymmetric_loss
from engram.methods.fdr import function_distance
from engram.methods.mir import interference

STORED = ("er", "der", "der-pp", "er-ace", "a-gem", "fdr", "mir", "gdumb")
LOGITS = ("der", "der-pp", "fdr")
NET = eg.MLP(7, 6)


def scenario(kind: str = "class"):
    return eg.split(blobs(6, train=20, size=5), kind=kind)


def started(method: eg.Method, kind: str = "class", task: int = 0):
    learner = learner_for(scenario(kind), 7, 6, task=task)
    method.start(learner, learner.tasks)
    return learner


def batch_of(learner, task: int, rows) -> eg.Batch:
    return learner.tasks[task].train.batch(torch.tensor(list(rows)))


def gradients(learner, loss) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss, learner.params))


# all ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("kind", ["task", "class"])
def test_declared_memory_is_measured_memory(name, kind):
    method = METHODS[name](capacity=30)
    outcome = train(scenario(kind).tasks(0), method, NET, eg.Training(epochs=1, batch=16, lr=0.01))
    kept = sum(outcome.memory["kept"].values())
    assert kept == method.kept_bytes(NET.build((1, 5, 5), 6), 25) == bytes_of(method.buffer)
    assert kept == 30 * (25 + 4 + (24 if name in LOGITS else 0))


@pytest.mark.parametrize("name", STORED)
def test_a_budget_sizes_the_buffer(name):
    tasks = scenario().tasks(0)
    method = METHODS[name]().fit_budget(1000, tasks)
    image = 25 + 4 + (24 if name in LOGITS else 0)
    assert method.capacity == 1000 // image
    with pytest.raises(ValueError, match="leaves room for no image"):
        METHODS[name]().fit_budget(image - 1, tasks)


@pytest.mark.parametrize(
    ("name", "field"),
    [*((n, "capacity") for n in STORED), ("er", "replay"), ("mir", "candidates"), ("gdumb", "passes")],
)
def test_sizes_below_one_are_refused(name, field):
    with pytest.raises(ValueError, match=f"{field} 0 is out of range"):
        METHODS[name](**{field: 0})


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("kind", ["task", "domain", "class", "class-known"])
def test_resumed_at_any_boundary_it_ends_with_the_same_bits(name, kind):
    training = eg.Training(epochs=2, batch=10, lr=0.02)
    whole = Run(scenario(kind).tasks(0), lambda: METHODS[name](capacity=30), training, NET)
    for checkpoint in whole.checkpoints[:-1]:
        resumed = Run(scenario(kind).tasks(0), lambda: METHODS[name](capacity=30), training, NET, resume=checkpoint)
        assert resumed.bits() == whole.bits()


HELPS = {
    "er": {},
    "er-ace": {},
    "der": {"alpha": 0.5},
    "der-pp": {"alpha": 0.5, "beta": 1.0},
    "mir": {"replay": 20},
    "gdumb": {"passes": 2},
}


@pytest.mark.parametrize("name", HELPS)
def test_classes_of_the_past_are_kept(name):
    """Three tasks with two new classes each: plain training scores a third."""
    tasks = eg.split(blobs(6, train=60, test=50, size=6, noise=60), kind="class").tasks(0)
    training = eg.Training(steps=150, batch=32, lr=0.005)
    plain = np.mean(train(tasks, eg.Adam(), eg.MLP(60), training).accuracy[-1])
    kept = np.mean(train(tasks, METHODS[name](capacity=60, **HELPS[name]), eg.MLP(60), training).accuracy[-1])
    assert plain < 40
    assert kept > 80


# ER -------------------------------------------------------------------------------------------------------------------


def test_er_takes_the_mean_over_new_and_replayed_images():
    method = eg.ER(replay=5)
    learner = started(method)
    new, old = batch_of(learner, 0, range(10)), batch_of(learner, 0, range(20, 25))
    assert torch.equal(method.loss(learner, new), learner.loss(new))  # the first step
    method.buffer.add(old)
    wanted = (10 * learner.loss(new) + 5 * learner.loss(old)) / 15
    torch.testing.assert_close(method.loss(learner, new), wanted)
    summed = eg.ER(replay=5, mixing="sum")
    summed.buffer = method.buffer
    torch.testing.assert_close(summed.loss(learner, new), learner.loss(new) + learner.loss(old))


def test_er_in_the_form_of_2022_weighs_the_past_by_its_tasks():
    """Third task: a third of the new loss and two thirds of the old."""
    method = eg.ER(capacity=60, replay=100, mixing="by-task", memory="per-class")
    learner = started(method, task=2)
    new, old = batch_of(learner, 2, range(10)), batch_of(learner, 0, range(5))
    assert torch.equal(method.loss(learner, new), learner.loss(new))
    method.buffer.add(old)
    torch.testing.assert_close(method.loss(learner, new), learner.loss(new) / 3 + 2 / 3 * learner.loss(old))


@pytest.mark.parametrize("make", [eg.ER, eg.AGEM])
@pytest.mark.parametrize("kind", ["task", "domain", "class"])
def test_a_fixed_number_per_class_is_drawn_at_the_end_of_a_task(make, kind):
    """60 images for six classes: ten of each, twenty per task, also if tasks share their outputs."""
    found = []

    class Watches(make):
        def end_task(self, learner, task):
            super().end_task(learner, task)
            t, y = (self.buffer.columns[name][: len(self.buffer)].long() for name in ("t", "y"))
            found.append((torch.bincount(t).tolist(), sorted(torch.bincount(y[t == task.index]).tolist())[-2:]))

    Run(scenario(kind).tasks(0), lambda: Watches(capacity=60, memory="per-class"), net=NET)
    assert found == [([20], [10, 10]), ([20, 20], [10, 10]), ([20, 20, 20], [10, 10])]
    with pytest.raises(ValueError, match="capacity 5 is below the 6 classes of all tasks"):
        Run(scenario(kind).tasks(0), lambda: make(capacity=5, memory="per-class"), net=NET)


def test_what_is_needed_depends_on_the_memory():
    assert "boundaries" not in eg.ER().needs
    assert "boundaries" in eg.ER(memory="per-class").needs
    assert "boundaries" in eg.AGEM().needs
    assert eg.AGEM(memory="reservoir").needs == {"past data"}


def test_a_batch_is_stored_after_its_step():
    seen = []

    class Watches(eg.ER):
        def loss(self, learner, batch):
            seen.append(self.buffer.offered)
            return super().loss(learner, batch)

    Run(scenario().tasks(0), Watches, eg.Training(epochs=1, batch=16), NET)
    assert seen == [0, 16, 32, 40, 56, 72, 80, 96, 112]


# DER ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [eg.DER, eg.DERpp])
def test_the_first_step_of_der_is_cross_entropy(make):
    method = make()
    learner = started(method)
    new = batch_of(learner, 0, range(10))
    assert torch.equal(method.loss(learner, new), learner.loss(new))


def test_the_gradient_of_der_at_replayed_logits_is_the_formula():
    """∂/∂h of α · mean over batch and outputs of (h − z)² is 2α (h − z) / (batch · outputs)."""
    method = eg.DER(alpha=0.7, replay=100)
    learner = started(method)
    new, old = batch_of(learner, 0, range(10)), batch_of(learner, 0, range(20, 26))
    stored = torch.randn(6, 6, generator=torch.Generator().manual_seed(0))
    method.buffer.add(old, logits=stored)
    found = gradients(learner, method.loss(learner, new))
    h = learner.logits(old.x)
    push = torch.autograd.grad(h, learner.params, 2 * 0.7 * (h.detach() - stored) / 36)
    wanted = [a + b for a, b in zip(gradients(learner, learner.loss(new)), push, strict=True)]
    torch.testing.assert_close(found, wanted)


def test_der_pp_adds_the_cross_entropy_of_a_second_draw():
    method = eg.DERpp(alpha=0.7, beta=0.3, replay=100)
    learner = started(method)
    new, old = batch_of(learner, 0, range(10)), batch_of(learner, 0, range(20, 26))
    method.buffer.add(old, logits=torch.zeros(6, 6))
    h = learner.logits(old.x)
    wanted = learner.loss(new) + 0.7 * (h**2).mean() + 0.3 * learner.loss(old)
    torch.testing.assert_close(method.loss(learner, new), wanted)


def test_der_stores_the_logits_from_before_the_step():
    method = eg.DER(capacity=100)
    learner = started(method)
    new = batch_of(learner, 0, range(10))
    before = learner.logits(new.x).detach()
    method.loss(learner, new)
    with torch.no_grad():
        for p in learner.params:
            p.add_(1)
    method.after_step(learner, new)
    assert torch.equal(method.buffer.columns["logits"][:10], before)


@pytest.mark.parametrize("make", [lambda: eg.DER(alpha=0.0), lambda: eg.DERpp(alpha=0.0, beta=0.0)])
@pytest.mark.parametrize("kind", ["task", "domain", "class"])
def test_der_without_its_terms_is_plain_training(make, kind):
    training = eg.Training(epochs=2, batch=10, lr=0.02)
    plain, without = (Run(scenario(kind).tasks(0), m, training, NET).bits() for m in (eg.Adam, make))
    for name in ("net", "accuracy", "optimizer"):
        assert without[name] == plain[name]


def test_coefficients_below_zero_are_refused():
    with pytest.raises(ValueError, match="alpha -1"):
        eg.DER(alpha=-1.0)
    with pytest.raises(ValueError, match="beta -1"):
        eg.DERpp(beta=-1.0)


# ER-ACE ---------------------------------------------------------------------------------------------------------------


def test_new_images_compete_with_the_classes_of_their_batch_only():
    """Class learning, third task, a batch with the outputs 4 and 5: 0 to 3 are masked and get no gradient."""
    learner = learner_for(scenario(), 7, 6, task=2)
    batch = batch_of(learner, 2, range(12))
    assert set(batch.y.tolist()) == {4, 5}
    logits = learner.logits(batch.x)
    wanted = -log_softmax(logits[:, 4:6], 1).gather(1, batch.y[:, None] - 4).mean()
    loss = asymmetric_loss(learner, batch)
    torch.testing.assert_close(loss, wanted)
    bias = gradients(learner, loss)[-1]
    assert bias[:4].tolist() == [0, 0, 0, 0]
    assert (bias[4:] != 0).all()


def test_replayed_images_compete_with_all_classes_so_far():
    method = eg.ERACE(replay=100)
    learner = started(method, task=2)
    new, old = batch_of(learner, 2, range(12)), batch_of(learner, 0, range(5))
    assert torch.equal(method.loss(learner, new), learner.loss(new))  # nothing stored yet
    method.buffer.add(old)
    wanted = asymmetric_loss(learner, new) + cross_entropy(learner.logits(old.x), old.y)
    torch.testing.assert_close(method.loss(learner, new), wanted)


def test_the_mask_stays_within_the_head_of_a_task():
    learner = learner_for(scenario("task"), 7, 6, task=1)
    batch = batch_of(learner, 1, range(12))
    torch.testing.assert_close(asymmetric_loss(learner, batch), learner.loss(batch))


# A-GEM ----------------------------------------------------------------------------------------------------------------


def flat(tensors) -> torch.Tensor:
    return torch.cat([t.flatten() for t in tensors])


def test_a_projected_gradient_is_orthogonal_to_the_reference():
    learner = learner_for(scenario(), 7, 6)
    rng = torch.Generator().manual_seed(1)
    reference = [torch.randn(p.shape, generator=rng) for p in learner.params]
    for p, r in zip(learner.params, reference, strict=True):
        p.grad = torch.randn(p.shape, generator=rng) - 0.5 * r
    before = flat(p.grad for p in learner.params)
    assert before @ flat(reference) < 0
    project_on_reference(learner.params, reference)
    after = flat(p.grad for p in learner.params)
    assert abs(float(after @ flat(reference))) < 1e-4 * float(after.norm() * flat(reference).norm())
    removed = before - after  # along the reference alone
    assert float(torch.cosine_similarity(removed, -flat(reference), 0)) == pytest.approx(1, abs=1e-5)


def test_epsilon_damps_the_projection():
    """g = −1, r = 1 in one dimension: g − g·r / (r² + ε) r = −1 + 1 / 1.25."""
    p = torch.zeros(1, requires_grad=True)
    p.grad = torch.tensor([-1.0])
    project_on_reference([p], [torch.ones(1)], epsilon=0.25)
    assert p.grad.item() == pytest.approx(-0.2)


def test_a_gradient_that_does_not_oppose_the_reference_stays():
    learner = learner_for(scenario(), 7, 6)
    for p in learner.params:
        p.grad = torch.ones_like(p)
    project_on_reference(learner.params, [torch.ones_like(p) for p in learner.params])
    assert all((p.grad == 1).all() for p in learner.params)


def test_a_gem_fills_its_memory_at_the_end_of_each_task():
    """30 images for three tasks: 10 each; the reservoir is full within the first."""
    sizes = {"per-task": [10, 20, 30], "reservoir": [30, 30, 30]}
    for memory, wanted in sizes.items():
        found = []

        class Watches(eg.AGEM):
            def end_task(self, learner, task, found=found):
                super().end_task(learner, task)
                found.append(len(self.buffer))

        Run(scenario().tasks(0), lambda memory=memory: Watches(capacity=30, memory=memory), net=NET)
        assert found == wanted


def test_the_first_task_of_a_gem_is_plain_sgd():
    training = eg.Training(epochs=1, batch=10, lr=0.1, optimizer="sgd")
    plain, projected = (Run(scenario().tasks(0), make, training, NET) for make in (eg.SGD, eg.AGEM))
    for name, value in plain.checkpoints[0]["net"].items():
        assert torch.equal(projected.checkpoints[0]["net"][name], value)
    assert projected.bits()["net"] != plain.bits()["net"]


# FDR ------------------------------------------------------------------------------------------------------------------


def test_the_function_distance_is_the_mean_norm_between_probabilities():
    """Logits (0, 0) and (ln 3, 0) are probabilities (½, ½) and (¾, ¼): √2/4 apart; equal ones are 0 apart."""
    new = torch.zeros(2, 2, requires_grad=True)
    old = torch.tensor([[np.log(3.0), 0.0], [0.0, 0.0]])
    distance = function_distance(new, old)
    assert distance.item() == pytest.approx(2**0.5 / 8)
    distance.backward()
    assert new.grad[1].tolist() == [0, 0]
    assert new.grad[0, 0] < 0


def test_fdr_shares_its_memory_among_the_tasks_so_far():
    """⌊30 / t⌋ images of each task, with the logits of the network at the end of theirs."""
    found = []

    class Watches(eg.FDR):
        def end_task(self, learner, task):
            super().end_task(learner, task)
            t = self.buffer.columns["t"][: len(self.buffer)]
            found.append(torch.bincount(t.long()).tolist())
            held = self.buffer.batch(torch.arange(len(self.buffer))[t == task.index])
            torch.testing.assert_close(held.extra["logits"], learner.logits(held.x).detach())

    Run(scenario().tasks(0), lambda: Watches(capacity=30), net=NET)
    assert found == [[30], [15, 15], [10, 10, 10]]


def test_the_second_step_of_fdr_lowers_the_distance():
    method = eg.FDR(replay=100)
    learner = started(method, task=1)
    old = batch_of(learner, 0, range(20))
    logits = torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
    method.buffer.add(old, logits=logits)
    before = function_distance(learner.logits(old.x), logits).item()
    method.after_step(learner, old)
    assert function_distance(learner.logits(old.x), logits).item() < before


def test_alpha_scales_the_second_step_of_fdr():
    """Plain SGD: twice the coefficient, twice the way."""
    ways = []
    for alpha in (1.0, 2.0):
        method = eg.FDR(replay=100, alpha=alpha)
        learner = learner_for(scenario(), 7, 6, task=1, optimizer="sgd", lr=0.1)
        method.start(learner, learner.tasks)
        old = batch_of(learner, 0, range(20))
        method.buffer.add(old, logits=torch.randn(20, 6, generator=torch.Generator().manual_seed(0)))
        before = flat(p.detach().clone() for p in learner.params)
        method.after_step(learner, old)
        ways.append(flat(p.detach() for p in learner.params) - before)
    torch.testing.assert_close(ways[1], 2 * ways[0], rtol=1e-3, atol=1e-6)


def test_the_first_task_of_fdr_is_plain_training():
    plain, fdr = (Run(scenario().tasks(0), make, net=NET) for make in (eg.Adam, eg.FDR))
    for name, value in plain.checkpoints[0]["net"].items():
        assert torch.equal(fdr.checkpoints[0]["net"][name], value)
    assert fdr.bits()["net"] != plain.bits()["net"]


# MIR ------------------------------------------------------------------------------------------------------------------


def test_interference_is_the_rise_of_each_loss_after_a_virtual_step():
    learner = learner_for(scenario(), 7, 6, task=1, lr=0.1)
    new, old = batch_of(learner, 1, range(10)), batch_of(learner, 0, range(8))
    before = [p.detach().clone() for p in learner.params]
    found = interference(learner, new, old)
    assert all(torch.equal(a, b) for a, b in zip(before, learner.params, strict=True))
    stepped = learner.frozen()
    with torch.no_grad():
        for p, g in zip(stepped.net.parameters(), learner.gradients(new), strict=True):
            p -= 0.1 * g
        for i in range(8):
            one = batch_of(learner, 0, [i])
            assert float(found[i]) == pytest.approx(float(stepped.loss(one) - learner.loss(one)), abs=1e-6)


def test_mir_replays_the_most_interfered():
    method = eg.MIR(replay=2, candidates=100)
    learner = started(method, task=1)
    new, old = batch_of(learner, 1, range(10)), batch_of(learner, 0, range(8))
    method.buffer.add(old)
    rows = interference(learner, new, old).argsort(descending=True)[:2].tolist()
    wanted = learner.loss(new) + learner.loss(batch_of(learner, 0, rows))
    torch.testing.assert_close(method.loss(learner, new), wanted)


def test_mir_replays_nothing_in_the_first_task():
    plain, mir = (Run(scenario().tasks(0), make, net=NET) for make in (eg.Adam, eg.MIR))
    for name, value in plain.checkpoints[0]["net"].items():
        torch.testing.assert_close(mir.checkpoints[0]["net"][name], value)


# GDumb ----------------------------------------------------------------------------------------------------------------


def test_gdumb_trains_a_fresh_network_on_the_buffer_alone():
    first, labels = [], []

    class Watches(eg.GDumb):
        def begin_task(self, learner, task):
            super().begin_task(learner, task)
            first.append([p.detach().clone() for p in learner.params])
            labels.append(torch.bincount(self.buffer.columns["y"].long()).tolist())

    made = Run(scenario().tasks(0), lambda: Watches(capacity=12, passes=4), eg.Training(epochs=2, batch=16), NET)
    assert all(torch.equal(a, b) for later in first[1:] for a, b in zip(first[0], later, strict=True))
    assert labels == [[6, 6], [3, 3, 3, 3], [2] * 6]
    assert made.outcome.steps == 3 * 2 * 3  # tasks, epochs, ⌈4 · 12 / 16⌉


def test_the_steps_of_gdumb_are_known_in_advance():
    assert eg.GDumb(capacity=500, passes=2).pass_sizes([300, 300, 300]) == [600, 1000, 1000]
