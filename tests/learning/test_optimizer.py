"""Optimisers by name do what torch.optim does, to the bit, though most of torch's bookkeeping is skipped."""

import copy
import os
import subprocess
import sys

import pytest
import torch

import engram as eg
from engram.learning.optimizer import OPTIMIZERS, Optimizer

SHAPES = [(13, 7), (13,), (5, 13), (5,)]
CLASSES = {"adam": torch.optim.Adam, "adagrad": torch.optim.Adagrad, "sgd": torch.optim.SGD}


def parameters() -> list[torch.Tensor]:
    rng = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=rng).requires_grad_() for shape in SHAPES]


def gradients(step: int) -> list[torch.Tensor]:
    rng = torch.Generator().manual_seed(100 + step)
    return [torch.randn(shape, generator=rng) for shape in SHAPES]


def advance(optimizer, params, steps, without: dict[int, list[int]] | None = None) -> None:
    """Steps with made-up gradients; `without`: parameters that have none in some step."""
    for step in steps:
        for i, (p, g) in enumerate(zip(params, gradients(step), strict=True)):
            p.grad = None if i in (without or {}).get(step, []) else g
        optimizer.step()


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(p, q) for p, q in zip(a, b, strict=True))


def same_state(a: dict, b: dict) -> bool:
    return a["state"].keys() == b["state"].keys() and all(
        torch.equal(torch.as_tensor(a["state"][i][name]), torch.as_tensor(b["state"][i][name]))
        for i in b["state"]
        for name in b["state"][i]
        if b["state"][i][name] is not None
    )


@pytest.fixture(params=["adam", "adagrad", "sgd", "adam decayed", "sgd decayed"])
def pair(request):
    """(ours, torch's) with parameters of their own."""
    name, *decayed = request.param.split()
    decay = 0.1 if decayed else 0.0
    ours, theirs = parameters(), parameters()
    return (
        (Optimizer(ours, name, 0.05, weight_decay=decay), ours),
        (CLASSES[name](theirs, lr=0.05, weight_decay=decay, fused=True), theirs),
    )


def test_twenty_steps(pair):
    (ours, p), (theirs, q) = pair
    advance(ours, p, range(20))
    advance(theirs, q, range(20))
    assert not same(p, parameters())
    assert same(p, q)
    assert same_state(ours.state_dict(), theirs.state_dict())


def test_looking_at_the_state_in_between_changes_nothing(pair):
    (ours, p), (theirs, q) = pair
    for step in range(20):
        advance(ours, p, [step])
        if step % 3:
            ours.state_dict()
    advance(theirs, q, range(20))
    assert same(p, q)
    assert same_state(ours.state_dict(), theirs.state_dict())


def test_a_state_goes_through_a_file_into_a_fresh_optimizer(pair):
    (ours, p), (theirs, q) = pair
    advance(ours, p, range(9))
    state = copy.deepcopy(ours.state_dict())
    name = ours.fast.name
    decay = ours.torch.param_groups[0]["weight_decay"]
    moved = [x.detach().clone().requires_grad_() for x in p]
    fresh = Optimizer(moved, name, 0.05, weight_decay=decay)
    advance(fresh, moved, range(3))  # is overwritten
    with torch.no_grad():
        for x, y in zip(moved, p, strict=True):
            x.copy_(y)
    fresh.load_state_dict(state)
    advance(fresh, moved, range(9, 20))
    advance(theirs, q, range(20))
    assert same(moved, q)


@pytest.mark.parametrize(
    "without",
    [{0: [2, 3]}, {5: [1]}, {5: [0]}, {5: [1], 6: [1], 11: [2, 3]}, {3: [0, 1, 2, 3]}],
    ids=["first step", "a later one", "the first parameter", "several", "all of them"],
)
def test_a_parameter_without_a_gradient_in_some_step(pair, without):
    """Such a parameter skips the step, and its own count of steps with it."""
    (ours, p), (theirs, q) = pair
    advance(ours, p, range(20), without)
    advance(theirs, q, range(20), without)
    assert same(p, q)
    assert same_state(ours.state_dict(), theirs.state_dict())


def test_counts_of_steps_that_differ_survive_a_file(pair):
    """One parameter skipped a step before the state was saved: the optimiser that goes on must know."""
    (ours, p), (theirs, q) = pair
    name, decay = ours.fast.name, ours.torch.param_groups[0]["weight_decay"]
    advance(ours, p, range(9), {4: [2]})
    fresh = Optimizer(p, name, 0.05, weight_decay=decay)
    fresh.load_state_dict(copy.deepcopy(ours.state_dict()))
    advance(fresh, p, range(9, 20))
    advance(theirs, q, range(20), {4: [2]})
    assert same(p, q)
    assert same_state(fresh.state_dict(), theirs.state_dict())


