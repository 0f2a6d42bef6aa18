"""GEM: the quadratic programme, the direction it gives, the past gradients, and the memory that they come from."""

import numpy as np
import pytest
import torch
from helpers import Run, blobs, everything, learner_for
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import nn

import engram as eg
from engram.learning.learner import Learner
from engram.methods.gem import dual, factors, past_gradients, project, project_factors
from engram.scenarios.task import Batch

RIDGE = 0.001
MARGINS = (0.0, 0.5, 2.0)


def random_problem(seed: int, rows: int, scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    """(gradient, past gradients) in 30 dimensions; some past gradients nearly point the same way."""
    rng = torch.Generator().manual_seed(seed)
    past = torch.randn(rows, 30, generator=rng, dtype=torch.float64)
    if rows > 2:
        past[1] = past[0] + 0.05 * past[1]
    return scale * torch.randn(30, generator=rng, dtype=torch.float64), scale * past


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 8),
    margin=st.sampled_from(MARGINS),
    scale=st.sampled_from([0.01, 1.0, 10.0]),
)
def test_multipliers_obey_the_conditions_of_optimality(seed, rows, margin, scale):
    """With q = (GGᵀ + 0.001 I) v + G g: v ≥ margin, q ≥ 0, and q = 0 wherever v is above the margin."""
    g, past = random_problem(seed, rows, scale)
    v = dual(past @ past.T, past @ g, margin)
    q = (past @ past.T + RIDGE * torch.eye(rows, dtype=torch.float64)) @ v + past @ g
    slack = 1e-8 * max(1.0, scale**2)
    assert (v >= margin - 1e-9).all()
    assert (q >= -100 * slack).all()
    assert ((q * (v - margin)).abs() <= 1000 * slack * (1 + v.abs())).all()


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 8), margin=st.sampled_from(MARGINS))
def test_direction_never_opposes_a_past_gradient_beyond_the_ridge(seed, rows, margin):
    """G g̃ ≥ −0.001 v: what the ridge leaves, and no less than that."""
    g, past = random_problem(seed, rows)
    turned = project(g, past, margin)
    if turned is None:
        assert (past @ g >= 0).all()
        return
    v = torch.linalg.lstsq(past.T, (turned - g)[:, None]).solution[:, 0]
    assert (past @ turned >= -RIDGE * v - 1e-7).all()
    assert (past @ turned > -0.01 * (1 + v.abs())).all()


def test_the_ridge_is_there():
    """One past gradient e, g = −10 e, margin 0: v = 10 / 1.001, so g̃ = −10 e · 0.001 / 1.001, not 0."""
    past = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    turned = project(torch.tensor([-10.0, 3.0], dtype=torch.float64), past, 0.0)
    assert turned[0].item() == pytest.approx(-10 * 0.001 / 1.001, rel=1e-9)
    assert turned[1].item() == 3.0


def test_the_margin_by_hand():
    """g = −0.1 e, margin ½: v = max(0.1 / 1.001, ½) = ½, so g̃ = 0.4 e."""
    past = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    turned = project(torch.tensor([-0.1, 3.0], dtype=torch.float64), past, 0.5)
    assert turned.tolist() == pytest.approx([0.4, 3.0])


def test_every_past_gradient_gets_its_margin_when_one_is_opposed():
    """e₁ is opposed by −1, e₂ agrees: v = (1 / 1.001, ½), so e₂'s part goes from 2 to 2½."""
    past = torch.eye(2, 3, dtype=torch.float64)
    turned = project(torch.tensor([-1.0, 2.0, 7.0], dtype=torch.float64), past, 0.5)
    assert turned.tolist() == pytest.approx([-1 + 1 / 1.001, 2.5, 7.0])


def test_two_slots_of_one_task_push_twice():
    """Equal gradients e in two slots, g = −0.1 e: each has at least ½, so g̃ = 0.9 e."""
    past = torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    assert project(torch.tensor([-0.1, 0.0], dtype=torch.float64), past, 0.5).tolist() == pytest.approx([0.9, 0.0])


