"""HAL's anchors and look-ahead, and MER's Reptile steps, against computations by hand."""

import copy

import pytest
import torch
from helpers import Run, blobs
from torch.nn.functional import cross_entropy

import engram as eg
from engram.learning.train import new_learner, take_step, train
from engram.methods.hal import first_anchors, learn_anchors, look_ahead

NET = eg.MLP(7, 6)


def scenario(kind: str = "class"):
    return eg.split(blobs(6, train=20, size=5), kind=kind)


def started(method: eg.Method, kind: str = "class", lr: float = 0.1):
    training = eg.Training(batch=10, lr=lr, optimizer="sgd")
    return new_learner(scenario(kind).tasks(0), method, NET, training, 0, torch.device("cpu"))


def batch_of(learner, task: int, rows) -> eg.Batch:
    return learner.tasks[task].train.batch(torch.tensor(list(rows)))


def weights(learner) -> list[torch.Tensor]:
    return [p.detach().clone() for p in learner.params]


# HAL ------------------------------------------------------------------------------------------------------------------


def with_anchors(method: eg.HAL):
    """A learner at its second task, whose first left two anchors."""
    learner = started(method)
    x = torch.rand(2, 25, generator=torch.Generator().manual_seed(3))
    method.anchored.add(eg.Batch(x, torch.tensor([0, 1]), torch.tensor([0, 0]), (0,)))
    learner.task = 1
    method.begin_task(learner, learner.tasks[1])
    return learner, x


def test_a_step_of_hal_is_pulled_towards_its_own_outputs_after_the_step():
    """θ ← θ − η (g + ∇ λ mean (h(θ − η g) − h(θ))²), without a derivative through θ − η g."""
    method = eg.HAL(coef=0.7)
    learner, x = with_anchors(method)
    new = batch_of(learner, 1, range(10))
    start, net = weights(learner), copy.deepcopy(learner.net)
    g = torch.autograd.grad(cross_entropy(net(new.x)[:, :4], new.y), list(net.parameters()))
    ahead = copy.deepcopy(net)
    with torch.no_grad():
        for p, d in zip(ahead.parameters(), g, strict=True):
            p -= 0.1 * d
    pull = torch.autograd.grad(0.7 * ((ahead(x).detach() - net(x)) ** 2).mean(), list(net.parameters()))
    take_step(learner, method, new)
    wanted = [s - 0.1 * (a + b) for s, a, b in zip(start, g, pull, strict=True)]
    torch.testing.assert_close(weights(learner), wanted)


def test_looking_ahead_leaves_the_weights_alone():
    learner, x = with_anchors(eg.HAL())
    before = weights(learner)
    for p in learner.params:
        p.grad = torch.ones_like(p)
    assert not torch.equal(look_ahead(learner, x, torch.zeros(2, dtype=torch.long)), learner.logits(x))
    assert all(torch.equal(a, b) for a, b in zip(before, learner.params, strict=True))


def test_the_running_mean_of_features():
    """φ starts at 0 in each task: after two batches (1 − β)(β f₁ + f₂), with the features after each step."""
    method = eg.HAL(beta=0.3)
    learner = started(method)
    method.begin_task(learner, learner.tasks[0])
    means = []
    for rows in (range(10), range(10, 20)):
        batch = batch_of(learner, 0, rows)
        take_step(learner, method, batch)
        means.append(learner.net.features(batch.x).mean(0).detach())
    torch.testing.assert_close(method.mean_features, 0.7 * (0.3 * means[0] + means[1]))


def test_an_anchor_descends_on_what_the_buffer_makes_worse():
    """One step on −CE(after) + CE(before) + γ ‖features − φ‖², each anchor on its own."""
    learner = started(eg.HAL())
    before, after = learner.frozen(), learner.frozen()
    with torch.no_grad():
        for p in after.net.parameters():
            p += 0.3 * torch.randn(p.shape, generator=torch.Generator().manual_seed(1))
    start = first_anchors(learner, learner.tasks[0])
    assert start.y.tolist() == [0, 1]
    assert 0 <= float(start.x.min()) < float(start.x.max()) <= 1
    features = torch.full((6,), 0.2)
    found = learn_anchors(before, after, start, features, gamma=0.4, lr=0.1, steps=1)
    for i in range(2):
        x = start.x[i : i + 1].clone().requires_grad_()
        y = start.y[i : i + 1]
        objective = (
            -cross_entropy(after.net(x)[:, :2], y)
            + cross_entropy(before.net(x)[:, :2], y)
            + 0.4 * ((before.net.features(x) - features) ** 2).sum()
        )
        (g,) = torch.autograd.grad(objective, x)
        torch.testing.assert_close(found.x[i : i + 1], (x - 0.1 * g).detach())


def test_anchors_without_hindsight_are_learned_from_features_alone():
    """One network in both places: the cross-entropies cancel to the bit, whatever the labels."""
    learner = started(eg.HAL())
    after = learner.frozen()
    start = first_anchors(learner, learner.tasks[0])
    features = torch.full((6,), 0.2)
    found = learn_anchors(after, after, start, features, gamma=0.4, lr=0.1, steps=2)
    x = start.x.clone()
    for _ in range(2):
        x.requires_grad_()
        (g,) = torch.autograd.grad(0.4 * ((after.net.features(x) - features) ** 2).sum(), x)
        x = (x - 0.1 * g).detach()
    torch.testing.assert_close(found.x, x)
    relabelled = learn_anchors(after, after, start._replace(y=start.y.flip(0)), features, gamma=0.4, lr=0.1, steps=2)
    assert torch.equal(relabelled.x, found.x)


