"""The quadratic penalty coef · Σ weight · (θ − centre)²: its gradient, L2, EWC folded and online."""

import copy

import pytest
import torch
from helpers import blobs, everything, learner_for

import engram as eg
from engram.learning.fisher import fisher
from engram.learning.learner import Learner
from engram.methods._penalty import QuadraticPenalty

PENALTIES = {
    "l2": eg.L2,
    "ewc": eg.EWC,
    "online-ewc": eg.OnlineEWC,
    "si": eg.SI,
    "mas": eg.MAS,
}


def started(method, kind: str = "task", classes: int = 8, images: int = 10):
    """A learner at the first of its tasks, and the method."""
    learner = learner_for(eg.split(blobs(classes, train=images, size=5), kind=kind), 7, 6, batch=8)
    method.start(learner, learner.tasks)
    return learner, method


def wander(learner, seed: int, size: float = 0.1) -> None:
    """Moves every parameter, as training would."""
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in learner.params:
            p.add_(size * torch.randn(p.shape, generator=rng))


def pull(learner, method) -> list[torch.Tensor]:
    """What the method adds to a gradient of zero."""
    for p in learner.params:
        p.grad = torch.zeros_like(p)
    method.begin_task(learner, learner.tasks[0])
    method.adjust_gradients(learner, None)
    return [p.grad for p in learner.params]


def close(found, wanted, **options) -> None:
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, **options)


def flat(tensors) -> torch.Tensor:
    return torch.cat([t.detach().flatten() for t in tensors])


class Own(QuadraticPenalty):
    def importance(self, learner, task):
        rng = torch.Generator().manual_seed(1)
        return [torch.rand(p.shape, generator=rng) for p in learner.params]


def penalty_of(values, method) -> torch.Tensor:
    """Written out."""
    terms = [(w * (p - c) ** 2).sum() for p, w, c in zip(values, method.weights, method.centre, strict=True)]
    return method.coef * sum(terms)


@pytest.mark.parametrize("make", [Own, eg.SI])
def test_gradient_is_that_of_the_penalty_by_autograd(make):
    learner, method = started(make(coef=3.7))
    if make is eg.SI:
        method.begin_task(learner, learner.tasks[0])
        method.path = [torch.randn_like(p) for p in learner.params]
    method.end_task(learner, learner.tasks[0])
    wander(learner, 2)
    values = [p.detach().clone().requires_grad_() for p in learner.params]
    wanted = torch.autograd.grad(penalty_of(values, method), values)
    assert all(w.abs().max() > 1e-3 for w in wanted)
    close(pull(learner, method), wanted)


