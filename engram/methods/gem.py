"""Gradient episodic memory, as in the paper's row: it rehearses and projects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import quadprog
import torch
from numpy.typing import NDArray
from torch import Tensor

from engram.learning.learner import Learner, Params
from engram.learning.method import Log
from engram.methods.rehearsal import Rehearsal
from engram.scenarios.task import Batch, Task

RIDGE = 1e-3
"""Added to the Gram matrix's diagonal (Lopez-Paz & Ranzato's code)."""


@dataclass
class GEM(Rehearsal):
    """Every step's gradient is turned so that it opposes no past task's (Lopez-Paz & Ranzato, 2017).

    As the authors ran it: the memory is trained on as in naive rehearsal *and* the gradient is projected, with plain
    SGD, and every task has two slots of the memory. Paper row: "GEM". The method as published is `gem-textbook`.
    """

    capacity: int = 1100
    """Images in the memory, for the whole sequence."""
    mixing: Literal["shuffled", "balanced"] = "shuffled"
    """As in naive rehearsal; not searched here, the margin is."""
    margin: Annotated[float, Log(0.05, 5.0)] = 0.5
    """Least weight of every past gradient where the gradient is turned."""
    slots_per_task: int = 2
    """Constraints a task; the authors' code of the paper's time filled two slots a task, today's one."""
    memory_batch: int = 0
    """Images of the memory that a step looks at, over all slots; 0: all of them."""

    working = ("inputs", "matrix")
    optimizer = "sgd"
    turn = 2  # what is turned is the whole step

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
            parameters = sum(p.numel() for p in learner.params)
            self.matrix = torch.empty(len(self._sizes), parameters, device=learner.device)
            self._rng = learner.rng("memory batch")

    @torch.no_grad()
    def adjust_gradients(self, learner: Learner, batch: Batch) -> None:
        if self.inputs is None or self.matrix is None:
            return
        memory, sizes = self.inputs, self._sizes
        if self.memory_batch:
            memory, sizes = self.drawn(memory, sizes)
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
    """The gradient of each slot's mean loss, a row each. One pass where the network tells its layers' part."""
    taps = getattr(learner.net, "taps", None)
    ends = np.cumsum(sizes).tolist()
    if taps is None:
        for row, (n, end) in enumerate(zip(sizes, ends, strict=True)):
            rows = slice(end - n, end)
            slot = Batch(memory.x[rows], memory.y[rows], memory.t[rows], memory.tasks)
            fill(out[row], learner.gradients(slot))
        return
    share = torch.repeat_interleave(torch.tensor([ends[-1] / n for n in sizes]), torch.tensor(sizes))
    layers = taps(memory.x, lambda logits: learner.loss_and_delta(logits, memory)[1] * share[:, None].to(logits.device))
    for row, (n, end) in enumerate(zip(sizes, ends, strict=True)):
        rows = slice(end - n, end)
        fill(out[row], [part for a, g in layers for part in (g[rows].t().mm(a[rows]), g[rows].sum(0))])


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
