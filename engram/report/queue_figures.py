"""Figures 3, 4 and 5 of Hsu et al. (2018): average accuracy along the queue of 78 tasks.

Penalties have a new optimiser for each task, as in Tables 5 and 6.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from engram.report.style import BLUE, GREY, ORANGE, FigureRecipe, Look, legend_beside, look, panels, styled
from engram.runs.records import Record
from engram.studies.catalog import built_in_study
from engram.studies.hsu2018.queue import (
    COEFFICIENTS,
    HEAD_INITS,
    OPTIMISERS,
    PENALTY_METHODS,
    QUEUES,
    QueueResults,
    averages,
    mean_curve,
    queue_setting,
    stand_ins,
)

TABLE_OF_NET = {"mlp": "hsu2018/table5", "cnn": "hsu2018/table6"}
MARKED = [*range(0, 78, 10), 77]
"""Markers stand at the rows of Tables 5 and 6."""


def column_looks() -> dict[str, Look]:
    """The columns of Tables 5 and 6, in the order of the legend."""
    of_penalties = {
        f"{method}/{pick}": replace(look(method), label=f"{look(method).label}, {pick} coefficient")
        for pick in ("best", "worst")
        for method in PENALTY_METHODS
    }
    best, worst = ({c: s for c, s in of_penalties.items() if c.endswith(pick)} for pick in ("best", "worst"))
    return {**best, "adagrad": look("adagrad"), **worst, "adam": look("adam")}


class QueueCurves:
    """Records as curves, with what there is to say of them."""

    def __init__(self, records: Sequence[Record]) -> None:
        tables = {net: built_in_study(name) for net, name in TABLE_OF_NET.items()}
        self.results = {net: QueueResults(table, records) for net, table in tables.items()}
        self.drawn: list[Record] = []

    def of(self, net: str, method: str, coef: float, heads: str) -> list[Record]:
        """The runs of a penalty with a new optimiser for each task; on the first queue that has some."""
        settings = [queue_setting(scenario, method, coef, net, heads, reset=True) for scenario in QUEUES.values()]
        found = (self.results[net].finished(setting) for setting in settings)
        return self.keep(next((runs for runs in found if runs), []))

    def column(self, net: str, name: str) -> list[Record]:
        return self.keep(list(self.results[net].column_runs(name).records))

    def keep(self, found: list[Record]) -> list[Record]:
        """Remembers the runs: what stands in for something in them is said above the figure."""
        self.drawn += found
        return found

    def finish(self, fig: Figure, axes: Sequence[Axes], columns: int, *, legend: int) -> Figure:
        """Adds the axes that all panels share, the legend below, and the remarks above."""
        for place, ax in enumerate(axes):
            if not ax.lines:
                ax.text(0.5, 0.5, "no records", transform=ax.transAxes, ha="center", va="center", color=GREY)
            ax.set_xlim(-0.5, 79.5)
            ax.set_xticks([1, 11, 21, 31, 41, 51, 61, 71, 78])
            if place % columns == 0:
                ax.set_ylabel("average accuracy in percent")
            if place >= len(axes) - columns:
                ax.set_xlabel("tasks learned")
        remarks = ["; ".join(stand_ins(self.drawn))]
        if any(record.spec.get("training", {}).get("reset_optimizer") for record in self.drawn):
            remarks.append(f"SI and online EWC have {OPTIMISERS[True]}")
        fig.suptitle("\n".join(filter(None, remarks)), fontsize=8.5, color=GREY)
        legend_beside(fig, below=True, columns=legend)
        return fig


def draw_curve(ax: Axes, records: Sequence[Record], style: Look, **line: Any) -> None:
    """The mean over runs, and the standard deviation around it if there are several."""
    if not records:
        return
    tasks, mean = range(1, len(records[0].accuracy) + 1), mean_curve(records)
    ax.plot(tasks, mean, label=style.label, markevery=[i for i in MARKED if i < len(mean)], **style.line | line)
    if len(records) > 1:
        spread = [statistics.pstdev(values) for values in zip(*map(averages, records), strict=True)]
        low, high = ([m + sign * s for m, s in zip(mean, spread, strict=True)] for sign in (-1, 1))
        # under the label of its curve: in HTML both are switched off together
        ax.fill_between(tasks, low, high, color=style.color, alpha=0.15, linewidth=0, label=style.label)


def runs_text(*curves: Sequence[Record]) -> str:
    """How many runs the curves of a panel are made of."""
    counts = sorted({len(records) for records in curves if records}, reverse=True)
    return f" (n={' and '.join(map(str, counts))})" if counts else ""


def check_some(found: bool, table: str) -> None:
    if not found:
        raise ValueError(f"no records of the long queue; engram reproduce {table} makes them")


@dataclass
class Figure3(FigureRecipe):
    """Figure 3 of Hsu et al., the long queue: SI and online EWC at their best and worst coefficient, Adam, Adagrad.

    Average accuracy against the number of tasks, for the MLP and the CNN. Bands are standard deviations over seeds.
    """

    name = "figure3"

    @styled()
    def draw(self, records: Sequence[Record]) -> Figure:
        curves, looks = QueueCurves(records), column_looks()
        found = {net: {column: curves.column(net, column) for column in looks} for net in TABLE_OF_NET}
        found = {net: columns for net, columns in found.items() if any(columns.values())}
        check_some(bool(found), TABLE_OF_NET["mlp"])
        fig, axes = panels(len(found), width=4.2 if len(found) > 1 else 4.8, height=3.4, sharey=True)
        fig.set_label("Average accuracy along the queue of 78 tasks")
        for ax, (net, columns) in zip(axes, found.items(), strict=True):
            ax.set_title(net.upper() + runs_text(*columns.values()))
            for column, runs in columns.items():
                hollow = {"markerfacecolor": "white", "alpha": 0.75} if column.endswith("worst") else {}
                draw_curve(ax, runs, looks[column], **hollow)
        return curves.finish(fig, axes, len(axes), legend=3 if len(axes) > 1 else 2)


@dataclass
class Figure4(FigureRecipe):
    """Figure 4 of Hsu et al., the long queue: sensitivity to the coefficient of SI and online EWC, by initial heads."""

    name = "figure4"

    net: Literal["mlp", "cnn"] = "mlp"
    """Network; the paper's figure has the MLP."""

    @styled()
    def draw(self, records: Sequence[Record]) -> Figure:
        curves = QueueCurves(records)
        fig, axes = panels(2, 2, width=4.2, height=3.0, sharex=True, sharey=True)
        fig.set_label(f"Average accuracy along the queue of 78 tasks by the coefficient, {self.net.upper()}")
        steps = matplotlib.colormaps["viridis"].resampled(len(COEFFICIENTS) + 1)  # its steps are told apart more easily
        some = False
        for ax, (method, heads) in zip(axes, [(m, h) for m in PENALTY_METHODS for h in HEAD_INITS], strict=True):
            found = {coef: curves.of(self.net, method, coef, heads) for coef in COEFFICIENTS}
            for place, (coef, runs) in enumerate(found.items()):
                style = Look(f"coefficient {coef:g}", matplotlib.colors.to_hex(steps(place)), "osD^vP"[place])
                draw_curve(ax, runs, style)
            ax.set_title(f"{look(method).label}, {heads} heads{runs_text(*found.values())}")
            some = some or any(found.values())
        check_some(some, f"{TABLE_OF_NET[self.net]} --heads both")
        return curves.finish(fig, axes, 2, legend=6)