@pytest.mark.parametrize("margin", MARGINS)
def test_unchanged_where_no_past_gradient_is_opposed(margin):
    past = torch.eye(2, 3)
    assert project(torch.tensor([1.0, 0.0, -5.0]), past, margin) is None
    assert project(torch.tensor([1.0, -1e-6, -5.0]), past, margin) is not None


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("rows", [1, 2, 4])
def test_without_margin_it_is_the_nearest_direction(seed, rows):
    """Gradients of length about 500, beside which the ridge is nothing: min ‖g̃ − g‖² with G g̃ ≥ 0 by SciPy."""
    g, past = random_problem(seed, rows)
    if (past @ g >= 0).all():
        g = -g
    turned = project(100 * g, 100 * past, 0.0) / 100
    matrix, start = past.numpy(), g.numpy()
    found = minimize(
        lambda z: 0.5 * ((z - start) ** 2).sum(),
        start + matrix.T @ np.linalg.solve(matrix @ matrix.T, -(matrix @ start)),
        jac=lambda z: z - start,
        constraints={"type": "ineq", "fun": lambda z: matrix @ z, "jac": lambda z: matrix},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found.success
    np.testing.assert_allclose(turned.numpy(), found.x, atol=2e-4)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("margin", [0.0, 0.5])
def test_multipliers_are_those_that_scipy_finds(seed, margin):
    g, past = random_problem(seed, 5)
    p = (past @ past.T).numpy() + RIDGE * np.eye(5)
    q = (past @ g).numpy()
    found = minimize(
        lambda v: 0.5 * v @ p @ v + q @ v,
        np.full(5, margin + 1.0),
        jac=lambda v: p @ v + q,
        bounds=[(margin, None)] * 5,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000},
    )
    np.testing.assert_allclose(dual(past @ past.T, past @ g, margin).numpy(), found.x, atol=2e-4)


def test_long_gradients_that_depend_on_each_other_do_not_break_the_programme():
    """Ten past gradients in a plane of 5000 dimensions, each of length about 3000, in float32 as in a run.

    The Gram matrix has rank 2, and rounding it to float32 may make it worse than the ridge can mend.
    """
    for seed in range(5):
        rng = torch.Generator().manual_seed(seed)
        past = torch.randn(10, 2, generator=rng) @ (30 * torch.randn(2, 5000, generator=rng))
        g = -past.mean(0)
        turned = project(g, past, 0.5)
        assert turned is not None
        assert turned.isfinite().all()


@pytest.mark.parametrize("scale", [1e3, 1e5, 1e8])
def test_long_gradients_are_turned_as_short_ones_are(scale):
    """Without a margin and beside a ridge that is nothing, g̃ grows in proportion."""
    for seed in range(10):
        g, past = random_problem(seed, 4)
        if (past @ g >= 0).all():
            g = -g
        wanted = project(100 * g, 100 * past, 0.0) / 100
        torch.testing.assert_close(project(scale * g, scale * past, 0.0) / scale, wanted, rtol=1e-3, atol=1e-3)


def test_of_single_precision_gradients_is_single_precision():
    g, past = random_problem(3, 4)
    assert (past @ g < 0).any()
    turned = project(g.float(), past.float(), 0.5)
    assert turned.dtype == torch.float32
    torch.testing.assert_close(turned.double(), project(g, past, 0.5), rtol=1e-3, atol=1e-3)


# past gradients -------------------------------------------------------------------------------------------------------


class WithoutClosedForm(nn.Module):
    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(25, 7), nn.LayerNorm(7), nn.Linear(7, outputs)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))


def filled(kind: str, closed: bool, groups=2, **fields):
    """A learner at its third task, and GEM with the memory of the first two."""
    scenario = eg.split(blobs(6, train=15, size=5), kind=kind, classes_per_task=groups)
    learner = learner_for(scenario, 7, 6)
    if not closed:
        torch.manual_seed(1)
        net = WithoutClosedForm(learner.tasks.outputs)
        learner = Learner(net, learner.tasks, eg.Training(), 0, torch.device("cpu"))
    method = eg.GEM(**{"capacity": 21, **fields})
    method.start(learner, learner.tasks)
    for task in learner.tasks[:2]:
        learner.task = task.index
        method.begin_task(learner, task)
        method.end_task(learner, task)
    learner.task = 2
    method.begin_task(learner, learner.tasks[2])
    return learner, method


