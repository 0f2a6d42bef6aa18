"""Figures from records: accuracy matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from engram.experiments.records import Record
from engram.report.style import MAP, look, panels, styled
from engram.report.tables import TITLES

Floats = NDArray[np.float64]


def chosen(
    records: Sequence[Record], scenario: str, methods: Sequence[str] = (), seeds: Sequence[int] = ()
) -> dict[str, list[Record]]:
    """Finished records of a scenario by method, a seed once: methods as asked for, else all in print's order.

    Where runs of a method are published settings, those are meant; else all runs of it.
    """
    found: dict[str, dict[int, Record]] = {}
    done = [r for r in records if r.scenario == scenario and r.status == "done" and (not seeds or r.seed in seeds)]
    published = {r.method for r in done if r.preset == f"{scenario} {r.method}"}
    for record in done:
        if record.method not in published or record.preset == f"{scenario} {record.method}":
            found.setdefault(record.method, {}).setdefault(record.seed, record)
    if not found:
        there = ", ".join(sorted({r.scenario for r in records if r.status == "done"})) or "none at all"
        raise ValueError(f"no finished records of {scenario} among those given; there are: {there}")
    for method in methods:
        if method not in found:
            raise ValueError(f"no finished records of {method} in {scenario}; there are: {', '.join(sorted(found))}")
    order = list(TITLES)
    names = methods or sorted(found, key=lambda m: (order.index(m) if m in order else len(order), m))
    return {method: list(found[method].values()) for method in names}


def mean_matrix(records: Sequence[Record]) -> Floats:
    """a[i][j] averaged over runs, as a square; above the diagonal, where nothing was measured, NaN."""
    size = len(records[0].accuracy[-1])
    total = np.full((len(records), len(records[0].accuracy), size), np.nan)
    for matrix, record in zip(total, records, strict=True):
        for i, row in enumerate(record.accuracy):
            matrix[i, : len(row)] = row
    mean: Floats = total.mean(axis=0)
    return mean


@dataclass
class Matrix:
    """Accuracy on each task (column) after each task (row), averaged over seeds, a heat map for every method."""

    scenario: str = "split-mnist/class"
    """Scenario of the records."""
    methods: tuple[str, ...] = ()
    """Methods, in this order; all that have records where none is named."""
    seeds: tuple[int, ...] = ()
    """Only these seeds."""

    @styled()
    def draw(self, records: Sequence[Record]) -> Figure:
        runs = chosen(records, self.scenario, self.methods, self.seeds)
        runs = {method: found for method, found in runs.items() if len(found[0].accuracy) > 1}  # offline has one row
        if not runs:
            raise ValueError(f"no records of {self.scenario} have more than one row")
        tasks = len(next(iter(runs.values()))[0].accuracy)
        side = {True: 2.0, False: 3.4}[tasks <= 6]
        columns = min(len(runs), 4 if tasks <= 6 else 3)
        fig, axes = panels(columns, -(-len(runs) // columns), width=side, height=side * 1.08)
        fig.set_label(f"Accuracy in percent on each task after each task: {self.scenario}")
        for ax, (method, found) in zip(axes, runs.items(), strict=False):
            a = mean_matrix(found)
            image = ax.imshow(a, vmin=0, vmax=100, cmap=MAP)
            ax.set_title(f"{look(method).label}" + (f" (n={len(found)})" if len(found) > 1 else ""), fontsize=9)
            ax.grid(False)
            ax.spines[:].set_visible(False)
            ticks = range(tasks) if tasks <= 10 else range(0, tasks, -(-tasks // 8))
            ax.set_xticks(ticks, [str(t + 1) for t in ticks])
            ax.set_yticks(ticks, [str(t + 1) for t in ticks])
            ax.tick_params(length=0)
            if tasks <= 10:
                for (i, j), value in np.ndenumerate(a):
                    if np.isfinite(value):
                        ax.text(j, i, f"{value:.0f}", ha="center", va="center", fontsize=8,
                                color="white" if value < 55 else "black")  # fmt: skip
        for ax in axes[len(runs) :]:
            ax.set_visible(False)
        fig.colorbar(image, ax=axes, shrink=0.8, pad=0.02, label="accuracy in percent")
        fig.supxlabel("tested on task", fontsize=9)
        fig.supylabel("after learning task", fontsize=9)
        return fig
