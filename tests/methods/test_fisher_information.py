"""The diagonal Fisher information against closed forms and a slow loop over single images."""

import pytest
import torch
from helpers import blobs, everything, learner_for
from torch import nn

import engram as eg
from engram.learning.fisher import by_function, by_layer, choose_labels, fisher, summed_gradients
from engram.learning.learner import Learner

LABELS = ("predicted", "true", "sampled", "exact")
ROOMY = {"rtol": 1e-4, "atol": 1e-8}


class Plain(nn.Module):
    """A plain Linear-ReLU-Linear network without closed forms."""

    def __init__(self, pixels: int, outputs: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(pixels, 6), nn.Linear(6, outputs)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


def pictures() -> nn.Module:
    return nn.Unflatten(1, (1, 5, 5))


def mlp(outputs: int) -> nn.Module:
    return eg.MLP(7, 6).build((1, 5, 5), outputs)


def linear(outputs: int) -> nn.Module:
    return nn.Linear(25, outputs)


def cnn(outputs: int) -> nn.Module:
    """Strides, padding, dilation, a layer without bias; works in place wherever it can."""
    return nn.Sequential(
        pictures(),
        nn.Conv2d(1, 3, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(3, 4, (2, 1), stride=(1, 2), padding=(1, 0), dilation=(2, 1), bias=False),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8, 5),
        nn.ReLU(inplace=True),
        nn.Linear(5, outputs),
    )


def layer_norm(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(25, 6), nn.LayerNorm(6), nn.ReLU(inplace=True), nn.Linear(6, outputs))


def group_norm(outputs: int) -> nn.Module:
    return nn.Sequential(
        pictures(), nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(36, outputs)
    )


def grouped(outputs: int) -> nn.Module:
    return nn.Sequential(
        pictures(),
        nn.Conv2d(1, 4, 3, padding="same"),
        nn.ReLU(inplace=True),
        nn.Conv2d(4, 4, 2, groups=2),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16, outputs),
    )


def circular(outputs: int) -> nn.Module:
    convolution = nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular")
    return nn.Sequential(pictures(), convolution, nn.Flatten(), nn.Linear(50, outputs))


def batch_norm(outputs: int) -> nn.Module:
    """Its running statistics count, as at test time."""
    net = nn.Sequential(nn.Linear(25, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, outputs))
    torch.nn.init.uniform_(net[1].running_mean, -0.5, 0.5)
    torch.nn.init.uniform_(net[1].running_var, 0.5, 2.0)
    return net


NETS = {f.__name__: f for f in (mlp, linear, Plain, cnn, layer_norm, group_norm, grouped, circular, batch_norm)}


def learner_of(net: str, kind: str = "class", task: int = 1, images: int = 12, batch: int = 128) -> Learner:
    """A learner with its second of three tasks of two classes at hand, the weights well away from small."""
    tasks = eg.split(blobs(6, train=images, size=5), kind=kind).deal(0)
    torch.manual_seed(3)
    module = Plain(25, tasks.outputs) if net == "Plain" else NETS[net](tasks.outputs)
    learner = Learner(module, tasks, eg.Training(batch=batch), 0, torch.device("cpu"))
    learner.task = task
    with torch.no_grad():
        for p in learner.params:
            p.mul_(1.7)
    return learner


def outcomes(kind: str, task: int) -> list[int]:
    """The outputs that count for a task of two classes, by hand."""
    return {
        "task": [2 * task, 2 * task + 1],
        "domain": [0, 1],
        "class": list(range(2 * task + 2)),
        "class-known": list(range(6)),
    }[kind]


def gradient(learner: Learner, x: torch.Tensor, y: torch.Tensor, kind: str) -> list[torch.Tensor]:
    """Of the mean negative log-likelihood, written out with autograd."""
    learner.net.eval()
    outputs = outcomes(kind, learner.task)
    logs = torch.log_softmax(learner.net(x)[:, outputs], 1)
    places = torch.tensor([outputs.index(int(c)) for c in y])
    loss = -logs[torch.arange(len(x)), places].mean()
    found = torch.autograd.grad(loss, learner.params, allow_unused=True)
    learner.net.train()
    return [torch.zeros_like(p) if g is None else g for p, g in zip(learner.params, found, strict=True)]