def test_hindsight_changes_the_anchors_and_nothing_else_of_a_first_task():
    anchors, nets = [], []

    class Watches(eg.HAL):
        def end_task(self, learner, task):
            super().end_task(learner, task)
            if task.index == 0:
                anchors.append(self.anchored.everything().x.clone())
                nets.append([p.detach().clone() for p in learner.params])

    for hindsight in (True, False):
        Run(
            scenario().tasks(0),
            lambda hindsight=hindsight: Watches(capacity=30, anchors=6, hindsight=hindsight),
            eg.Training(epochs=1, optimizer="sgd", lr=0.1),
            NET,
        )
    assert not torch.equal(*anchors)
    assert all(torch.equal(a, b) for a, b in zip(*nets, strict=True))


@pytest.mark.parametrize(("kind", "counts"), [("class", [2, 4, 6]), ("task", [2, 4, 6]), ("domain", [2, 4, 6])])
def test_each_task_leaves_an_anchor_per_class(kind, counts):
    found = []

    class Watches(eg.HAL):
        def end_task(self, learner, task):
            super().end_task(learner, task)
            found.append(len(self.anchored))

    Run(scenario(kind).tasks(0), lambda: Watches(capacity=30, anchors=6), eg.Training(epochs=1, optimizer="sgd"), NET)
    assert found == counts


def test_the_memory_of_hal_is_buffer_and_anchors():
    method = eg.HAL(capacity=30, anchors=6)
    outcome = train(scenario().tasks(0), method, NET, eg.Training(epochs=1, batch=16, lr=0.01, optimizer="sgd"))
    assert outcome.memory["kept"] == {"buffer": 30 * 29, "anchored": 6 * 104}
    assert method.kept_bytes(NET.build((1, 5, 5), 6), 25) == 30 * 29 + 6 * 104
    sized = eg.HAL().fit_budget(2000, scenario().tasks(0))
    assert (sized.anchors, sized.capacity) == (6, (2000 - 6 * 104) // 29)
    with pytest.raises(ValueError, match="6 anchors take 624 bytes"):
        eg.HAL().fit_budget(624, scenario().tasks(0))


def test_more_anchors_than_there_is_room_for_are_refused():
    with pytest.raises(ValueError, match="one per class and task, 6 in this scenario"):
        started(eg.HAL(anchors=5))


def test_hal_without_its_term_is_er():
    """With coefficient 0 the anchors are learned and not used."""
    training = eg.Training(epochs=2, batch=10, lr=0.1, optimizer="sgd")
    er, hal = (
        Run(scenario().tasks(0), make, training, NET).bits()
        for make in (lambda: eg.ER(capacity=30), lambda: eg.HAL(capacity=30, coef=0.0))
    )
    assert hal["net"] == er["net"]


# MER ------------------------------------------------------------------------------------------------------------------


def test_a_step_of_mer_by_hand():
    """Two steps of which half is taken, and a quarter of both together."""
    method = eg.MER(draws=2, beta=0.5, gamma=0.25, replay=100)
    learner = started(method)
    method.buffer.add(batch_of(learner, 0, range(20, 25)))
    new, start = batch_of(learner, 0, range(10)), weights(learner)
    union = batch_of(learner, 0, [*range(10), *range(20, 25)])  # both draws have all five images
    net = copy.deepcopy(learner.net)
    for _ in range(2):
        g = torch.autograd.grad(cross_entropy(net(union.x)[:, :2], union.y), list(net.parameters()))
        with torch.no_grad():
            for p, d in zip(net.parameters(), g, strict=True):
                p -= 0.5 * 0.1 * d
    take_step(learner, method, new)
    wanted = [s + 0.25 * (p.detach() - s) for s, p in zip(start, net.parameters(), strict=True)]
    torch.testing.assert_close(weights(learner), wanted)
    assert method.buffer.offered == 15


def test_mer_with_whole_steps_and_one_draw_is_er():
    training = eg.Training(epochs=2, batch=10, lr=0.1, optimizer="sgd")
    er, mer = (
        Run(scenario().tasks(0), make, training, NET).bits()
        for make in (lambda: eg.ER(capacity=30), lambda: eg.MER(capacity=30, draws=1))
    )
    assert mer["net"] == er["net"]


def test_its_draws_are_made_before_its_steps():
    method = eg.MER(draws=3, replay=2)
    learner = started(method)
    method.buffer.add(batch_of(learner, 0, range(20)))
    method.loss(learner, batch_of(learner, 0, range(10)))
    pairs = {tuple(sorted(b.x[10:].sum(1).tolist())) for b in method._batches}
    assert len(pairs) == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: eg.MER(draws=0), "draws 0 is out of range"),
        (lambda: eg.MER(beta=1.5), "beta 1.5 is out of range; give 0 to 1"),
        (lambda: eg.HAL(coef=-1.0), "coef -1.0 is out of range"),
        (lambda: eg.HAL(beta=2.0), "beta 2.0"),
        (lambda: eg.HAL(anchor_steps=0), "anchor_steps 0"),
        (lambda: eg.GSS(comparisons=0), "comparisons 0"),
    ],
)
def test_values_out_of_range_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# both -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: eg.HAL(capacity=30),
        lambda: eg.HAL(capacity=30, memory="ring"),
        lambda: eg.MER(capacity=30, beta=0.5, gamma=0.9),
    ],
)
@pytest.mark.parametrize("kind", ["task", "domain", "class"])
def test_resumed_at_any_boundary_it_ends_with_the_same_bits(make, kind):
    training = eg.Training(epochs=2, batch=10, lr=0.02, optimizer="sgd")
    whole = Run(scenario(kind).tasks(0), make, training, NET)
    for checkpoint in whole.checkpoints[:-1]:
        assert Run(scenario(kind).tasks(0), make, training, NET, resume=checkpoint).bits() == whole.bits()
