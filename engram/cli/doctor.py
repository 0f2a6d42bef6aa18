"""`engram doctor`: what is damaged in a folder of records, and in the datasets; mended if asked."""

from __future__ import annotations

import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro
from rich.markup import escape

from engram.cli import WrongCallError
from engram.cli.files import with_files
from engram.cli.options import parse_options
from engram.cli.screen import ERR, OUT
from engram.core.messages import count, size
from engram.core.system import lock_file
from engram.core.version import VERSION
from engram.data.files import damaged_files, data_folders, unfinished_downloads
from engram.data.sets import CATALOG
from engram.runs.doctor import Doctor, Finding

LEAST_FREE = 1 << 30
"""Bytes on the disk below which a long sweep may end early."""


@dataclass
class DoctorOptions:
    """Checks records, checkpoints, datasets and this machine; says what is damaged and what --fix would do."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="[FOLDER]")] = Path("runs")
    """Folder with records and checkpoints."""
    fix: bool = False
    """Repair what can be repaired. A copy of everything that is changed is kept in FOLDER/before-doctor-1, 2, …"""
    no_data: bool = False
    """Leave out the datasets, all of whose files would be hashed."""
    json: bool = False
    """Print the findings as JSON."""
    file: Path | None = None  # read before all others
    """Python file that runs of your own need; may be given several times."""


def doctor_command(arguments: list[str]) -> int:
    """The command. Exit status 1 if something is damaged and was not mended."""
    options = parse_options(DoctorOptions, with_files(arguments), "engram doctor")
    if not options.folder.is_dir():
        raise WrongCallError(f"{options.folder} is not a folder; name one with records (*.jsonl) or checkpoints")
    doctor = Doctor(options.folder)
    found = doctor.examine()
    if not options.no_data:
        found += examine_datasets()
    found += examine_machine(options.folder)
    if options.fix and (busy := doctor.busy()):
        raise WrongCallError(
            f"{count(len(busy), 'run')} of {options.folder} are being computed; repair when they are done"
        )
    mended = [finding for finding in found if finding.remedy] if options.fix else []
    if options.fix:
        for finding in found:
            if finding.mend:
                finding.mend()
    if options.json:
        print(json.dumps([{**describe(finding), "mended": finding in mended} for finding in found]))
    else:
        print_findings(doctor, found, options)
    return 1 if len(mended) < len(found) else 0


def describe(finding: Finding) -> dict[str, str]:
    return {"where": finding.where, "what": finding.what, "remedy": finding.remedy}


def print_findings(doctor: Doctor, found: list[Finding], options: DoctorOptions) -> None:
    """A line per finding, then what was looked at."""
    for finding in found:
        text = f"{finding.where}: {finding.what}"
        if finding.remedy:
            text += f"; {'done' if options.fix else '--fix would'}: {finding.remedy}"
        OUT.print(escape(text))
    looked = [count(doctor.records, "record"), count(doctor.unfinished, "run") + " that can continue"]
    if doctor.unknown_keys:
        looked.append(f"{count(doctor.unknown_keys, 'key')} not recomputed, because their code or data are missing")
    OUT.print(f"{count(len(found), 'finding')} in {escape(str(options.folder))}: {', '.join(looked)}")
    if options.fix and doctor.kept:
        ERR.print(f"copies of what was changed are in {escape(str(doctor.kept))}")


def examine_datasets() -> list[Finding]:
    """Files that are not as published, and what killed downloads left."""
    found = []
    for name, known in CATALOG.items():
        for form in known.forms:
            for path, what in damaged_files(name, form):
                aside = path.with_name(f"{path.name}.damaged")
                found.append(Finding(str(path), what, f"move it to {aside.name}", partial(set_aside, path, aside)))
    for part in unfinished_downloads():
        remove = partial(shutil.rmtree, part, ignore_errors=True)
        found.append(Finding(str(part), "part of a download that was not finished", "remove it", remove))
    return list({finding.where: finding for finding in found}.values())


def set_aside(path: Path, aside: Path) -> None:
    path.replace(aside)


def examine_machine(folder: Path) -> Iterator[Finding]:
    """What runs into this folder would lack."""
    ERR.print(f"engram {VERSION}, Python {platform.python_version()}; data in {', '.join(map(str, data_folders()))}")
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE:
        yield Finding(str(folder), f"only {size(free)} are free on its disk", "")
    if not os.access(folder, os.W_OK | os.X_OK):
        yield Finding(str(folder), "nothing can be written to it", "")
        return
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            lock_file(file.fileno())
        except OSError as error:
            yield Finding(str(folder), f"files cannot be locked there: {error.strerror}; use one driver at a time", "")
