"""Brain-inspired replay."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, one_hot

from engram.learning.learner import Learner
from engram.learning.method import Log
from engram.methods._replay import DrawnReplay, share_of_now
from engram.methods._stored import active_outputs
from engram.nets._conditional import ConditionalFeedbackNet, ConditionalGenerator
from engram.nets.mlp import MLPNet, hidden_layers
from engram.scenarios.task import Batch, Tasks


class Replayed(NamedTuple):
    """What is replayed in a step."""

    level: Tensor  # (n, width), input of the layers above the level of replay
    shown: Tensor  # (n, width), what the decoder is to reconstruct
    batch: Batch  # its x is the level; no labels
    tasks: Tensor  # (n,), the task that each was generated for


@dataclass
class BIR(DrawnReplay):
    """Brain-inspired replay: a classifier that generates its own past, class by class (van de Ven et al., 2020).

    In the form of van de Ven, Tuytelaars & Tolias (2022). Its components are fields: conditional replay (`prior`),
    gates (`gate_share`), internal replay (`internal`), distillation (`targets`). Without them it is replay through
    feedback.
    """

    title = "BI-R"
    family = "generative"
    look = ("pink", "X", "-.")

    prior: Literal["mixture", "normal"] = "mixture"
    """Prior of the latent variables: a Gaussian per class, whose mean and variance are learned; or N(0, I)."""
    gate_share: Annotated[float, Log(0.05, 0.9)] = 0.1
    """Share of the decoder's hidden units that are off for a class or task; 0: there are no gates."""
    gated_by: Literal["class", "task"] = "class"
    """Whether each class or each task has its own gates."""
    internal: int = 0
    """Hidden layers below the level at which the past is generated and replayed. They are not trained, so give
    pre-trained ones (`--weights`). 0: images are replayed."""
    targets: Literal["soft", "hard"] = "soft"
    """Targets of replayed images: the old network's softened outputs (distillation), or the likeliest class."""
    temperature: float = 2.0
    """Divisor of the logits before soft targets and outputs are compared."""
    latent: int = 100
    """Latent variables."""
    generative: float = 1.0
    """Coefficient of the autoencoder's loss next to the classifier's."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.gate_share < 1:
            raise ValueError(f"gate_share {self.gate_share} is out of range; give 0 or more, below 1")
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature {self.temperature} is out of range; give a number above 0")
        if not 0 <= self.generative < float("inf"):
            raise ValueError(f"generative {self.generative} is out of range; give 0 or more")
        for name, least in (("internal", 0), ("latent", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} {getattr(self, name)} is out of range; give {least} or more")

    def network(self, net: nn.Module, tasks: Tasks) -> nn.Module:
        hidden = hidden_layers(net)
        if self.internal >= len(hidden):
            raise ValueError(
                f"internal {self.internal}: a hidden layer has to lie above the level of replay, and the network has "
                f"{len(hidden)}; give {len(hidden) - 1} or less"
            )
        assert isinstance(net, MLPNet)
        gates = tasks.outputs if self.gated_by == "class" else len(tasks)
        modes = tasks.outputs if self.prior == "mixture" else 0
        feedback = ConditionalFeedbackNet(net, self.internal, self.latent, modes, gates, self.gate_share)
        self.generator = feedback.generator
        return feedback

    def kept_bytes(self, net: nn.Module, pixels: int) -> int:
        perceptron: Any = getattr(net, "classifier", net)
        layers = perceptron.layers
        modes = layers[-1].out_features if self.prior == "mixture" else 0
        with torch.device("meta"):
            hidden = hidden_layers(perceptron)[self.internal :]
            generator = ConditionalGenerator(layers[self.internal].in_features, hidden, self.latent, modes)
        return sum(p.numel() * p.element_size() for p in generator.parameters())

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        net, n = network_of(learner), len(batch.y)
        level = net.level(batch.x.flatten(1))
        shown = level if self.internal else self.intensities(batch.x.flatten(1))
        of_class = one_hot(batch.y, learner.tasks.outputs).to(level)
        past = None
        if self.teacher is not None:
            past = self.replay(learner, n)
            soft = self.soft_targets(past)
            level, shown = torch.cat([level, past.level]), torch.cat([shown, past.shown])
            of_class = torch.cat([of_class, soft])
        t = batch.t if past is None else torch.cat([batch.t, past.tasks])
        features = net.features(level)
        logits = net.classify(features)
        losses = self.generative * self.autoencoder_losses(learner, features, shown, of_class, t)
        new = learner.loss_of(logits[:n], batch) + losses[:n].mean()
        if past is None:
            return new
        share = share_of_now(learner)
        old = self.entropy(learner, logits[n:], soft, past.batch) + losses[n:].mean()
        return share * new + (1 - share) * old

    def autoencoder_losses(
        self, learner: Learner, features: Tensor, shown: Tensor, of_class: Tensor, t: Tensor
    ) -> Tensor:
        """(batch,): the error of the reconstruction, and log q(z|x) − log p(z) of one latent sample, per pixel."""
        generator = network_of(learner).generator
        noise = torch.randn(len(features), self.latent, generator=self._noise).to(features.device)
        z, log_posterior = generator.encode(features, noise)
        decoded = generator.decode(z, self.gates(learner, of_class, t))
        if self.internal:
            error = 0.5 * (decoded - shown).square().mean(1)
        else:
            error = binary_cross_entropy_with_logits(decoded, shown, reduction="none").mean(1)
        return error + (log_posterior - generator.log_prior(z, of_class)) / shown.shape[1]

    def gates(self, learner: Learner, of_class: Tensor, t: Tensor) -> Tensor:
        """(batch, classes or tasks): whose masks each row has; several in parts for soft targets."""
        return of_class if self.gated_by == "class" else one_hot(t, len(learner.tasks)).to(of_class)

    def replay(self, learner: Learner, n: int) -> Replayed:
        """What the network as it was generates: n of them, or a few more in task learning."""
        assert self.teacher is not None
        past, kind = learner.task, learner.tasks.kind
        labels, t = draw_labels(learner, past, n, self._noise)
        drawn = self.generated(self.teacher, labels, t, self._noise)
        named = tuple(range(past)) if kind == "task" else (past - 1,)
        level = drawn if self.internal else self.inputs(drawn, t, tuple(range(past)))
        of_task = t if kind == "task" else torch.full_like(t, past - 1)
        return Replayed(level, drawn, Batch(level, torch.zeros_like(t), of_task, named), t)

    def generated(self, learner: Learner, labels: Tensor, t: Tensor, rng: torch.Generator) -> Tensor:
        """Images, or what the fixed layers make of them, of these classes: (n,) → (n, width)."""
        generator = network_of(learner).generator
        of_class = one_hot(labels, learner.tasks.outputs).to(generator.mean.weight)
        drawn = generator.sample(labels, self.gates(learner, of_class, t), rng)
        return drawn if self.internal else torch.sigmoid(drawn)

    @torch.no_grad()
    def soft_targets(self, past: Replayed) -> Tensor:
        """(n, all outputs): what the old network says among the outputs that were active; they sum to 1."""
        assert self.teacher is not None
        net = network_of(self.teacher)
        logits = net.classify(net.features(past.level))
        logits = logits.masked_fill(~active_outputs(self.teacher, past.batch), float("-inf"))
        if self.targets == "hard":
            return one_hot(logits.argmax(1), logits.shape[1]).to(logits)
        return torch.softmax(logits / self.temperature, 1)

    def entropy(self, learner: Learner, logits: Tensor, soft: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy between soft targets and softened outputs, over the outputs that are active now; without T²."""
        off = ~active_outputs(learner, batch)
        temperature = self.temperature if self.targets == "soft" else 1.0
        logs = torch.log_softmax(logits.masked_fill(off, float("-inf")) / temperature, 1)
        return -(soft * logs.masked_fill(off, 0.0)).sum(1).mean()

    def samples(self, learner: Learner, n: int) -> Tensor | None:
        if self.internal:  # it generates no pictures
            return None
        rng = learner.rng("samples")
        labels, t = draw_labels(learner, learner.task + 1, n, rng)
        return self.generated(learner, labels, t, rng)[:n]


def network_of(learner: Learner) -> ConditionalFeedbackNet:
    assert isinstance(learner.net, ConditionalFeedbackNet)
    return learner.net


def draw_labels(learner: Learner, past: int, n: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Classes and tasks to generate, (n,) each, for the first `past` tasks.

    Task learning: an equal part for each task, rounded up, with classes of its head. Class learning: classes seen so
    far, each with the task that it came with. Else any class and any past task.
    """
    tasks = learner.tasks
    if tasks.kind == "task":
        t = torch.arange(past).repeat_interleave(math.ceil(n / past))
        starts = torch.tensor([head.start for head in tasks.heads])[t]
        sizes = torch.tensor([head.stop for head in tasks.heads])[t] - starts
        labels = starts + (torch.rand(len(t), generator=rng) * sizes).long()
    elif tasks.kind in ("class", "class-known"):
        stops = torch.tensor([head.stop for head in tasks.heads[:past]])
        labels = torch.randint(int(stops[-1]), (n,), generator=rng)
        t = torch.searchsorted(stops, labels, right=True)
    else:
        labels = torch.randint(tasks.outputs, (n,), generator=rng)
        t = torch.randint(past, (n,), generator=rng)
    return labels.to(learner.device), t.to(learner.device)
