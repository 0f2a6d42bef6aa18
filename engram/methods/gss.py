"""Gradient-based sample selection, greedy form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from engram.learning import fast
from engram.learning.fisher import per_sample_gradients
from engram.learning.learner import Learner, in_eval_mode
from engram.learning.method import Log
from engram.methods._stored import StoredReplay, check_image_count, join_batches
from engram.scenarios.task import Batch, Tasks

Factors = list[tuple[Tensor, Tensor]]
"""Pairs (a, δ) with a row per image, such that ⟨g_i, g_j⟩ = Σ over pairs of (δ_i·δ_j)(a_i·a_j)."""
FIRST_SCORE = 0.1
"""Score of the first batch, which there is nothing to compare with."""
MOST_FLOATS = 1 << 29
"""Gradients of single images that are formed at a time, for networks without a closed form: 2 GB."""


@dataclass
class GSS(StoredReplay):
    """Gradient-based sample selection: the buffer prefers images whose gradients differ (Aljundi et al., 2019).

    The greedy form, as in the code of Buzzega et al. (2020).
    """

    title = "GSS"
    family = "rehearsal"
    look = ("orange", "^", "--")

    comparisons: Annotated[int, Log(8, 128)] = 128
    """Stored images whose gradients those of the new batch are compared with."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_image_count("comparisons", self.comparisons)

    def extra(self, outputs: int) -> dict[str, int]:
        return {"score": 1}

    def start(self, learner: Learner, tasks: Tasks) -> None:
        images = learner.training.batch + min(self.comparisons, self.capacity)
        parameters = sum(p.numel() for p in learner.params)
        if not fast.has_closed_form(learner.net) and images * parameters > MOST_FLOATS:
            raise ValueError(
                f"GSS forms the gradients of {images} single images, and the network has {parameters:,} parameters: "
                f"{4 * images * parameters / 1e9:.1f} GB; lower comparisons or batch, or choose the mlp or a smaller "
                "network"
            )
        super().start(learner, tasks)

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        return learner.loss(join_batches(batch, self.buffer.draw(self.replay)))

    @torch.no_grad()
    def after_step(self, learner: Learner, batch: Batch) -> None:
        """Offers the batch; gradients are those after the step."""
        scores = torch.full((len(batch.y),), FIRST_SCORE, device=batch.x.device)
        places = dict(enumerate(range(min(self.capacity - len(self.buffer), len(batch.y))), len(self.buffer)))
        if len(self.buffer):
            order = torch.randperm(len(self.buffer), generator=learner.rng("comparisons"))[: self.comparisons]
            stored = self.buffer.batch(order.to(batch.x.device))
            with in_eval_mode(learner.net):
                new, old = (single_gradients(learner, images) for images in (batch, stored))
            products = inner_products(new, old)  # (new, stored)
            lengths = squared_lengths(old).sqrt()
            together = score_of(products.mean(0) / inner_products(new, new).mean().sqrt() / lengths)
            scores.fill_(together)
            if len(places) < len(batch.y) and together < 1:
                alone = score_of(products / squared_lengths(new).sqrt()[:, None] / lengths)
                scores[len(places) :] = alone[len(places) :]
                self._replace(learner, scores, places)
        elif len(places) < len(batch.y):  # one batch is more than the buffer holds
            self._replace(learner, scores, places)
        self.buffer.put(batch, places, score=scores[:, None])

    def _replace(self, learner: Learner, scores: Tensor, places: dict[int, int]) -> None:
        """Offers the rows that found no empty slot: each challenges a slot, drawn in proportion to the scores."""
        rng, first = learner.rng("buffer"), len(places)
        held = torch.empty(self.capacity)
        if len(self.buffer):
            held[: len(self.buffer)] = self.buffer.columns["score"][: len(self.buffer), 0].cpu()
        offered = scores.cpu()
        for slot, row in places.items():
            held[slot] = offered[row]
        for row in range(first, len(offered)):
            if not held.any():  # every slot is opposed to all that it was compared with
                return
            slot = int(torch.multinomial(held, 1, generator=rng))
            if torch.rand((), generator=rng) < held[slot] / (held[slot] + offered[row]):
                held[slot], places[slot] = offered[row], row


def score_of(cosines: Tensor) -> Tensor:
    """1 + the largest cosine with a stored image, (…, stored) → (…): 0 is opposed to all of them, 2 like one."""
    return (1 + cosines.amax(-1)).clamp(min=0)


def single_gradients(learner: Learner, batch: Batch) -> Factors:
    """The gradient of each image's own loss, as factors: of every layer of the MLP, of other networks in one piece."""

    def delta(logits: Tensor) -> Tensor:
        return fast.loss_and_delta(learner, logits, batch)[1] * len(batch.y)

    if fast.has_closed_form(learner.net):
        layers = fast.layer_gradients(learner.net, batch.x, delta)
        return [(torch.cat([a, a.new_ones(len(a), 1)], 1), g) for a, g in layers]  # a bias is a weight of input 1
    gradients = per_sample_gradients(learner.net, learner.inputs(batch.x, batch.t), delta)
    whole = torch.cat([g.flatten(1) for g in gradients], 1)
    return [(whole, whole.new_ones(len(whole), 1))]


def inner_products(one: Factors, other: Factors) -> Tensor:
    """(n, m): ⟨g_i, g_j⟩ for all pairs of images."""
    return torch.stack([(d @ e.t()) * (a @ b.t()) for (a, d), (b, e) in zip(one, other, strict=True)]).sum(0)


def squared_lengths(factors: Factors) -> Tensor:
    """(n,): ‖g_i‖²."""
    return torch.stack([d.square().sum(1) * a.square().sum(1) for a, d in factors]).sum(0)
