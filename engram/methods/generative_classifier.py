"""The generative classifier: an autoencoder per class."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from engram.learning.learner import Learner
from engram.learning.method import Log, Method
from engram.nets.mlp import hidden_layers
from engram.nets.vae import VAE, vae_losses
from engram.scenarios.task import Batch, Data, Pixels, Task, Tasks, pool

Likelihood = Literal["gaussian", "bernoulli"]
ROWS = 10_000
"""Images that are decoded at once when likelihoods are estimated: what fits in a processor's cache."""


@dataclass
class GenerativeClassifier(Method):
    """A variational autoencoder per class, trained on that class alone; it predicts the likeliest class.

    As in van de Ven, Tuytelaars & Tolias (2022), after van de Ven, Li & Tolias (2021). No class can be forgotten: later
    classes change other autoencoders.
    """

    title = "Generative classifier"
    family = "generative"
    look = ("purple", "X", ":")

    units: Annotated[int, Log(20, 400)] = 85
    """Units of each hidden layer of encoder and decoder. There are as many layers as the MLP has hidden ones."""
    latent: Annotated[int, Log(2, 100)] = 5
    """Latent variables."""
    draws: int = 50
    """Latent samples per test image and class that the likelihood is estimated from."""
    likelihood: Likelihood = "gaussian"
    """Likelihood of a test image given its latent variables: gaussian with variance 1 (the paper's code, although
    training minimises a cross-entropy), or bernoulli, as in training."""

    working = ("scaling",)
    needs = frozenset({"boundaries"})
    gradient_stage = "project"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("units", "latent", "draws"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)} is out of range; give 1 or more")

    def network(self, net: nn.Module, tasks: Tasks) -> nn.Module:
        if tasks.kind == "domain":
            raise ValueError(
                "the generative classifier has a network per class, and in domain learning every task has all of them, "
                "so that each network would forget like any other; choose kind task or class"
            )
        hidden = (self.units,) * len(hidden_layers(net))
        return ClassVAEs(math.prod(tasks.shape), hidden, self.latent, tasks.outputs)

    def start(self, learner: Learner, tasks: Tasks) -> None:
        self.scaling = pool(tasks).train.one_scaling()

    def begin_task(self, learner: Learner, task: Task) -> None:
        self._batch = learner.training.batch
        self._noise = learner.rng("noise")

    def data(self, task: Task) -> Data:
        return ClassByClass(task.train, self._batch)

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        """Of the autoencoder of the one class that the batch has."""
        noise = torch.randn(len(batch.x), self.latent, generator=self._noise).to(learner.device)
        vae = vaes_of(learner)[int(batch.y[0])]
        x = batch.x.flatten(1)
        return vae_losses(vae(x, noise), self.scaling.to_intensities(x)).mean()

    def adjust_gradients(self, learner: Learner, batch: Batch) -> None:
        """Without a gradient, the optimiser leaves the weights and moments of the other autoencoders alone."""
        own = int(batch.y[0])
        for label, vae in enumerate(vaes_of(learner)):
            for p in vae.parameters() if label != own else ():
                p.grad = None

    @torch.no_grad()
    def scores(self, learner: Learner, x: Tensor, task: int | None) -> Tensor:
        """Log-likelihood of each class, up to a constant; −∞ for classes that were not learned."""
        x = x.flatten(1)
        intensities = self.scaling.to_intensities(x)
        found = x.new_full((len(x), learner.tasks.outputs), float("-inf"))
        for label in learned_classes(learner, task):
            vae = vaes_of(learner)[label]
            found[:, label] = log_likelihood(vae, x, intensities, self.draws, self.likelihood)
        return found

    def samples(self, learner: Learner, n: int) -> Tensor:
        learned, rng = learned_classes(learner), learner.rng("samples")
        each = math.ceil(n / len(learned))
        drawn = [vaes_of(learner)[label].generator.draw(each, rng) for label in learned]
        return torch.cat(drawn)[:n]


