"""The generative classifier: likelihoods against integrals, a class at a time, nothing forgotten, what it refuses."""

import math

import numpy as np
import pytest
import torch
from helpers import Run, blobs, everything
from torch.nn.functional import binary_cross_entropy

import engram as eg
from engram.core.streams import stream
from engram.learning.train import new_learner
from engram.methods.generative_classifier import ClassByClass, ClassVAEs, log_likelihood
from engram.nets.vae import VAE
from engram.scenarios.kinds import ScenarioError

NET = eg.MLP(7, 6)
STEPS = eg.Training(steps=12, batch=8, lr=0.01)


def small() -> eg.GenerativeClassifier:
    return eg.GenerativeClassifier(units=6, latent=2, draws=4)


def deal(kind: str = "class", **options):
    return eg.split(blobs(6, train=20, size=5, **options), kind=kind).tasks(0)


# the likelihood -------------------------------------------------------------------------------------------------------


def a_vae(latent: int) -> tuple[VAE, torch.Tensor]:
    torch.manual_seed(3)
    vae = VAE(5, (4, 3), latent, log_variance_bias=False).double()
    with torch.no_grad():
        for p in vae.parameters():
            p.mul_(2)
    return vae, torch.rand(6, 5, dtype=torch.float64)


def density(vae: VAE, x: torch.Tensor, z: torch.Tensor, likelihood: str) -> torch.Tensor:
    """log p(x|z) for every point z of a grid: (points, images)."""
    generated = torch.sigmoid(vae.generator.logits(z))[:, None]
    if likelihood == "gaussian":
        return -0.5 * (x - generated).square().sum(-1)
    return (x * generated.log() + (1 - x) * (1 - generated).log()).sum(-1)


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("latent", [1, 2])
def test_the_likelihood_is_the_integral_over_the_latent_variables(likelihood, latent):
    """∫ p(x|z) N(z; 0, I) dz as a sum over a fine grid; 4000 draws are within 0.05 of it."""
    vae, x = a_vae(latent)
    line = torch.linspace(-6, 6, 241, dtype=torch.float64)
    z = torch.cartesian_prod(*[line] * latent).view(-1, latent)
    prior = torch.exp(-0.5 * z.square().sum(1)) / (2 * math.pi) ** (latent / 2) * (line[1] - line[0]) ** latent
    with torch.no_grad():
        wanted = torch.log((prior[:, None] * density(vae, x, z, likelihood).exp()).sum(0))
        found = log_likelihood(vae, x, x, 4000, likelihood)
    torch.testing.assert_close(found, wanted, atol=0.05, rtol=0)
    assert float(wanted.max() - wanted.min()) > 0.05, "else images could not be told apart"


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_one_draw_is_the_weight_written_out(likelihood):
    """log p(x|z) + log N(z; 0, I) − log q(z|x), each density with its own constant."""
    vae, x = a_vae(3)
    torch.manual_seed(0)
    with torch.no_grad():
        found = log_likelihood(vae, x, x, 1, likelihood)
    torch.manual_seed(0)
    noise = torch.randn(1, 6, 3)[0]
    mean, log_variance = vae.posterior(x)
    deviation = torch.exp(log_variance / 2)
    z = mean + noise * deviation
    prior = torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(1)
    posterior = torch.distributions.Normal(mean, deviation).log_prob(z).sum(1)
    given = torch.stack([density(vae, x[i : i + 1], z[i : i + 1], likelihood)[0, 0] for i in range(6)])
    torch.testing.assert_close(found, (given + prior - posterior).detach())


def test_draws_in_several_parts_are_averaged_as_a_whole(monkeypatch):
    vae, x = a_vae(2)
    found = []
    for rows in (30_000, 4000):  # all at once; 666 draws at a time
        monkeypatch.setattr("engram.methods.generative_classifier.ROWS", rows)
        torch.manual_seed(0)
        with torch.no_grad():
            found.append(log_likelihood(vae, x, x, 4000, "gaussian"))
    torch.testing.assert_close(found[0], found[1], atol=0.05, rtol=0)


