"""Deep generative replay."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engram.learning.learner import Learner, batches
from engram.learning.train import CHECK_EVERY, finite
from engram.methods._replay import GenerativeReplay, share_of_now
from engram.nets.mlp import hidden_layers
from engram.nets.vae import VAE, vae_losses
from engram.scenarios.task import Batch, Task, Tasks


@dataclass
class DGR(GenerativeReplay):
    """Deep generative replay: a generator draws the past, the old network labels it (Shin et al., 2017).

    After the network, a VAE of its own learns the task for as many steps, beside images of its former self. As in the
    code that the copied row came from (van de Ven & Tolias, September 2018). Paper row: "DGR".
    """

    title = "DGR"
    family = "generative"
    look = ("orange", "X", "-")
    equal_memory = True

    kept = ("generator", "generator_optimizer", "scales")
    working = ("teacher", "old_generator")
    networks = 2

    def start(self, learner: Learner, tasks: Tasks) -> None:
        super().start(learner, tasks)
        pixels = tasks.shape[0] * tasks.shape[1] * tasks.shape[2]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(learner.rng("generator").initial_seed())
            self.generator = VAE(pixels, hidden_layers(learner.net)).to(learner.device)
        self.new_optimizer(learner)

    def new_optimizer(self, learner: Learner) -> None:
        self.generator_optimizer = learner.training.new_optimizer(list(self.generator.parameters()))

    def kept_bytes(self, net: nn.Module, pixels: int) -> int:
        with torch.device("meta"):
            return sum(p.numel() * p.element_size() for p in VAE(pixels, hidden_layers(net)).parameters())

    def draw(self, n: int, rng: torch.Generator) -> Tensor:
        return self.generator.generator.draw(n, rng)

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        if self.teacher is None:
            return learner.loss(batch)
        _, past = self.replay(learner, len(batch.y))
        past = past._replace(y=self.teacher.predict(past))
        logits = learner.logits(torch.cat([batch.x, past.x]))
        n = len(batch.y)
        share = share_of_now(learner)
        return share * learner.loss_of(logits[:n], batch) + (1 - share) * learner.loss_of(logits[n:], past)

    def end_task(self, learner: Learner, task: Task) -> None:
        self.train_generator(learner, task)
        super().end_task(learner, task)

    def train_generator(self, learner: Learner, task: Task) -> None:
        """As many steps as the network took, on the task and on images of the generator as it was."""
        rng = self.begin_generator(learner)
        total = torch.zeros((), device=learner.device)
        for step, batch in enumerate(batches(task.train, learner.training, learner.rng("generator")), 1):
            total += self.generator_step(learner, batch, rng)
            learner.steps += 1
            if step % CHECK_EVERY == 0:
                learner.watch(finite(total) / step)
        finite(total)

    def begin_generator(self, learner: Learner) -> torch.Generator:
        """Holds on to the generator as it was; the random stream of its training."""
        if learner.training.reset_optimizer and learner.task:
            self.new_optimizer(learner)
        self.old_generator = copy.deepcopy(self.generator).requires_grad_(False) if self.teacher else None
        return learner.rng("generator noise")

    def side_step(self, learner: Learner) -> Callable[[Batch], Tensor]:
        rng = self.begin_generator(learner)
        return lambda batch: self.generator_step(learner, batch, rng)

    def generator_step(self, learner: Learner, batch: Batch, rng: torch.Generator) -> Tensor:
        """One step on images of the task and as many of its former self; the loss."""
        net, optimizer, share = self.generator, self.generator_optimizer, share_of_now(learner)
        x, shades = batch.x, self.shades(batch.x)
        weights = torch.full((len(x),), 1 / len(x), device=learner.device)
        if self.old_generator is not None:
            drawn = self.old_generator.generator.draw(len(x), rng)
            x = torch.cat([x, drawn if self._plain else self._scaling.from_intensities(drawn)])
            shades = torch.cat([shades, drawn])
            weights = torch.cat([weights * share, weights * (1 - share)])
        noise = torch.randn(len(x), net.generator.latent, generator=rng).to(learner.device)
        loss = weights @ vae_losses(net(x, noise), shades)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.detach()
