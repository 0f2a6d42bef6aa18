"""One look for all figures: a fixed colour, marker and label for every method, readable sizes, and how to save.

    @dataclass
    class Learned(FigureRecipe):
        '''Accuracy on each task right after it was learned.'''

        name = "learned"

        @styled()
        def draw(self, records: Sequence[Record]) -> Figure:
            fig, (axes,) = panels(1)
            axes.plot(x, y, label=look("si").label, **look("si").line)
            legend_beside(fig)
            return fig

    save(Learned().draw(records), Path("picture.pdf"))

Figures are objects: nothing here touches pyplot or its global state.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
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

from engram.core.messages import unknown
from engram.core.registry import METHODS
from engram.runs.records import Record
from engram.studies.study import method_title

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
PALETTE = (BLUE, ORANGE, GREEN, RED, SKY, PURPLE, BLACK, YELLOW)
"""Okabe and Ito's colours, which people of all kinds of colour vision tell apart."""
GREY = "#767676"
"""For what is not a method: published numbers, grids, notes. Dark enough to read on white."""
BROWN = "#99520F"
"""A tenth colour, if ten classes need one each."""
COLOUR_MAP = "cividis"
"""For heat maps: the same order for all kinds of colour vision, and in grey."""
COLOUR_WORDS = {
    "black": BLACK, "orange": ORANGE, "sky": SKY, "green": GREEN, "yellow": YELLOW, "blue": BLUE, "red": RED,
    "purple": PURPLE, "grey": GREY,
}  # fmt: skip
"""The colours that methods name in `look`."""

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


def look(method: str) -> Look:
    """The look that a method states; one that states none, or a combination, gets one by its name, always the same."""
    label = method_title(method)
    stated = METHODS.facts(method).literals.get("look") if method in METHODS else None
    if isinstance(stated, tuple) and len(stated) == 3 and stated[0] in COLOUR_WORDS:
        return Look(label, COLOUR_WORDS[stated[0]], stated[1], stated[2])
    number = zlib.crc32(method.encode())
    return Look(label, PALETTE[number % 7], "hpd<>8"[number // 7 % 6], "-.")


class FigureRecipe(ABC):
    """A figure: a dataclass whose fields are its flags, and whose `name` is what it is asked for by."""

    @abstractmethod
    def draw(self, records: Sequence[Record]) -> Figure:
        """The figure, or a ValueError that says which records are missing."""


@contextmanager
def styled() -> Iterator[None]:
    """The style, inside a block or, as a decorator, inside a function that draws."""
    with matplotlib.rc_context(RC):
        yield


def panels(
    columns: int, rows: int = 1, *, width: float = INCHES, height: float = 2.7, **options: Any
) -> tuple[Figure, list[Axes]]:
    """(figure, its axes in reading order): a grid of panels, each of this size in inches."""
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


def check_picture_path(path: Path) -> Path:
    """The path, refused if its suffix is not a format, or if it is a folder."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path}: {unknown('suffix', path.suffix, SUFFIXES)}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file")
    return path


def save(fig: Figure, path: Path) -> Path:
    """Writes the figure in the format of the suffix; the same figure gives the same bytes."""
    check_picture_path(path).parent.mkdir(parents=True, exist_ok=True)
    with styled():
        if path.suffix == ".html":
            from engram.report.interactive import interactive_page

            path.write_text(interactive_page(fig), encoding="utf-8")
        else:
            fig.savefig(path, metadata=NO_DATES[path.suffix])
    return path


NO_DATES: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
SUFFIXES = (*NO_DATES, ".html")