def outputs_of(kind: str, groups, task: int) -> list[int]:
    ends = np.cumsum([groups] * 3 if isinstance(groups, int) else groups)
    if kind == "task":
        return list(range(ends[task] - (groups if isinstance(groups, int) else groups[task]), ends[task]))
    return list(range(ends[2])) if kind == "class" else [0, 1]


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize(
    ("kind", "groups"), [("task", 2), ("task", (1, 2, 3)), ("domain", 2), ("class", 2), ("class", (2, 1, 3))]
)
def test_rows_are_the_gradients_of_each_slot_alone(kind, groups, closed):
    """Four slots of 5 images, each its mean cross-entropy over the outputs in play at the third task, by autograd."""
    learner, method = filled(kind, closed, groups)
    assert [len(x) for x in method.pixels] == [5, 5, 5, 5]
    past_gradients(learner, method.inputs, method._sizes, method.matrix)
    assert method.matrix.shape == (4, sum(p.numel() for p in learner.params))
    for row, x, y, owner in zip(method.matrix, method.pixels, method.labels, method.owners, strict=True):
        outputs = outputs_of(kind, groups, owner)
        places = torch.tensor([outputs.index(int(label)) for label in y])
        loss = nn.functional.cross_entropy(learner.net(x)[:, outputs], places)
        found = torch.autograd.grad(loss, learner.params)
        torch.testing.assert_close(row, torch.cat([g.flatten() for g in found]), rtol=1e-4, atol=1e-6)
        slot = Batch(x, y.long(), torch.full_like(y.long(), owner), (owner,))
        own = torch.cat([g.flatten() for g in learner.gradients(slot)])
        torch.testing.assert_close(row, own, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("closed", [True, False])
def test_slots_of_unequal_size_have_means_of_their_own(closed):
    learner, method = filled("task", closed)
    sizes = [2, 8, 1, 9]
    past_gradients(learner, method.inputs, sizes, method.matrix)
    memory, start = method.inputs, 0
    for row, n in zip(method.matrix, sizes, strict=True):
        rows = slice(start, start + n)
        part = Batch(memory.x[rows], memory.y[rows], memory.t[rows], memory.tasks)
        own = torch.autograd.grad(learner.loss(part), learner.params)
        torch.testing.assert_close(row, torch.cat([g.flatten() for g in own]), rtol=1e-4, atol=1e-6)
        start += n


def given_gradients(learner: Learner, g: torch.Tensor) -> None:
    start = 0
    for p in learner.params:
        p.grad = g[start : start + p.numel()].view_as(p).clone()
        start += p.numel()


def opposed(past: torch.Tensor) -> torch.Tensor:
    return -past.sum(0) + 0.1 * torch.randn(past.shape[1], generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("kind", ["task", "class"])
def test_a_step_goes_along_the_projected_gradient(kind, closed):
    """The whole hook against its parts: rows by autograd, SciPy-checked multipliers, written back in order."""
    learner, method = filled(kind, closed)
    past_gradients(learner, method.inputs, method._sizes, method.matrix)
    past = method.matrix.clone()
    g = opposed(past)
    given_gradients(learner, g)
    method.adjust_gradients(learner, everything(learner.tasks[2].train))
    found = torch.cat([p.grad.flatten() for p in learner.params])
    v = torch.linalg.lstsq(past.double().T, (found - g).double()[:, None]).solution[:, 0]
    assert (v >= 0.5 - 1e-3).all()
    assert (past @ found >= -RIDGE * v - 1e-4).all()
    assert (past @ g < 0).any()


def test_in_the_first_task_nothing_is_changed():
    learner = learner_for(eg.split(blobs(4, size=5), kind="class"), 7)
    method = eg.GEM()
    method.start(learner, learner.tasks)
    method.begin_task(learner, learner.tasks[0])
    for p in learner.params:
        p.grad = torch.full_like(p, -1.0)
    method.adjust_gradients(learner, everything(learner.tasks[0].train))
    assert all((p.grad == -1).all() for p in learner.params)
    assert method.matrix is None


# the memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda: eg.GEM(capacity=50), [[25, 25], [12] * 4, [8] * 6]),  # floor(50 / 2t), two slots a task
        (lambda: eg.GEM(capacity=50, slots_per_task=1), [[50], [25] * 2, [16] * 3]),
        (lambda: eg.GEMTextbook(capacity=50), [[50], [25] * 2, [16] * 3]),
    ],
)
def test_slots_after_each_task(make, wanted):
    tasks = eg.split(blobs(6, train=40, size=5), kind="class").deal(0)
    run = Run(tasks, make, eg.Training(epochs=1, batch=32, lr=0.01, optimizer="sgd"), eg.MLP(7))
    assert [[len(x) for x in c["method"][0]["pixels"]] for c in run.checkpoints] == wanted
    slots = len(wanted[0])
    assert run.checkpoints[-1]["method"][0]["owners"] == [0] * slots + [1] * slots + [2] * slots


