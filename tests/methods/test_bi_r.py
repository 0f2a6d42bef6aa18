"""Brain-inspired replay: the mixture prior against integrals, gates, what is generated, and the loss by the formula."""

import math

import numpy as np
import pytest
import torch
from helpers import Run, blobs
from torch.nn.functional import binary_cross_entropy, cross_entropy, one_hot

import engram as eg
from engram.core.streams import stream
from engram.learning.learner import Learner
from engram.learning.train import new_learner
from engram.methods._replay import distilled
from engram.methods.bi_r import draw_labels
from engram.nets._conditional import ConditionalFeedbackNet, ConditionalGenerator
from engram.scenarios.kinds import ScenarioError

NET = eg.MLP(7, 6)
QUICK = eg.Training(epochs=1, batch=16, lr=0.01)
KINDS = ("task", "domain", "class", "class-known")


def scenario(kind: str = "class", **options):
    return eg.split(blobs(8, train=20, size=5), kind=kind, **options)


def at_task(method: eg.BIR, made, task: int) -> Learner:
    """A learner that has come to a task, counted from 0; between the tasks its weights are moved, not trained."""
    tasks = made.tasks(0)
    learner = new_learner(tasks, method, NET, eg.Training(steps=1, batch=16), 0, torch.device("cpu"))
    for learner.task in range(task + 1):
        with torch.no_grad():
            for p in learner.params:
                p += 0.2 * torch.randn(p.shape, generator=stream(0, "test", learner.task))
        method.begin_task(learner, tasks[learner.task])
        if learner.task < task:
            learner.steps += 1
            method.end_task(learner, tasks[learner.task])
    with torch.no_grad():  # it has moved on since the task began
        for p in learner.params:
            p += 0.2 * torch.randn(p.shape, generator=stream(1, "test"))
    return learner


# the prior ------------------------------------------------------------------------------------------------------------


def mixture(latent: int) -> ConditionalGenerator:
    torch.manual_seed(2)
    return ConditionalGenerator(5, (4, 3), latent, modes=3).double()


@pytest.mark.parametrize("latent", [1, 2])
@pytest.mark.parametrize("weights", [(1.0, 0.0, 0.0), (0.2, 0.5, 0.3)])
def test_the_prior_integrates_to_one_and_has_the_mean_of_its_modes(latent, weights):
    """∫ p(z) dz = 1 and ∫ z p(z) dz = Σ_k π_k μ_k, as sums over a fine grid."""
    generator = mixture(latent)
    line = torch.linspace(-25, 25, 1001, dtype=torch.float64)
    z = torch.cartesian_prod(*[line] * latent).view(-1, latent)
    pi = torch.tensor(weights, dtype=torch.float64)
    with torch.no_grad():
        density = generator.log_prior(z, pi.expand(len(z), 3)).exp() * (line[1] - line[0]) ** latent
        torch.testing.assert_close(density.sum(), torch.ones((), dtype=torch.float64), atol=1e-3, rtol=0)
        torch.testing.assert_close(density @ z, pi @ generator.prior_mean, atol=5e-3, rtol=0)


def test_the_prior_is_the_sum_of_gaussians_written_out():
    generator = mixture(4)
    z = torch.randn(6, 4, dtype=torch.float64)
    pi = torch.softmax(torch.randn(6, 3, dtype=torch.float64), 1)
    modes = torch.distributions.Normal(generator.prior_mean, torch.exp(generator.prior_log_variance / 2))
    densities = modes.log_prob(z[:, None]).sum(2).exp()  # (batch, modes)
    torch.testing.assert_close(generator.log_prior(z, pi), (pi * densities).sum(1).log())
    own = torch.tensor([0, 2, 1, 1, 0, 2])
    torch.testing.assert_close(
        generator.log_prior(z, one_hot(own, 3).double()), densities[torch.arange(6), own].log(), msg="one mode alone"
    )


def test_a_mode_without_weight_has_no_gradient_and_gives_no_nan():
    generator = mixture(2)
    generator.log_prior(
        torch.full((4, 2), 50.0, dtype=torch.float64), torch.eye(3).double()[[0, 0, 2, 2]]
    ).sum().backward()
    assert generator.prior_mean.grad[1].tolist() == [0.0, 0.0]
    assert bool(torch.isfinite(generator.prior_mean.grad).all())