def slow_fisher(learner: Learner, kind: str, label: str) -> list[torch.Tensor]:
    """Image by image."""
    data = everything(learner.tasks[learner.task].train)
    outputs = outcomes(kind, learner.task)
    learner.net.eval()
    logits = learner.net(data.x)[:, outputs].detach()
    learner.net.train()
    if label == "sampled":  # the very draws: the randomness of a run is a function of its seed
        drawn = torch.multinomial(torch.softmax(logits, 1), 1, generator=learner.rng("fisher labels"))
    total = [torch.zeros_like(p) for p in learner.params]
    for i in range(len(data.y)):
        p = torch.softmax(logits[i], 0)
        if label == "exact":
            weights = {c: float(p[j]) for j, c in enumerate(outputs)}
        elif label == "true":
            weights = {int(data.y[i]): 1.0}
        else:
            weights = {outputs[int(p.argmax() if label == "predicted" else drawn[i])]: 1.0}
        for c, weight in weights.items():
            for sum_, g in zip(total, gradient(learner, data.x[i : i + 1], torch.tensor([c]), kind), strict=True):
                sum_ += weight * g**2
    return [t / len(data.y) for t in total]


def same(found, wanted, **tolerance) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, **(tolerance or ROOMY))


def test_of_a_linear_softmax_is_the_closed_form():
    """F of weight (c, i) is the mean of p_c (1 − p_c) x_i² over the images, of bias c that of p_c (1 − p_c)."""
    learner = learner_of("linear", "domain")
    x = everything(learner.tasks[1].train).x
    p = torch.softmax(x @ learner.net.weight.T + learner.net.bias, 1).detach()
    weight, bias = fisher(learner, learner.tasks[1].train, "exact")
    same([weight, bias], [((p * (1 - p)).T @ x**2) / len(x), (p * (1 - p)).mean(0)])
    assert bias.min() > 0.01  # so there is something to compare


def test_of_one_image_with_two_outputs_by_hand():
    """Weights 0: p = ½ each, so every gradient is ± ½ · pixel, and every label gives the same Fisher, ¼ · pixel²."""
    x = torch.zeros(2, 1, 2, dtype=torch.uint8)
    x[:, 0, 0], x[:, 0, 1] = 255, 51
    images = eg.Images(x.repeat(2, 1, 1), [0, 1, 2, 3], x.repeat(2, 1, 1), [0, 1, 2, 3])
    learner = Learner(nn.Linear(2, 4), eg.split(images, kind="task").deal(0), eg.Training(), 0, torch.device("cpu"))
    for p in learner.params:
        nn.init.zeros_(p)
    for label in LABELS:
        weight, bias = fisher(learner, learner.tasks[0].train, label)
        head = torch.tensor([[0.25, 0.01], [0.25, 0.01]])
        same([weight[:2], bias[:2]], [head, torch.tensor([0.25, 0.25])])
        assert weight[2:].tolist() == [[0, 0], [0, 0]]
        assert bias[2:].tolist() == [0, 0]


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("kind", ["task", "domain", "class", "class-known"])
def test_of_an_mlp_equals_a_loop_over_images(kind, label):
    learner = learner_of("mlp", kind)
    same(fisher(learner, learner.tasks[1].train, label), slow_fisher(learner, kind, label))


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("net", [n for n in NETS if n != "mlp"])
def test_of_any_network_equals_a_loop_over_images(net, label):
    learner = learner_of(net)
    assert learner.net.training
    found = fisher(learner, learner.tasks[1].train, label)
    assert all(float(f.max()) > 1e-6 for f in found)
    same(found, slow_fisher(learner, "class", label))
    assert learner.net.training


@pytest.mark.parametrize("net", ["cnn", "layer_norm"])
@pytest.mark.parametrize("kind", ["task", "domain"])
def test_of_other_networks_in_the_other_kinds(net, kind):
    learner = learner_of(net, kind)
    same(fisher(learner, learner.tasks[1].train), slow_fisher(learner, kind, "predicted"))


