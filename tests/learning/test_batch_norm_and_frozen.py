"""Statistics of batch norm move with training batches alone, and frozen parameters stay what they are."""

import copy

import pytest
import torch
from helpers import Run, blobs, everything
from torch import nn

import engram as eg
from engram.learning.evaluate import score_task
from engram.learning.fisher import fisher
from engram.learning.learner import Learner

QUICK = eg.Training(epochs=1, batch=16)


class Body(eg.Net):
    """A layer with batch norm and dropout before the output layer; frozen if asked for."""

    def __init__(self, frozen: bool = False) -> None:
        object.__setattr__(self, "frozen", frozen)

    def build(self, shape, outputs):
        net = nn.Sequential(
            nn.Linear(36, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 8), nn.Linear(8, outputs)
        )
        if self.frozen:
            net[:4].requires_grad_(False)
        return net


METHODS = {
    "adam": eg.Adam, "l2": eg.L2, "ewc": eg.EWC, "ewc, mini-batches": lambda: eg.EWC(estimator="batch"),
    "online-ewc": eg.OnlineEWC, "si": eg.SI, "mas": eg.MAS, "mas, per sample": lambda: eg.MAS(form="per-sample"),
    "rehearsal": lambda: eg.Rehearsal(capacity=20), "rehearsal-c": lambda: eg.RehearsalC(capacity=20),
    "gem": lambda: eg.GEM(capacity=20), "gem-textbook": lambda: eg.GEMTextbook(capacity=20), "lwf": eg.LwF,
    "offline": eg.Offline,
}  # fmt: skip


@pytest.fixture(scope="module")
def tasks():
    return eg.split(blobs(4), kind="class").tasks(0)


def learner_of(tasks, frozen=False) -> Learner:
    torch.manual_seed(0)
    learner = Learner(Body(frozen).build(tasks.shape, tasks.outputs), tasks, eg.Training(), 0, torch.device("cpu"))
    learner.logits(everything(tasks[0].train).x)
    return learner


def test_a_training_batch_moves_the_mean_by_a_tenth_of_the_way(tasks):
    learner = learner_of(tasks)
    hidden = learner.net[0](everything(tasks[0].train).x)
    torch.testing.assert_close(learner.net[1].running_mean, 0.1 * hidden.mean(0))
    assert learner.net[1].num_batches_tracked == 1


@pytest.mark.parametrize(
    "look",
    [
        lambda learner, tasks: fisher(learner, tasks[0].train),
        lambda learner, tasks: fisher(learner, tasks[0].train, "true", "batch"),
        lambda learner, tasks: fisher(learner, tasks[0].train, "exact"),
        lambda learner, tasks: score_task(learner, tasks[0]),
        lambda learner, tasks: learner.frozen().logits(everything(tasks[0].train).x),
    ],
    ids=["fisher", "fisher by mini-batches", "exact fisher", "evaluation", "teacher"],
)
def test_looking_at_a_network_moves_no_statistics(tasks, look):
    learner = learner_of(tasks)
    before = copy.deepcopy(learner.net.state_dict())
    look(learner, tasks)
    assert all(torch.equal(value, before[name]) for name, value in learner.net.state_dict().items())
    assert all(module.training for module in learner.net.modules())


@pytest.mark.parametrize("form", ["batch-mean", "per-sample"])
def test_mas_moves_no_statistics(tasks, form):
    learner, method = learner_of(tasks), eg.MAS(form=form)
    method.start(learner, tasks)
    before = learner.net[1].running_mean.clone()
    method.importance(learner, tasks[0])
    assert torch.equal(learner.net[1].running_mean, before)
    assert learner.net[1].num_batches_tracked == 1


@pytest.mark.parametrize(("method", "batches"), [("adam", 10), ("ewc", 10), ("mas", 10), ("lwf", 10)])
def test_a_run_counts_one_batch_per_step(tasks, method, batches):
    """2 tasks of 80 images in batches of 16."""
    run = Run(tasks, METHODS[method], QUICK, Body())
    assert run.outcome.steps == batches
    assert run.checkpoints[-1]["net"]["1.num_batches_tracked"] == batches


def test_a_teacher_has_the_statistics_of_its_time(tasks):
    learner = learner_of(tasks)
    teacher, mean = learner.frozen(), learner.net[1].running_mean.clone()
    learner.logits(everything(tasks[1].train).x)
    assert torch.equal(teacher.net[1].running_mean, mean)
    assert not torch.equal(learner.net[1].running_mean, mean)


@pytest.mark.parametrize("frozen", [False, True], ids=["trained", "frozen"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_resumes_to_the_same_statistics_and_leaves_frozen_parameters_alone(tasks, method, frozen):
    training = eg.Training(epochs=1, batch=16, optimizer="sgd" if "gem" in method else "adam", lr=0.05)
    run = Run(tasks, METHODS[method], training, Body(frozen))
    assert run.outcome.status == "done"
    if method != "offline":  # one task, one boundary
        again = Run(tasks, METHODS[method], training, Body(frozen), resume=run.checkpoints[0])
        assert again.bits() == run.bits()
    first, last = (checkpoint["net"] for checkpoint in (run.checkpoints[0], run.checkpoints[-1]))
    if method != "offline":
        assert torch.equal(first["0.weight"], last["0.weight"]) == frozen
        assert not torch.equal(first["4.weight"], last["4.weight"])
    if method in ("l2", "ewc", "si", "mas"):
        trained = 8 * 8 + 8 + 8 * 4 + 4 + (0 if frozen else 36 * 8 + 8 + 16)
        assert sum(run.outcome.memory["kept"].values()) == 2 * 4 * trained


@pytest.mark.parametrize("label", ["predicted", "exact"])
def test_fisher_of_a_frozen_network_is_that_of_the_layers_that_are_trained(tasks, label):
    whole, part = learner_of(tasks), learner_of(tasks, frozen=True)
    part.net.load_state_dict(whole.net.state_dict())
    expected, found = (fisher(learner, tasks[0].train, label) for learner in (whole, part))
    assert (len(expected), len(found)) == (8, 4)
    for a, b in zip(expected[4:], found, strict=True):
        torch.testing.assert_close(a, b)


def test_a_network_that_is_frozen_as_a_whole_is_refused(tasks):
    net = nn.Linear(36, 4).requires_grad_(False)
    with pytest.raises(ValueError, match="Linear has no parameters to train"):
        Learner(net, tasks, eg.Training(), 0, torch.device("cpu"))


@pytest.mark.parametrize("method", [eg.DGR, eg.RtF])
def test_generative_replay_says_which_networks_it_takes(tasks, method):
    with pytest.raises(
        ValueError, match="mirrors the hidden layers of an MLP, and the network is Sequential; give mlp"
    ):
        Run(tasks, method, QUICK, Body())
