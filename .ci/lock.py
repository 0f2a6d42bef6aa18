"""Writes requirements.lock and requirements-dev.lock from constraints.txt: each release with hashes of all its files.

`.venv/bin/python .ci/lock.py`, in an environment that `make test` has made. The hashes come from the index that pip is
configured with; files for other platforms are included, so that the locks hold there as well. torch is left out: it has
builds of its own for each kind of device, and the Makefile installs it before.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from pip._internal.commands.install import InstallCommand
from pip._internal.index.collector import parse_links
from pip._internal.models.link import Link
from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from pip._vendor.packaging.version import InvalidVersion

ROOT = Path(__file__).parents[1]
APART = re.compile(r"torch|triton|nvidia-|cuda-|engram")
"""What comes with torch's build, and this package itself."""
BUILD = ("hatchling", "editables")


def main() -> None:
    pins = dict(read_pins((ROOT / "constraints.txt").read_text()))
    collector = link_collector()
    lines = {name: lock_lines(collector, name, version) for name, version in pins.items() if not APART.match(name)}
    needed = closure("engram", set()) | {part for name in BUILD for part in closure(name, set())}
    head = "# Made by .ci/lock.py from constraints.txt; not edited by hand.\n"
    write(ROOT / "requirements.lock", head, [lines[name] for name in sorted(lines) if name in needed])
    write(ROOT / "requirements-dev.lock", head, [lines[name] for name in sorted(lines)])


def read_pins(text: str) -> list[tuple[str, str]]:
    return [(canonicalize_name(name), version) for name, version in re.findall(r"^([\w.-]+)==(\S+)$", text, re.M)]


def link_collector():
    """What pip asks for files, with its own configuration."""
    command = InstallCommand("install", "")
    options, _ = command.parse_args([])
    context = command.main_context()
    context.__enter__()
    return command._build_package_finder(options, command.get_default_session(options))._link_collector


def lock_lines(collector, name: str, version: str) -> str:
    """A requirement with the hashes of all files of its release."""
    hashes, files = set(), []
    for place in collector.search_scope.get_index_urls_locations(name):
        page = collector.fetch_response(Link(place))
        for link in parse_links(page) if page else ():
            if release_of(link.filename) == (name, version) and link.hash_name == "sha256":
                hashes.add(link.hash)
                files.append(link.filename)
    if not hashes:
        sys.exit(f"{name}=={version}: the index has no file of it with a hash")
    marker = "" if any(runs_elsewhere(file) for file in files) else ' ; sys_platform == "linux"'
    return " \\\n".join([f"{name}=={version}{marker}", *(f"    --hash=sha256:{one}" for one in sorted(hashes))])


def release_of(filename: str) -> tuple[str, str]:
    try:
        name, version, *_ = (parse_wheel_filename if filename.endswith(".whl") else parse_sdist_filename)(filename)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return "", ""
    return name, str(version)


def runs_elsewhere(filename: str) -> bool:
    """Whether it is not for Linux alone."""
    return not filename.endswith(".whl") or "-any" in filename or "macosx" in filename or "win" in filename


def closure(name: str, seen: set[str]) -> set[str]:
    """All that a package needs here, by the metadata of what is installed."""
    if name in seen or (APART.match(name) and name not in ("engram", "torch")):
        return seen
    seen.add(name)
    try:
        stated = requires(name) or []
    except PackageNotFoundError:  # needed on another platform only
        stated = []
    for text in stated:
        one = Requirement(text)
        if one.marker is None or "extra" not in str(one.marker):
            closure(canonicalize_name(one.name), seen)
    return seen


def write(path: Path, head: str, lines: list[str]) -> None:
    path.write_text(head + "\n".join(lines) + "\n")
    print(f"{path.name}: {len(lines)} packages")


if __name__ == "__main__":
    main()
