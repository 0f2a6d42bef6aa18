"""Linear, ConvNet and ResNet-18: parameters by closed form, shapes, features, and layers as people see them."""

import pytest
import torch
from helpers import Run, blobs, everything
from torch import nn

import engram as eg
from engram.learning.learner import Learner


def parameters(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def convnet_parameters(channels: int, width: int, outputs: int) -> int:
    weights = 9 * channels * width + 9 * width * 2 * width + 9 * 2 * width * 4 * width
    return weights + 2 * (width + 2 * width + 4 * width) + (4 * width + 1) * outputs


def resnet_parameters(channels: int, width: int, outputs: int) -> int:
    """Convolutions without bias, two parameters per map of a normalisation, shortcuts in stages 2 to 4."""
    total = 9 * channels * width + 2 * width + 4 * (9 * width * width + 2 * width)  # first layer and stage
    for maps in (2 * width, 4 * width, 8 * width):
        total += 9 * (maps // 2) * maps + 3 * 9 * maps * maps + 4 * 2 * maps  # four convolutions
        total += (maps // 2) * maps + 2 * maps  # the shortcut
    return total + (8 * width + 1) * outputs


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (2, 5, 7)])
@pytest.mark.parametrize("outputs", [2, 10])
def test_parameters_are_those_of_the_closed_form(shape, outputs):
    channels, pixels = shape[0], shape[0] * shape[1] * shape[2]
    for net, count in [
        (eg.Linear(), (pixels + 1) * outputs),
        (eg.ConvNet(width=6), convnet_parameters(channels, 6, outputs)),
        (eg.ResNet18(width=4), resnet_parameters(channels, 4, outputs)),
    ]:
        built = net.build(shape, outputs)
        assert parameters(built) == count
        for x in (torch.zeros(3, pixels), torch.zeros(3, *shape)):
            assert built(x).shape == (3, outputs)
        layers = net.layers(shape, outputs)
        assert sum(layer.parameters for layer in layers) == count
        assert layers[-1].activation == (outputs,)


def test_resnet18_on_cifar10_has_11_173_962_parameters():
    layers = eg.ResNet18().layers((3, 32, 32), 10)
    assert sum(layer.parameters for layer in layers) == resnet_parameters(3, 64, 10) == 11_173_962
    assert layers[0] == ("conv: Conv2d", (64, 32, 32), 3 * 64 * 9)
    assert layers[-1] == ("outputs: Linear", (10,), 5130)
    assert sum(name.endswith("Conv2d") for name, _, _ in layers) == 17 + 3  # and three shortcuts


def test_gem_s_slim_resnet18_has_width_20():
    assert parameters(eg.ResNet18(width=20).build((3, 32, 32), 100)) == resnet_parameters(3, 20, 100) == 1_109_240


def test_resnet18_has_the_sides_of_its_four_stages():
    layers = eg.ResNet18(width=2).layers((3, 32, 32), 10)
    sides = [activation[1:] for _, activation, _ in layers if len(activation) == 3]
    assert list(dict.fromkeys(sides)) == [(32, 32), (16, 16), (8, 8), (4, 4)]


@pytest.mark.parametrize(("net", "width"), [(eg.Linear(), 36), (eg.ConvNet(width=3), 12), (eg.ResNet18(width=1), 8)])
def test_features_are_the_input_of_the_output_layer(net, width):
    tasks = eg.split(blobs(4, train=5), kind="class").tasks(0)
    learner = Learner(net.build(tasks.shape, 4), tasks, eg.Training(), 0, torch.device("cpu"))
    learner.net.eval()
    x = everything(tasks[0].train).x
    features = learner.features(x)
    assert features.shape == (10, width)
    last = [module for module in learner.net.modules() if isinstance(module, nn.Linear)][-1]
    assert torch.equal(last(features), learner.logits(x))


@pytest.mark.parametrize("net", [eg.Linear(heads="zero"), eg.ConvNet(heads="zero"), eg.ResNet18(4, heads="zero")])
def test_zero_heads_give_zero_logits(net):
    assert not net.build((1, 8, 8), 4).eval()(torch.rand(2, 64)).any()


@pytest.mark.parametrize("net", [eg.ConvNet(width=4, dropout=0.2), eg.ResNet18(width=2)])
def test_they_learn_two_tasks_of_blobs(net):
    tasks = eg.split(blobs(4), kind="task").tasks(0)
    run = Run(tasks, eg.Adam, eg.Training(epochs=6, batch=16, lr=0.01), net)
    assert [row[-1] > 90 for row in run.outcome.accuracy] == [True, True]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: eg.ConvNet(width=0), "width 0 is out of range"),
        (lambda: eg.ResNet18(width=2.5), r"width 2.5 is out of range"),
        (lambda: eg.ConvNet(dropout=1), "dropout 1 is out of range"),
        (lambda: eg.Linear(heads="ones"), "heads 'ones' is unknown"),
    ],
)
def test_wrong_values_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# Layers of a recipe that does not describe them


class Recipe(eg.Net):
    def __init__(self, module) -> None:
        object.__setattr__(self, "module", module)

    def build(self, shape, outputs):
        return self.module(shape, outputs)


class Odd(nn.Module):
    """A parameter of its own, a layer used as a matrix, one used twice, and one whose weight is shared."""

    def __init__(self, shape, outputs) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.first, self.twice, self.matrix = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.shared = nn.Linear(4, 4)
        self.shared.weight = self.first.weight

    def forward(self, x):
        x = self.twice(self.twice(self.first(x))) * self.scale
        return self.shared(x @ self.matrix.weight)


def test_layers_are_listed_in_the_order_of_the_calls_and_parameters_count_once():
    layers = Recipe(Odd).layers((1, 2, 2), 4)
    assert layers == [
        ("first: Linear", (4,), 20),
        ("twice: Linear", (4,), 20),
        ("shared: Linear", (4,), 4),
        ("Odd", (4,), 4),
        ("matrix: Linear", (), 16),
    ]


def test_a_network_that_looks_at_values_is_described_all_the_same():
    def build(shape, outputs):
        layer = nn.Linear(4, outputs)
        assert float(layer.weight.sum()) != 0
        return layer

    state = torch.get_rng_state()
    assert Recipe(build).layers((1, 2, 2), 3) == [("Linear", (3,), 15)]
    assert torch.equal(torch.get_rng_state(), state)


def test_a_network_that_needs_the_task_is_described_without_activations():
    class PerTask(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 2)

        def forward(self, x, t):
            return self.head(x) + t[:, None]

    assert Recipe(lambda shape, outputs: PerTask()).layers((1, 2, 2), 2) == [("head: Linear", (), 10)]


def test_the_mlp_and_the_cnn_describe_as_many_parameters_as_the_default_would():
    for net in (eg.MLP(5, 4), eg.CNN()):
        own, derived = (how(net, (1, 20, 20), 3) for how in (type(net).layers, eg.Net.layers))
        assert sum(layer.parameters for layer in own) == sum(layer.parameters for layer in derived)
