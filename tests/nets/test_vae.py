"""The variational autoencoder: its loss by hand, known divergences, its size, and the samples that it takes."""

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy, relu

import engram as eg
from engram.nets.mlp import hidden_layers
from engram.nets.vae import VAE, FeedbackNet, Generator, kl_to_prior, vae_losses


@pytest.mark.parametrize(
    ("mean", "deviation", "divergence"),
    [
        (0.0, 1.0, 0.0),
        (1.0, 1.0, 0.5),
        (0.0, 2.0, 1.5 - math.log(2)),
        (1.0, 2.0, 2 - math.log(2)),  # ½ (σ² + μ² − 1 − log σ²) = ½ (4 + 1 − 1 − 2 log 2)
        (-3.0, 0.5, 4.125 + math.log(2)),
    ],
)
def test_divergence_of_a_known_gaussian_from_the_prior(mean, deviation, divergence):
    log_variance = torch.tensor([[2 * math.log(deviation)]])
    assert float(kl_to_prior(torch.tensor([[mean]]), log_variance)) == pytest.approx(divergence, abs=1e-6)


def test_divergence_is_torch_s_own_and_adds_up_over_the_latent_variables():
    torch.manual_seed(0)
    mean, log_variance = torch.randn(5, 7), torch.randn(5, 7)
    gaussian = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
    wanted = torch.distributions.kl_divergence(gaussian, torch.distributions.Normal(0.0, 1.0)).sum(1)
    torch.testing.assert_close(kl_to_prior(mean, log_variance), wanted)


def test_the_loss_of_two_images_by_hand():
    """Two pixels, one latent variable. Cross-entropies are taken over pixels, the divergence is divided by them.

    First image: pixels 1 and 0.25 generated as ½ and ½, so log 2 each; N(1, 2²) is 2 − log 2 from the prior.
    Second: pixels 0 and 1 generated as ¾ and ¾, so log 4 and log 4/3; N(0, 1) is the prior.
    """
    logits = torch.tensor([[0.0, 0.0], [math.log(3), math.log(3)]])
    intensities = torch.tensor([[1.0, 0.25], [0.0, 1.0]])
    mean, log_variance = torch.tensor([[1.0], [0.0]]), torch.tensor([[math.log(4)], [0.0]])
    first = math.log(2) + (2 - math.log(2)) / 2
    second = (math.log(4) + math.log(4 / 3)) / 2
    losses = vae_losses((logits, mean, log_variance), intensities)
    assert losses.tolist() == pytest.approx([first, second], rel=1e-6)


def test_the_loss_is_that_of_a_network_written_out():
    """Encoder 5-4-3, maps 3-2, decoder 2-3-4-5, sigmoid; ReLU between; one sample z = μ + σ·ε; means over all."""
    torch.manual_seed(0)
    vae = VAE(5, (4, 3), latent=2)
    x, noise = torch.rand(6, 5), torch.randn(6, 2)
    (w1, b1), (w2, b2) = ((layer.weight, layer.bias) for layer in vae.encoder)
    hidden = relu(relu(x @ w1.t() + b1) @ w2.t() + b2)
    g = vae.generator
    mean = hidden @ g.mean.weight.t() + g.mean.bias
    log_variance = hidden @ g.log_variance.weight.t() + g.log_variance.bias
    z = mean + (0.5 * log_variance).exp() * noise
    for layer in list(g.decoder)[:-1]:
        z = relu(z @ layer.weight.t() + layer.bias)
    generated = torch.sigmoid(z @ g.decoder[-1].weight.t() + g.decoder[-1].bias)
    divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
    wanted = binary_cross_entropy(generated, x) + divergence / (6 * 5)
    torch.testing.assert_close(vae_losses(vae(x, noise), x).mean(), wanted)


