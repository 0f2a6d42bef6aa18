"""Bare loops of replay through feedback and of deep generative replay. A yardstick for speed.

They do the work of a step of `engram run split-mnist/class rtf` (or dgr) once there is a past: the same networks,
batches, draws and losses, as one writes them down for one purpose. Modules and functions of torch, autograd, fused
Adam; pixels in [0, 1].
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LATENT, TEMPERATURE = 100, 2.0


class Setting(NamedTuple):
    """The task at hand, and what is old."""

    x: Tensor  # (images, pixels)
    y: Tensor  # (images,)
    hidden: Sequence[int]
    outputs: int
    now: slice
    """The outputs in play for new images."""
    past: Sequence[tuple[slice, slice]]
    """The outputs that equal parts of the drawn images are named by, and those that they count over now."""
    share: float
    """What the task at hand counts."""
    batch: int
    lr: float


def perceptron(sizes: Sequence[int]) -> nn.Sequential:
    """Ends in a ReLU."""
    return nn.Sequential(*(module for a, b in pairwise(sizes) for module in (nn.Linear(a, b), nn.ReLU())))


class VAE(nn.Module):
    """An encoder, its mirror, and a classifier on the encoder where there are outputs."""

    def __init__(self, pixels: int, hidden: Sequence[int], outputs: int = 0) -> None:
        super().__init__()
        self.encoder = perceptron((pixels, *hidden))
        self.classifier = nn.Linear(hidden[-1], outputs) if outputs else nn.Identity()
        self.mean, self.log_variance = nn.Linear(hidden[-1], LATENT), nn.Linear(hidden[-1], LATENT)
        self.decoder = nn.Sequential(perceptron((LATENT, *reversed(hidden))), nn.Linear(hidden[0], pixels))

    def draw(self, n: int, rng: torch.Generator) -> Tensor:
        with torch.no_grad():
            return torch.sigmoid(self.decoder(torch.randn(n, LATENT, generator=rng)))

    def losses(self, features: Tensor, x: Tensor, rng: torch.Generator) -> Tensor:
        """BCE and KL per pixel of each image."""
        mean, log_variance = self.mean(features), self.log_variance(features)
        noise = torch.randn(len(x), LATENT, generator=rng)
        logits = self.decoder(mean + torch.exp(0.5 * log_variance) * noise)
        divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1)
        return F.binary_cross_entropy_with_logits(logits, x, reduction="none").mean(1) + divergence / x.shape[1]


def stream(setting: Setting, rng: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Shuffled batches without end, the last of a pass dropped where it is not full."""
    while True:
        order = torch.randperm(len(setting.y), generator=rng)
        for rows in order[: len(order) // setting.batch * setting.batch].split(setting.batch):
            yield setting.x[rows], setting.y[rows]


def rtf(setting: Setting, net: VAE, shuffle: torch.Generator, rng: torch.Generator) -> Callable[[], None]:
    """One step of replay through feedback."""
    old = copy.deepcopy(net).requires_grad_(False)
    optimizer = torch.optim.Adam(net.parameters(), lr=setting.lr, fused=True)
    batches, share = stream(setting, shuffle), setting.share
    part = -(-setting.batch // len(setting.past))

    def step() -> None:
        x, y = next(batches)
        drawn = old.draw(part * len(setting.past), rng)
        n, x = len(x), torch.cat([x, drawn])
        features = net.encoder(x)
        logits, losses = net.classifier(features), net.losses(features, x, rng)
        with torch.no_grad():
            before = old.classifier(old.encoder(drawn))
        new = F.cross_entropy(logits[:n, setting.now], y - setting.now.start) + losses[:n].mean()
        past = losses[n:].mean()
        for i, (named, counted) in enumerate(setting.past):
            p = torch.softmax(before[part * i : part * (i + 1), named] / TEMPERATURE, 1)
            q = torch.log_softmax(logits[n + part * i : n + part * (i + 1), counted] / TEMPERATURE, 1)
            soft = -(TEMPERATURE**2) * (p * q[:, : p.shape[1]]).sum() / q.numel()
            past = past + soft / len(setting.past)
        optimizer.zero_grad()
        (share * new + (1 - share) * past).backward()
        optimizer.step()

    return step


def dgr(
    setting: Setting,
    solver: nn.Sequential,
    net: VAE,
    shuffle: torch.Generator,
    rng: torch.Generator,
    rng_of_net: torch.Generator,
) -> Callable[[], None]:
    """One step of the solver and one of the generator of deep generative replay."""
    old_solver, old = (copy.deepcopy(module).requires_grad_(False) for module in (solver, net))
    optimizers = [torch.optim.Adam(module.parameters(), lr=setting.lr, fused=True) for module in (solver, net)]
    batches, share = stream(setting, shuffle), setting.share
    part = -(-setting.batch // len(setting.past))

    def solve() -> Tensor:
        x, y = next(batches)
        drawn = old.draw(part * len(setting.past), rng)
        with torch.no_grad():
            before = old_solver(drawn)
        logits = solver(torch.cat([x, drawn]))
        past = torch.zeros(())
        for i, (named, counted) in enumerate(setting.past):
            labels = before[part * i : part * (i + 1), named].argmax(1) + named.start - counted.start
            found = logits[len(x) + part * i : len(x) + part * (i + 1), counted]
            past = past + F.cross_entropy(found, labels) / len(setting.past)
        new = F.cross_entropy(logits[: len(x), setting.now], y - setting.now.start)
        return share * new + (1 - share) * past

    def train_generator() -> Tensor:
        x, _ = next(batches)
        n, x = len(x), torch.cat([x, old.draw(len(x), rng_of_net)])
        losses = net.losses(net.encoder(x), x, rng_of_net)
        return share * losses[:n].mean() + (1 - share) * losses[n:].mean()

    def step() -> None:
        for loss_of, optimizer in zip((solve, train_generator), optimizers, strict=True):
            loss = loss_of()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return step


def stepper(method: str, setting: Setting) -> Callable[[], None]:
    """A step of one of the two with fresh networks."""
    pixels, rng = setting.x.shape[1], torch.Generator().manual_seed(0)
    if method == "rtf":
        return rtf(setting, VAE(pixels, setting.hidden, setting.outputs), rng, rng)
    return dgr(setting, solver_of(setting), VAE(pixels, setting.hidden), rng, rng, rng)


def solver_of(setting: Setting) -> nn.Sequential:
    sizes = (setting.x.shape[1], *setting.hidden)
    return nn.Sequential(perceptron(sizes), nn.Linear(sizes[-1], setting.outputs))
