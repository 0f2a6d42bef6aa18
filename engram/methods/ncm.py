"""Nearest class mean."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engram.learning.learner import Learner
from engram.methods._frozen import FrozenFeatures, sum_type
from engram.methods._stored import output_layer_of


@dataclass
class NCM(FrozenFeatures):
    """Nearest class mean of the features of a network that is not trained (Mensink et al., 2013)."""

    title = "NCM"
    family = "frozen features"
    look = ("blue", "s", ":")

    kept = ("sums", "counts")

    def begin_sums(self, learner: Learner, width: int, outputs: int) -> None:
        self.sums = torch.zeros(outputs, width, dtype=sum_type(learner.device), device=learner.device)

    def kept_bytes(self, net: nn.Module, pixels: int) -> int:
        return 8 * output_layer_of(net)[1] * (self.width(net, pixels) + 1)

    def add_to_sums(self, features: Tensor, y: Tensor, members: Tensor) -> None:
        self.sums += members.to(features).t() @ features

    def solve(self) -> tuple[Tensor, ...]:
        return (self.sums / self.counts.clamp(min=1)[:, None],)

    def rate(self, features: Tensor, *classifier: Tensor) -> Tensor:
        """Minus the squared distance to each mean."""
        (means,) = classifier
        return -torch.cdist(features, means, compute_mode="donot_use_mm_for_euclid_dist").square()
