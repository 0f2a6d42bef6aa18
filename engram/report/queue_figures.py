"""Figures 3, 4 and 5 of the paper: average accuracy along the queue of 78 tasks. Penalties have a new optimiser for
each task, as in Tables 5 and 6."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from engram.report.style import BLUE, GREY, ORANGE, Look, legend_beside, look, panels, styled
from engram.runs.records import Record
from engram.studies.hsu2018.long_queue import (
    HEADS,
    OPTIMISERS,
    PENALTIES,
    WEIGHTS,
    Runs,
    Setting,
    averages,
    curve,
    remarks,
)

NETS = {"mlp": "table5", "cnn": "table6"}
MARKED = [*range(0, 78, 10), 77]
"""Markers stand where Tables 5 and 6 have rows."""
LOOKS: dict[str, Look] = {
    "si/best": replace(look("si"), label="SI, best weight"),
    "online-ewc/best": replace(look("online-ewc"), label="Online EWC, best weight"),
    "adagrad": look("adagrad"),
    "si/worst": replace(look("si"), label="SI, worst weight"),
    "online-ewc/worst": replace(look("online-ewc"), label="Online EWC, worst weight"),
    "adam": look("adam"),
}


class Pictured:
    """Records as curves, with what has to be said of them."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.runs = Runs(records)
        self.drawn: list[Record] = []

    def of(self, setting: Setting) -> list[Record]:
        return self.keep(self.runs.done(setting, self.runs.scenario([setting])))

    def column(self, net: str, name: str) -> list[Record]:
        return self.keep(self.runs.column(net, name).runs)

    def keep(self, found: list[Record]) -> list[Record]:
        """What stands in for something in these runs is said above the figure."""
        self.drawn += found
        return found

    def finish(self, fig: Figure, axes: Sequence[Axes], columns: int, *, legend: int) -> Figure:
        """Axes that all panels share, the legend below them, and the remarks above."""
        for place, ax in enumerate(axes):
            if not ax.lines:
                ax.text(0.5, 0.5, "no records", transform=ax.transAxes, ha="center", va="center", color=GREY)
            ax.set_xlim(-0.5, 79.5)
            ax.set_xticks([1, 11, 21, 31, 41, 51, 61, 71, 78])
            if place % columns == 0:
                ax.set_ylabel("average accuracy in percent")
            if place >= len(axes) - columns:
                ax.set_xlabel("tasks learned")
        said = ["; ".join(remarks(self.drawn))]
        if any(record.spec.get("training", {}).get("reset_optimizer") for record in self.drawn):
            said.append(f"SI and online EWC have {OPTIMISERS[True]}")
        fig.suptitle("\n".join(filter(None, said)), fontsize=8.5, color=GREY)
        legend_beside(fig, below=True, columns=legend)
        return fig


def draw(ax: Axes, records: Sequence[Record], style: Look, **line: Any) -> None:
    """The mean over runs, and the population deviation around it where there are several."""
    if not records:
        return
    tasks, mean = range(1, len(records[0].accuracy) + 1), curve(records)
    ax.plot(tasks, mean, label=style.label, markevery=[i for i in MARKED if i < len(mean)], **style.line | line)
    if len(records) > 1:
        spread = [statistics.pstdev(values) for values in zip(*map(averages, records), strict=True)]
        low, high = ([m + sign * s for m, s in zip(mean, spread, strict=True)] for sign in (-1, 1))
        # under the label of its curve, so that both go away together on the page
        ax.fill_between(tasks, low, high, color=style.color, alpha=0.15, linewidth=0, label=style.label)


def several(*curves: Sequence[Record]) -> str:
    """How many runs the curves of a panel are made of."""
    counts = sorted({len(records) for records in curves if records}, reverse=True)
    return f" (n={' and '.join(map(str, counts))})" if counts else ""


def refuse_nothing(found: bool, table: str) -> None:
    if not found:
        raise ValueError(f"no records of the long queue; engram reproduce {table} makes them")


