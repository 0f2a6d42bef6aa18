"""Random projection and a ridge classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from engram.learning.learner import Learner
from engram.learning.method import Log
from engram.methods._frozen import FrozenFeatures, sum_type
from engram.methods._stored import output_layer_of


@dataclass
class RanPAC(FrozenFeatures):
    """Ridge regression from a random, rectified projection of frozen features to labels (McDonnell et al., 2023)."""

    title = "RanPAC"
    family = "frozen features"
    look = ("green", "s", ":")

    units: int = 2000
    """Width of the projection; 10,000 in the paper, which keeps 800 MB."""
    ridge: Annotated[float, Log(1e-8, 1)] = 1e-3
    """Coefficient of the squared weights, as a share of the mean diagonal element of HᵀH."""

    kept = ("gram", "sums", "counts")
    working = ("projection",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.units < 1:
            raise ValueError(f"units {self.units} is out of range; give 1 or more")
        if not 0 < self.ridge < float("inf"):
            raise ValueError(f"ridge {self.ridge} is out of range; give a number above 0")

    def begin_sums(self, learner: Learner, width: int, outputs: int) -> None:
        device, dtype = learner.device, sum_type(learner.device)
        self.gram = torch.zeros(self.units, self.units, dtype=dtype, device=device)
        self.sums = torch.zeros(self.units, outputs, dtype=dtype, device=device)
        drawn = torch.randn(width, self.units, generator=learner.rng("projection"))
        self.projection = drawn.to(device, dtype)

    def kept_bytes(self, net: nn.Module, pixels: int) -> int:
        outputs = output_layer_of(net)[1]
        return 8 * (self.units * self.units + self.units * outputs + outputs)

    def add_to_sums(self, features: Tensor, y: Tensor, members: Tensor) -> None:
        h = torch.relu(features @ self.projection)  # (batch, units)
        self.gram += h.t() @ h
        self.sums += h.t() @ members.to(h)

    def solve(self) -> tuple[Tensor, ...]:
        """(HᵀH + λ I)⁻¹ HᵀY"""
        penalised = self.gram.clone()
        squares = self.gram.diagonal().mean()
        penalised.diagonal().add_(self.ridge * squares if squares > 0 else 1.0)
        return (torch.cholesky_solve(self.sums, torch.linalg.cholesky(penalised)),)

    def rate(self, features: Tensor, *classifier: Tensor) -> Tensor:
        (weights,) = classifier
        return torch.relu(features @ self.projection) @ weights
