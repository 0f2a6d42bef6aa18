"""Replay through feedback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from engram.learning.learner import Learner
from engram.learning.method import Log
from engram.methods._replay import GenerativeReplay, Reduction, distilled, share_of_now
from engram.nets.mlp import MLPNet, hidden_layers
from engram.nets.vae import FeedbackNet, Generator, vae_losses
from engram.scenarios.task import Batch, Tasks


@dataclass
class RtF(GenerativeReplay):
    """Replay through feedback: the classifier's hidden layers are the encoder of its own generator.

    van de Ven & Tolias, 2018, in the form of their code of that September. Paper row: "RtF".
    """

    title = "RtF"
    family = "generative"
    look = ("red", "X", "--")
    equal_memory = True

    temperature: Annotated[float, Log(0.5, 8)] = 2.0
    """Divisor of the logits before old and new outputs are compared."""
    reduction: Reduction = "mean"
    """How the distillation is reduced over outputs: mean (the row's code), or sum (that code since May 2019)."""
    generative: float = 1.0
    """Coefficient of the autoencoder's loss next to the classifier's."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature {self.temperature} is out of range; give a number above 0")
        if not 0 <= self.generative < float("inf"):
            raise ValueError(f"generative {self.generative} is out of range; give 0 or more")

    def network(self, net: nn.Module, tasks: Tasks) -> nn.Module:
        hidden_layers(net)
        assert isinstance(net, MLPNet)
        feedback = FeedbackNet(net)
        self.generator = feedback.generator
        return feedback

    def kept_bytes(self, net: nn.Module, pixels: int) -> int:
        with torch.device("meta"):
            return sum(p.numel() * p.element_size() for p in Generator(pixels, hidden_layers(net)).parameters())

    def draw(self, n: int, rng: torch.Generator) -> Tensor:
        assert self.teacher is not None
        assert isinstance(self.teacher.net, FeedbackNet)
        return self.teacher.net.generator.draw(n, rng)

    def samples(self, learner: Learner, n: int) -> Tensor:
        return self.generator.draw(n, learner.rng("samples"))

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        assert isinstance(learner.net, FeedbackNet)
        n, x, intensities = len(batch.y), batch.x, self.intensities(batch.x)
        if self.teacher is not None:
            drawn, past = self.replay(learner, n)
            x, intensities = torch.cat([x, past.x]), torch.cat([intensities, drawn])
        noise = torch.randn(len(x), self.generator.latent, generator=self._noise).to(x.device)
        logits, output = learner.net.both(x, noise)
        losses = self.generative * vae_losses(output, intensities)
        new = learner.loss_of(logits[:n], batch) + losses[:n].mean()
        if self.teacher is None:
            return new
        with torch.no_grad():
            old = self.teacher.logits(past.x, past.t)
        share = share_of_now(learner)
        past_loss = distilled(learner, old, logits[n:], self.temperature, self.reduction, parts=True)
        return share * new + (1 - share) * (past_loss + losses[n:].mean())
