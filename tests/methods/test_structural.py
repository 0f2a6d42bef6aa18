"""Separate networks, XdG and PackNet: parts of the weights for each task, which later tasks leave alone."""

import copy
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from helpers import Run, blobs, learner_for
from torch import nn

import engram as eg
from engram.learning.train import new_learner, train

NET = eg.MLP(12, 10)
TRAINING = eg.Training(epochs=3, batch=16, lr=0.01)
METHODS = {
    "separate": eg.Separate,
    "separate 5-4": lambda: eg.Separate(layers=(5, 4)),
    "xdg": lambda: eg.XdG(share=0.5),
    "xdg with biases": lambda: eg.XdG(share=0.5, gate_bias=True),
    "hat": eg.HAT,
    "packnet": lambda: eg.PackNet(prune=0.6),
    "packnet equal": lambda: eg.PackNet(prune=0.0, tuning=0.0),
}
OPTIMISERS = {
    "adam": TRAINING,
    "adamw decay": eg.Training(epochs=3, batch=16, lr=0.01, optimizer="adamw", weight_decay=0.1),
    "sgd momentum": eg.Training(epochs=3, batch=16, lr=0.05, optimizer="sgd", momentum=0.9, weight_decay=0.01),
}
GIVEN = eg.Evaluation(give_task_identity=True)


def scenario(kind: str = "task", noise: float = 40.0):
    return eg.split(blobs(6, train=20, size=5, noise=noise), kind=kind)


@pytest.mark.parametrize("kind", ["task", "domain", "class"])
@pytest.mark.parametrize("name", METHODS)
def test_it_resumes_to_the_same_bits_and_keeps_what_it_declares(name, kind):
    options = {"net": NET, "training": TRAINING, "evaluation": GIVEN}
    whole = Run(scenario(kind).tasks(0), METHODS[name], **options)
    for checkpoint in whole.checkpoints[:-1]:
        resumed = Run(scenario(kind).tasks(0), METHODS[name], **options, resume=checkpoint)
        assert resumed.bits() == whole.bits()
    net = NET.build((1, 5, 5), 2 if kind == "domain" else 6)
    assert sum(whole.outcome.memory["kept"].values()) == METHODS[name]().kept_bytes_after(net, 25, 3)


@pytest.mark.parametrize("name", METHODS)
def test_without_task_identity_it_is_refused(name):
    with pytest.raises(ValueError, match="needs task identity, which class learning does not have; choose kind task"):
        Run(scenario("class").tasks(0), METHODS[name])


@pytest.mark.parametrize("name", METHODS)
def test_it_forgets_less_than_plain_training(name):
    """Three domains with permuted pixels and one head; task identity is given: plain training cannot use it."""
    images = blobs(6, train=60, test=50, size=6, noise=60)
    tasks = eg.permute(images, kind="domain", permutations=4, normalize="train").tasks(0)
    training = eg.Training(epochs=10, batch=32, lr=0.01)
    outcomes = [train(tasks, m, eg.MLP(60), training, evaluation=GIVEN) for m in (eg.Adam(), METHODS[name]())]
    plain, found = (float(np.mean(outcome.accuracy[-1])) for outcome in outcomes)
    assert found > plain + 25
    assert np.mean([row[-1] for row in outcomes[1].accuracy]) > 90, "it learns the tasks at all"


# separate -------------------------------------------------------------------------------------------------------------


@dataclass
class OneTask(eg.Method):
    """Plain training on one task of a sequence."""

    number: int = 0

    def curriculum(self, tasks):
        return [tasks[self.number]]


@pytest.mark.parametrize("training", OPTIMISERS.values(), ids=OPTIMISERS)
def test_separate_networks_are_plain_runs_on_each_task(training):
    tasks = scenario(noise=90).tasks(0)
    method = eg.Separate()
    found = Run(tasks, lambda: method, training, NET)
    for number in range(3):
        alone = Run(tasks, lambda number=number: OneTask(number), training, NET)
        wanted = alone.checkpoints[-1]["net"]
        stored = found.checkpoints[-1]["method"][0]["stored"]
        mine = stored[number] if number < 2 else found.checkpoints[-1]["net"]
        assert all(torch.equal(mine[name], wanted[name]) for name in wanted)
        assert found.outcome.losses[number] == alone.outcome.losses[0]
        assert [row[number] for row in found.outcome.accuracy[number:]] == [alone.outcome.accuracy[0][number]] * (
            3 - number
        )


