"""`engram figure`: pictures for papers, from records or from a scenario's own data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engram.cli import WrongCallError
from engram.cli.options import flags_of, given, parse_flags
from engram.cli.screen import ERR, writable
from engram.core.messages import unknown
from engram.core.registry import FIGURES
from engram.runs.records import RESULTS, Record, read_records, results_folder


@dataclass
class FigureOptions:
    """What all figures share."""

    out: Path | None = None
    """File to write; the suffix says how: .png, .svg, .pdf, or .html, whose curves can be switched on and off.
    By default NAME.png."""
    results: tuple[Path, ...] = (RESULTS,)
    """Folders with records, or files of records; if there is no folder results, those that come with the package."""


def figure_command(arguments: list[str]) -> int:
    """The command."""
    from engram.report.style import check_picture_path, save

    names = "\n".join(f"  {name:<13}{FIGURES.facts(name).summary}" for name in FIGURES)
    usage = f"usage: engram figure NAME [--out FILE] [--results DIR] [flags of the figure]\n\n{names}"
    if not arguments or arguments[0].startswith("-"):
        if {"-h", "--help"} & set(arguments):
            print(usage)
            return 0
        raise WrongCallError(f"name a figure first: {', '.join(FIGURES)}\n{usage}")
    name, *rest = arguments
    if name not in FIGURES:
        raise WrongCallError(unknown("figure", name, FIGURES))
    cls = FIGURES[name]
    try:
        base = cls()
        flags = flags_of("figure", base, {}, "")
        options = parse_flags(flags, FigureOptions, rest, f"engram figure {name}", cls.__doc__ or name)
        out = check_picture_path(options.out or Path(f"{name}.png"))
        writable(out.parent)
        picture = cls(**given(flags, options, "figure")).draw(read_places(options.results))
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    ERR.print(f"{save(picture, out)}", markup=False)
    return 0


def read_places(places: tuple[Path, ...]) -> list[Record]:
    """The records of these folders and files; a place that was named must exist."""
    for place in places:
        if not place.exists() and places != FigureOptions.results:
            raise ValueError(f"no records: {place} does not exist")
    return read_records(*map(results_folder, places))
