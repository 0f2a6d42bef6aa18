"""`engram report` and `engram serve`: the records as a page."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import tyro
from rich.markup import escape

from engram.cli import WrongCallError
from engram.cli.options import parse
from engram.cli.screen import ERR, writable
from engram.report.page.assemble import assemble
from engram.report.page.html import html
from engram.runs import records

PNG = b"\x89PNG\r\n\x1a\n"


@dataclass
class PageOptions:
    """What goes into the page."""

    records: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Record files, or folders with some (*.jsonl, at any depth); where none are named, all in --results."""
    results: Path = Path("results")
    """Folder with the records."""
    samples: Path | None = None
    """Folder with samples of generative methods, KEY-task-N.png, as `engram run --samples` saves them."""


@dataclass
class ReportOptions(PageOptions):
    """All records as one HTML file that opens from disk: tables against print, every run behind every cell."""

    out: Path = Path("report.html")
    """The file."""


@dataclass
class ServeOptions(PageOptions):
    """The page of `engram report` while a sweep runs: for this machine only, and it cannot change anything."""

    port: int = 0
    """Port on 127.0.0.1; 0 takes a free one."""


def report(arguments: list[str]) -> int:
    """The command."""
    options = parse(ReportOptions, arguments, "engram report")
    check(options)
    data = page_data(options)
    if not data["records"]:
        where = ", ".join(map(str, options.records or (options.results,)))
        raise WrongCallError(f"no records in {where}; name files or folders with some (*.jsonl)")
    writable(options.out.parent)
    if options.out.is_dir():
        raise WrongCallError(f"out {options.out} is a folder; name a file")
    page = html(data)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(page, encoding="utf-8")
    ERR.print(f"{escape(str(options.out))}: {len(page.encode()) / 1e6:.1f} MB")
    return 0


def serve(arguments: list[str]) -> int:
    """The command."""
    from engram.report.page.server import Latest, Server

    options = parse(ServeOptions, arguments, "engram serve")
    check(options)
    if not 0 <= options.port <= 65535:
        raise WrongCallError(f"port {options.port} is out of range; give 0 to 65535")
    try:
        server = Server(Latest(partial(all_files, options), partial(page_data, options)), options.port)
    except OSError as error:
        raise WrongCallError(f"port {options.port} cannot be had: {error.strerror}") from error
    print(server.address, flush=True)
    ERR.print("Ctrl-C ends it")
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            ERR.print()
    return 0


def check(options: PageOptions) -> None:
    """Refuses what is not there; the folder of --results may come later."""
    for path in options.records:
        if not path.exists():
            raise WrongCallError(f"records {path} do not exist; name a file or a folder")
    if options.samples is not None and not options.samples.is_dir():
        raise WrongCallError(f"samples {options.samples} is not a folder")


def record_files(options: PageOptions) -> list[Path]:
    """The files to read now; of a folder all, those of a search below it too."""
    places = options.records or (options.results,)
    return [file for path in places for file in ([path] if path.is_file() else sorted(path.rglob("*.jsonl")))]


def all_files(options: PageOptions) -> list[Path]:
    """Everything that the page is made from."""
    return record_files(options) + (sorted(options.samples.glob("*.png")) if options.samples else [])


def page_data(options: PageOptions) -> dict[str, Any]:
    files = record_files(options)
    found = [record for file in files for record in records.read(file, lambda text: ERR.print(escape(text)))]
    return {**assemble(found, pictures(options.samples)), "sources": ", ".join(map(str, files)) or "no file"}


def pictures(folder: Path | None) -> dict[str, str]:
    """The PNG files of a folder as data URIs, by their names."""
    found = {}
    for file in sorted(folder.glob("*.png")) if folder else []:
        content = file.read_bytes()
        if content.startswith(PNG):
            found[file.stem] = "data:image/png;base64," + base64.b64encode(content).decode()
        else:
            ERR.print(f"{escape(str(file))} is not a PNG file, left out")
    return found