def test_separate_networks_of_the_2022_paper_have_as_many_weights_as_printed():
    """784–100–100–2 has 88,802 parameters; with ten outputs 808 more."""
    net = eg.MLP().build((1, 28, 28), 10)
    assert eg.Separate(layers=(100, 100)).kept_bytes_after(net, 784, 5) == 4 * 4 * (88_802 + 808)


def test_separate_networks_work_with_batch_norm_and_convolutions():
    images = blobs(4, train=12, test=6, size=20)
    for net in (eg.ConvNet(), eg.CNN()):
        run = Run(eg.split(images, kind="task").tasks(0), eg.Separate, eg.Training(epochs=1, batch=8), net)
        assert run.outcome.accuracy[1][0] == run.outcome.accuracy[0][0]
    with pytest.raises(ValueError, match=r"layers \(5,\) are those of an MLP, and the network is CNNNet"):
        Run(eg.split(images, kind="task").tasks(0), lambda: eg.Separate(layers=(5,)), net=eg.CNN())
    with pytest.raises(ValueError, match="layer sizes are whole numbers above 0"):
        eg.Separate(layers=(5, 0))


def test_a_task_that_has_not_begun_is_tested_with_an_untrained_network():
    evaluation = eg.Evaluation(forward_transfer=True)
    outcome = Run(scenario().tasks(0), eg.Separate, TRAINING, NET, evaluation=evaluation).outcome
    assert outcome.before == outcome.untrained


# XdG ------------------------------------------------------------------------------------------------------------------