class ClassVAEs(nn.Module):
    """An autoencoder for each class."""

    def __init__(self, pixels: int, hidden: Sequence[int], latent: int, classes: int) -> None:
        super().__init__()
        self.vaes = nn.ModuleList(VAE(pixels, hidden, latent, log_variance_bias=False) for _ in range(classes))

    def forward(self, x: Tensor) -> Tensor:
        raise ValueError(
            "a generative classifier has likelihoods and no logits; it cannot be combined with this method"
        )


def vaes_of(learner: Learner) -> list[VAE]:
    """The autoencoders by class."""
    assert isinstance(learner.net, ClassVAEs)
    return list(learner.net.vaes)  # type: ignore[arg-type]


def learned_classes(learner: Learner, task: int | None = None) -> range:
    """Outputs that have been trained and can be answers: of one task in task learning, else of all tasks so far."""
    heads = learner.tasks.heads
    if learner.tasks.kind == "task" and task is not None:
        return range(heads[task].start, heads[task].stop)
    return range(heads[learner.task].stop)


def log_likelihood(vae: VAE, x: Tensor, intensities: Tensor, draws: int, likelihood: Likelihood) -> Tensor:
    """(batch,): log of the mean over z ~ q(z|x) of p(x|z) p(z) / q(z|x), up to a constant that all classes share."""
    mean, log_variance = vae.posterior(x)
    at_once = max(1, ROWS // len(x))
    weights = []
    for first in range(0, draws, at_once):
        shape = (min(at_once, draws - first), *mean.shape)
        noise = torch.randn(shape, device=x.device)  # of the generator that the evaluator seeds
        z = mean + noise * torch.exp(0.5 * log_variance)
        logits = vae.generator.logits(z.flatten(0, 1)).view(*shape[:2], -1)  # (draws, batch, pixels)
        # log N(z; 0, I) − log q(z|x): the terms with 2π cancel
        ratio = 0.5 * (log_variance + noise.square() - z.square()).sum(-1)
        weights.append(ratio + log_density(logits, intensities, likelihood))
    return torch.logsumexp(torch.cat(weights), 0) - math.log(draws)


def log_density(logits: Tensor, intensities: Tensor, likelihood: Likelihood) -> Tensor:
    """log p(x|z) from the decoder's logits, summed over pixels; gaussian: without its constant."""
    if likelihood == "gaussian":
        return -0.5 * (intensities - torch.sigmoid(logits)).square().sum(-1)
    target = intensities.expand_as(logits)
    return -binary_cross_entropy_with_logits(logits, target, reduction="none").sum(-1)


class ClassByClass(Data):
    """Data in batches of one class each, the classes in turn, so that each gets as many steps as the others.

    An epoch goes once over the largest class; a smaller one is shuffled and begun anew within it. Partial batches are
    left out unless a class has no full one.
    """

    def __init__(self, data: Data, batch: int) -> None:
        self.whole, self.tasks = data, data.tasks
        labels = torch.cat([part.y for part in data.chunks()]).cpu()
        self.rows = [(labels == label).nonzero().squeeze(1) for label in sorted(set(labels.tolist()))]
        self.batches = max(1, max(len(rows) for rows in self.rows) // batch)
        self.size = batch

    def __len__(self) -> int:
        return len(self.rows) * self.batches * self.size

    def order(self, rng: torch.Generator, batch: int) -> Tensor:
        by_class = [self.shuffled(rows, rng).view(self.batches, 1, self.size) for rows in self.rows]
        return torch.cat(by_class, 1).flatten()

    def shuffled(self, rows: Tensor, rng: torch.Generator) -> Tensor:
        """Rows of one class for all its batches of an epoch."""
        used = len(rows) // self.size * self.size or len(rows)
        times = math.ceil(self.batches * self.size / used)
        parts = [rows[torch.randperm(len(rows), generator=rng)[:used]] for _ in range(times)]
        return torch.cat(parts)[: self.batches * self.size]

    def leaves(self) -> Iterator[Pixels]:
        return self.whole.leaves()

    def batch(self, indices: Tensor) -> Batch:
        return self.whole.batch(indices)

    def pixels(self, indices: Tensor) -> Tensor:
        return self.whole.pixels(indices)