# what is trained ------------------------------------------------------------------------------------------------------


def test_every_class_gets_the_same_number_of_full_batches_in_turn():
    """30 and 18 images, batches of 8: three each in an epoch; the smaller class begins anew after its two."""
    data = eg.split(blobs(2, train=[30, 18], size=5), kind="class", classes_per_task=(1, 1)).tasks(0)
    both = data[0].train + data[1].train
    view = ClassByClass(both, 8)
    assert len(view) == 2 * 3 * 8
    order = view.order(stream(0, "shuffle"), 8)
    labels = everything(both).y[order].view(6, 8)
    assert labels.tolist() == [[i % 2] * 8 for i in range(6)]
    large, small_class = order.view(3, 2, 8)[:, 0].flatten(), order.view(3, 2, 8)[:, 1].flatten()
    assert len(set(large.tolist())) == 24
    assert len(set(small_class[:16].tolist())) == 16
    assert not torch.equal(small_class[16:], small_class[:8])


def test_a_class_with_less_than_a_batch_is_repeated():
    data = eg.split(blobs(4, train=[20, 3, 20, 20], size=5), kind="class").tasks(0)[0].train
    order = ClassByClass(data, 8).order(stream(0, "shuffle"), 8).view(2, 2, 8)
    y = everything(data).y
    assert y[order[:, 1]].unique().tolist() == [1]
    assert len(order[0, 1].unique()) == 3


def test_an_autoencoder_is_trained_as_if_there_were_no_other_class():
    """The first class of the second task: six steps of its own Adam on its own images."""
    run = Run(deal(), small, STEPS, NET)
    learner = new_learner(deal(), small(), NET, STEPS, 0, torch.device("cpu"))
    vae = learner.net.vaes[2]
    adam = torch.optim.Adam(vae.parameters(), lr=0.01)
    task = deal()[1]
    shuffle, noises = stream(0, "shuffle", 1), stream(0, "noise", 1)
    taken = 0
    while taken < 12:
        for rows in ClassByClass(task.train, 8).order(shuffle, 8).split(8):
            noise = torch.randn(8, 2, generator=noises)
            taken += 1
            if taken % 2 == 1 and taken <= 12:
                x = task.train.pixels(rows) / 255
                mean, log_variance = vae.posterior(x)
                generated = torch.sigmoid(vae.generator.logits(mean + noise * torch.exp(log_variance / 2)))
                divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1).mean()
                adam.zero_grad()
                (binary_cross_entropy(generated, x) + divergence / 25).backward()
                adam.step()
    for name, wanted in vae.state_dict().items():
        torch.testing.assert_close(run.checkpoints[1]["net"][f"vaes.2.{name}"], wanted, rtol=1e-3, atol=1e-5)


def test_later_tasks_change_no_bit_of_what_was_learned():
    first, _, last = (c["net"] for c in Run(deal(), small, STEPS, NET).checkpoints)
    own = [name for name in first if name.startswith(("vaes.0.", "vaes.1."))]
    assert own
    assert all(torch.equal(first[name], last[name]) for name in own)
    assert not any(torch.equal(first[name], last[name]) for name in first if name.startswith("vaes.2.encoder.0"))


def test_the_size_is_the_paper_s():
    """784–85–85 → 5 → 85–85–784 without a bias of the log-variance: 150,134 parameters per class."""
    made = ClassVAEs(784, (85, 85), 5, 10)
    assert sum(p.numel() for p in made.vaes[0].parameters()) == 150_134
    assert sum(p.numel() for p in made.parameters()) == 1_501_340
    assert (eg.GenerativeClassifier().units, eg.GenerativeClassifier().latent) == (85, 5)


