"""Deep generative replay."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from engram.learning.learner import Learner, batches
from engram.learning.train import CHECK_EVERY, finite
from engram.methods._replay import GenerativeReplay, share_of_now
from engram.nets.mlp import hidden_layers
from engram.nets.vae import VAE, vae_losses
from engram.scenarios.task import Batch, Task, Tasks, pool


@dataclass
class DGR(GenerativeReplay):
    """Deep generative replay: a generator draws the past, the old network labels it (Shin et al., 2017).

    The generator is a VAE, trained for as many steps as the network on the task and on its own earlier images. By
    default as in the code that the copied row came from (van de Ven & Tolias, September 2018). Paper row: "DGR".
    """

    title = "DGR"
    family = "generative"
    look = ("orange", "X", "-")
    equal_memory = True

    generator_turn: Literal["after", "interleaved"] = "after"
    """When the generator learns a task: after the network, on batches of its own; or step by step with it, on the same
    new and generated images (van de Ven et al., 2022)."""
    heads_share: bool = False
    """Task learning: all generated images are replayed to the head of every past task (van de Ven et al., 2022); no:
    each head gets its own part of them."""
    log_variance_bias: bool = True
    """Whether the generator's map to the log-variance has a bias; van de Ven et al. (2022): no."""

    kept = ("generator", "generator_optimizer", "scales")
    working = ("teacher", "old_generator")
    networks = 2

    def start(self, learner: Learner, tasks: Tasks) -> None:
        super().start(learner, tasks)
        if self.heads_share:  # an image that is of every past task has one scaling
            pool(tasks).train.one_scaling()
        pixels = math.prod(tasks.shape)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(learner.rng("generator").initial_seed())
            self.generator = self.new_generator(pixels, learner.net).to(learner.device)
        self.new_optimizer(learner)

    def new_generator(self, pixels: int, net: nn.Module) -> VAE:
        return VAE(pixels, hidden_layers(net), log_variance_bias=self.log_variance_bias)

    def new_optimizer(self, learner: Learner) -> None:
        self.generator_optimizer = learner.training.new_optimizer(list(self.generator.parameters()))

    def kept_bytes(self, net: nn.Module, pixels: int) -> int:
        with torch.device("meta"):
            return sum(p.numel() * p.element_size() for p in self.new_generator(pixels, net).parameters())

    def begin_task(self, learner: Learner, task: Task) -> None:
        super().begin_task(learner, task)
        self._drawn: Tensor | None = None
        if self.generator_turn == "interleaved":
            self._generator_noise = self.begin_generator(learner)
            self._generator_loss = torch.zeros((), device=learner.device)

    def draw(self, n: int, rng: torch.Generator) -> Tensor:
        if self.generator_turn == "interleaved" and self.old_generator is not None:
            return self.old_generator.generator.draw(n, rng)
        return self.generator.generator.draw(n, rng)

    def samples(self, learner: Learner, n: int) -> Tensor:
        return self.generator.generator.draw(n, learner.rng("samples"))

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        if self.teacher is None:
            return learner.loss(batch)
        n, share = len(batch.y), share_of_now(learner)
        if self.heads_share and learner.tasks.kind == "task":
            self._drawn = self.draw(n, self._noise)
            past = self.inputs(self._drawn, torch.zeros_like(batch.t), (0,))
            logits = learner.logits(torch.cat([batch.x, past]))
            return share * learner.loss_of(logits[:n], batch) + (1 - share) * self.over_heads(learner, past, logits[n:])
        self._drawn, old = self.replay(learner, n)
        old = old._replace(y=self.teacher.predict(old))
        logits = learner.logits(torch.cat([batch.x, old.x]))
        return share * learner.loss_of(logits[:n], batch) + (1 - share) * learner.loss_of(logits[n:], old)

    def over_heads(self, learner: Learner, x: Tensor, logits: Tensor) -> Tensor:
        """The mean over past heads of the cross-entropy with what the old network says there."""
        assert self.teacher is not None
        with torch.no_grad():
            old = self.teacher.logits(x)
        heads = learner.tasks.heads[: learner.task]
        losses = [cross_entropy(logits[:, head], old[:, head].argmax(1)) for head in heads]
        return torch.stack(losses).mean()

    def after_step(self, learner: Learner, batch: Batch) -> None:
        if self.generator_turn == "interleaved":
            self._generator_loss += self.generator_step(learner, batch, self._generator_noise, self._drawn)
            learner.steps += 1
            if learner.step_of_task % CHECK_EVERY == 0:
                finite(self._generator_loss)

    def end_task(self, learner: Learner, task: Task) -> None:
        if self.generator_turn == "after":
            self.train_generator(learner, task)
        else:
            finite(self._generator_loss)
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

    def side_step(self, learner: Learner) -> Callable[[Batch], Tensor] | None:
        if self.generator_turn == "interleaved":  # the step itself has it
            return None
        rng = self.begin_generator(learner)
        return lambda batch: self.generator_step(learner, batch, rng)

    def generator_step(
        self, learner: Learner, batch: Batch, rng: torch.Generator, drawn: Tensor | None = None
    ) -> Tensor:
        """One step on images of the task and as many of its former self, drawn now or given; the loss."""
        net, optimizer, share = self.generator, self.generator_optimizer, share_of_now(learner)
        x, intensities = batch.x, self.intensities(batch.x)
        weights = torch.full((len(x),), 1 / len(x), device=learner.device)
        if self.old_generator is not None:
            if drawn is None:
                drawn = self.old_generator.generator.draw(len(x), rng)
            x = torch.cat([x, drawn if self._plain else self._scaling.from_intensities(drawn)])
            intensities = torch.cat([intensities, drawn])
            replayed = torch.full((len(drawn),), 1 / len(drawn), device=learner.device)
            weights = torch.cat([weights * share, replayed * (1 - share)])
        noise = torch.randn(len(x), net.generator.latent, generator=rng).to(learner.device)
        loss = weights @ vae_losses(net(x, noise), intensities)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.detach()
