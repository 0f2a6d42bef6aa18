"""The sensitivity plot of a search: accuracy of the trials along each searched value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from engram.report.style import legend_beside, look, panels, styled
from engram.runs.records import Record
from engram.search.ledger import best, deduplicate

AXIS_TITLES = {"lr": "learning rate", "coef": "coefficient of the penalty"}


@styled()
def sensitivity(records: Sequence[Record]) -> Figure:
    """A panel for each value that was searched, a line for each method, a ring around each winner.

    Trials that diverged or failed are crosses at the bottom. If choices were searched too, each has its line.
    """
    trials = [r for r in deduplicate(records) if r.search["stage"] == "trial" and r.search["point"]]
    if not trials:
        raise ValueError("there are no trials of a search among the records")
    by_axis: dict[str, list[Record]] = {}
    for trial in trials:
        by_axis.setdefault(along(trial)[0].rpartition(".")[2], []).append(trial)
    fig, axes = panels(len(by_axis), height=3.0, sharey=True)
    for ax, (name, group) in zip(axes, by_axis.items(), strict=True):
        for method in dict.fromkeys(r.method for r in group):
            draw_trials(ax, method, [r for r in group if r.method == method])
        ax.set_xscale("log")
        ax.set_xlabel(AXIS_TITLES.get(name, name.replace("_", " ")))
    on = "held-out" if trials[0].search["selected_on"] == "holdout" else "test"
    axes[0].set_ylabel(f"average accuracy (%), {on} images")
    fig.set_label(f"Sensitivity of the methods in {trials[0].scenario}")
    legend_beside(fig)
    return fig


def along(trial: Record) -> tuple[str, Any, str]:
    """(name of the value that a line runs along, the value, the others as text): the last axis is a range."""
    *others, (name, value) = trial.search["point"].items()
    return name, value, ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for _, v in others)


def draw_trials(ax: Any, method: str, trials: Sequence[Record]) -> None:
    winner = best(trials)
    for number, other in enumerate(dict.fromkeys(along(r)[2] for r in trials)):
        points = sorted((r for r in trials if along(r)[2] == other), key=lambda r: float(along(r)[1]))
        done = [r for r in points if r.status == "done"]
        style = look(method).line | ({"markerfacecolor": "white"} if number else {})
        label = look(method).label + (f", {other}" if other else "")
        ax.plot([along(r)[1] for r in done], [r.average_accuracy for r in done], label=label, **style)
        bad = [along(r)[1] for r in points if r.status != "done"]
        if bad:
            ax.plot(bad, [0.02] * len(bad), "x", color=style["color"], transform=ax.get_xaxis_transform())
    if winner is not None:
        ring = {"marker": "o", "markersize": 11, "markerfacecolor": "none", "markeredgecolor": look(method).color}
        ax.plot([along(winner)[1]], [winner.average_accuracy], linestyle="none", **ring)
