"""Streaming linear discriminant analysis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from engram.learning.learner import Learner
from engram.learning.method import Log
from engram.methods._frozen import FrozenFeatures, sum_type
from engram.methods._stored import output_layer_of


@dataclass
class SLDA(FrozenFeatures):
    """Streaming linear discriminant analysis: class means and one covariance of frozen features (Hayes & Kanan, 2020).

    By default the covariance is exactly that of all images at once.
    """

    title = "SLDA"
    family = "frozen features"
    look = ("orange", "s", ":")

    covariance: Literal["pooled", "streaming"] = "pooled"
    """pooled: the mean over all images of (z − μ)(z − μ)ᵀ, μ the mean of their class in the end. streaming: the
    published update, with μ as it was before each image; it depends on the order."""
    shrinkage: Annotated[float, Log(1e-6, 0.5)] = 1e-4
    """Share of the identity in the covariance that is inverted."""

    kept = ("means", "counts", "scatter")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.shrinkage <= 1:
            raise ValueError(f"shrinkage {self.shrinkage} is out of range; give a number above 0, 1 at most")

    def begin_sums(self, learner: Learner, width: int, outputs: int) -> None:
        device, dtype = learner.device, sum_type(learner.device)
        self.means = torch.zeros(outputs, width, dtype=dtype, device=device)
        self.scatter = torch.zeros(width, width, dtype=dtype, device=device)
        """The covariance times the number of images."""

    def kept_bytes(self, net: nn.Module, pixels: int) -> int:
        width, outputs = self.width(net, pixels), output_layer_of(net)[1]
        return 8 * (outputs * width + outputs + width * width)

    def add_to_sums(self, features: Tensor, y: Tensor, members: Tensor) -> None:
        if self.covariance == "streaming":
            self.add_one_by_one(features, y)
            return
        new, old = members.sum(0)[:, None].to(features), self.counts[:, None]
        means = members.to(features).t() @ features / new.clamp(min=1)
        here = features - means[y]
        shift = means - self.means
        weight = new * old / (new + old).clamp(min=1)  # Chan et al. 1979: scatter of two groups together
        self.scatter += here.t() @ here + (weight * shift).t() @ shift
        self.means += new / (new + old).clamp(min=1) * shift

    def add_one_by_one(self, features: Tensor, y: Tensor) -> None:
        """Hayes & Kanan 2020, eq. 3: Σ ← (n Σ + n/(n+1) (z − μ)(z − μ)ᵀ) / (n + 1), then the mean of its class."""
        n, counts = int(self.counts.sum()), self.counts.tolist()
        away = torch.empty_like(features)
        for i, (z, label) in enumerate(zip(features, y.tolist(), strict=True)):
            away[i] = z - self.means[label]
            counts[label] += 1
            self.means[label] += away[i] / counts[label]
        before = torch.arange(n, n + len(y), device=features.device).to(features)
        self.scatter += (before / (before + 1) * away.t()) @ away

    def solve(self) -> tuple[Tensor, ...]:
        covariance = self.scatter / self.counts.sum().clamp(min=1)
        covariance = (1 - self.shrinkage) * covariance
        covariance.diagonal().add_(self.shrinkage)
        weights = torch.linalg.solve(covariance, self.means.t())  # (width, outputs)
        return weights, 0.5 * (self.means.t() * weights).sum(0)

    def rate(self, features: Tensor, *classifier: Tensor) -> Tensor:
        """Σ⁻¹μ · z − ½ μ · Σ⁻¹μ: the log-likelihood of each class, up to a constant; classes are equally likely."""
        weights, offset = classifier
        return features @ weights - offset
