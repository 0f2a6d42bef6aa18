"""A figure as one HTML file: curves switch on and off by their legend entries, values show under the pointer."""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.legend import Legend
from matplotlib.lines import Line2D

POINTS_PER_INCH = 72
"""Of an SVG by matplotlib."""


def interactive_page(fig: Figure) -> str:
    """The figure with its values: nothing is loaded from anywhere."""
    fig.draw_without_rendering()  # places everything, legends included
    names = name_curves(fig)
    values = [point for ax in fig.axes for point in points(fig, ax)]
    file = io.StringIO()
    fig.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    title = html.escape(str(fig.get_label() or "figure"))
    columns = ("panel", "curve", "at", "value")
    cells = ((f"<td>{html.escape(str(point[column]))}</td>" for column in columns) for point in values)
    rows = "\n".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    data = json.dumps({"curves": names, "points": values}).replace("<", "\\u003c")
    parts = {"title": title, "rows": rows, "svg": svg, "data": data}
    return re.sub("@(title|rows|svg|data)@", lambda found: parts[found[1]], TEMPLATE)


def name_curves(fig: Figure) -> dict[str, list[str]]:
    """Gives names to all that is drawn for a label, and to its entries in legends: label → names in the SVG."""
    names: dict[str, list[str]] = {}

    def name(label: str, artist: Artist) -> None:
        gid = f"{len(names.setdefault(label, []))}-of-{list(names).index(label)}"
        artist.set_gid(gid)
        names[label].append(gid)

    legends = [*fig.legends, *(legend for ax in fig.axes if isinstance(legend := ax.get_legend(), Legend))]
    labels = {text.get_text() for legend in legends for text in legend.get_texts()}
    for ax in fig.axes:
        for label, artist in artists_with_labels(ax):
            if label in labels:
                name(label, artist)
    for legend in legends:
        for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True):
            if text.get_text() in names and handle is not None:
                for artist in (text, handle):
                    artist.set_gid(f"entry-{list(names).index(text.get_text())}-{type(artist).__name__}")
    return names


def artists_with_labels(ax: Axes) -> Iterator[tuple[str, Artist]]:
    """Everything drawn under a label: a curve, the parts of an error bar, the bars of a series."""
    for container in ax.containers:
        for child in container.get_children():
            yield str(container.get_label()), child
    for artist in (*ax.lines, *ax.collections, *ax.patches):
        if not str(artist.get_label()).startswith("_"):
            yield str(artist.get_label()), artist


def points(fig: Figure, ax: Axes) -> Iterator[dict[str, Any]]:
    """What can be pointed at: its place in the SVG, its curve, and its value as the axes would write it."""
    panel = ax.get_title() or ax.get_title("left")
    height = fig.get_figheight() * POINTS_PER_INCH

    def point(curve: str, x: float, y: float, at: str, value: str) -> dict[str, Any]:
        across, up = ax.transData.transform((x, y)) / fig.dpi * POINTS_PER_INCH
        place: dict[str, Any] = {"x": round(float(across), 2), "y": round(float(height - up), 2)}
        return {**place, "panel": panel, "curve": curve, "at": at, "value": value}

    # panels that share an axis write its names once
    rows = [other.yaxis for other in (ax, *ax.get_shared_y_axes().get_siblings(ax))]
    columns = [other.xaxis for other in (ax, *ax.get_shared_x_axes().get_siblings(ax))]
    for label, line in lines_with_labels(ax):
        if line.get_transform() == ax.transData:  # else a line across the panel: no values of its own
            for x, y in zip(np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float), strict=True):
                if np.isfinite(x) and np.isfinite(y):
                    at, value = (place_name(rows, y), x) if names_rows(ax) else (place_name(columns, x), y)
                    yield point(label, x, y, at, f"{value:.2f}")
    for container in ax.containers:
        if isinstance(container, BarContainer):
            for bar in container.patches:
                label = str(container.get_label())
                x, y = bar.get_x() + bar.get_width(), bar.get_y() + bar.get_height()  # the end of the bar
                if container.orientation == "horizontal":
                    y -= bar.get_height() / 2
                    yield point(label, x, y, place_name(rows, y), f"{bar.get_width():.2f}")
                else:
                    x -= bar.get_width() / 2
                    yield point(label, x, y, place_name(columns, x), f"{bar.get_height():.2f}")
    for image in ax.images:
        if isinstance(image, AxesImage) and (cells := image.get_array()) is not None and cells.ndim == 2:
            for (i, j), value in np.ndenumerate(np.ma.filled(cells.astype(float), np.nan)):
                if np.isfinite(value):
                    yield point("", j, i, f"row {i + 1}, column {j + 1}", f"{value:.2f}")


