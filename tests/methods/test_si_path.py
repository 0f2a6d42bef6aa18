"""Synaptic intelligence: the path integral and what becomes of it, on problems where both are known."""

import pytest
import torch
from helpers import Run, blobs, everything, learner_for
from torch import nn

import engram as eg
from engram.learning.learner import Learner
from engram.scenarios.task import Batch


def bowl(lr: float, optimizer: str = "sgd", start: float = 2.0) -> Learner:
    """One weight and no data: the test sets its gradients by hand."""
    tasks = eg.split(blobs(4, train=8, size=5), kind="domain").deal(0)
    net = nn.Linear(1, 1, bias=False)
    nn.init.constant_(net.weight, start)
    return Learner(net, tasks, eg.Training(optimizer=optimizer, lr=lr), 0, torch.device("cpu"))


def steps(learner: Learner, method: eg.SI, n: int, slope) -> list[float]:
    """n steps down the given slope; the places, the first included."""
    (w,) = learner.params
    places = [w.item()]
    for _ in range(n):
        w.grad = slope(w.detach().clone())
        method.adjust_gradients(learner, None)
        learner.optimizer.step()
        method.after_step(learner, None)
        places.append(w.item())
    return places


def begun(learner: Learner, **fields) -> eg.SI:
    method = eg.SI(**fields)
    method.start(learner, learner.tasks)
    method.begin_task(learner, learner.tasks[0])
    return method


def test_three_steps_by_hand():
    """L = θ² from 2 with rate ¼: θ = 2, 1, ½, ¼; gradients 4, 2, 1; −g·Δ = 4 + 1 + ¼ = 5.25.

    Ω = 5.25 / ((¼ − 2)² + 0.1) = 5.25 / 3.1625.
    """
    learner = bowl(0.25)
    method = begun(learner)
    assert steps(learner, method, 3, lambda w: 2 * w) == [2.0, 1.0, 0.5, 0.25]
    assert method.path[0].item() == 5.25
    method.end_task(learner, learner.tasks[0])
    assert method.weights[0].item() == pytest.approx(5.25 / 3.1625)
    assert method.centre[0].item() == 0.25


def test_xi_damps_the_division():
    """The same with ξ = 0.001, and with ξ = 1."""
    for xi in (0.001, 1.0):
        learner = bowl(0.25)
        method = begun(learner, xi=xi)
        steps(learner, method, 3, lambda w: 2 * w)
        method.end_task(learner, learner.tasks[0])
        assert method.weights[0].item() == pytest.approx(5.25 / (3.0625 + xi))


def test_path_approaches_the_fall_of_the_loss():
    """L = 3 θ², small steps from 2: the integral is L(start) − L(end), up to the rate."""
    learner = bowl(1e-4)
    method = begun(learner)
    places = steps(learner, method, 2000, lambda w: 6 * w)
    fall = 3 * (places[0] ** 2 - places[-1] ** 2)
    assert fall > 10
    assert method.path[0].item() == pytest.approx(fall, rel=2e-3)


def test_path_of_a_network_approaches_the_fall_of_its_loss():
    """Summed over all parameters; full batches and plain SGD with a small rate."""
    learner = learner_for(eg.split(blobs(4, train=8, size=5), kind="task"), 7, 6, optimizer="sgd", lr=0.02)
    method = begun(learner)
    batch = everything(learner.tasks[0].train)
    first = learner.loss(batch).item()
    for _ in range(200):
        _, gradients = learner.loss_and_gradients(batch)
        for p, g in zip(learner.params, gradients, strict=True):
            p.grad = g
        method.adjust_gradients(learner, batch)
        learner.optimizer.step()
        method.after_step(learner, None)
    fall = first - learner.loss(batch).item()
    assert fall > 0.1
    assert float(sum(path.sum() for path in method.path)) == pytest.approx(fall, rel=0.03)


