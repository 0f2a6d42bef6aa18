"""Figures of runs and of tables: accuracy matrices, and the rows of a study as bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from engram.report.selection import left_out, select_runs
from engram.report.style import BLACK, COLOUR_MAP, GREY, FigureRecipe, look, panels, styled
from engram.runs.records import Record
from engram.studies.catalog import find_study, results_of
from engram.studies.hsu2018.queue import stand_ins
from engram.studies.table import Cell, make_cells

Floats = NDArray[np.float64]
OURS, PUBLISHED = "ours, in the method's colour", "published"


def mean_matrix(records: Sequence[Record]) -> Floats:
    """a[i][j] averaged over runs, as a square; NaN above the diagonal."""
    size = len(records[0].accuracy[-1])
    total = np.full((len(records), len(records[0].accuracy), size), np.nan)
    for matrix, record in zip(total, records, strict=True):
        for i, row in enumerate(record.accuracy):
            matrix[i, : len(row)] = row
    mean: Floats = total.mean(axis=0)
    return mean


@dataclass
class MatrixFigure(FigureRecipe):
    """Accuracy on each task (column) after each task (row), averaged over seeds: a heat map for every method."""

    name = "matrix"

    scenario: str = "split-mnist/class"
    """Scenario of the records."""
    methods: tuple[str, ...] = ()
    """Methods, in this order; if none is named, all that have records, in the default setting if any are."""
    seeds: tuple[int, ...] = ()
    """Only these seeds."""

    @styled()
    def draw(self, records: Sequence[Record]) -> Figure:
        runs = select_runs(records, self.scenario, self.methods, self.seeds)
        others = left_out(records, self.scenario, self.seeds, runs, self.methods)
        runs = {method: found for method, found in runs.items() if len(found[0].accuracy) > 1}  # offline has one row
        if not runs:
            raise ValueError(f"no records of {self.scenario} have more than one row")
        tasks = len(next(iter(runs.values()))[0].accuracy)
        side = {True: 2.0, False: 3.4}[tasks <= 6]
        columns = min(len(runs), 4 if tasks <= 6 else 3)
        fig, axes = panels(
            columns, -(-len(runs) // columns), width=side * (1.3 if columns == 1 else 1), height=side * 1.08
        )
        fig.set_label(f"Accuracy in percent on each task after each task: {self.scenario}")
        remarks = stand_ins(record for found in runs.values() for record in found)
        fig.suptitle("\n".join([self.scenario, *remarks, *filter(None, [others])]), fontsize=8.5, color=GREY)
        for ax, (method, found) in zip(axes, runs.items(), strict=False):
            a = mean_matrix(found)
            image = ax.imshow(a, vmin=0, vmax=100, cmap=COLOUR_MAP)
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


@dataclass
class Bars(FigureRecipe):
    """The rows of a study, a panel for every column: ours as bars, published numbers as diamonds.

    Error bars are standard deviations over runs. Those of published numbers are what the paper gives.
    """

    name = "bars"

    table: str = "table2"
    """The study: a built-in table, or a TOML file."""
    rows: tuple[str, ...] = ()
    """Only these rows."""
    columns: tuple[str, ...] = ()
    """Only these columns."""

    @styled()
    def draw(self, records: Sequence[Record]) -> Figure:
        study = find_study(self.table)
        if study.first == "after task":
            raise ValueError(f"{self.table} has numbers of tasks as rows; choose a study whose rows are methods")
        found = make_cells(results_of(study, records), self.rows, self.columns)
        columns = list(dict.fromkeys(cell.column for cell in found))
        rows = list(dict.fromkeys(cell.row for cell in found))
        height = 1.0 + 0.25 * len(rows)
        fig, axes = panels(len(columns), width=2.5 if len(columns) > 1 else 4.5, height=height, sharey=True)
        published = any(cell.paper is not None for cell in found)
        fig.set_label(f"{study.title}: average accuracy in percent" + (", ours and published" if published else ""))
        for ax, column in zip(axes, columns, strict=True):
            ax.set_title(study.columns[column].title or column)
            ax.set_xlabel("average accuracy in percent")
            ax.set_xlim(0, 104)
            ax.set_xticks(range(0, 101, 25))
            ax.grid(axis="y", visible=False)
            for cell in (cell for cell in found if cell.column == column):
                draw_bar(ax, rows.index(cell.row), cell, study.rows[cell.row].method)
        axes[0].set_yticks(range(len(rows)), [study.row_title(row) for row in rows])
        axes[0].set_ylim(len(rows) - 0.4, -0.6)
        for ax in axes:
            ax.tick_params(axis="y", length=0)
        if published:
            diamond = Line2D([], [], linestyle="", marker="d", markerfacecolor="white", markeredgecolor=BLACK)
            bar = Patch(facecolor="#BBBBBB", edgecolor=BLACK, linewidth=0.6)
            fig.legend([diamond, bar], [PUBLISHED, OURS], loc="outside lower center", ncols=2)
        return fig


def draw_bar(ax: Axes, place: int, cell: Cell, method: str) -> None:
    """Our mean as a bar, the published one as a diamond, with their spreads."""
    if cell.ours is not None:
        error = cell.std if cell.n > 1 else None
        ax.barh(place, cell.ours, height=0.7, label=OURS, **look(method).bar)
        ax.errorbar(cell.ours, place + 0.18, xerr=error, fmt="none", ecolor=BLACK, elinewidth=1)
    if cell.paper is not None:
        ax.errorbar(cell.paper, place - 0.12, xerr=cell.paper_std or None, fmt="d", color=BLACK, zorder=3,
                    markerfacecolor="white", markeredgecolor=BLACK, markersize=5, label=PUBLISHED)  # fmt: skip
