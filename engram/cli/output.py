"""What commands that print tables share: formats, files to write to, names that come first."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from engram.cli import WrongCallError
from engram.cli.screen import ERR, writable
from engram.report.written import Format


def select_format(form: Format, as_json: bool) -> Format:
    """--json is short for --format json."""
    return "json" if as_json else form


def with_name(arguments: list[str], what: str, names: Iterable[str]) -> list[str]:
    """The arguments with the name in front, wherever it stood; a name is missing only if help is asked for."""
    if (arguments and not arguments[0].startswith("-")) or {"-h", "--help"} & set(arguments):
        return arguments
    known = list(names)
    for place, word in enumerate(arguments):
        if word.endswith(".toml") or word.rpartition("/")[2] in known or word in known:
            return [word, *arguments[:place], *arguments[place + 1 :]]
    raise WrongCallError(f"name a {what} first, then the options; choose from {', '.join(known)}")


def put_text(text: str, out: Path | None) -> None:
    """To standard output, or into a file."""
    if out is None:
        sys.stdout.write(text)
        return
    writable(out.parent)
    if out.is_dir():
        raise WrongCallError(f"out {out} is a folder; name a file")
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise WrongCallError(f"{out} cannot be written: {error.strerror}") from error
    ERR.print(str(out), markup=False)
