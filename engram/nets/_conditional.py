"""A classifier that shares its encoder with a VAE whose prior has a mode per class and whose decoder has gates."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from engram.nets.mlp import MLPNet, hidden_layers
from engram.nets.vae import Generator


class ConditionalGenerator(Generator):
    """A generator whose prior is a mixture of Gaussians, and whose decoder has other units for each class or task.

    Args:
        outputs: Size of what is generated.
        hidden: Sizes of the encoder's hidden layers; the decoder mirrors them.
        latent: Latent variables.
        modes: Gaussians of the prior; 0: the prior is N(0, I).
        gates: Classes or tasks that have gates of their own; 0: all units are always on.
        gate_share: Probability that a unit is off for a class or task. Masks are drawn once, here; they are not part of
            the state, since the run's seed draws them again.
    """

    def __init__(
        self, outputs: int, hidden: Sequence[int], latent: int, modes: int = 0, gates: int = 0, gate_share: float = 0.0
    ) -> None:
        super().__init__(outputs, hidden, latent, log_variance_bias=False)
        self.prior_mean = nn.Parameter(torch.randn(modes, latent)) if modes else None
        self.prior_log_variance = nn.Parameter(torch.randn(modes, latent)) if modes else None
        self.gated_layers = len(hidden) if gates and gate_share else 0
        for i, width in enumerate(reversed(hidden) if self.gated_layers else ()):
            mask = torch.bernoulli(torch.full((gates, width), 1 - gate_share))
            self.register_buffer(f"mask{i}", mask, persistent=False)

    def encode(self, features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """A latent sample per row, and its log-density under q(z|x): (batch, latent), (batch,)."""
        log_variance = self.log_variance(features)
        z = torch.addcmul(self.mean(features), noise, torch.exp(0.5 * log_variance))
        return z, -0.5 * (math.log(2 * math.pi) + log_variance + noise.square()).sum(1)

    def decode(self, z: Tensor, gates: Tensor) -> Tensor:
        """(batch, latent) → (batch, outputs). `gates`, (batch, classes or tasks): what each row's mask is a mean of."""
        x = z
        for i, layer in enumerate(self.decoder[:-1]):
            x = layer(x)
            if self.gated_layers:
                x = x * (gates @ self.get_buffer(f"mask{i}"))  # the bias is gated as well
            x = torch.relu(x)
        out: Tensor = self.decoder[-1](x)
        return out

    def log_prior(self, z: Tensor, weights: Tensor) -> Tensor:
        """(batch,): log Σ_k weights_k N(z; mode k), or log N(z; 0, I). `weights`, (batch, modes), sum to 1."""
        constant = z.shape[1] * math.log(2 * math.pi)
        if self.prior_mean is None or self.prior_log_variance is None:
            return -0.5 * (constant + z.square().sum(1))
        log_variance = self.prior_log_variance
        distance = (z[:, None] - self.prior_mean).square() / log_variance.exp()  # (batch, modes, latent)
        densities = -0.5 * (constant + (log_variance + distance).sum(2))
        return torch.logsumexp(densities + weights.log(), 1)

    @torch.no_grad()
    def sample(self, labels: Tensor, gates: Tensor, rng: torch.Generator) -> Tensor:
        """What is generated for these classes: (n,) → (n, outputs), before a sigmoid."""
        z = torch.randn(len(labels), self.latent, generator=rng).to(labels.device)
        if self.prior_mean is not None and self.prior_log_variance is not None:
            deviation = torch.exp(0.5 * self.prior_log_variance[labels])
            z = self.prior_mean[labels] + deviation * z
        return self.decode(z, gates)


class ConditionalFeedbackNet(nn.Module):
    """A classifier whose hidden layers are also the encoder of a `ConditionalGenerator`.

    The first `internal` hidden layers are below the level that is generated, and fixed.
    """

    def __init__(self, classifier: MLPNet, internal: int, latent: int, modes: int, gates: int, share: float) -> None:
        super().__init__()
        self.classifier, self.internal = classifier, internal
        for layer in classifier.layers[:internal]:
            layer.requires_grad_(False)
        width = classifier.layers[internal].in_features
        self.generator = ConditionalGenerator(width, hidden_layers(classifier)[internal:], latent, modes, gates, share)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, pixels) → (batch, outputs)"""
        return self.classifier(x)  # type: ignore[no-any-return]

    def level(self, x: Tensor) -> Tensor:
        """(batch, pixels) → (batch, width): what is replayed; the pixels themselves if `internal` is 0."""
        for layer in self.classifier.layers[: self.internal]:
            x = torch.relu(layer(x))
        return x

    def features(self, level: Tensor) -> Tensor:
        """(batch, width) → (batch, last hidden)"""
        for layer in self.classifier.layers[self.internal : -1]:
            level = torch.relu(layer(level))
        return level

    def classify(self, features: Tensor) -> Tensor:
        """(batch, last hidden) → (batch, outputs)"""
        out: Tensor = self.classifier.layers[-1](features)
        return out