def lines_with_labels(ax: Axes) -> Iterator[tuple[str, Line2D]]:
    """The curves of a panel, those with error bars included."""
    for line in ax.lines:
        owner = next((c for c in ax.containers if isinstance(c, ErrorbarContainer) and line is c.lines[0]), line)
        if not str(owner.get_label()).startswith("_"):
            yield str(owner.get_label()), line


def names_rows(ax: Axes) -> bool:
    """Whether the y axis names things, as in a chart of horizontal bars, and x is the value."""
    panels = ax.get_shared_y_axes().get_siblings(ax)
    bars = [c for panel in panels for c in panel.containers if isinstance(c, BarContainer)]
    return any(bar.orientation == "horizontal" for bar in bars)


def place_name(axes: Sequence[Axis], place: float) -> str:
    """A place on an axis, or on those that share it: the name of its tick if ticks have names, else its number."""
    for axis in axes:
        ticks = dict(zip(axis.get_ticklocs().tolist(), (t.get_text() for t in axis.get_ticklabels()), strict=False))
        near = min(ticks, key=lambda tick: abs(tick - place), default=None)
        if near is not None and ticks[near] and not reads_as_number(ticks[near]) and abs(near - place) <= 0.5:
            return str(ticks[near])
    return f"{place:g}"


def reads_as_number(text: str) -> bool:
    try:
        float(text.replace("−", "-").replace(",", ""))
    except ValueError:
        return False
    return True


TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>@title@</title>
<style>
body { margin: 1rem; font: 14px system-ui, sans-serif; color: #111; background: #fff; }
figure { margin: 0; position: relative; }
svg { width: 100%; max-width: 70rem; height: auto; }
.entry { cursor: pointer; fill: transparent; }
.entry:focus { outline: none; stroke: #0072B2; stroke-width: 1.5; }
.off { display: none; }
.faint { opacity: 0.3; }
#tip { position: fixed; pointer-events: none; padding: 2px 6px; background: #111; color: #fff; border-radius: 3px;
  font-size: 12px; }
td { padding: 0 1rem 0 0; }
</style>
</head>
<body>
<figure role="group" aria-label="@title@">
@svg@
<div id="tip" hidden></div>
</figure>
<details><summary>The values</summary>
<table>
<tr><th>panel</th><th>curve</th><th>at</th><th>value</th></tr>
@rows@
</table>
</details>
<script type="application/json" id="data">@data@</script>
<script>
"use strict";
const svg = document.querySelector("svg"), tip = document.getElementById("tip");
const data = JSON.parse(document.getElementById("data").textContent), off = new Set();
Object.keys(data.curves).forEach((label, number) => {
  const parts = svg.querySelectorAll(`[id^="entry-${number}-"]`);
  if (!parts.length) return;
  const boxes = [...parts].map(part => part.getBBox());
  const left = Math.min(...boxes.map(b => b.x)), top = Math.min(...boxes.map(b => b.y));
  const right = Math.max(...boxes.map(b => b.x + b.width)), bottom = Math.max(...boxes.map(b => b.y + b.height));
  const entry = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  const place = { x: left - 2, y: top - 2, width: right - left + 4, height: bottom - top + 4, class: "entry",
    tabindex: 0, role: "switch", "aria-checked": "true", "aria-label": label };
  for (const [name, value] of Object.entries(place)) entry.setAttribute(name, value);
  const toggle = () => {
    const hide = !off.has(label);
    hide ? off.add(label) : off.delete(label);
    entry.setAttribute("aria-checked", String(!hide));
    data.curves[label].forEach(id => document.getElementById(id)?.classList.toggle("off", hide));
    parts.forEach(part => part.classList.toggle("faint", hide));
  };
  entry.addEventListener("click", toggle);
  entry.addEventListener("keydown", event => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); }
  });
  svg.appendChild(entry);
});
svg.addEventListener("mousemove", event => {
  const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  let best = null, least = 15 * 15;
  for (const point of data.points) {
    const away = (point.x - at.x) ** 2 + (point.y - at.y) ** 2;
    if (!off.has(point.curve) && away < least) { best = point; least = away; }
  }
  tip.hidden = !best;
  if (best) {
    tip.textContent = [best.panel, best.curve, best.at + ": " + best.value].filter(Boolean).join(" · ");
    tip.style.left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 4) + "px";
    tip.style.top = event.clientY + 12 + "px";
  }
});
svg.addEventListener("mouseleave", () => { tip.hidden = true; });
</script>
</body>
</html>
"""