def test_the_first_step_of_each_by_hand():
    """Gradient 0.5, rate 0.1, from 1: sgd 0.95; adam and adagrad move by the rate, whatever the gradient."""
    for name, expected in (("sgd", 0.95), ("adam", 0.9), ("adagrad", 0.9)):
        p = torch.ones(3, requires_grad=True)
        p.grad = torch.full((3,), 0.5)
        Optimizer([p], name, 0.1).step()
        assert p.tolist() == pytest.approx([expected] * 3)


def test_momentum_by_hand():
    """Rate 0.1, momentum 0.5, gradient 1 twice, from 0: −0.1, then −0.1 − 0.1·1.5 = −0.25."""
    p = torch.zeros(1, requires_grad=True)
    optimizer = Optimizer([p], "sgd", 0.1, momentum=0.5)
    for expected in (-0.1, -0.25):
        p.grad = torch.ones(1)
        optimizer.step()
        assert p.item() == pytest.approx(expected)


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_every_name_lowers_the_loss_of_a_network(name):
    torch.manual_seed(0)
    net = eg.MLP(12).build((1, 4, 4), 3)
    x, y = torch.randn(30, 16), torch.randint(3, (30,))
    optimizer = Optimizer(list(net.parameters()), name, 0.01)

    def loss() -> torch.Tensor:
        return torch.nn.functional.cross_entropy(net(x), y)

    before = loss().item()
    for _ in range(5):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    assert loss().item() < before


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rmsprop", {"momentum": 0.9}),
        ("sgd", {"momentum": 0.9, "weight_decay": 0.1}),
        ("sgd", {"momentum": 0.9, "weight_decay": 5e-4, "nesterov": True}),
        ("adam", {"betas": (0.8, 0.95)}),
        ("adamw", {"weight_decay": 0.1}),
        ("adamw", {"weight_decay": 0.1, "betas": (0.9, 0.99)}),
        ("nadam", {"betas": (0.7, 0.9)}),
    ],
)
def test_optimizers_get_their_options(name, options):
    ours, theirs = parameters(), parameters()
    classes = {"rmsprop": torch.optim.RMSprop, "adamw": torch.optim.AdamW, "nadam": torch.optim.NAdam, **CLASSES}
    advance(eg.Training(optimizer=name, lr=0.01, **options).new_optimizer(ours), ours, range(20))
    fused = {} if name in ("rmsprop", "nadam") else {"fused": True}
    advance(classes[name](theirs, lr=0.01, **options, **fused), theirs, range(20))
    assert same(ours, theirs)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"optimizer": "adam", "nesterov": True}, "nesterov True: optimizer adam has no nesterov"),
        ({"optimizer": "sgd", "nesterov": True}, "nesterov True needs momentum"),
        ({"optimizer": "sgd", "betas": (0.9, 0.99)}, r"betas \(0.9, 0.99\): optimizer sgd has no betas"),
        ({"betas": (0.9, 1.0)}, r"betas \(0.9, 1.0\) is out of range; give two numbers, 0 or more and below 1"),
        ({"betas": [0.9]}, r"betas \(0.9,\) is out of range"),
        ({"betas": 0.9}, "betas 0.9 is not a list"),
    ],
)
def test_wrong_options_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        eg.Training(**values)


def test_an_option_that_an_optimizer_lacks_is_refused():
    with pytest.raises(ValueError, match=r"momentum 0\.9: optimizer adam has no momentum"):
        Optimizer(parameters(), "adam", 0.1, momentum=0.9)


@pytest.mark.parametrize(("name", "nearest"), [("adm", "adam"), ("Adam", "adam"), ("adagrd", "adagrad"), ("lbfgs", "")])
def test_an_unknown_name_is_refused_with_the_nearest(name, nearest):
    with pytest.raises(ValueError, match=f"did you mean {nearest}" if nearest else "choose from adadelta"):
        eg.Training(optimizer=name)


def test_a_run_leaves_out_the_compiler(tmp_path):
    """Importing it takes as long as importing torch, in every process that computes."""
    code = """
import sys
import engram as eg
from helpers import blobs
for method in (eg.Adam(), eg.SGD(), eg.Adagrad(), eg.EWC()):
    training = eg.Training(epochs=1, optimizer=method.optimizer)
    eg.run(eg.split(blobs(4)), method, net=eg.MLP(8), training=training, out=sys.argv[1])
print("torch._dynamo" in sys.modules)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, "-c", code, tmp_path], env=environment, capture_output=True, text=True)
    assert found.stdout == "False\n", found.stderr


@pytest.mark.parametrize("name", CLASSES)
def test_gradients_of_another_layout_are_taken_element_by_element(name):
    """torch's fused kernels go through memory in order, whatever the strides say."""
    ours, plain = parameters()[0], parameters()[0]
    laid_out, reference = Optimizer([ours], name, lr=0.1), CLASSES[name]([plain], lr=0.1, foreach=False)
    for step in range(3):
        ours.grad = gradients(step)[0].t().contiguous().t()
        plain.grad = gradients(step)[0]
        laid_out.step()
        reference.step()
    torch.testing.assert_close(ours, plain)