def test_the_sampled_divergence_is_the_integral_on_average():
    """E_q[log q(z|x) − log p(z)] against a sum over a grid, in one dimension."""
    generator = mixture(1)
    features = torch.rand(1, 3, dtype=torch.float64)
    pi = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64)
    line = torch.linspace(-12, 12, 4001, dtype=torch.float64)[:, None]
    with torch.no_grad():
        mean, deviation = generator.mean(features)[0], torch.exp(generator.log_variance(features)[0] / 2)
        log_q = torch.distributions.Normal(mean, deviation).log_prob(line).sum(1)
        log_p = generator.log_prior(line, pi.expand(len(line), 3))
        wanted = float((log_q.exp() * (log_q - log_p)).sum() * (line[1] - line[0]))
        noise = torch.randn(100_000, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        z, log_posterior = generator.encode(features.expand(len(noise), 3), noise)
        found = (log_posterior - generator.log_prior(z, pi.expand(len(noise), 3))).mean()
    assert float(found) == pytest.approx(wanted, abs=0.02)
    assert wanted > 0.05


def test_samples_of_a_class_have_the_mean_and_variance_of_its_mode():
    generator = ConditionalGenerator(3, (3,), 3, modes=2)
    seen = []
    generator.decode = lambda z, gates: seen.append(z) or z
    generator.sample(torch.ones(50_000, dtype=torch.long), torch.zeros(50_000, 1), stream(0, "test"))
    torch.testing.assert_close(seen[0].mean(0), generator.prior_mean[1].detach(), atol=0.05, rtol=0)
    torch.testing.assert_close(seen[0].var(0), generator.prior_log_variance[1].exp().detach(), atol=0.01, rtol=0.05)


# gates ----------------------------------------------------------------------------------------------------------------


def test_gates_switch_off_their_share_of_units_and_stay_what_they_are():
    torch.manual_seed(0)
    generator = ConditionalGenerator(5, (400, 300), 4, modes=3, gates=10, gate_share=0.3)
    assert (generator.mask0.shape, generator.mask1.shape) == ((10, 300), (10, 400))
    for mask in (generator.mask0, generator.mask1):
        assert set(mask.unique().tolist()) == {0.0, 1.0}
        assert float(mask.mean()) == pytest.approx(0.7, abs=0.03)
    assert not any("mask" in name for name in generator.state_dict())


def test_the_decoder_multiplies_whole_pre_activations_and_never_the_output():
    """Fractional gates too: a row with 0.25 of one class and 0.75 of another has the mean of their masks."""
    torch.manual_seed(0)
    generator = ConditionalGenerator(5, (6, 4), 3, gates=2, gate_share=0.5)
    z, gates = torch.randn(3, 3), torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.25, 0.75]])
    first, second, last = generator.decoder
    x = torch.relu((gates @ generator.mask0) * (z @ first.weight.T + first.bias))
    x = torch.relu((gates @ generator.mask1) * (x @ second.weight.T + second.bias))
    torch.testing.assert_close(generator.decode(z, gates), x @ last.weight.T + last.bias)
    off = generator.mask0[0] == 0
    assert bool(off.any())
    generator.decode(z[:1], gates[:1]).sum().backward()
    assert float(first.weight.grad[off].abs().max()) == float(first.bias.grad[off].abs().max()) == 0.0


def test_without_gates_the_decoder_is_the_plain_one():
    generator = ConditionalGenerator(5, (6, 4), 3, gates=2, gate_share=0.0)
    z = torch.randn(3, 3)
    assert torch.equal(generator.decode(z, torch.zeros(3, 2)), generator.logits(z))


