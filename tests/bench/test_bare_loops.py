"""The bare loops that replay is timed against do its work: from the same weights they come to the same weights."""

import pytest
import torch
from helpers import blobs

import engram as eg
from engram.bench.measure import load_yardstick, make_bare_setting, make_stepper
from engram.bench.network import make_plain_loop
from engram.core.streams import stream
from engram.runs.spec import Spec

METHODS = {"dgr": eg.DGR, "rtf": eg.RtF}


def at_last_task(name: str, kind: str):
    """A learner on the last of three tasks, its step, and the bare module."""
    spec = Spec(
        eg.split(blobs(6, train=20, size=5), kind=kind),
        METHODS[name](),
        eg.MLP(9, 7),
        eg.Training(steps=100, batch=16, lr=0.01, drop_last=True),
    )
    return *make_stepper(spec, 2), load_yardstick("replay")


def copied(source: torch.nn.Module, to: torch.nn.Module) -> None:
    with torch.no_grad():
        for a, b in zip(source.parameters(), to.parameters(), strict=True):
            b.copy_(a)


def same(ours: torch.nn.Module, theirs: torch.nn.Module) -> None:
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", ["task", "domain", "class"])
def test_replay_through_feedback(kind):
    learner, _, task, step, bare = at_last_task("rtf", kind)
    setting = make_bare_setting(bare, learner, task)
    assert (setting.hidden, setting.outputs) == ((9, 7), learner.tasks.outputs)
    theirs = bare.VAE(25, setting.hidden, setting.outputs)
    copied(learner.net, theirs)
    first = [p.detach().clone() for p in learner.params]
    their_step = bare.rtf(setting, theirs, stream(0, "bench"), stream(0, "noise", 2))
    for _ in range(4):
        step()
        their_step()
    same(learner.net, theirs)
    assert max(float((a - b.detach()).abs().max()) for a, b in zip(first, learner.params, strict=True)) > 0.01


@pytest.mark.parametrize("kind", ["task", "domain", "class"])
def test_deep_generative_replay(kind):
    """The network and the generator take their batches from one stream, in turns."""
    learner, method, task, step, bare = at_last_task("dgr", kind)
    setting = make_bare_setting(bare, learner, task)
    solver, vae = bare.solver_of(setting), bare.VAE(25, setting.hidden)
    copied(learner.net, solver)
    copied(method.generator, vae)
    rngs = (stream(0, purpose, 2) for purpose in ("noise", "generator noise"))
    their_step = bare.dgr(setting, solver, vae, stream(0, "bench"), *rngs)
    method.new_optimizer(learner)  # as theirs: it has taken no step
    method.draw = method.old_generator.generator.draw  # a run would not train the generator before the network is done
    for _ in range(4):
        step()
        their_step()
    same(learner.net, solver)
    same(method.generator, vae)


@pytest.mark.parametrize("augment", [(), ("crop2", "flip")])
def test_a_convolutional_network_with_augmentation(augment):
    """A bare PyTorch loop from the same weights, with the same draws, comes to the same weights."""
    spec = Spec(
        eg.split(blobs(4, train=20, size=8, channels=3)),
        eg.Adam(),
        eg.ResNet18(width=2),
        eg.Training(batch=16, lr=0.01, augment=augment),
    )
    learner, _, task, step = make_stepper(spec)
    first = [p.detach().clone() for p in learner.params]
    theirs = make_plain_loop(spec, learner, task)
    for _ in range(4):
        step()
        theirs()
    net = theirs.__closure__[[*theirs.__code__.co_freevars].index("net")].cell_contents
    same(learner.net, net)
    assert max(float((a - b.detach()).abs().max()) for a, b in zip(first, learner.params, strict=True)) > 0.01