def test_gradient_is_that_of_the_penalty_by_finite_differences():
    learner, method = started(Own(coef=0.9))
    method.end_task(learner, learner.tasks[0])
    wander(learner, 3)
    found = pull(learner, method)
    values = [p.detach().double() for p in learner.params]
    method.weights = [w.double() for w in method.weights]
    method.centre = [c.double() for c in method.centre]
    for k in range(len(values)):
        for i in (0, values[k].numel() // 2, values[k].numel() - 1):
            up, down = copy.deepcopy(values), copy.deepcopy(values)
            up[k].view(-1)[i] += 1e-4
            down[k].view(-1)[i] -= 1e-4
            slope = (penalty_of(up, method) - penalty_of(down, method)) / 2e-4
            assert float(found[k].view(-1)[i]) == pytest.approx(float(slope), rel=1e-3, abs=1e-6)


def test_gradient_by_hand():
    """coef 5, weight 3, 0.25 away from the centre: 2 · 5 · 3 · 0.25 = 7.5, with no factor ½."""
    learner, method = started(Own(coef=5.0))
    method.weights = [torch.full_like(p, 3.0) for p in learner.params]
    method.centre = [p.detach() - 0.25 for p in learner.params]
    for g in pull(learner, method):
        torch.testing.assert_close(g, torch.full_like(g, 7.5), rtol=1e-5, atol=0)


def test_is_added_to_the_gradient_of_the_loss():
    learner, method = started(eg.L2(coef=2.0))
    method.end_task(learner, learner.tasks[0])
    with torch.no_grad():
        for p in learner.params:
            p.add_(0.5)
            p.grad = torch.full_like(p, -7.0)
    method.adjust_gradients(learner, None)
    for p in learner.params:  # −7 + 2 · 2 · 1 · 0.5
        torch.testing.assert_close(p.grad, torch.full_like(p, -5.0))


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("kind", ["task", "domain", "class"])
def test_nothing_is_held_in_the_first_task(name, kind):
    learner, method = started(PENALTIES[name](coef=1e6), kind)
    method.begin_task(learner, learner.tasks[0])
    wander(learner, 4)
    assert flat(pull(learner, method)).abs().max() == 0


@pytest.mark.parametrize("name", PENALTIES)
def test_the_centre_is_where_the_first_task_ended(name):
    """To the last bit: at the start of task 2 there is no pull at all."""
    learner, method = started(PENALTIES[name]())
    method.begin_task(learner, learner.tasks[0])
    wander(learner, 5)
    method.end_task(learner, learner.tasks[0])
    assert torch.equal(flat(method.centre), flat(learner.params))
    assert flat(pull(learner, method)).abs().max() == 0


@pytest.mark.parametrize("name", PENALTIES)
def test_what_is_kept_is_a_copy(name):
    learner, method = started(PENALTIES[name]())
    method.begin_task(learner, learner.tasks[0])
    wander(learner, 6)
    method.end_task(learner, learner.tasks[0])
    before = flat(method.centre).clone(), flat(method.weights).clone()
    wander(learner, 7)
    assert torch.equal(flat(method.centre), before[0])
    assert torch.equal(flat(method.weights), before[1])


# L2 -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["task", "class"])
def test_l2_weighs_every_parameter_by_one_after_every_task(kind):
    """Weights, biases, and the rows of outputs that no task has used yet; not accumulated."""
    learner, method = started(eg.L2(coef=0.5), kind)
    for task in learner.tasks:
        learner.task = task.index
        wander(learner, task.index)
        method.end_task(learner, task)
        assert flat(method.weights).unique().tolist() == [1.0]
        assert torch.equal(flat(method.centre), flat(learner.params))
    assert len(flat(method.weights)) == 25 * 7 + 7 + 7 * 6 + 6 + 6 * 8 + 8


@pytest.mark.parametrize("name", ["ewc", "online-ewc", "mas"])
@pytest.mark.parametrize(("kind", "held"), [("task", [0, 1]), ("class", [0, 1]), ("domain", [0, 1])])
def test_other_penalties_hold_only_outputs_that_took_part(name, kind, held):
    learner, method = started(PENALTIES[name](), kind)
    method.begin_task(learner, learner.tasks[0])
    method.end_task(learner, learner.tasks[0])
    *_, weight, bias = method.weights
    assert [i for i in range(len(bias)) if weight[i].any() or bias[i].any()] == held


# EWC ------------------------------------------------------------------------------------------------------------------


def after_tasks(monkeypatch, method, fishers, positions):
    """Runs the ends of tasks at given places with given Fishers; the learner, wherever it is then."""
    learner, method = started(method)
    queue = [[f.clone() for f in fs] for fs in fishers]
    monkeypatch.setattr("engram.methods._penalty.fisher", lambda *_: queue.pop(0))
    for task, place in zip(learner.tasks, positions, strict=False):
        learner.task = task.index
        with torch.no_grad():
            for p, value in zip(learner.params, place, strict=True):
                p.copy_(value)
        method.end_task(learner, task)
    return learner, method


def made_up(learner, tasks: int, zeros: float):
    rng = torch.Generator().manual_seed(11)
    fishers, positions = [], []
    for _ in range(tasks):
        draw = [torch.rand(p.shape, generator=rng) ** 4 for p in learner.params]
        fishers.append([f * (torch.rand(f.shape, generator=rng) >= zeros) for f in draw])
        positions.append([torch.randn(p.shape, generator=rng) for p in learner.params])
    return fishers, positions


@pytest.mark.parametrize("zeros", [0.0, 0.6, 1.0])
def test_ewc_folded_is_the_sum_over_tasks(monkeypatch, zeros):
    """Gradient at random places against 2 · coef · Σ_k F_k (θ − θ*_k), task by task, for four tasks."""
    blank, _ = started(eg.EWC())
    fishers, positions = made_up(blank, 4, zeros)
    learner, method = after_tasks(monkeypatch, eg.EWC(coef=1.3), fishers, positions)
    for seed in range(3):
        wander(learner, seed, 1.0)
        wanted = [torch.zeros_like(p) for p in learner.params]
        for fs, place in zip(fishers, positions, strict=True):
            for sum_, p, f, star in zip(wanted, learner.params, fs, place, strict=True):
                sum_ += 2 * 1.3 * f * (p.detach() - star)
        close(pull(learner, method), wanted, rtol=1e-4, atol=1e-5)
    if zeros == 1.0:
        assert flat(pull(learner, method)).abs().max() == 0


def test_ewc_with_real_fishers_is_the_sum_over_tasks():
    """The same with the Fisher of the network at each boundary, in class learning."""
    learner, method = started(eg.EWC(coef=20.0), "class")
    past = []
    for task in learner.tasks:
        learner.task = task.index
        wander(learner, task.index, 0.3)
        place = [p.detach().clone() for p in learner.params]
        past.append((fisher(learner, task.train), place))
        method.end_task(learner, task)
    wander(learner, 9, 0.3)
    values = [p.detach().clone().requires_grad_() for p in learner.params]
    total = sum((f * (p - star) ** 2).sum() for fs, place in past for p, f, star in zip(values, fs, place, strict=True))
    wanted = torch.autograd.grad(20.0 * total, values)
    close(pull(learner, method), wanted, rtol=1e-3, atol=1e-5)
    assert len(past) == 4


def test_ewc_folded_by_hand(monkeypatch):
    """F = 1 at 0 and F = 3 at 4: Σ F = 4, centre 3; at θ = 5 the pull of coef ½ is 2 · ½ · (1 · 5 + 3 · 1) = 8."""
    blank, _ = started(eg.EWC())
    fishers = [[torch.full_like(p, f) for p in blank.params] for f in (1.0, 3.0)]
    positions = [[torch.full_like(p, at) for p in blank.params] for at in (0.0, 4.0)]
    learner, method = after_tasks(monkeypatch, eg.EWC(coef=0.5), fishers, positions)
    assert flat(method.weights).unique().tolist() == [4.0]
    assert flat(method.centre).unique().tolist() == [3.0]
    with torch.no_grad():
        for p in learner.params:
            p.fill_(5.0)
    assert flat(pull(learner, method)).unique().tolist() == [8.0]


def test_ewc_keeps_the_centre_of_a_parameter_that_did_not_move(monkeypatch):
    """To the last bit, whatever the Fishers: else a parameter at rest would feel a pull."""
    blank, _ = started(eg.EWC())
    fishers, positions = made_up(blank, 4, 0.3)
    still = [positions[0]] * 4
    learner, method = after_tasks(monkeypatch, eg.EWC(coef=1e9), fishers, still)
    assert torch.equal(flat(method.centre), flat(positions[0]))
    assert flat(pull(learner, method)).abs().max() == 0


def test_ewc_ignores_where_a_task_ended_that_gave_no_information(monkeypatch):
    """F = 2 at 1, then F = 0 at 100: the centre stays at 1."""
    blank, _ = started(eg.EWC())
    fishers = [[torch.full_like(p, f) for p in blank.params] for f in (2.0, 0.0)]
    positions = [[torch.full_like(p, at) for p in blank.params] for at in (1.0, 100.0)]
    _, method = after_tasks(monkeypatch, eg.EWC(), fishers, positions)
    assert flat(method.weights).unique().tolist() == [2.0]
    assert flat(method.centre).unique().tolist() == [1.0]


def test_ewc_does_not_grow_with_the_tasks():
    learner, method = started(eg.EWC())
    sizes = set()
    for task in learner.tasks:
        learner.task = task.index
        method.end_task(learner, task)
        sizes.add(sum(t.numel() for name in method.kept for t in getattr(method, name)))
    assert sizes == {2 * sum(p.numel() for p in learner.params)}


# Online EWC -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("decay", "wanted"), [(1.0, [1, 3, 7]), (0.5, [1, 2.5, 5.25]), (0.0, [1, 2, 4])])
def test_online_ewc_adds_up_with_decay_around_the_latest_place(monkeypatch, decay, wanted):
    """Fishers 1, 2, 4."""
    blank, _ = started(eg.OnlineEWC())
    for n in (1, 2, 3):
        fishers = [[torch.full_like(p, f) for p in blank.params] for f in (1.0, 2.0, 4.0)[:n]]
        positions = [[torch.full_like(p, at) for p in blank.params] for at in (0.0, -3.0, 8.0)[:n]]
        _, method = after_tasks(monkeypatch, eg.OnlineEWC(decay=decay), fishers, positions)
        assert flat(method.weights).unique().tolist() == [wanted[n - 1]]
        assert flat(method.centre).unique().tolist() == [(0.0, -3.0, 8.0)[n - 1]]


@pytest.mark.parametrize("method", [eg.EWC, eg.OnlineEWC])
@pytest.mark.parametrize(("label", "estimator"), [("true", "sample"), ("exact", "sample"), ("sampled", "batch")])
def test_fields_choose_the_fisher(method, label, estimator):
    """After the first task the weights are that Fisher, with the training's batch size."""
    learner, method = started(method(label=label, estimator=estimator), "class")
    method.end_task(learner, learner.tasks[0])
    wanted = fisher(learner, learner.tasks[0].train, label, estimator, 8)
    assert torch.equal(flat(method.weights), flat(wanted))
    other = fisher(learner, learner.tasks[0].train, "predicted", estimator, 8)
    assert not torch.equal(flat(method.weights), flat(other))


def test_fisher_is_taken_without_the_penalty():
    """Two runs that differ in the coefficient alone, at the same place: the same Fisher."""
    found = []
    for coef in (0.0, 1e4):
        learner, method = started(eg.OnlineEWC(coef=coef), "domain")
        for task in learner.tasks[:2]:
            learner.task = task.index
            wander(learner, task.index)
            method.end_task(learner, task)
        found.append(flat(method.weights))
    assert torch.equal(*found)


# MAS ------------------------------------------------------------------------------------------------------------------


def linear_map(kind: str, seed: int = 0) -> Learner:
    """A learner whose network is one linear layer."""
    tasks = eg.split(blobs(6, train=10, size=5), kind=kind).deal(0)
    net = torch.nn.Linear(25, tasks.outputs)
    torch.manual_seed(seed)
    torch.nn.init.normal_(net.weight)
    torch.nn.init.normal_(net.bias)
    return Learner(net, tasks, eg.Training(batch=8), 0, torch.device("cpu"))


@pytest.mark.parametrize(("kind", "outputs"), [("task", [2, 3]), ("domain", [0, 1]), ("class", [0, 1, 2, 3])])
def test_mas_per_sample_of_a_linear_map_by_hand(kind, outputs):
    """|∂ Σ_c z_c² / ∂ W_ci| = |2 z_c x_i|: the mean over images of 2 |z_c| |x_i|, and of 2 |z_c| for the bias."""
    learner = linear_map(kind)
    method = eg.MAS(form="per-sample")
    method.start(learner, learner.tasks)
    learner.task = 1
    x = everything(learner.tasks[1].train).x
    z = learner.net(x).detach()
    method.end_task(learner, learner.tasks[1])
    weight, bias = torch.zeros_like(learner.net.weight), torch.zeros_like(learner.net.bias)
    for c in outputs:
        weight[c] = (2 * z[:, c : c + 1].abs() * x.abs()).mean(0)
        bias[c] = (2 * z[:, c].abs()).mean()
    close(method.weights, [weight, bias])


@pytest.mark.parametrize(("kind", "outputs"), [("task", [2, 3]), ("domain", [0, 1]), ("class", [0, 1, 2, 3])])
def test_mas_of_batch_means_of_a_linear_map_by_hand(kind, outputs):
    """20 images in eights are 8, 8 and 4: the plain mean over the three of |mean over images and outputs of 2 z x|."""
    learner = linear_map(kind)
    method = eg.MAS()
    method.start(learner, learner.tasks)
    learner.task = 1
    x = everything(learner.tasks[1].train).x
    z = learner.net(x).detach()
    method.end_task(learner, learner.tasks[1])
    order = torch.randperm(20, generator=learner.rng("fisher"))
    weight, bias = torch.zeros_like(learner.net.weight), torch.zeros_like(learner.net.bias)
    for rows in (order[:8], order[8:16], order[16:]):
        for c in outputs:
            weight[c] += (2 * z[rows, c : c + 1] * x[rows]).sum(0).abs() / (len(rows) * len(outputs)) / 3
            bias[c] += (2 * z[rows, c]).sum().abs() / (len(rows) * len(outputs)) / 3
    close(method.weights, [weight, bias])


def test_mas_forms_differ_where_signs_do():
    """An output of + and − 1 in turn: its batch mean is 0, its mean size is not."""
    learner = linear_map("domain")
    x = everything(learner.tasks[0].train).x
    with torch.no_grad():
        learner.net.weight.zero_()
        learner.net.bias.zero_()
        learner.net.weight[0] = torch.linalg.lstsq(x, torch.tensor([1.0, -1.0] * 10)).solution
    z = learner.net(x).detach()[:, 0]
    torch.testing.assert_close(z, torch.tensor([1.0, -1.0] * 10), rtol=0, atol=1e-3)
    learner.training = eg.Training(batch=20)
    found = {}
    for form in ("per-sample", "batch-mean"):
        method = eg.MAS(form=form)
        method.start(learner, learner.tasks)
        method.end_task(learner, learner.tasks[0])
        found[form] = float(method.weights[1][0])
    assert found["per-sample"] == pytest.approx(2.0, abs=1e-2)
    assert found["batch-mean"] == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("form", ["batch-mean", "per-sample"])
def test_mas_adds_up_over_tasks_around_the_latest_place(form):
    learner = linear_map("class")
    method = eg.MAS(form=form)
    method.start(learner, learner.tasks)
    parts = []
    for task in learner.tasks:
        learner.task = task.index
        wander(learner, task.index, 0.5)
        alone = eg.MAS(form=form)
        alone.start(learner, learner.tasks)
        alone.end_task(learner, task)
        parts.append(flat(alone.weights))
        method.end_task(learner, task)
    torch.testing.assert_close(flat(method.weights), parts[0] + parts[1] + parts[2])
    assert torch.equal(flat(method.centre), flat(learner.params))


@pytest.mark.parametrize("form", ["batch-mean", "per-sample"])
@pytest.mark.parametrize("kind", ["task", "class"])
def test_mas_of_an_mlp_equals_autograd(form, kind):
    learner, method = started(eg.MAS(form=form), kind)
    learner.task = 1
    wander(learner, 1, 0.3)
    train = learner.tasks[1].train
    x = everything(train).x
    outputs = slice(2, 4) if kind == "task" else slice(0, 4)
    method.end_task(learner, learner.tasks[1])
    if form == "per-sample":
        parts = [(row[None], 1) for row in x]
    else:
        order = torch.randperm(20, generator=learner.rng("fisher"))
        parts = [(x[rows], len(rows) * (outputs.stop - outputs.start)) for rows in (order[:8], order[8:16], order[16:])]
    total = [torch.zeros_like(p) for p in learner.params]
    for part, count in parts:
        value = (learner.net(part)[:, outputs] ** 2).sum() / count
        for sum_, g in zip(total, torch.autograd.grad(value, learner.params), strict=True):
            sum_ += g.abs() / len(parts)
    close(method.weights, total, rtol=1e-4, atol=1e-7)