@dataclass
class Figure5(FigureRecipe):
    """Figure 5 of Hsu et al., the long queue: random against zero heads, SI and online EWC at three coefficients."""

    name = "figure5"

    net: Literal["mlp", "cnn"] = "mlp"
    """Network; the paper's figure has the MLP."""

    @styled()
    def draw(self, records: Sequence[Record]) -> Figure:
        curves = QueueCurves(records)
        fig, axes = panels(3, 2, width=3.2, height=2.8, sharex=True, sharey=True)
        fig.set_label(f"Average accuracy along the queue of 78 tasks by the initial heads, {self.net.upper()}")
        styles = {"random": Look("random heads", BLUE, "o"), "zero": Look("zero heads", ORANGE, "s", "--")}
        some = False
        for ax, (method, coef) in zip(axes, [(m, c) for m in PENALTY_METHODS for c in (1.0, 0.1, 0.01)], strict=True):
            found = {heads: curves.of(self.net, method, coef, heads) for heads in HEAD_INITS}
            for heads, runs in found.items():
                draw_curve(ax, runs, styles[heads])
            ax.set_title(f"{look(method).label}, coefficient {coef:g}{runs_text(*found.values())}")
            some = some or any(found.values())
        check_some(some, f"{TABLE_OF_NET[self.net]} --heads both")
        return curves.finish(fig, axes, 3, legend=2)
