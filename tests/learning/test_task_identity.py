"""The task of each sample reaches networks that take it, and features come from every network with an output layer."""

import pytest
import torch
from helpers import Run, blobs, everything, learner_for
from torch import nn

import engram as eg
from engram.learning.fisher import fisher
from engram.learning.learner import Learner


class PerTask(nn.Module):
    """A hidden layer whose units belong to tasks by turns."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(width, 6), nn.Linear(6, outputs)
        nn.init.constant_(self.first.bias, 1.0)  # no unit is dead, whatever is drawn
        self.seen: list[list[int]] = []

    def forward(self, x, t):
        if not torch._C._functorch.maybe_get_level(t) >= 0:
            self.seen.append(t.tolist())
        gates = torch.arange(6) % 2 == t[:, None]
        return self.head(torch.relu(self.first(x)) * gates)


class Gates:
    def build(self, shape, outputs):
        return PerTask(shape[0] * shape[1] * shape[2], outputs)


def learner_of(net=None, kind="task", task=1) -> Learner:
    tasks = eg.split(blobs(4), kind=kind).deal(0)
    torch.manual_seed(0)
    learner = Learner(net or PerTask(36, tasks.outputs), tasks, eg.Training(), 0, torch.device("cpu"))
    learner.task = task
    return learner


def test_replayed_images_go_through_the_gates_of_their_own_task():
    """Buffer and new images in one batch: the gradient of a gate's weights comes from its task's images alone."""
    learner = learner_of()
    both = learner.tasks[0].train + learner.tasks[1].train
    batch = everything(both)
    mixed = learner.gradients(batch)
    first = learner.gradients(everything(learner.tasks[0].train))
    torch.testing.assert_close(mixed[0][0::2], first[0][0::2] / 2)  # half of the images
    assert learner.net.seen[0] == [0] * 80 + [1] * 80


def test_loss_and_predictions_pass_the_task_of_each_sample():
    seen = []

    class Watches(eg.Rehearsal):
        def end_task(self, learner, task):
            super().end_task(learner, task)
            seen.append({t for batch in learner.net.seen for t in batch})
            learner.net.seen.clear()

    Run(eg.split(blobs(4), kind="task").deal(0), lambda: Watches(capacity=20), net=Gates())
    assert seen == [{0}, {0, 1}]


@pytest.mark.parametrize("label", ["predicted", "true", "exact"])
def test_fisher_information_is_taken_through_the_gates_of_the_task(label):
    """Units of the other task get none."""
    learner = learner_of()
    weight, bias, *_ = fisher(learner, learner.tasks[1].train, label)
    assert not weight[0::2].any()
    assert not bias[0::2].any()
    assert bias[1::2].any()


def test_mas_is_taken_through_the_gates_of_the_task():
    for form in ("batch-mean", "per-sample"):
        learner, method = learner_of(), eg.MAS(form=form)
        method.start(learner, learner.tasks)
        weight = method.importance(learner, learner.tasks[1])[0]
        assert not weight[0::2].any()
        assert weight[1::2].any()


def test_a_network_that_takes_the_task_is_refused_where_nobody_knows_it():
    tasks = eg.split(blobs(4), kind="domain").deal(0)
    with pytest.raises(ValueError, match=r"PerTask takes the task .* domain learning .*--give-task-identity"):
        Run(tasks, net=Gates())
    given = eg.Evaluation(give_task_identity=True)
    assert Run(tasks, net=Gates(), evaluation=given).outcome.status == "done"


def test_other_networks_are_called_with_images_alone():
    learner = learner_for(eg.split(blobs(4), kind="task"), 12)
    batch = everything(learner.tasks[0].train)
    assert torch.equal(learner.logits(batch.x, batch.t), learner.net(batch.x))


# features -------------------------------------------------------------------------------------------------------------


class Named(nn.Module):
    """Its output is not that of a plain nn.Linear."""

    output_layer = "cosine"

    def __init__(self) -> None:
        super().__init__()
        self.body, self.cosine = nn.Linear(36, 5), nn.Bilinear(5, 5, 4)

    def forward(self, x):
        h = torch.relu(self.body(x))
        return self.cosine(h, h)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(36, 4)

    def forward(self, x):
        return 2 * self.last(x)


@pytest.mark.parametrize(
    ("net", "width"),
    [
        (eg.MLP(12, 7).build((1, 6, 6), 4), 7),
        (nn.Sequential(nn.Linear(36, 9), nn.Tanh(), nn.Linear(9, 4)), 9),
        (nn.Linear(36, 4), 36),
        (PerTask(36, 4), 6),
    ],
)
def test_features_are_the_input_of_the_output_layer(net, width):
    learner = learner_of(net)
    batch = everything(learner.tasks[1].train)
    for _ in range(2):  # found, then remembered
        features = learner.features(batch.x, batch.t)
        assert features.shape == (80, width)
        last = [module for module in net.modules() if isinstance(module, nn.Linear)][-1]
        assert torch.equal(last(features), learner.logits(batch.x, batch.t))
    assert not any(module._forward_hooks for module in net.modules())


def test_features_of_the_cnn_are_its_256_dense_units():
    tasks = eg.split(blobs(4, train=3, size=20), kind="class").deal(0)
    learner = Learner(eg.CNN().build(tasks.shape, 4), tasks, eg.Training(), 0, torch.device("cpu"))
    assert learner.features(everything(tasks[0].train).x).shape == (6, 256)


def test_features_of_a_layer_that_the_network_names():
    learner = learner_of(Named())
    x = everything(learner.tasks[0].train).x
    assert torch.equal(learner.features(x), torch.relu(learner.net.body(x)))


def test_features_are_refused_in_words_if_there_is_no_output_layer():
    learner = learner_of(Scaled())
    with pytest.raises(ValueError, match=r"Scaled has no output layer to take features from.*output_layer"):
        learner.features(everything(learner.tasks[0].train).x)
