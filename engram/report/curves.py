"""Curves: accuracy from task to task, and within tasks, which shows the stability gap."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from engram.report.selection import left_out, select_runs
from engram.report.style import GREY, FigureRecipe, legend_beside, look, panels, styled
from engram.runs.records import Record


@dataclass
class Curves(FigureRecipe):
    """Average accuracy against tasks, mean and standard deviation over seeds; --within: the stability gap.

    With `within`, accuracy on the first and on the current task inside every task instead: a fall after a boundary
    that is recovered later is the stability gap (De Lange et al., 2023). It needs runs with `--evaluate-every`.
    """

    name = "curves"

    scenario: str = "split-mnist/class"
    """Scenario of the records."""
    methods: tuple[str, ...] = ()
    """Methods, in this order; if none is named, all that have records, in the default setting if any are."""
    seeds: tuple[int, ...] = ()
    """Only these seeds."""
    within: bool = False
    """Inside tasks rather than at their ends."""

    @styled()
    def draw(self, records: Sequence[Record]) -> Figure:
        if self.within:
            records = [r for r in records if r.curve and len(r.accuracy) > 1]  # offline has nothing inside
            if not records:
                raise ValueError("no record has a curve within tasks; make some with engram run … --evaluate-every 10")
        runs = select_runs(records, self.scenario, self.methods, self.seeds)
        fig = (draw_within if self.within else draw_between)(runs, self.scenario)
        if others := left_out(records, self.scenario, self.seeds, runs, self.methods):
            fig.supxlabel(others, fontsize=7.5, color=GREY)
        return fig


def draw_between(runs: dict[str, list[Record]], scenario: str) -> Figure:
    fig, (ax,) = panels(1, width=5.6, height=max(3.0, 0.4 + 0.2 * len(runs)))
    fig.set_label(f"Average accuracy over seen tasks in percent: {scenario}")
    for method, found in runs.items():
        style = look(method)
        if len(found[0].accuracy) == 1:  # offline: all tasks at once
            level = statistics.fmean(statistics.fmean(record.accuracy[0]) for record in found)
            ax.axhline(level, color=style.color, linestyle=style.dash, label=style.label)
            continue
        means = np.array([[np.mean(row) for row in record.accuracy] for record in found])  # (seeds, tasks)
        x = np.arange(1, means.shape[1] + 1)
        many = means.shape[1] > 20
        line = {**style.line, **({"marker": ""} if many else {})}
        ax.plot(x, means.mean(0), label=style.label, **line)
        if len(found) > 1:
            low, high = means.mean(0) - means.std(0), means.mean(0) + means.std(0)
            ax.fill_between(x, low, high, color=style.color, alpha=0.15, linewidth=0, label=style.label)
    ax.set_title(scenario, loc="left")
    ax.set_xlabel("tasks learned")
    ax.set_ylabel("average accuracy in percent")
    ax.set_ylim(0, 103)
    tasks = max(len(found[0].accuracy[-1]) for found in runs.values())
    if tasks <= 20:
        ax.set_xticks(range(1, tasks + 1))
    legend_beside(fig)
    return fig


def draw_within(runs: dict[str, list[Record]], scenario: str) -> Figure:
    fig, axes = panels(1, 2, width=6.6, height=2.3, sharex=True)
    fig.set_label(f"Accuracy inside tasks in percent: {scenario}")
    for method, found in runs.items():
        if len({tuple((at["task"], at["step"]) for at in record.curve) for record in found}) > 1:
            raise ValueError(
                f"runs of {method} in {scenario} were evaluated after different steps; choose one by --seeds"
            )
        style = look(method)
        label = f"{style.label} (gap {statistics.fmean(stability_gap(record) for record in found):.1f})"
        for ax, which in zip(axes, ("first", "current"), strict=True):
            values = np.mean([[at[which] for at in record.curve] for record in found], axis=0)
            ax.plot(
                tasks_learned(found[0]), values, color=style.color, linestyle=style.dash, linewidth=1.2, label=label
            )
    tasks = int(max(at["task"] for record in next(iter(runs.values())) for at in record.curve))
    for ax, title in zip(axes, ("on the first task", "on the task being learned"), strict=True):
        ax.set_title(title, loc="left")
        ax.set_ylim(-2, 103)
        ax.set_xlim(0, tasks)
        ax.grid(axis="x", visible=False)
        for boundary in range(1, tasks):
            ax.axvline(boundary, color=GREY, linewidth=0.8, linestyle=":")
    axes[0].set_xticks([])
    axes[1].set_xticks([task + 0.5 for task in range(tasks)], [f"task {task + 1}" for task in range(tasks)])
    axes[1].tick_params(axis="x", length=0)
    fig.supylabel("accuracy in percent", fontsize=9)
    legend_beside(fig, axes[:1])
    return fig


def tasks_learned(record: Record) -> list[float]:
    """Each evaluation inside a task as tasks learned: methods with other numbers of steps share the boundaries."""
    last: dict[float, float] = {}
    for at in record.curve:
        last[at["task"]] = at["step"]
    begins = dict(zip(last, (0.0, *last.values()), strict=False))  # the last evaluation of the task before
    return [
        at["task"] - 1 + (at["step"] - begins[at["task"]]) / (last[at["task"]] - begins[at["task"]])
        for at in record.curve
    ]


def stability_gap(record: Record) -> float:
    """The stability gap of the first task: how far it falls inside a later task below both its ends, on average."""
    falls = []
    for task in range(2, len(record.accuracy) + 1):
        lowest = min((at["first"] for at in record.curve if at["task"] == task), default=None)
        if lowest is not None:
            ends = min(record.accuracy[task - 2][0], record.accuracy[task - 1][0])
            falls.append(max(0.0, ends - lowest))
    return statistics.fmean(falls) if falls else 0.0
