"""Functional regularisation of the memorable past."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from engram.learning import fast
from engram.learning.buffer import Rule
from engram.learning.fisher import CHUNK, Delta, fisher, per_sample_gradients
from engram.learning.learner import Learner, Params, in_eval_mode
from engram.learning.method import Log
from engram.methods._frozen import sum_type
from engram.methods._stored import KeepsImages, check_coefficients
from engram.scenarios.task import Batch, Task, Tasks

HELD_FLOATS = 1 << 24
"""Entries of scaled Jacobians of an MLP that are formed at a time: 128 MB in double precision."""
MOST_ENTRIES = 1 << 28
"""Entries of Jacobians that may be formed for other networks: 1 GB."""


@dataclass
class FROMP(KeepsImages):
    """Functional regularisation of the memorable past: keeps the outputs on a few images per task (Pan et al., 2020).

    In the form of van de Ven et al. (2022).
    """

    title = "FROMP"
    family = "rehearsal"
    look = ("purple", "P", ":")

    capacity: int = 1000
    """Images in the buffer, equally many for every task and class."""
    tau: Annotated[float, Log(1e-3, 1e5)] = 1.0
    """Coefficient of the distance to old outputs."""
    prior: float = 1e-3
    """What is added to the Fisher information before it is inverted."""
    jitter: float = 1e-6
    """What is added to the diagonal of each kernel before it is inverted."""
    largest: float = 1.0
    """Norm that the gradient of each step is clipped to, in the first task as well; 0: it is not clipped."""

    kept = ("buffer", "information")
    working = ("old", "inverses")
    needs = frozenset({"boundaries", "past data"})
    gradient_stage = "project"
    sized_by_budget = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_coefficients(tau=self.tau, largest=self.largest)
        for name in ("prior", "jitter"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} {getattr(self, name)} is out of range; give a number above 0")

    def rule(self) -> Rule:
        return "ring"  # it is never overfull

    def start(self, learner: Learner, tasks: Tasks) -> None:
        share, classes = self.capacity // len(tasks), max(len(task.classes) for task in tasks)
        if share < classes:
            raise ValueError(
                f"capacity {self.capacity} leaves {share} images for each of {len(tasks)} tasks, which have {classes} "
                f"classes; give {classes * len(tasks)} or more"
            )
        entries = share * sum(p.numel() for p in learner.params)
        if not fast.has_closed_form(learner.net) and entries > MOST_ENTRIES:
            raise ValueError(
                f"FROMP forms the Jacobian of {share} images and {entries // share:,} parameters, which takes "
                f"{4 * entries / 1e9:.1f} GB; lower capacity, or choose the mlp or a smaller network"
            )
        super().start(learner, tasks)
        self.information: Params = [torch.zeros_like(p) for p in learner.params]
        """Diagonal Fisher information, summed over all images of the past."""

    def kept_bytes(self, net: nn.Module, pixels: int) -> int:
        parameters = sum(p.numel() * p.element_size() for p in net.parameters() if p.requires_grad)
        return super().kept_bytes(net, pixels) + parameters

    @torch.no_grad()
    def begin_task(self, learner: Learner, task: Task) -> None:
        """The outputs on the images of each past task as they are now, and how much they matter."""
        t = self.buffer.columns["t"][: len(self.buffer)] if len(self.buffer) else torch.zeros(0)
        self._memories: list[Batch] = []
        self.old: list[Tensor] = []  # (images, outputs): probabilities
        self.inverses: list[Tensor] = []  # (outputs, images, images)
        variances = [1 / (f + self.prior) for f in self.information]
        with in_eval_mode(learner.net):
            for past in sorted(set(t.tolist())):
                batch = self.buffer.batch((t == past).nonzero().squeeze(1))
                batch = batch._replace(tasks=(int(past),))
                outputs = learner.active(int(past))
                self._memories.append(batch)
                self.old.append(torch.softmax(learner.logits(batch.x, batch.t)[:, outputs], 1))
                kernels = probability_kernels(learner, batch, outputs, variances)
                kernels.diagonal(dim1=1, dim2=2).add_(self.jitter)
                inverses = torch.cholesky_inverse(torch.linalg.cholesky(kernels))
                self.inverses.append(inverses.to(batch.x.device, torch.float32))

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        """½ (p − p_old)ᵀ K⁻¹ (p − p_old) for some images of each past task, with their block of the whole inverse."""
        loss = learner.loss(batch)
        if not self._memories or not self.tau:
            return loss
        most = math.ceil(learner.training.batch / len(self._memories))
        rng = learner.rng("memorable past")
        drawn = [torch.randperm(len(m.y), generator=rng)[:most].to(learner.device) for m in self._memories]
        x, t = (
            torch.cat([getattr(m, name)[rows] for m, rows in zip(self._memories, drawn, strict=True)])
            for name in ("x", "t")
        )
        with in_eval_mode(learner.net):
            logits = torch.split(learner.logits(x, t), [len(rows) for rows in drawn])
        distance = loss.new_zeros(())
        for memory, rows, own, old, inverses in zip(
            self._memories, drawn, logits, self.old, self.inverses, strict=True
        ):
            moved = torch.softmax(own[:, learner.active(memory.tasks[0])], 1) - old[rows]  # (images, outputs)
            block = inverses[:, rows][:, :, rows]
            distance = distance + 0.5 * torch.einsum("if,fij,jf->", moved, block, moved)
        return loss + self.tau * distance

    def adjust_gradients(self, learner: Learner, batch: Batch) -> None:
        if self.largest:
            nn.utils.clip_grad_norm_(learner.params, self.largest)

    @torch.no_grad()
    def end_task(self, learner: Learner, task: Task) -> None:
        rows = self.memorable(learner, task)
        self.buffer.add(task.train.batch(rows))
        if task.index + 1 < len(learner.tasks):
            for total, mean in zip(self.information, fisher(learner, task.train, "exact"), strict=True):
                total.add_(mean, alpha=len(task.train))

    def memorable(self, learner: Learner, task: Task) -> Tensor:
        """The images of each class with the largest Σ p (1 − p): those that the network is least sure of."""
        parts = []
        with in_eval_mode(learner.net):
            for part in task.train.chunks(CHUNK):
                p = torch.softmax(learner.logits(part.x, part.t)[:, learner.active(task.index)], 1)
                parts.append(((p - p.square()).sum(1), part.y))
        unsure, labels = (torch.cat(part) for part in zip(*parts, strict=True))
        each = self.capacity // len(learner.tasks) // len(task.classes)
        rows = []
        for label in sorted(set(labels.tolist())):
            own = (labels == label).nonzero().squeeze(1)
            rows.append(own[unsure[own].argsort(descending=True, stable=True)[:each]])
        return torch.cat(rows)


def probability_kernels(learner: Learner, batch: Batch, outputs: slice, variances: Params) -> Tensor:
    """J_f diag(v) J_fᵀ for each active output f, J_f being the Jacobian of its probability: (outputs, n, n).

    In double precision: what is added to its diagonal is far below the rounding of single precision.
    """
    net, found = learner.net, []
    kind = sum_type(batch.x.device)
    device = torch.device("cpu") if kind == torch.float32 else batch.x.device  # Apple's GPUs have no double precision
    inputs = learner.inputs(batch.x, batch.t)
    for output in range(outputs.stop - outputs.start):
        total = torch.zeros(len(batch.y), len(batch.y), dtype=torch.float64, device=device)
        delta = probability_delta(outputs, output)
        if fast.has_closed_form(net):
            scaled = mlp_pieces(fast.layer_gradients(net, inputs[0].flatten(1), delta), variances)
        else:
            scaled = (
                g.flatten(1) * v.sqrt().flatten()
                for g, v in zip(per_sample_gradients(net, inputs, delta), variances, strict=True)
            )
        for piece in scaled:  # (images, some parameters)
            rows = piece.to(device, torch.float64)
            total += rows @ rows.t()
        found.append(total)
    return torch.stack(found)


def probability_delta(outputs: slice, output: int) -> Delta:
    """Gradient at the logits of the probability of one of the active outputs: p_f (1[c = f] − p_c)."""

    def delta(logits: Tensor) -> Tensor:
        p = torch.softmax(logits[:, outputs], 1)
        own = -p[:, output : output + 1] * p
        own[:, output] += p[:, output]
        everywhere = torch.zeros_like(logits)
        everywhere[:, outputs] = own
        return everywhere

    return delta


def mlp_pieces(layers: list[tuple[Tensor, Tensor]], variances: Params) -> Iterator[Tensor]:
    """The Jacobian of an MLP's parameters times the root of their variances, some units at a time: (images, some).

    A weight's gradient is an outer product; inputs and units whose values are 0 for all images are left out.
    """
    for (a, g), weight, bias in zip(layers, variances[::2], variances[1::2], strict=True):
        yield g * bias.sqrt()
        units, inputs = g.any(0).nonzero().squeeze(1), a.any(0).nonzero().squeeze(1)
        for some in torch.split(units, max(1, HELD_FLOATS // max(1, len(a) * len(inputs)))):
            outer = g[:, some, None] * a[:, None, inputs]
            yield (outer * weight[some][:, inputs].sqrt()).flatten(1)