def test_the_penalty_changes_the_step_but_not_the_gradient_of_the_path():
    """Gradient 1, θ one above the centre, Ω = 2, coef 3, rate 0.01.

    The step goes along 1 + 2·3·2·1 = 13: Δ = −0.13. The path is −1 · Δ = 0.13, neither 0.01 nor 13 · 0.13.
    """
    learner = bowl(0.01, start=1.0)
    method = begun(learner, coef=3.0)
    method.weights, method.centre = [torch.full((1, 1), 2.0)], [torch.zeros(1, 1)]
    method.begin_task(learner, learner.tasks[0])
    places = steps(learner, method, 1, torch.ones_like)
    assert places[1] == pytest.approx(0.87)
    assert method.path[0].item() == pytest.approx(0.13)


def test_the_step_is_the_optimiser_s_own():
    """Adam's first step has length rate whatever the gradient: −g·Δ = 50 · 0.1."""
    learner = bowl(0.1, "adam")
    method = begun(learner)
    places = steps(learner, method, 1, lambda w: torch.full_like(w, 50.0))
    assert places[1] == pytest.approx(1.9)
    assert method.path[0].item() == pytest.approx(5.0, rel=1e-4)


@pytest.mark.parametrize(("clamp", "wanted"), [(False, -0.75 / 0.35), (True, 0.0)])
def test_a_negative_contribution_is_kept_unless_clamped(clamp, wanted):
    """A weight that goes up by ½ against a slope of 1.5: −g·Δ = −0.75; ((½)² + 0.1) = 0.35."""
    learner = bowl(1.0)
    method = begun(learner, clamp=clamp)
    (w,) = learner.params
    w.grad = torch.full_like(w, 1.5)
    method.adjust_gradients(learner, None)
    with torch.no_grad():
        w.add_(0.5)
    method.after_step(learner, None)
    assert method.path[0].item() == pytest.approx(-0.75)
    method.end_task(learner, learner.tasks[0])
    assert method.weights[0].item() == pytest.approx(wanted)


def test_clamping_is_of_a_whole_task_s_contribution():
    """+1 and −0.4 in one task: 0.6 counts, not 1."""
    learner = bowl(1.0)
    method = begun(learner, clamp=True, xi=1.0)
    (w,) = learner.params
    for g, move in ((1.0, -1.0), (0.4, 1.0)):
        w.grad = torch.full_like(w, g)
        method.adjust_gradients(learner, None)
        with torch.no_grad():
            w.add_(move)
        method.after_step(learner, None)
    method.end_task(learner, learner.tasks[0])  # it is back where it was: divided by ξ alone
    assert method.weights[0].item() == pytest.approx(0.6)


def test_adds_up_over_tasks_and_the_path_starts_anew():
    """Task 1: 2 → 1 → ½ (ω = 5). Task 2, penalty off: ½ → ¼ (ω = ¼, from ½, not from 2)."""
    learner = bowl(0.25)
    method = begun(learner, coef=0.0)
    steps(learner, method, 2, lambda w: 2 * w)
    method.end_task(learner, learner.tasks[0])
    first = 5 / (1.5**2 + 0.1)
    assert method.weights[0].item() == pytest.approx(first)
    learner.task = 1
    method.begin_task(learner, learner.tasks[1])
    assert method.path[0].item() == 0
    steps(learner, method, 1, lambda w: 2 * w)
    assert method.path[0].item() == pytest.approx(0.25)
    method.end_task(learner, learner.tasks[1])
    assert method.weights[0].item() == pytest.approx(first + 0.25 / (0.25**2 + 0.1))
    assert method.centre[0].item() == 0.25


def test_the_first_task_is_measured_from_the_initial_weights():
    """In a run: Ω of task 1 with ξ large is ω / ξ; with ξ small the moved distance from the start shows."""
    tasks = eg.split(blobs(4, train=8, size=5), kind="task").deal(0)
    initial = learner_for(eg.split(blobs(4, train=8, size=5), kind="task"), 7, 6).params
    training = eg.Training(epochs=3, batch=4, lr=0.02)
    found = {}
    for xi in (1e-2, 1e6):
        run = Run(tasks, lambda xi=xi: eg.SI(xi=xi), training, eg.MLP(7, 6))
        state = run.checkpoints[0]
        found[xi] = state["method"][0]["weights"]
        last = list(state["net"].values())
    for fine, coarse, end, start in zip(found[1e-2], found[1e6], last, initial, strict=True):
        moved = (end - start.detach()) ** 2
        torch.testing.assert_close(fine * (moved + 1e-2), coarse * 1e6, rtol=1e-3, atol=1e-6)


