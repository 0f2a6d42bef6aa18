"""The fast path ends in the bits of the reference path, and is left as soon as it would bypass something."""

import copy
import subprocess
import sys

import pytest
import torch
from helpers import Run, blobs, everything, learner_for
from torch import nn
from torch.nn.utils import parametrizations

import engram as eg
from engram.learning import fast
from engram.learning.combine import combine
from engram.learning.optimizer import Optimizer

KINDS = ("task", "domain", "class", "class-known")
METHODS = {
    "adam": eg.Adam,
    "sgd": eg.SGD,
    "adagrad": eg.Adagrad,
    "ewc": eg.EWC,
    "ewc by batch": lambda: eg.EWC(estimator="batch", label="true"),
    "si": eg.SI,
    "mas": eg.MAS,
    "rehearsal": lambda: eg.Rehearsal(capacity=60),
    "rehearsal+l2": lambda: combine([eg.Rehearsal(capacity=60), eg.L2()]),
}


def go(name: str, kind: str = "class") -> Run:
    method = METHODS[name]()
    training = eg.Training(epochs=2, batch=16, lr=0.02, optimizer=method.optimizer, weight_decay=0.001)
    return Run(eg.split(blobs(6), kind=kind).deal(0), lambda: method, training, eg.MLP(12, 10))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["adam", "sgd", "adagrad", "si", "mas", "rehearsal", "rehearsal+l2", "ewc by batch"])
def test_closed_forms_and_fused_steps_have_the_bits_of_autograd_and_torch_optim(name, kind, monkeypatch):
    quick = go(name, kind)
    monkeypatch.setattr(fast, "has_closed_form", lambda net: False)
    monkeypatch.setattr(fast.FusedStep, "step", lambda self: False)
    assert go(name, kind).bits() == quick.bits()


def test_per_sample_fisher_is_the_same_by_both_paths(monkeypatch):
    """Up to rounding: sums over images are taken in another order."""
    quick = go("ewc").outcome.losses
    monkeypatch.setattr(fast, "has_closed_form", lambda net: False)
    assert go("ewc").outcome.losses == pytest.approx(quick, rel=1e-3)


def test_the_fast_path_is_taken_by_default(monkeypatch):
    taken = []
    original = fast.backward
    monkeypatch.setattr(fast, "backward", lambda *arguments: taken.append(1) or original(*arguments))
    assert go("adam").outcome.steps == len(taken) == 30, "three tasks of two epochs of five batches"


def net(*hidden: int) -> nn.Module:
    return eg.MLP(*(hidden or (8,))).build((1, 6, 6), 4)


class Subclass(type(net())):
    def forward(self, x):
        return super().forward(x) * 2


def with_hook(register: str, layer: bool = True):
    def change(module):
        getattr(module.layer1 if layer else module, register)(lambda *arguments: None)
        return module

    return change


def frozen_bias(module):
    module.layer1.bias.requires_grad_(False)
    return module


def own_forward(module):
    module.layer1.forward = lambda x: x[:, :8]
    return module


def parametrized(module):
    parametrizations.weight_norm(module.layer1)
    return module


def gradient_hook(module):
    module.layer1.weight.register_hook(lambda g: g * 0)
    return module


def another_layer(module):
    module.layer1 = nn.Sequential(nn.Linear(36, 8), nn.Tanh())
    return module


@pytest.mark.parametrize(
    "change",
    [
        with_hook("register_forward_hook"),
        with_hook("register_forward_pre_hook"),
        with_hook("register_full_backward_hook"),
        with_hook("register_forward_hook", layer=False),
        with_hook("register_full_backward_pre_hook", layer=False),
        frozen_bias,
        own_forward,
        parametrized,
        gradient_hook,
        another_layer,
        lambda module: Subclass((36, 8, 4)),
        lambda module: nn.Sequential(module),
    ],
)
def test_anything_attached_to_the_network_turns_the_closed_form_off(change):
    assert fast.has_closed_form(net())
    assert not fast.has_closed_form(change(net()))


def test_a_hook_on_all_modules_turns_the_closed_form_off():
    handle = nn.modules.module.register_module_forward_hook(lambda *arguments: None)
    try:
        assert not fast.has_closed_form(net())
    finally:
        handle.remove()
    assert fast.has_closed_form(net())


def test_a_method_that_gates_by_hooks_changes_the_network():
    """Half of the hidden units are switched off: their weights stay as they were drawn."""

    class Gates(eg.Method):
        working = ("handle",)

        def begin_task(self, learner, task):
            mask = (torch.arange(12) < 6).float()
            self.handle = learner.net.layer1.register_forward_hook(lambda m, a, out: out * mask)

        def end_task(self, learner, task):
            self.handle.remove()

    tasks = eg.split(blobs(4), kind="class").deal(0)
    first = learner_for(eg.split(blobs(4), kind="class"), 12).net.layer1.weight
    last = Run(tasks, Gates, net=eg.MLP(12)).checkpoints[-1]["net"]["layer1.weight"]
    assert torch.equal(last[6:], first[6:])
    assert (~torch.isclose(last[:6], first[:6])).any(1).sum() >= 5, "but for a unit that no image excites"


def test_a_stored_activation_is_not_overwritten_by_relu():
    network, stored = net(), []
    network.layer1.register_forward_hook(lambda module, arguments, output: stored.append(output))
    network(torch.randn(5, 36))
    assert (stored[0] < 0).any()


def test_hooks_of_an_optimiser_fire():
    learner = learner_for(eg.split(blobs(4), kind="class"), 12)
    calls = []
    batch = everything(learner.tasks[0].train)
    for step in range(4):
        if step == 2:
            learner.optimizer.torch.register_step_post_hook(lambda *arguments: calls.append(1))
        fast.backward(learner, learner.net, batch)
        learner.optimizer.step()
    assert calls == [1, 1]


def test_the_learning_rate_can_be_changed_between_fused_steps():
    torch.manual_seed(0)
    ours = [torch.randn(4, 3).requires_grad_()]
    theirs = copy.deepcopy(ours)
    quick, plain = Optimizer(ours, "adam", 0.1), torch.optim.Adam(theirs, 0.1, fused=True)
    for step in range(6):
        for p, q in zip(ours, theirs, strict=True):
            p.grad = q.grad = torch.randn(4, 3)
        for group in (*quick.param_groups, *plain.param_groups):
            group["lr"] = 0.1 / (step + 1)
        quick.step()
        plain.step()
    assert torch.equal(ours[0], theirs[0])


def test_importing_and_running_engram_patches_nothing_of_torch():
    code = """
import torch, inspect
def state():
    classes = [c for c in vars(torch.optim).values() if inspect.isclass(c)]
    marks = [f.__wrapped__.__dict__.keys() for c in classes for f in vars(c).values() if hasattr(f, "__wrapped__")]
    return [dict(vars(c)) for c in classes], [sorted(m) for m in marks]
before = state()
import engram as eg
import engram.learning.train, engram.runs.run
assert state() == before, "import"
from helpers import blobs
eg.run(eg.split(blobs(4)), eg.Adam(), net=eg.MLP(8), training=eg.Training(epochs=1))
assert state() == before, "run"
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