def parameters(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


@pytest.mark.parametrize(
    ("pixels", "hidden", "in_print", "unused"),
    [
        (784, 400, 1_073_794, 400 * 10 + 10),
        (1024, 1000, 4_453_324, 1000 * 100 + 100),
    ],
)
def test_it_has_the_authors_size_but_for_their_unused_classifier(pixels, hidden, in_print, unused):
    """784-400-400-100-400-400-784: 314,000 + 160,400 + 80,200 + 40,400 + 160,400 + 314,384 = 1,069,784."""
    with torch.device("meta"):
        vae = VAE(pixels, (hidden, hidden))
    assert parameters(vae) == in_print - unused
    assert parameters(vae.generator) + parameters(vae.encoder) == parameters(vae)


def test_its_layers_mirror_unequal_ones():
    generator = Generator(36, (9, 7, 5), latent=2)
    assert [(layer.in_features, layer.out_features) for layer in generator.decoder] == [(2, 5), (5, 7), (7, 9), (9, 36)]


def test_weights_and_biases_start_uniform_within_one_over_the_root_of_the_fan_in():
    torch.manual_seed(0)
    for layer in VAE(64, (49, 36)).modules():
        if isinstance(layer, nn.Linear):
            bound = 1 / math.sqrt(layer.in_features)
            for p in (layer.weight, layer.bias):
                assert float(p.detach().abs().max()) <= bound
            assert float(layer.weight.detach().std()) == pytest.approx(bound / math.sqrt(3), rel=0.1)


class Passes(Generator):
    """A decoder that gives z itself."""

    def logits(self, z):
        return z


def test_a_reparametrised_sample_has_the_mean_and_the_variance():
    """Maps without weights, so μ = 1.5 and log σ² = log 4: 100,000 samples are N(1.5, 2²)."""
    generator = Passes(3, (2,), latent=1)
    with torch.no_grad():
        for layer, bias in ((generator.mean, 1.5), (generator.log_variance, math.log(4))):
            layer.weight.zero_()
            layer.bias.fill_(bias)
    noise = torch.randn(100_000, 1, generator=torch.Generator().manual_seed(0))
    z, mean, _ = generator(torch.zeros(100_000, 2), noise)
    assert float(z.detach().mean()) == pytest.approx(1.5, abs=4 * 2 / math.sqrt(100_000))
    assert float(z.detach().std()) == pytest.approx(2, abs=4 * 2 / math.sqrt(200_000))
    assert set(mean.flatten().tolist()) == {1.5}
    z.sum().backward()  # dz/dμ = 1, and dz/d(log σ²) = ½ σ ε
    assert float(generator.mean.bias.grad) == pytest.approx(100_000)
    assert float(generator.log_variance.bias.grad) == pytest.approx(float(noise.sum()), rel=1e-3)


def test_it_draws_from_the_prior_images_between_0_and_1():
    torch.manual_seed(0)
    generator = Generator(9, (4,), latent=3)
    drawn = generator.draw(50, torch.Generator().manual_seed(5))
    z = torch.randn(50, 3, generator=torch.Generator().manual_seed(5))
    torch.testing.assert_close(drawn, torch.sigmoid(generator.logits(z)).detach())
    assert drawn.shape == (50, 9)
    assert 0 < float(drawn.min()) < float(drawn.max()) < 1
    assert not drawn.requires_grad


def test_a_classifier_with_feedback_classifies_as_without():
    """RtF's network: the classifier that it was given, and a generator on its last hidden layer."""
    torch.manual_seed(0)
    classifier = eg.MLP(7, 6).build((1, 5, 5), 4)
    feedback = FeedbackNet(classifier)
    x, noise = torch.rand(8, 25), torch.randn(8, 100)
    plain = classifier(x)
    logits, (generated, mean, _) = feedback.both(x, noise)
    assert torch.equal(feedback(x), plain)
    assert torch.equal(logits, plain)
    assert generated.shape == (8, 25)
    torch.testing.assert_close(mean, feedback.generator.mean(classifier.features(x)))
    generator = 2 * (6 * 100 + 100) + (100 * 6 + 6) + (6 * 7 + 7) + (7 * 25 + 25)
    assert parameters(feedback) == parameters(classifier) + generator


@pytest.mark.parametrize("net", [nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))])
def test_a_network_that_is_no_perceptron_has_no_mirror(net):
    with pytest.raises(ValueError, match=f"MLP.*{type(net).__name__}"):
        hidden_layers(net)
