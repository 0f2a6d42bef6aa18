"""Schematics of scenarios: samples (x, y, t) of each task, the heads, and P(Y) over the outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import tyro
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from engram.report.shares import draw_shares, shares_along
from engram.report.style import BLACK, BROWN, GREY, PALETTE, FigureRecipe, styled
from engram.runs.records import Record
from engram.scenarios.create import scenario
from engram.scenarios.names import parse_name
from engram.scenarios.stream import outputs_of
from engram.scenarios.task import Data, Task, Tasks
from engram.studies.hsu2018.queue import STAND_INS

KIND_TITLES = {
    "task": "Incremental task learning",
    "domain": "Incremental domain learning",
    "class": "Incremental class learning",
    "class-known": "Incremental class learning,\nnumber of classes known",
    "iid": "Non-incremental learning",
}
MOST_SAMPLES = 30
"""Images per task that a figure can show."""
MANY_HEADS = 20
"""Beyond this number of heads, boxes around each would hide everything else."""
HEAD_TITLES = {
    "task": "a head for each task; t chooses it",
    "domain": "one head, shared by all tasks",
    "class": "one head that grows with the classes",
    "class-known": "one head, complete from the start",
    "iid": "one head",
}


@dataclass
class ScenarioFigure(FigureRecipe):
    """Any scenario: samples (x, y, t) of each task, the heads, and P(Y) over the outputs.

    Below, for streams without boundaries and for classes that come back: the share of each task or output along the
    stream.
    """

    name = "scenario"

    scenario: tyro.conf.Positional[str] = "split-mnist/class"
    """The scenario: split-cifar10/task, say."""
    tasks: int = 5
    """Tasks to show at most: the first ones and the last."""
    samples: int = 4
    """Images per task."""
    seed: int = 0
    """Draws class orders, permutations and samples."""

    def draw(self, records: Sequence[Record]) -> Figure:
        fig = draw_kinds([self.scenario], self.tasks, self.samples, self.seed)
        remarks = [STAND_INS[name] for name in [self.scenario] if name in STAND_INS]
        fig.suptitle("\n".join([self.scenario, *remarks]), fontsize=8.5, color=GREY)
        return fig


@dataclass
class Figure1(FigureRecipe):
    """Figure 1 of Hsu et al.: task, domain and class learning made from Split MNIST."""

    name = "figure1"

    def draw(self, records: Sequence[Record]) -> Figure:
        return draw_kinds([f"split-mnist/{kind}" for kind in ("task", "domain", "class")], tasks=5, samples=2)


@dataclass
class Figure2(FigureRecipe):
    """Figure 2 of Hsu et al.: task, domain and class learning made from Permuted MNIST."""

    name = "figure2"

    def draw(self, records: Sequence[Record]) -> Figure:
        return draw_kinds([f"permuted-mnist/{kind}" for kind in ("task", "domain", "class")], tasks=4, samples=2)


@styled()
def draw_kinds(names: Sequence[str], tasks: int, samples: int, seed: int = 0) -> Figure:
    """Scenarios side by side, a row for every task that is shown."""
    if not (tasks >= 1 and 1 <= samples <= MOST_SAMPLES):
        raise ValueError(f"tasks {tasks}, samples {samples}: give 1 or more of each, {MOST_SAMPLES} samples at most")
    found = [scenario(name).tasks(seed) for name in names]
    rows = first_and_last(len(found[0]), tasks)
    width = 0.62 * samples + 2.6
    height, shares = 0.75 + 0.92 * len(rows), shares_along(found[0]) if len(found) == 1 else None
    below = 1.3 if shares else 0.0
    fig = Figure(figsize=(width * len(names), height + below), layout="constrained")
    fig.set_label(f"Samples, heads and label distributions of {', '.join(names)}")
    if shares:
        (upper,), (lower,) = fig.subfigures(2, 1, squeeze=False, height_ratios=[height, below])
        draw_shares(lower.subplots(), shares)
        parts = [upper]
    else:
        parts = list(fig.subfigures(1, len(names), squeeze=False, wspace=0.05).flat)
    for part, name, drawn in zip(parts, names, found, strict=True):
        draw_kind(part, name, drawn, rows, samples)
    return fig


def first_and_last(tasks: int, most: int) -> list[int]:
    """The first tasks and the last."""
    return list(range(tasks)) if tasks <= most else [*range(most - 1), tasks - 1]


def draw_kind(part: SubFigure, name: str, tasks: Tasks, rows: list[int], samples: int) -> None:
    kind = parse_name(name).kind
    part.suptitle(f"{KIND_TITLES[kind]}\n{HEAD_TITLES[kind]}", fontsize=9.5)
    axes = part.subplots(len(rows), samples + 1, squeeze=False, width_ratios=[1] * samples + [3.2])
    between = ", " if tasks.outputs <= 10 and rows[-1] < 9 else "\n"  # one line would run into the next sample's
    for row, (at, index) in zip(axes, enumerate(rows), strict=True):
        for ax, (image, y) in zip(row[:-1], draw_samples(tasks, tasks[index], samples), strict=False):
            ax.imshow(image, cmap="gray", vmin=0, vmax=255)
            ax.set_xlabel(f"y={y}{between}t={index + 1}", fontsize=8, labelpad=2)
        for ax in row[:-1]:
            ax.set_xticks([])
            ax.set_yticks([])
            ax.grid(False)
            ax.spines[:].set_visible(False)
        label = f"task {index + 1}" if at == 0 or rows[at - 1] == index - 1 else f"⋮\ntask {index + 1}"
        row[0].set_ylabel(label, fontsize=8.5, rotation=0, ha="right", va="center", labelpad=4)
        draw_outputs(row[-1], tasks, tasks[index], rows)
    axes[0, -1].set_title("P(Y)", fontsize=9)


def draw_samples(tasks: Tasks, task: Task, count: int) -> list[tuple[NDArray[np.uint8], int]]:
    """Images as stored, permuted if the task is, class by class; y counts from the head's first output."""
    y = drawn_outputs(task.train)
    head = tasks.heads[task.index]
    classes = torch.unique(y)
    picked = [
        int(rows[i // len(classes)])
        for i in range(count)
        if len(rows := (y == classes[i % len(classes)]).nonzero()[:, 0]) > i // len(classes)
    ]
    if len(tasks.shape) != 3:
        raise ValueError("samples can be drawn from images only, and these data are other arrays")
    channels, height, width = tasks.shape
    x = task.train.pixels(torch.tensor(picked)).reshape(-1, channels, height, width).numpy()
    first = head.start if tasks.kind == "task" else 0
    images = [image[0] if channels == 1 else image.transpose(1, 2, 0) for image in x]
    return [(image, int(y[row]) - first) for image, row in zip(images, picked, strict=True)]


def drawn_outputs(data: Data) -> torch.Tensor:
    """The output of every image, without reading pixels."""
    found = outputs_of(data)
    if found.ndim > 1:
        raise ValueError("a schematic shows classes, and some of these tasks have values or labels")
    return found


def draw_outputs(ax: Axes, tasks: Tasks, task: Task, rows: list[int]) -> None:
    """A bar for every output, as high as it is frequent in the task; heads as boxes, the outputs in play filled."""
    n = tasks.outputs
    top = 1.15 * max(float(frequencies(tasks, tasks[row]).max()) for row in rows)
    heads = list(dict.fromkeys((h.start, h.stop) for h in tasks.heads)) if tasks.kind == "task" else [(0, n)]
    active = tasks.active(task.index, task.index)
    draw_box(ax, active.start, active.stop, top, facecolor="#E8E8E8", edgecolor="none", zorder=0)
    for start, stop in heads if len(heads) <= MANY_HEADS else [(0, n), (active.start, active.stop)]:
        solid = tasks.kind != "task" or (start, stop) == (active.start, active.stop)
        draw_box(ax, start, stop, top, facecolor="none", linestyle="-" if solid else ":")
    edge = 0.3 if n <= 20 else 0
    ax.bar(np.arange(n), frequencies(tasks, task), color=output_colors(n), edgecolor=BLACK, linewidth=edge)
    ax.set_xlim(-0.6, n - 0.4)
    ax.set_ylim(0, top * 1.02)
    ax.set_yticks([])
    ax.grid(False)
    ax.spines[:].set_visible(False)
    ax.tick_params(axis="x", length=0, pad=1)
    ax.set_xticks([])
    if task.index != rows[-1]:
        return
    if tasks.kind == "task" and n > 10:
        few = heads[:: -(-len(heads) // 10)]
        ax.set_xticks([(start + stop - 1) / 2 for start, stop in few], [str(heads.index(head) + 1) for head in few])
        ax.set_xlabel("head", fontsize=8)
    elif tasks.kind == "task":  # outputs count anew in every head
        ax.set_xticks(range(n), [str(t - start) for start, stop in heads for t in range(start, stop)])
        ax.set_xlabel("output, in its head", fontsize=8)
    else:
        ticks = range(n) if n <= 10 else range(0, n, -(-n // 10))
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.set_xlabel("output", fontsize=8)


def frequencies(tasks: Tasks, task: Task) -> NDArray[np.float64]:
    """P(Y) of a task's training images over all outputs."""
    counts = torch.bincount(drawn_outputs(task.train), minlength=tasks.outputs).numpy()
    found: NDArray[np.float64] = counts / counts.sum()
    return found


def draw_box(ax: Axes, start: int, stop: int, top: float, **look: Any) -> None:
    place, width = (start - 0.46, 0), stop - start - 0.08
    ax.add_patch(Rectangle(place, width, top, clip_on=False, **{"edgecolor": GREY, "linewidth": 0.9, **look}))


def output_colors(n: int) -> list[str]:
    """A colour for every output; neighbours differ."""
    colors = [*PALETTE, GREY, BROWN]
    return [colors[i % len(colors)] for i in range(n)]
