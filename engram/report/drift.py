"""Drift along a stream: how far P(X) and P(Y) of each task are from the first task and from the task before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tyro
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from engram.report.style import BLUE, GREY, ORANGE, RED, FigureRecipe, legend_beside, panels, styled
from engram.runs.records import Record
from engram.scenarios.categorize import IMAGE_TEST_ALPHA, LABEL_SHIFT, Category
from engram.scenarios.create import scenario
from engram.scenarios.look import categorize_tasks

FROM_FIRST, FROM_PREVIOUS = "from the first task", "from the task before"


@dataclass
class DriftFigure(FigureRecipe):
    """P(X) and P(Y) along a scenario: distances from the first task and from the task before."""

    name = "drift"

    scenario: tyro.conf.Positional[str] = "split-mnist/class"
    """The scenario: rotated-mnist/domain, say."""
    seed: int = 0
    """Draws class orders, permutations and samples."""

    @styled()
    def draw(self, records: Sequence[Record]) -> Figure:
        found = categorize_tasks(scenario(self.scenario).tasks(self.seed))
        fig = draw_drift(found)
        fig.suptitle(f"{self.scenario}: {found.kind}", fontsize=9.5)
        fig.set_label(f"Drift of images and labels along {self.scenario}")
        return fig


def draw_drift(found: Category) -> Figure:
    """Two panels: the energy distance between images, and the total variation distance between labels."""
    fig, (left, right) = panels(2)
    pairs = found.pairs
    draw_panel(left, found.drift.x, [pair.energy for pair in pairs], [pair.x_differs for pair in pairs])
    left.set_title("P(X)")
    left.set_ylabel("energy distance, input units")
    left.axhline(0, color=GREY, linewidth=0.8)
    draw_panel(right, found.drift.y, [pair.total_variation for pair in pairs], [pair.y_differs for pair in pairs])
    right.set_title("P(Y)")
    right.set_ylabel("total variation distance")
    right.set_ylim(-0.04, 1.04)
    right.axhline(LABEL_SHIFT, color=GREY, linewidth=0.8, linestyle=":", label=f"labels differ above {LABEL_SHIFT}")
    legend_beside(fig, below=True, columns=2)
    return fig


def draw_panel(ax: Axes, from_first: Sequence[float], from_previous: Sequence[float], differs: Sequence[bool]) -> None:
    """Both distances by task; a change that counts is ringed."""
    numbers = range(2, len(from_first) + 1)
    ax.plot(range(1, len(from_first) + 1), from_first, color=BLUE, marker="o", label=FROM_FIRST)
    ax.plot(numbers, from_previous, color=ORANGE, marker="s", linestyle="--", label=FROM_PREVIOUS)
    ringed = [(n, value) for n, value, differ in zip(numbers, from_previous, differs, strict=True) if differ]
    if ringed:
        ax.plot(*zip(*ringed, strict=True), linestyle="none", marker="o", markersize=10, markerfacecolor="none",
                color=RED, label=f"differs from the task before (images: p ≤ {IMAGE_TEST_ALPHA})")  # fmt: skip
    ax.set_xlabel("task")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
