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
from engram.cli.options import parse_options
from engram.cli.screen import ERR, writable
from engram.report.page.assemble import assemble
from engram.report.page.html import html
from engram.report.page.streams import description_files, read_streams
from engram.runs.records import RESULTS, read_records, record_files, results_folder
from engram.studies.catalog import find_study, own_names, study_names

PNG = b"\x89PNG\r\n\x1a\n"


@dataclass
class PageOptions:
    """What goes into the page."""

    records: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Record files, or folders with some (*.jsonl, at any depth); by default all in --results. What `engram describe
    SCENARIO --json` printed into *.json files there is shown as the drift along that stream."""
    results: Path = RESULTS
    """Folder with the records; if there is no folder results, those that come with the package."""
    studies: tuple[Path, ...] = ()
    """Studies of your own (TOML files) to show as tables."""
    samples: Path | None = None
    """Folder with samples of generative methods, KEY-task-N.png, as `engram run --samples` saves them."""


@dataclass
class ReportOptions(PageOptions):
    """All records as one HTML file that opens from disk: tables, and every run behind every cell."""

    out: Path = Path("report.html")
    """The file."""


@dataclass
class ServeOptions(PageOptions):
    """The page of `engram report` while a sweep runs: for this machine only, and it cannot change anything."""

    port: int = 0
    """Port on 127.0.0.1; 0 takes a free one."""


def report_command(arguments: list[str]) -> int:
    """The command."""
    options = parse_options(ReportOptions, arguments, "engram report")
    check_places(options)
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


def serve_command(arguments: list[str]) -> int:
    """The command."""
    from engram.report.page.server import Latest, Server

    options = parse_options(ServeOptions, arguments, "engram serve")
    check_places(options)
    if not 0 <= options.port <= 65535:
        raise WrongCallError(f"port {options.port} is out of range; give 0 to 65535")
    try:
        server = Server(Latest(partial(all_files, options), partial(page_data, options)), options.port)
    except OSError as error:
        raise WrongCallError(f"port {options.port} is not available: {error.strerror}") from error
    print(server.address, flush=True)
    ERR.print("Ctrl-C ends it")
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            ERR.print()
    return 0


def check_places(options: PageOptions) -> None:
    """Refuses what is not there; the folder of --results may come later."""
    options.results = results_folder(options.results)
    for path in options.records:
        if not path.exists():
            raise WrongCallError(f"records {path} do not exist; name a file or a folder")
    for path in options.studies:
        try:
            find_study(str(path))
        except ValueError as error:
            raise WrongCallError(str(error)) from error
    if options.samples is not None and not options.samples.is_dir():
        raise WrongCallError(f"samples {options.samples} is not a folder")


def all_files(options: PageOptions) -> list[Path]:
    """Everything that the page is made from."""
    return [*files_of(options), *stream_files(options), *options.studies, *picture_files(options.samples)]


def page_data(options: PageOptions) -> dict[str, Any]:
    files = files_of(options)
    found = read_records(*record_places(options), say=lambda text: ERR.print(escape(text)))
    studies = [find_study(str(name)) for name in (*study_names(), *own_names(), *options.studies)]
    data = assemble(found, sample_pictures(options.samples), studies, read_streams(stream_files(options)))
    return {**data, "sources": ", ".join(map(str, files)) or "no file"}


def files_of(options: PageOptions) -> list[Path]:
    """The files of records to read now."""
    return [file for place in record_places(options) for file in record_files(place)]


def record_places(options: PageOptions) -> list[Path]:
    return [place for place in options.records or (options.results,) if place.suffix != ".json"]


def stream_files(options: PageOptions) -> list[Path]:
    """The files of descriptions to read now."""
    return [file for place in options.records or (options.results,) for file in description_files(place)]


def picture_files(folder: Path | None) -> list[Path]:
    """The PNG files of a folder; what is not a regular file, such as a pipe, would be waited for."""
    return [path for path in sorted(folder.glob("*.png")) if path.is_file()] if folder else []


def sample_pictures(folder: Path | None) -> dict[str, str]:
    """The PNG files of a folder as data URIs, by their names."""
    found = {}
    for file in picture_files(folder):
        content = file.read_bytes()
        if content.startswith(PNG):
            found[file.stem] = "data:image/png;base64," + base64.b64encode(content).decode()
        else:
            ERR.print(f"{escape(str(file))} is not a PNG file, left out")
    return found