@pytest.mark.parametrize("net", ["Plain", "cnn"])
def test_the_two_general_ways_agree(net):
    """The closed form of each layer, and torch.func, on the same network."""
    learner = learner_of(net)
    x = everything(learner.tasks[1].train).x
    layers = [m for m in learner.net.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    for of in (torch.square, torch.abs):
        one = by_layer(learner.net, layers, (x,), torch.cos, of)
        two = by_function(learner.net, (x,), torch.cos, of)
        same(one, two)
        same(summed_gradients(learner.net, (x,), torch.cos, of), two)


@pytest.mark.parametrize("net", ["mlp", "cnn", "grouped"])
def test_absolute_gradients_equal_a_loop_over_images(net):
    """Of Σ sin(logit): its gradient at the logits is their cosine."""
    learner = learner_of(net)
    x = everything(learner.tasks[1].train).x
    total = [torch.zeros_like(p) for p in learner.params]
    for image in x:
        value = torch.sin(learner.net(image[None])).sum()
        for sum_, g in zip(total, torch.autograd.grad(value, learner.params), strict=True):
            sum_ += g.abs()
    same(summed_gradients(learner.net, (x,), torch.cos, torch.abs), total)


@pytest.mark.parametrize(("kind", "silent"), [("task", [0, 1, 4, 5]), ("class", [4, 5]), ("domain", [])])
@pytest.mark.parametrize("net", ["mlp", "cnn", "layer_norm"])
@pytest.mark.parametrize("estimator", ["sample", "batch"])
def test_outputs_that_took_no_part_have_exactly_zero(kind, silent, net, estimator):
    learner = learner_of(net, kind)
    *_, weight, bias = fisher(learner, learner.tasks[1].train, "true", estimator)
    assert [i for i in range(len(bias)) if not weight[i].any()] == silent
    assert [i for i in range(len(bias)) if not bias[i].any()] == silent
    for hidden in fisher(learner, learner.tasks[1].train, "true", estimator)[:-2]:
        assert hidden.any()


@pytest.mark.parametrize("net", ["mlp", "cnn", "layer_norm"])
@pytest.mark.parametrize("kind", ["task", "domain", "class"])
@pytest.mark.parametrize("label", ["true", "predicted"])
def test_by_mini_batches(net, kind, label):
    """Mean over batches of B · (gradient of the mean loss)²; 24 images in tens are 10, 10 and 4."""
    learner = learner_of(net, kind)
    data = everything(learner.tasks[1].train)
    outputs = outcomes(kind, 1)
    learner.net.eval()
    y = data.y if label == "true" else torch.tensor(outputs)[learner.net(data.x)[:, outputs].argmax(1)]
    learner.net.train()
    order = torch.randperm(24, generator=learner.rng("fisher"))
    total = [torch.zeros_like(p) for p in learner.params]
    for rows in (order[:10], order[10:20], order[20:]):
        for sum_, g in zip(total, gradient(learner, data.x[rows], y[rows], kind), strict=True):
            sum_ += len(rows) * g**2 / 3
    same(fisher(learner, learner.tasks[1].train, label, "batch", 10), total)


def test_by_mini_batches_of_one_it_is_the_per_sample_fisher():
    for label in ("predicted", "true"):
        learner = learner_of("mlp")
        train = learner.tasks[1].train
        same(fisher(learner, train, label, "batch", 1), fisher(learner, train, label))


def test_by_one_mini_batch_it_is_n_times_the_squared_mean_gradient():
    learner = learner_of("mlp")
    data = everything(learner.tasks[1].train)
    wanted = [24 * g**2 for g in gradient(learner, data.x, data.y, "class")]
    same(fisher(learner, learner.tasks[1].train, "true", "batch", 24), wanted)
    same(fisher(learner, learner.tasks[1].train, "true", "batch", 1000), wanted)


def test_images_beyond_one_chunk_count_alike():
    """1100 images are taken in pieces of 512, 512 and 76; the mean is over all of them."""
    learner = learner_of("linear", "domain", images=550)
    x = everything(learner.tasks[1].train).x
    assert len(x) == 1100
    p = torch.softmax(learner.net(x), 1).detach()
    same(fisher(learner, learner.tasks[1].train, "exact")[1:], [(p * (1 - p)).mean(0)])


def test_sampled_labels_follow_the_model():
    """Each image's label frequencies over 4000 draws are the model's probabilities, within five deviations."""
    learner = learner_of("mlp", "task", task=2)
    batch = learner.tasks[2].train.batch(torch.arange(4))
    p = torch.softmax(learner.net(batch.x)[:, 4:6], 1)[:, 1].detach()
    assert p.min() > 0.05
    assert p.max() < 0.95
    rng = torch.Generator().manual_seed(5)
    draws = torch.stack([choose_labels(learner, batch, "sampled", rng) for _ in range(4000)])
    assert sorted(draws.unique().tolist()) == [4, 5]
    share = (draws == 5).double().mean(0)
    deviation = (p * (1 - p) / 4000).sqrt()
    assert ((share - p).abs() < 5 * deviation).all()


def test_sampled_is_exact_on_average():
    """Mean over 400 seeds, within six standard errors of every entry; the predicted label's is far away."""
    learner = learner_of("linear", "class")
    train = learner.tasks[1].train
    draws = []
    for seed in range(400):
        learner.seed = seed
        draws.append(fisher(learner, train, "sampled")[0])
    found = torch.stack(draws)
    exact = fisher(learner, train, "exact")[0]
    error = found.std(0) / 20
    assert ((found.mean(0) - exact).abs() <= 6 * error + 1e-7)[:4].all()
    predicted = fisher(learner, train, "predicted")[0]
    assert ((predicted - exact).abs() > 6 * error)[:4].float().mean() > 0.5


def test_sampled_depends_on_the_seed_and_the_task_and_on_nothing_else():
    learner = learner_of("mlp", "domain")
    train = learner.tasks[1].train
    once = fisher(learner, train, "sampled")
    torch.rand(7)
    again = fisher(learner, train, "sampled")
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))
    for seed, task in ((1, 1), (0, 2)):
        learner.seed, learner.task = seed, task
        other = fisher(learner, train, "sampled")
        assert not torch.equal(once[0], other[0])