def test_the_two_slots_of_a_task_are_drawn_independently():
    """25 of 80 images each: they overlap in about 8, and are neither equal nor disjoint."""
    learner = learner_for(eg.split(blobs(4, train=40, size=5), kind="class"), 7)
    shared = []
    for seed in range(20):
        learner.seed = seed
        method = eg.GEM(capacity=50)
        method.start(learner, learner.tasks)
        method.end_task(learner, learner.tasks[0])
        one, two = ({tuple(x.tolist()) for x in slot} for slot in method.pixels)
        assert len(one) == len(two) == 25
        shared.append(len(one & two))
    assert 6.5 < np.mean(shared) < 9.2  # 25 · 25 / 80 = 7.8, deviation of the mean 0.4


@pytest.mark.parametrize(("memory_batch", "each"), [(8, 2), (11, 2), (4, 1), (1, 1), (400, 5)])
def test_memory_batch_draws_from_every_slot(memory_batch, each):
    """Of four slots of 5: an equal number of each, none twice, and other ones at the next step."""
    _, method = filled("class", True, memory_batch=memory_batch)
    seen = [set() for _ in range(4)]
    for _ in range(30):
        some, sizes = method.drawn(method.inputs, method._sizes)
        assert sizes == [each] * 4
        assert some.t.tolist() == [0] * 2 * each + [1] * 2 * each
        for slot in range(4):
            part = some.x[slot * each : (slot + 1) * each]
            stored = [tuple(x.tolist()) for x in method.pixels[slot]]
            rows = [stored.index(tuple(x.tolist())) for x in part]
            labels = some.y[slot * each : (slot + 1) * each].tolist()
            assert labels == [int(method.labels[slot][r]) for r in rows]
            assert len({tuple(x.tolist()) for x in part}) == each
            seen[slot].update(rows)
    assert seen == [{0, 1, 2, 3, 4}] * 4
    assert len(method.inputs.x) == 20


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("kind", ["task", "domain", "class"])
def test_memory_batch_of_all_is_the_whole_memory(kind, closed):
    """The same step up to the order of summation: products of gradients by their factors, or of the rows themselves."""
    learner, whole = filled(kind, closed)
    _, some = filled(kind, closed, memory_batch=20)
    past_gradients(learner, whole.inputs, whole._sizes, whole.matrix)
    g = opposed(whole.matrix)
    found = []
    for method in (whole, some):
        given_gradients(learner, g)
        method.adjust_gradients(learner, everything(learner.tasks[2].train))
        found.append(torch.cat([p.grad.flatten() for p in learner.params]))
    assert (some.matrix is None) == closed
    assert (found[0] - g).abs().max() > 0.1
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", [[5, 5, 5, 5], [2, 8, 1, 9], [20]])
def test_factors_turn_a_gradient_as_rows_do(sizes):
    """Slots of unequal size too; and one that opposes none is left as it was, to the bit."""
    learner, method = filled("class", True)
    rows = torch.empty(len(sizes), sum(p.numel() for p in learner.params))
    past_gradients(learner, method.inputs, sizes, rows)
    g = opposed(rows)
    given_gradients(learner, g)
    project_factors(learner.params, factors(learner, method.inputs, sizes), sizes, 0.5)
    turned = torch.cat([p.grad.flatten() for p in learner.params])
    torch.testing.assert_close(turned, project(g, rows, 0.5), rtol=1e-4, atol=1e-5)
    agreeable = project(g, rows, 5.0)
    assert (rows @ agreeable > 0).all()
    given_gradients(learner, agreeable)
    project_factors(learner.params, factors(learner, method.inputs, sizes), sizes, 0.5)
    assert torch.equal(torch.cat([p.grad.flatten() for p in learner.params]), agreeable)


