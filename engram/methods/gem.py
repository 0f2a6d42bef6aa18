"""Gradient episodic memory, as in the paper's row: it rehearses and projects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import quadprog
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from engram.learning import fast
from engram.learning.learner import Learner, Params
from engram.learning.method import Log
from engram.methods.rehearsal import Rehearsal
from engram.scenarios.task import Batch, Task

RIDGE = 1e-3
"""Added to the Gram matrix's diagonal (Lopez-Paz & Ranzato's code)."""


@dataclass
class GEM(Rehearsal):
    """The gradient of each step is projected so that it opposes that of no past task (Lopez-Paz & Ranzato, 2017).

    As Hsu et al. ran it: the memory is trained on as in naive rehearsal *and* the gradient is projected, with plain
    SGD, and every task has two slots of the memory. Paper row: "GEM". The method as published is `gem-textbook`.
    """

    title = "GEM"
    family = "gradient memory"
    look = ("blue", "P", "--")
    equal_memory = True

    capacity: int = 1100
    """Images in the memory, for the whole sequence."""
    mixing: Literal["shuffled", "balanced"] = "shuffled"
    """As in naive rehearsal; not searched here, because the margin is."""
    margin: Annotated[float, Log(0.05, 5.0)] = 0.5
    """Smallest coefficient that each past gradient has in a projected one."""
    slots_per_task: int = 2
    """Constraints per task; the authors' code of the paper's time filled two slots per task, today's one."""
    memory_batch: int = 0
    """Images of the memory that a step uses, over all slots; 0: all of them."""

    working = ("inputs", "matrix")
    optimizer = "sgd"
    gradient_stage = "project"  # the whole step is projected

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("margin", 0), ("slots_per_task", 1), ("memory_batch", 0)):
            if not least <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} {getattr(self, name)} is out of range; give {least} or more")

    def slots(self) -> int:
        return self.slots_per_task

    def begin_task(self, learner: Learner, task: Task) -> None:
        self.inputs: Batch | None = None
        self.matrix: Tensor | None = None
        slots = self.filled()
        if slots:
            memory = self.memory()
            self.inputs = memory.batch(torch.arange(len(memory), device=learner.device))
            self._sizes = [len(slot) for slot in slots]
            self._rng = learner.rng("memory batch")
            if not (self.memory_batch and fast.has_closed_form(learner.net)):
                parameters = sum(p.numel() for p in learner.params)
                self.matrix = torch.empty(len(self._sizes), parameters, device=learner.device)

    @torch.no_grad()
    def adjust_gradients(self, learner: Learner, batch: Batch) -> None:
        if self.inputs is None:
            return
        memory, sizes = self.inputs, self._sizes
        if self.memory_batch:
            memory, sizes = self.drawn(memory, sizes)
        memory = learner.augment(memory)
        if self.matrix is None:
            project_factors(learner.params, factors(learner, memory, sizes), sizes, self.margin)
            return
        past_gradients(learner, memory, sizes, self.matrix)
        gradient = torch.cat([p.grad.flatten() for p in learner.params if p.grad is not None])
        turned = project(gradient, self.matrix, self.margin)
        if turned is not None:
            start = 0
            for p in learner.params:
                p.grad = turned[start : start + p.numel()].view_as(p)
                start += p.numel()

    def drawn(self, memory: Batch, sizes: list[int]) -> tuple[Batch, list[int]]:
        """Some images of every slot."""
        share = max(self.memory_batch // len(sizes), 1)
        rows, start = [], 0
        for n in sizes:
            rows.append(start + torch.randperm(n, generator=self._rng)[:share])
            start += n
        chosen = torch.cat(rows).to(memory.x.device)
        some = Batch(memory.x[chosen], memory.y[chosen], memory.t[chosen], memory.tasks)
        return some, [len(r) for r in rows]


def past_gradients(learner: Learner, memory: Batch, sizes: list[int], out: Tensor) -> None:
    """The gradient of each slot's mean loss, a row each; in closed form, for all slots at once, if there is one."""
    ends = np.cumsum(sizes).tolist()
    if not fast.has_closed_form(learner.net):
        for row, (n, end) in enumerate(zip(sizes, ends, strict=True)):
            rows = slice(end - n, end)
            slot = Batch(memory.x[rows], memory.y[rows], memory.t[rows], memory.tasks)
            fill(out[row], learner.gradients(slot))
        return
    layers = factors(learner, memory, sizes)
    for row, (n, end) in enumerate(zip(sizes, ends, strict=True)):
        rows = slice(end - n, end)
        fill(out[row], [part for a, g in layers for part in (g[rows].t().mm(a[rows]), g[rows].sum(0))])


def factors(learner: Learner, memory: Batch, sizes: list[int]) -> list[tuple[Tensor, Tensor]]:
    """Inputs a and gradients δ of each layer, (images, …): a slot's gradient is the sum of δ aᵀ over its images."""
    share = torch.repeat_interleave(torch.tensor([sum(sizes) / n for n in sizes]), torch.tensor(sizes))

    def delta(logits: Tensor) -> Tensor:
        return fast.loss_and_delta(learner, logits, memory)[1] * share[:, None].to(logits.device)

    assert fast.has_closed_form(learner.net)
    return fast.layer_gradients(learner.net, memory.x, delta)


def fill(row: Tensor, gradients: Params) -> None:
    start = 0
    for g in gradients:
        row[start : start + g.numel()] = g.flatten()
        start += g.numel()


def project(gradient: Tensor, past: Tensor, margin: float) -> Tensor | None:
    """The nearest direction that, up to the ridge, opposes no row of `past`; None where none is opposed."""
    products = past @ gradient
    if not bool((products < 0).any()):
        return None
    v = dual(past @ past.t(), products, margin)
    return gradient + past.t() @ v


def project_factors(params: Params, layers: list[tuple[Tensor, Tensor]], sizes: list[int], margin: float) -> None:
    """`project` of the gradients at hand, where images are few: products of past gradients from their factors alone.

    ⟨Σ δ aᵀ, Σ δ' a'ᵀ⟩ = Σ Σ ⟨δ, δ'⟩ ⟨a, a'⟩, and a bias is a weight whose input is 1.
    """
    owners = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)).to(layers[0][0].device)
    slots = nn.functional.one_hot(owners).T.to(layers[0][0])  # (slots, images)
    gradients = [p.grad for p in params if p.grad is not None]
    parts = list(zip(layers, gradients[::2], gradients[1::2], strict=True))
    products = slots @ torch.stack([(d.mm(weight) * a).sum(1) + d @ bias for (a, d), weight, bias in parts]).sum(0)
    if not bool((products < 0).any()):
        return
    kernel = slots.new_zeros(len(owners), len(owners))  # (images, images)
    for a, d in layers:
        kernel.addcmul_(d @ d.t(), (a @ a.t()).add_(1))
    v = dual(slots @ kernel @ slots.t(), products, margin)
    for (a, d), weight, bias in parts:
        push = d * v[owners, None]
        weight.addmm_(push.t(), a)
        bias.add_(push.sum(0))


def dual(gram: Tensor, products: Tensor, margin: float) -> Tensor:
    """min ½ vᵀ(GGᵀ + ridge · I)v + (Gg)ᵀv with v ≥ margin."""
    p = gram.double().cpu().numpy()
    p = 0.5 * (p + p.T) + RIDGE * np.eye(len(p))
    q = products.double().cpu().numpy()
    scale = float(np.trace(p)) / len(p)  # the same minimum, in numbers that the solver's tolerances are made for
    p, q = p / scale, q / scale
    try:
        v = solve(p, q, margin)
    except ValueError:  # rounding of the products left the Gram matrix a negative eigenvalue
        values, vectors = np.linalg.eigh(p)
        v = solve(vectors * np.clip(values, 1e-6, None) @ vectors.T, q, margin)
    return torch.from_numpy(v).to(products)


def solve(p: NDArray[np.float64], q: NDArray[np.float64], margin: float) -> NDArray[np.float64]:
    found: NDArray[np.float64] = quadprog.solve_qp(p, -q, np.eye(len(p)), np.full(len(p), margin))[0]
    return found
