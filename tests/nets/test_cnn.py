"""The paper's CNN: its sizes by its Table 7, and that every method works with it."""

import copy

import pytest
import torch
from helpers import Run, blobs
from torch import nn
from torch.nn.functional import cross_entropy

import engram as eg
from engram.learning.fisher import by_function, summed_gradients
from engram.learning.train import new_learner
from engram.nets.cnn import CNNNet
from engram.runs.spec import Spec, from_json

SMALL = (1, 20, 20)
"""The smallest images that fit."""


def built(shape=(1, 28, 28), outputs=4, heads="random") -> CNNNet:
    torch.manual_seed(0)
    return eg.CNN(heads=heads).build(shape, outputs)


def reference(net: CNNNet) -> nn.Module:
    """The same network as anyone would write it, with the same parameters."""
    plain = nn.Sequential(
        nn.Conv2d(net.shape[0], 10, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(10, 20, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(20, 40, 5), nn.ReLU(), nn.Conv2d(40, 70, 5, padding=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(net.dense.in_features, 256), nn.ReLU(), nn.Linear(256, net.outputs.out_features),
    )  # fmt: skip
    for p, q in zip(plain.parameters(), net.parameters(), strict=True):
        p.data = q.detach().clone()
    return plain


@pytest.mark.parametrize(
    ("net", "one", "all_heads"), [(eg.CNN(), 257_440, 297_018), (eg.MLP(256, 256), 267_266, 306_844)]
)
def test_parameters_of_the_long_queue(net, one, all_heads):
    """Both networks of the paper's queue, with one head of two outputs and with all 78."""
    for outputs, count in ((2, one), (156, all_heads)):
        assert sum(p.numel() for p in net.build((1, 28, 28), outputs).parameters()) == count
        assert sum(layer.parameters for layer in net.layers((1, 28, 28), outputs)) == count


@pytest.mark.parametrize(
    ("shape", "sides", "flat"),
    [
        ((1, 28, 28), (28, 14, 14, 7, 3, 3), 630),
        ((3, 32, 32), (32, 16, 16, 8, 4, 4), 1120),
        (SMALL, (20, 10, 10, 5, 1, 1), 70),
    ],
)
def test_activation_sizes(shape, sides, flat):
    layers = eg.CNN().layers(shape, 156)
    maps = (10, 10, 20, 20, 40, 70)
    assert [layer.activation for layer in layers] == [
        *((m, s, s) for m, s in zip(maps, sides, strict=True)),
        (256,),
        (156,),
    ]
    net = built(shape, 156)
    assert net.dense.in_features == flat
    assert net(torch.zeros(2, shape[0] * shape[1] * shape[2])).shape == (2, 156)


@pytest.mark.parametrize("shape", [(1, 19, 28), (1, 6, 6)])
def test_images_that_are_too_small_are_refused(shape):
    with pytest.raises(ValueError, match=f"images of {shape[1]}×{shape[2]} pixels are too small for net cnn"):
        eg.CNN().build(shape, 2)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), SMALL, (1, 21, 26)])
def test_outputs_and_gradients_are_those_of_the_plain_network(shape):
    net = built(shape)
    plain = reference(net)
    x, y = torch.randn(7, *shape), torch.arange(7) % 4
    torch.testing.assert_close(net(x.flatten(1)), plain(x), rtol=1e-4, atol=1e-5)
    tasks = eg.split(blobs(4, size=20), kind="class-known").deal(0)
    learner = new_learner(tasks, eg.Adam(), eg.CNN(), eg.Training(), 0, torch.device("cpu"))
    learner.net, learner.params = net, list(net.parameters())
    ours = learner.gradients_from(x.flatten(1), lambda out: (out.softmax(1) - torch.eye(4)[y]) / 7)
    theirs = torch.autograd.grad(cross_entropy(plain(x), y), list(plain.parameters()))
    for p, a, b in zip(learner.params, ours, theirs, strict=True):
        assert a.stride() == p.stride()  # what fused optimisers take for granted
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


