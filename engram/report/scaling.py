"""How cost grows, as `engram bench --scaling` measured it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from engram.report.style import BLACK, GREY, FigureRecipe, legend_beside, look, panels, styled
from engram.runs.records import Record


@dataclass
class ScalingFigure(FigureRecipe):
    """Time per step over hidden units, tasks and images in a buffer, and runs over workers, as measured."""

    name = "scaling"

    measured: Path = Path("benchmarks/scaling.json")
    """What `engram bench --scaling --json` printed."""

    @styled()
    def draw(self, records: Sequence[Record]) -> Figure:
        found = read_measurements(self.measured)
        fig, (hidden, tasks, capacity, workers) = panels(2, 2, width=3.6, height=2.6)
        about = found["machine"]
        fig.set_label(f"How cost grows: {found['scenario']} on {about['cpu']}, {about['cores']} cores")
        draw_hidden(hidden, found["hidden"])
        for one in found["tasks"]:
            style = look(one["method"])
            numbers = range(1, len(one["ratios"]) + 1)
            tasks.plot(numbers, one["ratios"], label=style.label, **{**style.line, "markersize": 3})
        label_axes(tasks, "task", "a step, in steps of Adam", 0)
        for method in dict.fromkeys(one["method"] for one in found["capacity"]):
            points = [one for one in found["capacity"] if one["method"] == method]
            style = look(method)
            x, y = [one["capacity"] for one in points], [one["ratio"] for one in points]
            capacity.plot(x, y, label=style.label, **style.line)
        capacity.set_xscale("log")
        label_axes(capacity, "images in the buffer", "a step, in steps of Adam", 0)
        x = [one["workers"] for one in found["workers"]]
        workers.plot(x, [one["runs"] / one["seconds"] for one in found["workers"]], color=BLACK, marker="o")
        workers.set_xticks(x)
        label_axes(workers, f"workers, on {about['cores']} cores", "short runs per second", 0)
        legend_beside(fig)
        return fig


def draw_hidden(ax: Axes, points: list[dict[str, Any]]) -> None:
    """Time of a step, and the peak memory on the right."""
    x = [one["hidden"] for one in points]
    ax.plot(x, [one["step_ms"] for one in points], color=BLACK, marker="o", label="time")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set_xticks(x, [str(units) for units in x])
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    label_axes(ax, "units in each of two hidden layers", "ms per step of Adam")
    beside = ax.twinx()
    beside.plot(x, [one["peak_mb"] for one in points], color=GREY, marker="s", linestyle="--", label="peak memory")
    beside.set_ylabel("peak memory in MB", color=GREY)
    beside.set_ylim(bottom=0)
    beside.grid(False)


def label_axes(ax: Axes, x: str, y: str, bottom: float | None = None) -> None:
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    if bottom is not None:
        ax.set_ylim(bottom=bottom)


def read_measurements(path: Path) -> dict[str, Any]:
    """The file of measurements; a ValueError if it is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist; make it with engram bench --scaling --json > {path}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    missing = {"machine", "scenario", "hidden", "tasks", "capacity", "workers"} - set(
        found if isinstance(found, dict) else ()
    )
    if missing:
        raise ValueError(
            f"{path} has no {', '.join(sorted(missing))}; it should be what engram bench --scaling --json prints"
        )
    return dict(found)
