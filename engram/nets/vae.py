"""The symmetric variational autoencoder (Kingma & Welling, 2014), and a classifier that shares its encoder with one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from engram.nets.mlp import MLPNet, hidden_layers

LATENT = 100
"""Latent variables (van de Ven & Tolias, 2018)."""


VAEOutput = tuple[Tensor, Tensor, Tensor]
"""What a VAE makes of images: the logits of their pixels, and mean and log-variance of their latent variables."""


class Generator(nn.Module):
    """What lies behind an encoder: maps to the latent mean and log-variance, and the decoder, the encoder's mirror."""

    def __init__(
        self, pixels: int, hidden: Sequence[int], latent: int = LATENT, log_variance_bias: bool = True
    ) -> None:
        super().__init__()
        self.latent = latent
        self.mean = nn.Linear(hidden[-1], latent)
        self.log_variance = nn.Linear(hidden[-1], latent, bias=log_variance_bias)
        self.decoder = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise((latent, *reversed(hidden), pixels)))

    def forward(self, features: Tensor, noise: Tensor) -> VAEOutput:
        """(batch, hidden), (batch, latent) → logits of the pixels, mean, log-variance; one sample per row."""
        mean, log_variance = self.mean(features), self.log_variance(features)
        z = torch.addcmul(mean, noise, torch.exp(0.5 * log_variance))
        return self.logits(z), mean, log_variance

    def logits(self, z: Tensor) -> Tensor:
        """(batch, latent) → (batch, pixels)"""
        x = z
        for layer in self.decoder[:-1]:
            x = torch.relu_(layer(x))
        out: Tensor = self.decoder[-1](x)
        return out

    @torch.no_grad()
    def draw(self, n: int, rng: torch.Generator) -> Tensor:
        """Images from the prior: (n, pixels) in [0, 1]."""
        z = torch.randn(n, self.latent, generator=rng)
        return torch.sigmoid_(self.logits(z.to(self.mean.weight.device)))


class VAE(nn.Module):
    """An encoder of fully connected layers and a `Generator`."""

    def __init__(
        self, pixels: int, hidden: Sequence[int], latent: int = LATENT, log_variance_bias: bool = True
    ) -> None:
        super().__init__()
        self.encoder = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise((pixels, *hidden)))
        self.generator = Generator(pixels, hidden, latent, log_variance_bias)

    def forward(self, x: Tensor, noise: Tensor) -> VAEOutput:
        """(batch, pixels), (batch, latent) → logits of the pixels, mean, log-variance"""
        output: VAEOutput = self.generator(self.features(x), noise)
        return output

    def features(self, x: Tensor) -> Tensor:
        """(batch, pixels) → (batch, last hidden)"""
        for layer in self.encoder:
            x = torch.relu_(layer(x))
        return x

    def posterior(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, pixels) → mean and log-variance of the latent variables given the images, (batch, latent) each"""
        features = self.features(x)
        return self.generator.mean(features), self.generator.log_variance(features)


class FeedbackNet(nn.Module):
    """A classifier whose hidden layers are also the encoder of a VAE."""

    def __init__(self, classifier: MLPNet, latent: int = LATENT) -> None:
        super().__init__()
        self.classifier = classifier
        pixels = classifier.layers[0].in_features
        self.generator = Generator(pixels, hidden_layers(classifier), latent)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, pixels) → (batch, outputs)"""
        return self.classifier(x)  # type: ignore[no-any-return]

    def both(self, x: Tensor, noise: Tensor) -> tuple[Tensor, VAEOutput]:
        """The classifier's logits, and what the generator makes of the same features."""
        features = self.classifier.features(x)
        return self.classifier.layers[-1](features), self.generator(features, noise)


def vae_losses(output: VAEOutput, intensities: Tensor) -> Tensor:
    """Per image: cross-entropy of the pixels, intensities in [0, 1], and KL divergence to the prior, both per pixel."""
    logits, mean, log_variance = output
    reconstruction = binary_cross_entropy_with_logits(logits, intensities, reduction="none").mean(1)  # (batch,)
    return reconstruction + kl_to_prior(mean, log_variance) / intensities.shape[1]


def kl_to_prior(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mean, variance) ‖ N(0, I)) of each row: (batch, latent) → (batch,)."""
    return -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1)