# what is predicted ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "task", "given", "classes"),
    [
        ("class", 1, None, range(4)),
        ("class-known", 1, None, range(4)),
        ("class", 2, None, range(6)),
        ("task", 2, 1, range(2, 4)),
        ("iid", 0, None, range(6)),
    ],
)
def test_scores_are_likelihoods_of_the_classes_that_can_be_answers(kind, task, given, classes):
    method = small()
    learner = new_learner(deal(kind), method, NET, STEPS, 0, torch.device("cpu"))
    learner.task = task
    x = everything(learner.tasks[0].test).x
    torch.manual_seed(1)
    scores = method.scores(learner, x, given)
    torch.manual_seed(1)
    for label in range(6):
        if label in classes:
            with torch.no_grad():
                wanted = log_likelihood(learner.net.vaes[label], x, x, 4, "gaussian")
            torch.testing.assert_close(scores[:, label], wanted)
        else:
            assert bool((scores[:, label] == float("-inf")).all())


def test_normalised_inputs_are_reconstructed_as_intensities():
    """The encoder gets what a network gets; the target is the picture in [0, 1]."""
    plain = eg.split(blobs(6, train=20, size=5)).tasks(0)[0].train
    scenario = eg.split(blobs(6, train=20, size=5), normalize=(0.3, 0.4))
    method = small()
    learner = new_learner(scenario.tasks(0), method, NET, STEPS, 0, torch.device("cpu"))
    method.begin_task(learner, learner.tasks[0])
    batch = learner.tasks[0].train.batch(torch.arange(8))
    batch = batch._replace(y=torch.ones_like(batch.y))
    noise = torch.randn(8, 2, generator=stream(0, "noise"))
    logits, mean, log_variance = learner.net.vaes[1](batch.x, noise)
    shown = everything(plain).x[:8]
    divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1).mean()
    wanted = binary_cross_entropy(torch.sigmoid(logits), shown) + divergence / 25
    torch.testing.assert_close(method.loss(learner, batch), wanted)


def test_samples_are_of_the_learned_classes():
    told = []
    training = eg.Training(steps=300, batch=16, lr=0.01)
    images = blobs(4, train=40, size=5, noise=10)
    Run(
        eg.split(images).tasks(0),
        lambda: eg.GenerativeClassifier(units=20, latent=2, draws=2),
        training,
        NET,
        watch=told.append,
    )
    drawn = {at.task: torch.from_numpy(at.samples).view(64, 25) / 255 for at in told if at.samples is not None}
    x, y = torch.from_numpy(images.x_train).view(-1, 25) / 255, images.y_train
    centres = torch.stack([x[y == label].mean(0) for label in range(4)])
    assert torch.cdist(drawn[1], centres).argmin(1).bincount(minlength=4).tolist() == [32, 32, 0, 0]
    assert torch.cdist(drawn[2], centres).argmin(1).bincount(minlength=4).tolist() == [16, 16, 16, 16]


# what it refuses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["units", "latent", "draws"])
def test_sizes_below_one_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} 0 is out of range; give 1 or more"):
        eg.GenerativeClassifier(**{name: 0})


def test_domain_learning_is_refused():
    with pytest.raises(ValueError, match=r"network per class.*choose kind task or class"):
        Run(deal("domain"), small, STEPS, NET)


def test_a_network_other_than_an_mlp_is_refused():
    with pytest.raises(ValueError, match="the network is CNNNet; give mlp"):
        Run(eg.split(blobs(4, train=4, size=20)).tasks(0), small, STEPS, eg.CNN())


def test_inputs_that_are_not_pictures_are_refused():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 5)).astype(np.float32), np.arange(40) % 4
    with pytest.raises(ScenarioError, match="not 8-bit"):
        Run(eg.split(eg.Arrays(x, y, x, y), kind="class").tasks(0), small, STEPS, NET)


def test_a_partner_that_needs_logits_is_refused():
    with pytest.raises(ValueError, match="likelihoods and no logits"):
        eg.run(eg.split(blobs(4, train=8, size=5)), [small(), eg.EWC()], net=NET, training=STEPS)