# what is generated ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_classes_and_tasks_of_the_past_are_drawn_evenly(kind):
    learner = at_task(eg.BIR(latent=4), scenario(kind), 3)
    labels, t = draw_labels(learner, 3, 6000, stream(0, "test"))
    classes = 2 if kind == "domain" else 6
    assert labels.bincount(minlength=classes).tolist() == pytest.approx([6000 / classes] * classes, rel=0.1)
    assert t.bincount(minlength=3).tolist() == pytest.approx([2000] * 3, rel=0.1)
    if kind != "domain":
        assert torch.equal(t, labels // 2)


def test_in_task_learning_every_past_task_gets_an_equal_part_rounded_up():
    learner = at_task(eg.BIR(latent=4), scenario("task", classes_per_task=(1, 3, 2, 2)), 3)
    labels, t = draw_labels(learner, 3, 16, stream(0, "test"))
    assert t.tolist() == [0] * 6 + [1] * 6 + [2] * 6
    assert set(labels[:6].tolist()) == {0}
    assert set(labels[6:12].tolist()) <= {1, 2, 3}
    assert set(labels[12:].tolist()) <= {4, 5}


# the loss -------------------------------------------------------------------------------------------------------------


def autoencoder(net: ConditionalFeedbackNet, x, shown, noise, pi, gates, prior: str):
    """BCE per pixel + (log q − log p) per pixel, the mean over rows, written out with torch.distributions."""
    generator = net.generator
    features = net.classifier.features(x)
    mean, deviation = generator.mean(features), torch.exp(generator.log_variance(features) / 2)
    z = mean + noise * deviation
    h = z
    for i, layer in enumerate(generator.decoder[:-1]):
        mask = gates @ getattr(generator, f"mask{i}") if generator.gated_layers else 1.0
        h = torch.relu(mask * layer(h))
    generated = torch.sigmoid(generator.decoder[-1](h))
    log_q = torch.distributions.Normal(mean, deviation).log_prob(z).sum(1)
    if prior == "normal":
        log_p = torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(1)
    else:
        modes = torch.distributions.Normal(generator.prior_mean, torch.exp(generator.prior_log_variance / 2))
        log_p = torch.logsumexp(pi.log() + modes.log_prob(z[:, None]).sum(2), 1)
    return binary_cross_entropy(generated, shown) + (log_q - log_p).mean() / shown.shape[1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"gated_by": "task", "gate_share": 0.4},
        {"prior": "normal", "gate_share": 0.0},
        {"targets": "hard", "gate_share": 0.4},
        {"generative": 3.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("normalize", [None, (0.3, 0.4)])
def test_the_loss_of_the_third_task_is_the_formula_s(kind, fields, normalize):
    """⅓ of (CE + BCE + V) on its own images, ⅔ of (KD + BCE + V) on generated ones."""
    method = eg.BIR(latent=4, **fields)
    learner = at_task(method, scenario(kind, normalize=normalize), 2)
    tasks, net = learner.tasks, learner.net
    batch = tasks[2].train.batch(torch.arange(16))
    method._noise = stream(5, "test")
    past = method.replay(learner, 16)
    noise = torch.randn(16 + len(past.level), 4, generator=method._noise)
    method._noise = stream(5, "test")
    x = past.batch.x
    torch.testing.assert_close(x, past.shown if normalize is None else (past.shown - 0.3) / 0.4)
    now, then = learner.logits(x), method.teacher.logits(x)
    if kind == "task":
        allowed = [[2 * (i // 8), 2 * (i // 8) + 1] for i in range(16)]
    else:
        allowed = [list(range({"domain": 2, "class": 4, "class-known": 8}[kind]))] * 16
    pi = torch.zeros(16, tasks.outputs)
    for row, outputs in enumerate(allowed):
        if method.targets == "hard":
            pi[row, outputs[int(then[row, outputs].argmax())]] = 1.0
        else:
            pi[row, outputs] = torch.softmax(then[row, outputs] / 2, 0)
    torch.testing.assert_close(method.soft_targets(past), pi)
    soft = distilled(learner, then, now, 2.0, "sum", parts=True, squared=False)
    if method.targets == "hard":
        outputs = [slice(2 * (i // 8), 2 * (i // 8) + 2) for i in range(16)] if kind == "task" else [None] * 16
        seen = {"domain": 2, "class": 6, "class-known": 8}.get(kind)
        rows = [now[i, o] if kind == "task" else now[i, :seen] for i, o in enumerate(outputs)]
        firsts = [o.start if kind == "task" else 0 for o in outputs]
        losses = [cross_entropy(r[None], pi[i].argmax()[None] - firsts[i]) for i, r in enumerate(rows)]
        soft = torch.stack(losses).mean()
    own = one_hot(batch.y, tasks.outputs).float()
    by_task = (one_hot(batch.t, 4).float(), one_hot(past.tasks, 4).float())
    gates = by_task if method.gated_by == "task" else (own, pi)
    shown = tasks[2].train.pixels(torch.arange(16)) / 255
    coef = method.generative
    new = learner.loss(batch) + coef * autoencoder(net, batch.x, shown, noise[:16], own, gates[0], method.prior)
    old = soft + coef * autoencoder(net, x, past.shown, noise[16:], pi, gates[1], method.prior)
    torch.testing.assert_close(method.loss(learner, batch), new / 3 + 2 * old / 3, rtol=1e-4, atol=1e-5)


def test_generated_images_come_from_the_network_as_it_was():
    method = eg.BIR(latent=4, gate_share=0.4)
    learner = at_task(method, scenario("class"), 2)
    method._noise = stream(5, "test")
    past = method.replay(learner, 16)
    rng = stream(5, "test")
    labels, _ = draw_labels(learner, 2, 16, rng)
    generator = method.teacher.net.generator
    z = torch.randn(16, 4, generator=rng) * torch.exp(generator.prior_log_variance[labels] / 2)
    wanted = torch.sigmoid(generator.decode(z + generator.prior_mean[labels], one_hot(labels, 8).float()))
    torch.testing.assert_close(past.shown, wanted)
    assert torch.equal(learner.net.generator.mask0, generator.mask0)


# internal replay ------------------------------------------------------------------------------------------------------


def test_internal_replay_generates_what_fixed_layers_make_of_images():
    """Level 1 of 25–7–6: the generator makes 7 values, and the first layer is not trained."""
    method = eg.BIR(latent=4, internal=1)
    learner = at_task(method, scenario(), 2)
    assert len(learner.params) == sum(1 for _ in learner.net.parameters()) - 2
    past = method.replay(learner, 16)
    assert past.level.shape == past.shown.shape == (16, 7)
    batch = learner.tasks[2].train.batch(torch.arange(16))
    level = torch.relu(learner.net.classifier.layer1(batch.x))
    torch.testing.assert_close(learner.net.level(batch.x), level)
    torch.testing.assert_close(learner.net.classify(learner.net.features(level)), learner.logits(batch.x))
    method._noise = stream(3, "test")
    noise = torch.randn(16, 4, generator=stream(3, "test"))
    features = learner.net.features(level)
    own = one_hot(batch.y, 8).float()
    losses = method.autoencoder_losses(learner, features, level, own, batch.t)
    z, log_q = learner.net.generator.encode(features, noise)
    decoded = learner.net.generator.decode(z, own)
    divergence = (log_q - learner.net.generator.log_prior(z, own)) / 7
    torch.testing.assert_close(losses, 0.5 * (decoded - level).square().mean(1) + divergence)


def test_fixed_layers_keep_their_bits_and_the_past_is_remembered():
    images = blobs(6, train=60, test=50, size=6, noise=60)
    training = eg.Training(steps=150, batch=32, lr=0.005)
    run = Run(eg.split(images).tasks(0), lambda: eg.BIR(internal=1, latent=20), training, eg.MLP(60, 40))
    first, last = run.checkpoints[0]["net"], run.checkpoints[-1]["net"]
    assert torch.equal(first["classifier.layer1.weight"], last["classifier.layer1.weight"])
    assert not torch.equal(first["classifier.layer2.weight"], last["classifier.layer2.weight"])
    assert float(np.mean(run.outcome.accuracy[-1])) > 70, "plain training keeps a third"


# the ledger, and what it refuses --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("outputs", "wanted"), [(10, 1_075_694), (2, 1_070_886)])
def test_the_size_is_the_paper_s(outputs, wanted):
    """784–400–400 with a softmax head, z = 100, the mirror as decoder, and a mean and variance per class."""
    net = ConditionalFeedbackNet(eg.MLP(400, 400).build((1, 28, 28), outputs), 0, 100, outputs, 10, 0.1)
    assert sum(p.numel() for p in net.parameters()) == wanted


@pytest.mark.parametrize("fields", [{}, {"prior": "normal"}, {"internal": 1}, {"gated_by": "task"}], ids=str)
def test_declared_memory_is_measured_memory(fields):
    method = eg.BIR(latent=4, **fields)
    run = Run(scenario().tasks(0), lambda: method, QUICK, NET)
    assert method.kept_bytes(NET.build((1, 5, 5), 8), 25) == sum(run.outcome.memory["kept"].values()) > 0


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"gate_share": 1.0}, r"gate_share 1.0.*below 1"),
        ({"gate_share": -0.1}, r"gate_share -0.1.*below 1"),
        ({"temperature": 0.0}, r"temperature 0.0.*above 0"),
        ({"generative": math.nan}, r"generative nan.*0 or more"),
        ({"latent": 0}, r"latent 0.*1 or more"),
        ({"internal": -1}, r"internal -1.*0 or more"),
        ({"prior": "gaussian"}, r"prior 'gaussian'.*mixture, normal"),
        ({"gated_by": "context"}, r"gated_by 'context'.*class, task"),
    ],
)
def test_values_that_mean_nothing_are_refused(fields, says):
    with pytest.raises(ValueError, match=says):
        eg.BIR(**fields)


def test_a_level_above_all_hidden_layers_is_refused():
    with pytest.raises(ValueError, match=r"internal 2.*the network has 2; give 1 or less"):
        Run(scenario().tasks(0), lambda: eg.BIR(internal=2), QUICK, NET)


def test_networks_and_inputs_that_it_cannot_take_are_refused():
    with pytest.raises(ValueError, match="the network is CNNNet; give mlp"):
        Run(eg.split(blobs(4, train=4, size=20)).tasks(0), eg.BIR, QUICK, eg.CNN())
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 5)).astype(np.float32), np.arange(40) % 4
    with pytest.raises(ScenarioError, match="not 8-bit"):
        Run(eg.split(eg.Arrays(x, y, x, y), kind="class").tasks(0), eg.BIR, QUICK, NET)