def gated_learner(method):
    learner = new_learner(scenario().tasks(0), method, NET, TRAINING, 0, torch.device("cpu"))
    return learner, torch.rand(6, 25), torch.tensor([0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize("gate_bias", [False, True])
def test_gates_multiply_the_weighted_input_before_or_after_the_bias(gate_bias):
    method = eg.XdG(share=0.5, gate_bias=gate_bias)
    learner, x, t = gated_learner(method)
    first, second, last = (learner.net.get_submodule(f"net.layer{i}") for i in (1, 2, 3))
    a = x
    for layer, gates in zip((first, second), method.gates, strict=True):
        here = gates[t] * (a @ layer.weight.t() + (layer.bias if gate_bias else 0))
        a = torch.relu(here if gate_bias else here + layer.bias)
    torch.testing.assert_close(learner.logits(x, t), last(a))
    torch.testing.assert_close(learner.features(x, t), a)


def test_every_task_has_so_many_gates_of_its_own():
    method = eg.XdG(share=0.55)
    gated_learner(method)
    assert [g.shape for g in method.gates] == [(3, 12), (3, 10)]
    assert [int((g == 0).sum(1).unique()) for g in method.gates] == [6, 5]  # floor(0.55 · 12), floor(0.55 · 10)
    assert len({tuple(row.tolist()) for row in method.gates[0]}) == 3
    again = eg.XdG(share=0.55)
    gated_learner(again)
    assert all(torch.equal(a, b) for a, b in zip(method.gates, again.gates, strict=True))


def test_share_0_is_plain_training():
    plain, gated = (Run(scenario().tasks(0), make, TRAINING, NET) for make in (eg.Adam, lambda: eg.XdG(share=0.0)))
    np.testing.assert_allclose(gated.outcome.losses, plain.outcome.losses, rtol=1e-5)
    assert gated.outcome.accuracy == plain.outcome.accuracy


def test_a_unit_that_is_off_is_not_changed_by_its_task():
    """Its weights have no gradient; its bias has, in the form of the 2022 code."""
    for gate_bias in (False, True):
        method = eg.XdG(share=0.5, gate_bias=gate_bias)
        learner, *_ = gated_learner(method)
        batch = learner.tasks[0].train.batch(torch.arange(16))
        gradients = dict(zip((n for n, _ in learner.net.named_parameters()), learner.gradients(batch), strict=True))
        off = method.gates[1][0] == 0
        assert (gradients["net.layer2.weight"][off] == 0).all()
        assert (gradients["net.layer2.bias"][off] == 0).all() == gate_bias


def test_xdg_gates_the_dense_layers_of_a_cnn_and_refuses_networks_without():
    images = blobs(4, train=12, test=6, size=20)
    tasks = eg.split(images, kind="task").tasks(0)
    assert Run(tasks, lambda: eg.XdG(share=0.5), eg.Training(epochs=1, batch=8), eg.CNN()).outcome.status == "done"
    with pytest.raises(ValueError, match=r"gates are for hidden nn.Linear layers, and the network Sequential has none"):
        Run(tasks, eg.XdG, net=eg.Linear())
    with pytest.raises(ValueError, match="share 1 is out of range"):
        eg.XdG(share=1)


# PackNet --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["task", "domain"])
@pytest.mark.parametrize("training", OPTIMISERS.values(), ids=OPTIMISERS)
def test_weights_of_a_task_keep_their_bits(training, kind):
    run = Run(scenario(kind, 90).tasks(0), lambda: eg.PackNet(prune=0.6), training, NET, evaluation=GIVEN)
    for earlier, later in ((0, 1), (0, 2), (1, 2)):
        before, after = (run.checkpoints[i]["net"] for i in (earlier, later))
        owners = run.checkpoints[earlier]["method"][0]["owners"]
        weights = [name for name in before if before[name].ndim > 1]
        assert len(weights) == len(owners) == 3
        for name, owner in zip(weights, owners, strict=True):
            assert torch.equal(before[name][owner > 0], after[name][owner > 0])
            assert (after[name] != before[name]).any()
        assert torch.equal(before["layer1.bias"], after["layer1.bias"])
        assert run.outcome.accuracy[later][earlier] == run.outcome.accuracy[earlier][earlier]


def test_released_weights_are_zero_and_the_smallest():
    """prune 0.6 of 25 · 12, 12 · 10 weights: 180 and 72 are released after task 1, 108 and 43 of these after task 2."""
    run = Run(scenario().tasks(0), lambda: eg.PackNet(prune=0.6), TRAINING, NET)
    for number, sizes in ((0, (180, 72)), (1, (108, 43))):
        net, owners = run.checkpoints[number]["net"], run.checkpoints[number]["method"][0]["owners"]
        for name, owner, free in zip(("layer1.weight", "layer2.weight"), owners, sizes, strict=False):
            assert int((owner == 0).sum()) == free
            assert (net[name][owner == 0] == 0).all()
    assert owners[2].tolist() == [[1] * 10] * 2 + [[2] * 10] * 2 + [[0] * 10] * 2  # heads belong to their tasks


def test_the_smallest_weights_are_released():
    method, learner = eg.PackNet(prune=0.5), learner_for(scenario(), 12, 10)
    method.network(learner.net, learner.tasks)
    method.start(learner, learner.tasks)
    method.begin_task(learner, learner.tasks[0])
    before = learner.net.layer2.weight.detach().clone()
    method.pack(learner)
    kept = method.owners[1] == 1
    assert before[kept].abs().min() >= before[~kept].abs().max()
    assert torch.equal(learner.net.layer2.weight[kept], before[kept])


def test_prune_0_gives_equal_shares():
    run = Run(scenario().tasks(0), lambda: eg.PackNet(prune=0.0), TRAINING, NET)
    first = run.checkpoints[-1]["method"][0]["owners"][0]
    assert torch.bincount(first.flatten().long()).tolist() == [0, 100, 100, 100]


def test_batch_norm_is_frozen_after_the_first_task():
    images = blobs(4, train=12, test=6, size=20)
    tasks = eg.split(images, kind="task").tasks(0)
    run = Run(tasks, eg.PackNet, eg.Training(epochs=1, batch=8), eg.ConvNet())
    first, last = (run.checkpoints[i]["net"] for i in (0, 1))
    flat = [name for name in first if first[name].ndim < 2 and not name.startswith("outputs")]
    assert any("running_mean" in name for name in flat)
    head = [name for name in first if first[name].shape == (4,)]
    assert all(torch.equal(first[name], last[name]) for name in flat if name not in head)
    assert run.outcome.accuracy[1][0] == run.outcome.accuracy[0][0]


def test_packnet_refuses_wrong_values():
    with pytest.raises(ValueError, match="prune 1 is out of range"):
        eg.PackNet(prune=1)
    with pytest.raises(ValueError, match=r"tuning -0.1 is out of range"):
        eg.PackNet(tuning=-0.1)


class TakesTask(nn.Module):
    """A network of one's own that takes the task."""

    def __init__(self, shape, outputs):
        super().__init__()
        self.first, self.last = nn.Linear(25, 8), nn.Linear(8, outputs)

    def forward(self, x, t=None):
        return self.last(torch.relu(self.first(x.flatten(1))))


@pytest.mark.parametrize("name", ["separate", "xdg", "packnet"])
def test_it_works_with_a_network_of_one_s_own(name):
    record = eg.run(copy.deepcopy(scenario()), METHODS[name](), net=TakesTask, training=TRAINING)
    assert record.status == "done"