def test_layers_start_as_pytorch_starts_them_and_zero_heads_zero_the_last():
    net, zero = built(), built(heads="zero")
    for layer, inputs in zip([*net.convolutions, net.dense, net.outputs], (25, 250, 500, 1000, 630, 256), strict=True):
        assert 0.9 * inputs**-0.5 < layer.weight.abs().max() <= inputs**-0.5
    assert torch.equal(net.dense.weight, zero.dense.weight)
    assert not zero.outputs.weight.any()
    assert not zero.outputs.bias.any()
    with pytest.raises(ValueError, match="heads 'ones' is unknown"):
        eg.CNN(heads="ones")


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 24, 24)])
@pytest.mark.parametrize("of", [torch.square, torch.abs])
def test_summed_gradients_equal_a_loop_over_images(shape, of):
    """Exact Fisher (squares) and MAS (absolute values): one image at a time through autograd."""
    net = built(shape).double()
    x = torch.randn(5, shape[0] * shape[1] * shape[2], dtype=torch.float64)
    weight = torch.randn(5, 4, dtype=torch.float64)
    params = list(net.parameters())
    looped = [torch.zeros_like(p) for p in params]
    for image, w in zip(x, weight, strict=True):
        for total, g in zip(looped, torch.autograd.grad((net(image[None])[0] * w).sum(), params), strict=True):
            total += of(g)
    for found in (summed_gradients(net, (x,), lambda _: weight, of), by_function(net, (x,), lambda _: weight, of)):
        for a, b in zip(found, looped, strict=True):
            torch.testing.assert_close(a, b)


METHODS = {
    "adam": eg.Adam, "adagrad": eg.Adagrad, "l2": eg.L2, "ewc": lambda: eg.EWC(coef=10), "si": eg.SI,
    "online-ewc": lambda: eg.OnlineEWC(coef=10), "mas": eg.MAS, "mas, per sample": lambda: eg.MAS(form="per-sample"),
    "rehearsal": lambda: eg.Rehearsal(capacity=20), "gem": lambda: eg.GEM(capacity=20),
    "gem-textbook": lambda: eg.GEMTextbook(capacity=20), "lwf": eg.LwF, "offline": eg.Offline,
}  # fmt: skip


@pytest.fixture(scope="module")
def queue():
    """Two sets of 4 classes, 20×20 pixels: four tasks."""
    sets = [blobs(4, train=12, test=6, size=20, seed=seed, name=f"set{seed}") for seed in (0, 1)]
    return eg.queue(sets, size=20, normalize="train", kind="task").deal(0)


def same(a: Run, b: Run) -> bool:
    """Whether two runs ended with the same bits."""
    nets = zip(a.checkpoints[-1]["net"].values(), b.checkpoints[-1]["net"].values(), strict=True)
    found = [(run.outcome.accuracy, run.outcome.losses, run.outcome.steps) for run in (a, b)]
    return found[0] == found[1] and all(torch.equal(p, q) for p, q in nets)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_runs_with_it_and_an_interruption_leaves_no_trace(queue, method):
    training = eg.Training(epochs=1, batch=8, optimizer="sgd" if "gem" in method else "adam")
    run = Run(queue, METHODS[method], training, eg.CNN())
    assert run.outcome.status == "done"
    if method != "offline":
        again = Run(queue, METHODS[method], training, eg.CNN(), resume=run.checkpoints[1])
        assert again.outcome.resumed_after_task == 2
        assert same(run, again)


def test_the_same_seed_gives_the_same_bits_and_another_does_not(queue):
    runs = [Run(queue, eg.SI, eg.Training(epochs=1, batch=8), eg.CNN(), seed=seed) for seed in (0, 0, 1)]
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


def test_it_learns(queue):
    run = Run(queue, eg.Adam, eg.Training(epochs=20, batch=8, lr=2e-3), eg.CNN())
    assert [row[-1] for row in run.outcome.accuracy] == [100.0] * 4


def test_its_spec_goes_through_json_and_has_a_key_of_its_own(monkeypatch):
    images = blobs(4, size=20, name="tiny")
    monkeypatch.setattr("engram.runs.spec.images", lambda name: images)
    specs = [Spec(eg.split(images), eg.Adam(), net) for net in (eg.MLP(), eg.CNN(), eg.CNN(heads="zero"))]
    assert len({spec.key for spec in specs}) == 3
    for spec in specs:
        again = from_json(copy.deepcopy(spec.to_json()))
        assert (again.key, again.net) == (spec.key, spec.net)
