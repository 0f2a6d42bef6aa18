"""`engram figure`: pictures for papers, from records or from a scenario's own data."""

from __future__ import annotations

import difflib
import importlib
from dataclasses import dataclass
from pathlib import Path

from engram.cli import WrongCallError
from engram.cli.options import flags_of, given, parse_flags
from engram.cli.screen import ERR, writable
from engram.runs import records
from engram.runs.records import Record

FIGURES: dict[str, tuple[str, str]] = {
    "matrix": ("engram.report.figures:Matrix", "accuracy on each task after each task, as heat maps"),
    "curves": ("engram.report.curves:Curves", "average accuracy against tasks; --within: the stability gap"),
    "bars": ("engram.report.figures:Bars", "the methods of a published table, ours and print"),
    "memory": ("engram.report.memory:Memory", "average accuracy against the bytes that a method keeps"),
    "figure1": ("engram.report.schematics:Figure1", "the kinds made from Split MNIST, as in the paper"),
    "figure2": ("engram.report.schematics:Figure2", "the kinds made from Permuted MNIST, as in the paper"),
    "figure3": ("engram.report.queue_figures:Figure3", "the long queue: best and worst weights, Adam, Adagrad"),
    "figure4": ("engram.report.queue_figures:Figure4", "the long queue: sensitivity to the weight of the penalty"),
    "figure5": ("engram.report.queue_figures:Figure5", "the long queue: sensitivity to the initial heads"),
    "scenario": ("engram.report.schematics:ScenarioFigure", "any scenario: samples (x, y, t), heads, P(Y)"),
}
"""Name → class, and what it shows. A figure is a dataclass: its fields are its flags, and its `draw(records)` returns a
matplotlib Figure in the look of `engram.report.style`, or raises a ValueError that says which records it lacks."""


@dataclass
class FigureOptions:
    """What all figures share."""

    out: Path | None = None
    """File to write; the suffix says how: .png, .svg, .pdf, or .html, whose curves can be switched on and off.
    NAME.png where it is not given."""
    results: tuple[Path, ...] = (Path("results"),)
    """Folders with records, or files of records."""


def figure(arguments: list[str]) -> int:
    """The command."""
    from engram.report.style import checked, save

    names = "\n".join(f"  {name:<13}{what}" for name, (_, what) in FIGURES.items())
    usage = f"usage: engram figure NAME [--out FILE] [--results DIR] [flags of the figure]\n\n{names}"
    if not arguments or arguments[0].startswith("-"):
        if {"-h", "--help"} & set(arguments):
            print(usage)
            return 0
        raise WrongCallError(f"name a figure first: {', '.join(FIGURES)}\n{usage}")
    name, *rest = arguments
    if name not in FIGURES:
        near = difflib.get_close_matches(name, FIGURES, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise WrongCallError(f"figure {name!r} is unknown; {hint}choose from {', '.join(FIGURES)}")
    path, what = FIGURES[name]
    module, _, class_name = path.partition(":")
    cls = getattr(importlib.import_module(module), class_name)
    try:
        base = cls()
        flags = flags_of("figure", base, {}, "")
        options = parse_flags(flags, FigureOptions, rest, f"engram figure {name}", f"{cls.__doc__ or what}")
        out = checked(options.out or Path(f"{name}.png"))
        writable(out.parent)
        picture = cls(**given(flags, options, "figure")).draw(read_all(options.results))
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    ERR.print(f"{save(picture, out)}", markup=False)
    return 0


def read_all(places: tuple[Path, ...]) -> list[Record]:
    """The records of these folders and files; a place that was asked for and is not there is refused."""
    found: list[Record] = []
    for place in places:
        if not place.exists() and places != FigureOptions.results:
            raise ValueError(f"no records: {place} does not exist")
        files = sorted(place.glob("*.jsonl")) if place.is_dir() else [place]
        found += [record for file in files for record in records.read(file)]
    return found
