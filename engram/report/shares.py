"""The share of each task, or of each class, along a stream."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from numpy.typing import NDArray

from engram.report.style import BLACK, BLUE, BROWN, GREY, PALETTE
from engram.scenarios.stream import outputs_of
from engram.scenarios.task import Tasks

SHARE_BINS = 80
"""Stretches that a stream is cut into."""
BATCH = 16
"""Images per step; only where the stream depends on it does it change the picture."""
LEAST_LABELLED = 0.12
"""A band below this share has no room for a number."""
FEW_BINS = 20
"""With at most so many, each band of each is numbered; with more, each band once."""

DARK = (BLACK, BLUE, BROWN, GREY)
"""Colours that black numbers cannot be read on."""


class Shares(NamedTuple):
    """What a stream shows, from its first image to its last."""

    parts: str
    """What is counted: tasks or outputs."""
    edges: NDArray[np.float64]  # (bins + 1,): images shown so far
    values: NDArray[np.float64]  # (bins, parts): they add up to 1


def shares_along(tasks: Tasks) -> Shares | None:
    """The share of each task if boundaries are not told, of each output if there is one task, or if classes come back
    to a head that has them already; None if a picture would show blocks only."""
    if not tasks.only_classes:
        return None
    lengths = [len(task.train) for task in tasks]
    task = torch.arange(len(tasks)).repeat_interleave(torch.tensor(lengths))
    output = torch.cat([outputs_of(one.train).cpu() for one in tasks])
    if tasks.stream is not None:
        rows = tasks.stream.plan(tasks, lengths, BATCH).rows
        shown, parts = (output, "output") if len(tasks) == 1 else (task, "task")
        return count_shares(parts, shown[rows], np.linspace(0, len(rows), min(SHARE_BINS, len(rows)) + 1))
    if tasks.kind in ("class", "class-known") and classes_return(tasks):
        return count_shares("output", output, np.concatenate([[0], np.cumsum(lengths)]).astype(np.float64))
    return None


def classes_return(tasks: Tasks) -> bool:
    sets = [set(torch.unique(outputs_of(task.train)).tolist()) for task in tasks]
    return sum(map(len, sets)) > len(set().union(*sets))


def count_shares(parts: str, shown: torch.Tensor, edges: NDArray[np.float64]) -> Shares:
    count = int(shown.max()) + 1
    cuts = edges.round().astype(np.int64)
    counts = np.stack([np.bincount(shown[a:b].numpy(), minlength=count) for a, b in pairwise(cuts)])
    return Shares(parts, edges, counts / counts.sum(1, keepdims=True))


def draw_shares(ax: Axes, shares: Shares) -> None:
    """Bands that add up to 1, with the number of each task, from 1, or of each output, from 0."""
    colors = [*PALETTE, GREY, BROWN]
    tops = np.cumsum(shares.values, axis=1)
    first = 1 if shares.parts == "task" else 0
    middles = (shares.edges[1:] + shares.edges[:-1]) / 2
    for part in range(shares.values.shape[1]):
        bottom, top = tops[:, part] - shares.values[:, part], tops[:, part]
        color = colors[part % len(colors)]
        ax.stairs(top, shares.edges, baseline=bottom, fill=True, facecolor=color, edgecolor="white", linewidth=0.2)
        ink = "white" if color in DARK else BLACK
        for at in labelled_bins(shares.values[:, part]):
            place = (middles[at], (bottom[at] + top[at]) / 2)
            ax.text(*place, str(part + first), fontsize=7, color=ink, ha="center", va="center")
    ax.set_xlim(0, shares.edges[-1])
    ax.set_ylim(0, 1)
    ax.set_yticks([0, 1])
    ax.grid(False)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.tick_params(labelsize=8)
    ax.set_xlabel("images shown", fontsize=8)
    ax.set_ylabel(f"share of each\n{shares.parts}", fontsize=8)


def labelled_bins(values: NDArray[np.float64]) -> list[int]:
    """Bins in which a part's number is written: where its share is largest in each stretch that it is in, of several
    such bins the middle one."""
    large = values >= LEAST_LABELLED
    if len(values) <= FEW_BINS:
        return np.flatnonzero(large).tolist()
    changes = np.flatnonzero(np.diff(np.concatenate([[False], large, [False]]).astype(np.int64)))
    found = []
    for start, end in changes.reshape(-1, 2):
        largest = np.flatnonzero(values[start:end] >= 0.97 * values[start:end].max())
        found.append(int(start + largest[len(largest) // 2]))
    return found