@pytest.mark.parametrize(
    ("make", "steps"),
    [
        # 80 new images in sixteens: 5 steps; with 80 // 20 · 20 of the memory: 10
        (lambda: eg.GEM(capacity=20), [5, 10, 10]),
        (lambda: eg.GEM(capacity=20, slots_per_task=1), [5, 10, 10]),  # 20, then 2 · 10
        (lambda: eg.GEMTextbook(capacity=20), [5, 5, 5]),
        (lambda: eg.GEM(capacity=30), [5, 9, 9]),  # 80 + 2 · 30 = 140, then 80 + 2 · 4 · 7 = 136
    ],
)
def test_gem_trains_on_its_memory_and_the_textbook_s_does_not(make, steps):
    tasks = eg.split(blobs(6, train=40, size=5), kind="class").deal(0)
    run = Run(tasks, make, eg.Training(epochs=1, batch=16, lr=0.01, optimizer="sgd"), eg.MLP(7))
    assert [c["outcome"]["steps"] for c in run.checkpoints] == np.cumsum(steps).tolist()


def test_plain_sgd_is_the_default():
    assert (eg.GEM.optimizer, eg.GEMTextbook.optimizer) == ("sgd", "sgd")
    assert (eg.GEM().margin, eg.GEM().slots_per_task, eg.GEM().memory_batch) == (0.5, 2, 0)
    assert eg.GEMTextbook().slots_per_task == 1


def test_a_memory_smaller_than_its_slots_is_refused_or_works():
    """Three images for six slots."""
    tasks = eg.split(blobs(6, train=40, size=5), kind="class").deal(0)
    training = eg.Training(epochs=1, batch=16, lr=0.01, optimizer="sgd")
    for make in (lambda: eg.GEMTextbook(capacity=1), lambda: eg.GEMTextbook(capacity=2)):
        try:
            assert Run(tasks, make, training, eg.MLP(7)).outcome.status == "done"
        except ValueError as error:
            assert "capacity" in str(error)  # noqa: PT017


def test_a_run_that_diverges_says_so():
    tasks = eg.split(blobs(6, train=40, size=5), kind="class").deal(0)
    for lr in (1e15, 1e25, 1e30):
        training = eg.Training(epochs=15, batch=16, lr=lr, optimizer="sgd")
        outcome = Run(tasks, lambda: eg.GEMTextbook(capacity=60), training, eg.MLP(7, 6)).outcome
        assert outcome.status in ("done", "diverged")


def test_the_memory_can_be_shared_among_all_tasks_from_the_start():
    """30 images, three tasks: 10 each at all times, as Buzzega et al. have it; by default 30, 15, 10."""
    sizes = {}
    for shares in ("so-far", "all"):
        found = sizes[shares] = []

        class Watches(eg.GEMTextbook):
            def end_task(self, learner, task, found=found):
                super().end_task(learner, task)
                found.append([len(x) for x in self.pixels])

        tasks = eg.split(blobs(6, train=20, size=5), kind="class").tasks(0)
        training = eg.Training(epochs=1, batch=16, lr=0.01, optimizer="sgd")
        Run(tasks, lambda shares=shares: Watches(capacity=30, shares=shares), training)
    assert sizes == {"so-far": [[30], [15, 15], [10, 10, 10]], "all": [[10], [10, 10], [10, 10, 10]]}