def test_leaves_the_learner_as_it_was():
    learner = learner_of("cnn")
    for p in learner.params:
        p.grad = torch.full_like(p, 3.0)
    before = [p.detach().clone() for p in learner.params]
    for label in LABELS:
        fisher(learner, learner.tasks[1].train, label)
    fisher(learner, learner.tasks[1].train, "true", "batch", 8)
    assert all(torch.equal(a, b) for a, b in zip(before, learner.params, strict=True))
    assert all((p.grad == 3).all() for p in learner.params)
    assert not any(m._forward_hooks for m in learner.net.modules())


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shared, self.last = nn.Linear(25, 25), nn.Linear(25, 6)

    def forward(self, x):
        return self.last(torch.relu(self.shared(torch.relu(self.shared(x)))))


class Tied(Twice):
    """The same, with the weight in two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.other = nn.Linear(25, 25)
        self.other.weight = self.shared.weight

    def forward(self, x):
        return self.last(torch.relu(self.other(torch.relu(self.shared(x)))))


def own(net: nn.Module) -> Learner:
    tasks = eg.split(blobs(6, train=12, size=5), kind="class").deal(0)
    learner = Learner(net, tasks, eg.Training(), 0, torch.device("cpu"))
    learner.task = 1
    return learner


@pytest.mark.parametrize("label", ["true", "exact"])
@pytest.mark.parametrize("net", [Twice, Tied])
def test_a_weight_that_is_used_twice_is_refused_or_right(net, label):
    """Gradients of both uses add up before they are squared: 2ab is missing from a² + b²."""
    torch.manual_seed(0)
    learner = own(net())
    try:
        found = fisher(learner, learner.tasks[1].train, label)
    except ValueError as refusal:
        assert "twice" in str(refusal)  # noqa: PT017
        return
    finally:
        assert not any(m._forward_hooks for m in learner.net.modules())
    same(found, slow_fisher(learner, "class", label))


@pytest.mark.parametrize("make", [Plain, None])
def test_of_a_network_whose_first_layer_is_not_trained(make):
    """A frozen trunk: the Fisher of what is trained, in the order of the learner's parameters."""
    torch.manual_seed(0)
    net = Plain(25, 6) if make else layer_norm(6)
    next(iter(net.children())).requires_grad_(False)
    learner = own(net)
    assert len(learner.params) == (2 if make else 4)
    same(fisher(learner, learner.tasks[1].train), slow_fisher(learner, "class", "predicted"))


