"""Accuracy against the memory that methods keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from engram.report.selection import finished, in_order
from engram.report.style import FigureRecipe, legend_beside, look, panels, styled
from engram.runs.records import Record
from engram.runs.setting import group_by_setting


@dataclass
class Memory(FigureRecipe):
    """Average accuracy against the bytes that a method keeps across a boundary, beyond network and optimiser.

    Every setting of a method is a point with its standard deviation over seeds; the sizes of a buffer are joined.
    """

    name = "memory"

    scenario: str = "split-mnist/class"
    """Scenario of the records."""
    methods: tuple[str, ...] = ()
    """Only these methods."""

    @styled()
    def draw(self, records: Sequence[Record]) -> Figure:
        points = points_by_method(finished(records, self.scenario))
        for method in self.methods:
            if method not in points:
                raise ValueError(f"no finished records of {method}; there are: {', '.join(sorted(points))}")
        names = self.methods or in_order(points)
        fig, (ax,) = panels(1, width=5.6, height=max(3.2, 0.4 + 0.2 * len(names)))
        fig.set_label(f"Average accuracy in percent against bytes kept: {self.scenario}")
        sizes = [kept for method in names for kept, _ in points[method] if kept]
        nothing = min(sizes, default=1) / 4  # a place on the logarithmic axis for those that keep nothing
        for method in names:
            style = look(method)
            if method == "offline":  # it keeps all data: a level, not a point
                ax.axhline(float(np.mean(points[method][0][1])), color=style.color, linestyle=":", label=style.label)
                continue
            found = sorted(points[method])
            x = [kept or nothing for kept, _ in found]
            joined = style.line if len(found) > 1 else {**style.line, "linestyle": ""}
            y, error = [np.mean(v) for _, v in found], [np.std(v) for _, v in found]
            ax.errorbar(x, y, yerr=error, label=style.label, **joined)
        ax.set_xscale("log")
        top = max(sizes, default=1) * 1.6
        ax.set_xlim(nothing / 1.6, top)
        steps = (1, 2, 5) if top < 300 * nothing else (1,)
        ticks = [step * 10.0**k for k in range(13) for step in steps]
        ax.set_xticks([nothing, *(tick for tick in ticks if nothing * 2 < tick <= top)])
        ax.minorticks_off()
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: "nothing" if x == nothing else bytes_text(x)))
        ax.set_title(self.scenario, loc="left")
        ax.set_xlabel("kept across a boundary")
        ax.set_ylabel("average accuracy in percent")
        ax.set_ylim(0, 103)
        legend_beside(fig)
        return fig


def points_by_method(records: Sequence[Record]) -> dict[str, list[tuple[int, list[float]]]]:
    """method → (bytes kept, accuracies of its seeds) for each of its settings."""
    found: dict[str, list[tuple[int, list[float]]]] = {}
    for setting, runs in group_by_setting(records).items():
        kept = max(sum(r.memory.get("kept", {}).values()) for r in runs.records)
        found.setdefault(setting.method, []).append((kept, list(runs.accuracies.values())))
    return found


def bytes_text(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:g} {unit}"
        size /= 1000
    return f"{size:g} GB"