@dataclass
class Figure3:
    """Average accuracy against the number of tasks, for the MLP and the CNN: SI and online EWC at their best and their
    worst weight (solid), Adam and Adagrad (dashed). Bands are the population deviation over seeds."""

    @styled()
    def draw(self, records: Sequence[Record]) -> Figure:
        pictured = Pictured(records)
        found = {net: {column: pictured.column(net, column) for column in LOOKS} for net in NETS}
        found = {net: columns for net, columns in found.items() if any(columns.values())}
        refuse_nothing(bool(found), "table5")
        fig, axes = panels(len(found), width=4.2, height=3.4, sharey=True)
        fig.set_label("Average accuracy along the queue of 78 tasks")
        for ax, (net, columns) in zip(axes, found.items(), strict=True):
            ax.set_title(net.upper() + several(*columns.values()))
            for column, runs in columns.items():
                hollow = {"markerfacecolor": "white", "alpha": 0.75} if column.endswith("worst") else {}
                draw(ax, runs, LOOKS[column], **hollow)
        return pictured.finish(fig, axes, len(axes), legend=3 if len(axes) > 1 else 2)


@dataclass
class Figure4:
    """Sensitivity to the weight of the penalty: SI and online EWC, random and zero heads, a curve a weight."""

    net: Literal["mlp", "cnn"] = "mlp"
    """Network; the paper's figure has the MLP."""

    @styled()
    def draw(self, records: Sequence[Record]) -> Figure:
        pictured = Pictured(records)
        fig, axes = panels(2, 2, width=4.2, height=3.0, sharex=True, sharey=True)
        fig.set_label(f"Average accuracy along the queue of 78 tasks by the weight of the penalty, {self.net.upper()}")
        shades = matplotlib.colormaps["viridis"].resampled(len(WEIGHTS) + 1)  # its steps are told apart more easily
        some = False
        for ax, (method, heads) in zip(axes, [(m, h) for m in PENALTIES for h in HEADS], strict=True):
            found = {weight: pictured.of(Setting(method, weight, self.net, heads, reset=True)) for weight in WEIGHTS}
            for place, (weight, runs) in enumerate(found.items()):
                style = Look(f"weight {weight:g}", matplotlib.colors.to_hex(shades(place)), "osD^vP"[place])
                draw(ax, runs, style)
            ax.set_title(f"{look(method).label}, {heads} heads{several(*found.values())}")
            some = some or any(found.values())
        refuse_nothing(some, f"{NETS[self.net]} --heads both")
        return pictured.finish(fig, axes, 2, legend=6)


@dataclass
class Figure5:
    """Sensitivity to the initialisation of the heads: SI and online EWC at weights 1, 0.1 and 0.01, random against
    zero heads."""

    net: Literal["mlp", "cnn"] = "mlp"
    """Network; the paper's figure has the MLP."""

    @styled()
    def draw(self, records: Sequence[Record]) -> Figure:
        pictured = Pictured(records)
        fig, axes = panels(3, 2, width=3.2, height=2.8, sharex=True, sharey=True)
        fig.set_label(f"Average accuracy along the queue of 78 tasks by the initial heads, {self.net.upper()}")
        styles = {"random": Look("random heads", BLUE, "o"), "zero": Look("zero heads", ORANGE, "s", "--")}
        some = False
        for ax, (method, weight) in zip(axes, [(m, w) for m in PENALTIES for w in (1.0, 0.1, 0.01)], strict=True):
            found = {heads: pictured.of(Setting(method, weight, self.net, heads, reset=True)) for heads in HEADS}
            for heads, runs in found.items():
                draw(ax, runs, styles[heads])
            ax.set_title(f"{look(method).label}, weight {weight:g}{several(*found.values())}")
            some = some or any(found.values())
        refuse_nothing(some, f"{NETS[self.net]} --heads both")
        return pictured.finish(fig, axes, 3, legend=2)