def test_of_a_linear_layer_on_several_places_of_an_image():
    """nn.Linear on (images, places, features): gradients add up over places before they are squared."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Unflatten(1, (5, 5)), nn.Linear(5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(15, 6))
    learner = own(net)
    same(fisher(learner, learner.tasks[1].train), slow_fisher(learner, "class", "predicted"))


def test_exact_goes_with_the_per_sample_estimator_only():
    learner = learner_for(eg.split(blobs(4), kind="class"))
    with pytest.raises(ValueError, match="exact"):
        fisher(learner, learner.tasks[0].train, "exact", "batch")


def test_all_estimators_work_while_other_gradients_are_off():
    """End of a task may be reached under no_grad or not: the numbers are the same."""
    for net in ("mlp", "cnn", "layer_norm"):
        learner = learner_of(net)
        with torch.no_grad():
            inside = fisher(learner, learner.tasks[1].train)
        same(inside, fisher(learner, learner.tasks[1].train), rtol=0, atol=0)


class Functional(nn.Module):
    """Takes a layer's weights without calling the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(25, 6), nn.Linear(6, 6)

    def forward(self, x):
        return self.last(torch.relu(nn.functional.linear(x, self.first.weight, self.first.bias)))


class Spare(Functional):
    """Has a layer that takes no part."""

    def __init__(self) -> None:
        super().__init__()
        self.spare = nn.Linear(3, 3)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


@pytest.mark.parametrize("net", [Functional, Spare])
def test_of_layers_that_are_not_called(net):
    torch.manual_seed(0)
    learner = own(net())
    same(fisher(learner, learner.tasks[1].train), slow_fisher(learner, "class", "predicted"))


def test_layers_that_were_in_evaluation_mode_stay_so():
    """Frozen statistics inside a network that trains, a usual thing in fine-tuning."""
    learner = learner_of("batch_norm")
    learner.net[1].eval()
    fisher(learner, learner.tasks[1].train)
    assert [m.training for m in learner.net] == [True, False, True, True, True]


def test_the_weighted_fisher_is_a_loop_over_images_with_their_own_probability():
    """Σ p (∂ log p)² over the true labels, divided by the images rounded up to whole mini-batches (Buzzega 2020)."""
    learner = learner_for(eg.split(blobs(4, train=12, size=5), kind="class"), 7, 6, task=1)
    train = learner.tasks[1].train
    total = [torch.zeros_like(p) for p in learner.params]
    for i in range(len(train)):
        one = train.batch(torch.tensor([i]))
        loss = learner.loss(one)
        p = torch.exp(-loss).item()
        for sum_, g in zip(total, torch.autograd.grad(loss, learner.params), strict=True):
            sum_ += p * g**2
    assert len(train) == 24
    for divisor, n in (("images", 24), ("images-1", 23), ("batches", 30)):
        same(
            fisher(learner, train, "weighted", batch=10, divisor=divisor), [t / n for t in total], rtol=1e-4, atol=1e-7
        )
    with pytest.raises(ValueError, match="label 'weighted' goes with estimator 'sample'"):
        eg.EWC(label="weighted", estimator="batch")
    with pytest.raises(ValueError, match="divisor 'batches' goes with estimator 'sample'"):
        eg.EWC(divisor="batches", estimator="batch")