def test_a_whole_run_against_a_loop_of_its_own():
    """Two tasks, Adam, mini-batches, penalty on: Ω and weights as by a plain loop with autograd and torch's Adam."""
    scenario = eg.split(blobs(4, train=12, size=5), kind="class")
    training = eg.Training(epochs=2, batch=8, lr=0.02)
    run = Run(scenario.deal(0), lambda: eg.SI(coef=30.0), training, eg.MLP(7, 6))
    learner = learner_for(scenario, 7, 6)  # the same initial weights
    params, tasks = learner.params, learner.tasks
    adam = torch.optim.Adam(params, lr=0.02)
    omega = [torch.zeros_like(p) for p in params]
    anchor = [p.detach().clone() for p in params]
    for task in tasks:
        learner.task = task.index
        data = everything(task.train)
        path = [torch.zeros_like(p) for p in params]
        shuffle = learner.rng("shuffle")
        for _ in range(2):
            for rows in torch.split(torch.randperm(24, generator=shuffle), 8):
                loss = nn.functional.cross_entropy(learner.net(data.x[rows])[:, : 2 * task.index + 2], data.y[rows])
                plain = torch.autograd.grad(loss, params, retain_graph=True)
                held = sum((o * (p - a) ** 2).sum() for p, o, a in zip(params, omega, anchor, strict=True))
                adam.zero_grad()
                (loss + 30.0 * held).backward()
                before = [p.detach().clone() for p in params]
                adam.step()
                for w, g, p, b in zip(path, plain, params, before, strict=True):
                    w -= g * (p.detach() - b)
        omega = [o + w / ((p.detach() - a) ** 2 + 0.1) for o, w, p, a in zip(omega, path, params, anchor, strict=True)]
        anchor = [p.detach().clone() for p in params]
    last = run.checkpoints[-1]
    for found, wanted in zip(last["method"][0]["weights"], omega, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
    for found, wanted in zip(last["net"].values(), params, strict=True):
        torch.testing.assert_close(found, wanted.detach(), rtol=1e-3, atol=1e-4)


def test_the_gradient_of_the_loss_is_not_written_over():
    """What the path multiplies is the gradient as it was, although the optimiser gets another one."""
    learner = bowl(0.5, start=1.0)
    method = begun(learner, coef=10.0)
    method.weights = [torch.ones(1, 1)]
    method.centre = [torch.zeros(1, 1)]
    method.begin_task(learner, learner.tasks[0])
    (w,) = learner.params
    given = torch.full_like(w, 2.0)
    w.grad = given
    method.adjust_gradients(learner, Batch(torch.zeros(1, 1), torch.zeros(1), torch.zeros(1), (0,)))
    assert given.item() == 2.0
    assert w.grad.item() == pytest.approx(2.0 + 2 * 10)


def test_the_path_of_the_total_gradient_has_the_penalty_in_it():
    """Weight 1 held at 0 with importance 1 and coefficient ½: the penalty's gradient is θ; the loss has slope 0."""
    for path_of, wanted in (("loss", 0.0), ("total", 0.5 * 0.5)):
        learner = bowl(0.5, start=0.5)
        method = begun(learner, coef=0.5, path_of=path_of)
        method.weights[0].fill_(1.0)
        method.centre[0].fill_(0.0)
        method.begin_task(learner, learner.tasks[0])
        places = steps(learner, method, 1, torch.zeros_like)
        assert places == [0.5, 0.25]
        assert method.path[0].item() == wanted * 0.5  # gradient ½ times the way ¼


def test_the_clipped_path_is_the_rate_times_the_squared_clipped_gradient():
    """Slope 4 is clipped to 1: θ moves by the rate, and ω grows by η g² (Buzzega et al.'s form)."""
    learner = bowl(0.25)
    method = begun(learner, path_of="total", clip_each=1.0)
    assert steps(learner, method, 2, lambda w: torch.full_like(w, 4.0)) == [2.0, 1.75, 1.5]
    assert method.path[0].item() == 2 * 0.25 * 1.0**2
    with pytest.raises(ValueError, match="clip_each -1"):
        eg.SI(clip_each=-1.0)
