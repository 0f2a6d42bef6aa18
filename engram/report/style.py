"""One look for all figures: a fixed colour, marker and label for every method, readable sizes, and how to save.

    @styled()
    def picture() -> Figure:
        fig, (axes,) = panels(1)
        axes.plot(x, y, label=look("si").label, **look("si").line)
        legend_beside(fig)
        return fig

    save(picture(), Path("picture.pdf"))

Figures are objects: nothing here touches pyplot or its global state.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from engram.report.tables import TITLES

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
PALETTE = (BLUE, ORANGE, GREEN, RED, SKY, PURPLE, BLACK, YELLOW)
"""Okabe and Ito's colours, which people of all kinds of colour vision tell apart."""
GREY = "#767676"
"""For what is not a method: print, grids, notes. Dark enough to read on white."""
BROWN = "#99520F"
"""A tenth, where ten classes need one each."""
MAP = "cividis"
"""For heat maps: the same order for all kinds of colour vision, and in grey."""

RC: dict[Any, Any] = {
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters everywhere
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "lines.markersize": 5,
    "errorbar.capsize": 2,
    "pdf.fonttype": 42,  # letters as letters, as journals ask
    "svg.fonttype": "path",  # the same picture without the font
    "svg.hashsalt": "engram",  # names inside an SVG do not change from call to call
}
INCHES = 3.4
"""Width of one panel: a column of a two-column paper."""


@dataclass(frozen=True)
class Look:
    """How a method is drawn, in every figure."""

    label: str
    color: str
    marker: str = "o"
    dash: str = "-"

    @property
    def line(self) -> dict[str, Any]:
        """Keywords for `Axes.plot` and `Axes.errorbar`. The edge keeps light colours visible on white."""
        edge = BLACK if self.color == YELLOW else self.color
        return {"color": self.color, "marker": self.marker, "linestyle": self.dash, "markeredgecolor": edge}

    @property
    def bar(self) -> dict[str, Any]:
        """Keywords for `Axes.bar`; light enough for a black error bar to show on it."""
        return {"facecolor": to_rgba(self.color, 0.6), "edgecolor": BLACK, "linewidth": 0.6}


# colour: the family; marker and dash: the member
_LOOKS: dict[str, tuple[str, str, str]] = {
    "adam": (BLACK, "o", "--"), "sgd": (GREY, "s", "--"), "adagrad": (ORANGE, "D", "--"), "l2": (PURPLE, "v", "-."),
    "ewc": (SKY, "^", "-"), "online-ewc": (BLUE, "o", "-"), "si": (RED, "s", "-"), "mas": (PURPLE, "D", "-"),
    "rehearsal": (GREEN, "o", "-"), "rehearsal-c": (GREEN, "s", "--"),
    "gem": (BLUE, "P", "--"), "gem-textbook": (SKY, "P", "--"),
    "lwf": (YELLOW, "v", "-"), "dgr": (ORANGE, "X", "-"), "rtf": (RED, "X", "--"),
    "offline": (BLACK, "*", ":"),
}  # fmt: skip


def look(method: str) -> Look:
    """The look of a method; one of your own, or a combination, has one by its name, the same every time."""
    label = TITLES.get(method, " + ".join(TITLES.get(member, member) for member in method.split("+")))
    if method in _LOOKS:
        return Look(label, *_LOOKS[method])
    number = zlib.crc32(method.encode())
    return Look(label, PALETTE[number % 7], "hpd<>8"[number // 7 % 6], "-.")


@contextmanager
def styled() -> Iterator[None]:
    """The style, inside a block or, as a decorator, inside a function that draws."""
    with matplotlib.rc_context(RC):
        yield


def panels(
    columns: int, rows: int = 1, *, width: float = INCHES, height: float = 2.7, **options: Any
) -> tuple[Figure, list[Axes]]:
    """(figure, its axes in reading order): so many panels, each of that size in inches."""
    fig = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(fig)
    return fig, list(fig.subplots(rows, columns, squeeze=False, **options).flat)


def legend_beside(fig: Figure, axes: Sequence[Axes] | None = None, *, below: bool = False, columns: int = 4) -> None:
    """One legend for all panels, outside them: on the right, or below. A label that several panels share comes once."""
    entries: dict[str, Any] = {}
    for ax in axes or fig.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if entries:
        where: dict[str, Any] = {"loc": "outside lower center", "ncols": columns} if below else {
            "loc": "outside right upper"
        }  # fmt: skip
        fig.legend(list(entries.values()), list(entries), **where)


def checked(path: Path) -> Path:
    """The path, refused where its suffix is no format, or where it is a folder."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path}: the suffix {path.suffix!r} is unknown; choose from {', '.join(SUFFIXES)}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file")
    return path


def save(fig: Figure, path: Path) -> Path:
    """Writes the figure in the format of the suffix; the same figure gives the same bytes."""
    checked(path).parent.mkdir(parents=True, exist_ok=True)
    with styled():
        if path.suffix == ".html":
            from engram.report.interactive import page

            path.write_text(page(fig), encoding="utf-8")
        else:
            fig.savefig(path, metadata=NO_DATES[path.suffix])
    return path


NO_DATES: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
SUFFIXES = (*NO_DATES, ".html")
