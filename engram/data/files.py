"""The files of a dataset on this machine: find them, or download them once, completely, with checked hashes."""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engram.core.durable import sync_folder
from engram.core.locks import acquire
from engram.core.messages import Say, tell
from engram.data.errors import DataError
from engram.data.sources import File, Source, SourceError, root_cause

if TYPE_CHECKING:
    from engram.data.formats import LabelledArrays

Paths = dict[str, Path]

PART = ".part-"  # prefix of folders with unfinished downloads


@dataclass(frozen=True)
class Form:
    """One form in which a dataset is published: its files, their reader, and where to download them."""

    files: tuple[File, ...]
    read: Callable[[Paths], LabelledArrays]
    sources: tuple[Source, ...]


def data_folders() -> list[Path]:
    """The folders that are searched for files: ENGRAM_DATA if it is set, then the user's cache folder."""
    import pooch  # here, because tables are shown without it

    own = os.environ.get("ENGRAM_DATA")
    return [*([Path(own).expanduser().absolute()] if own else []), Path(pooch.os_cache("engram"))]


def find_files(name: str, form: Form) -> Paths:
    """The files of a form that are on this machine, not yet checked; a file that a user put there may be gzipped."""
    paths: Paths = {}
    for file in form.files:
        for folder in data_folders():
            plain = folder / name / file.name
            for path in (plain, plain.with_name(f"{file.name}.gz")):
                if os.access(path, os.F_OK):  # unlike is_file, False if the folder may not be entered
                    paths.setdefault(file.name, path)
    return paths


def fetch(name: str, forms: Sequence[Form], say: Say = tell, copies: Iterable[str] = ()) -> tuple[Form, Paths]:
    """The first form of the dataset `name` that is on this machine or can be downloaded, with the paths of its files.

    The data folders are searched first, then the forms' sources are tried in order. The hash of each file is checked.
    `copies` are names of prepared files that can be used instead; the error message mentions them.
    """
    if here := _complete(name, forms):
        return here
    with _folder_for(name, say) as folder:
        tried = []
        for form in forms:
            for source in form.sources:
                if here := _complete(name, forms):  # by another process, or by the previous source
                    return here
                missing = [file for file in form.files if file.name not in find_files(name, form)]
                try:
                    with tempfile.TemporaryDirectory(prefix=PART, dir=folder) as work:
                        for file, content in source.contents(missing, Path(work), say):
                            if (found := _sha256(content)) != file.sha256:
                                raise SourceError(f"{file.name} has sha256 {found}, not {file.sha256}")
                            _keep(content, folder / file.name)
                except Exception as error:  # any failure of a source is a reason to try the next one
                    tried.append(f"{source}: {root_cause(error)}")
                    say(f"{name}: {tried[-1]}")
        if here := _complete(name, forms):
            return here
    prepared = " or ".join(f"{copy}.npz" for copy in (name, *copies))
    by_hand = "\n  or ".join(", ".join(file.name for file in form.files) for form in forms)
    raise DataError(
        f"{name} is not on this machine, and no source could provide it:\n"
        + "".join(f"  {line}\n" for line in tried)
        + f"To add it by hand, put these files in {folder}:\n  {by_hand}\n"
        + f"(or a prepared file {prepared} in {folder.parent}, with x_train, y_train, x_test and y_test)"
    )


def _complete(name: str, forms: Sequence[Form]) -> tuple[Form, Paths] | None:
    for form in forms:
        paths = find_files(name, form)
        if len(paths) == len(form.files):
            for file in form.files:
                _check(paths[file.name], file)
            return form, paths
    return None


def damaged_files(name: str, form: Form) -> Iterator[tuple[Path, str]]:
    """The files of a form on this machine that are not as published, with what is wrong."""
    paths = find_files(name, form)
    for file in form.files:
        if file.name in paths:
            try:
                _check(paths[file.name], file)
            except DataError as error:
                yield paths[file.name], str(error).removeprefix(f"{paths[file.name]} ")


def unfinished_downloads() -> list[Path]:
    """What killed downloads have left in the data folders."""
    return [part for folder in data_folders() if folder.is_dir() for part in sorted(folder.glob(f"*/{PART}*"))]


def _check(path: Path, file: File) -> None:
    """Raise if a file's content is not the published one; the file is not removed."""
    try:
        found = _sha256(path, packed=path.name == f"{file.name}.gz")
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {root_cause(error)}. Remove it to download it again") from error
    if found != file.sha256:
        raise DataError(
            f"{path} is not the published {file.name}: expected sha256 {file.sha256}, got {found} "
            f"({path.stat().st_size} bytes). It may be truncated; remove it to download it again"
        )


def _sha256(path: Path, packed: bool = False) -> str:
    with gzip.open(path) if packed else path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _keep(content: Path, target: Path) -> None:
    """Move a finished file to its name in one step, once its bytes are on the disk."""
    with content.open("rb") as file:
        os.fsync(file.fileno())
    content.replace(target)
    sync_folder(target.parent)


@contextmanager
def _folder_for(name: str, say: Say) -> Iterator[Path]:
    """A folder for the dataset `name` in the first writable data folder, locked for this process."""
    faults = []
    for folder in data_folders():
        with ExitStack() as stack:
            try:
                there = next(path for path in (folder / name, folder, *folder.parents) if path.exists())
                if not there.stat().st_mode & 0o222:
                    raise PermissionError(errno.EROFS, "read-only")  # root could write, but the mode says not to
                stack.enter_context(_locked(folder / name, name, say))
            except OSError as error:
                faults.append(f"  {folder}: {root_cause(error)}")
                continue
            for left in (folder / name).glob(f"{PART}*"):  # left by a killed process: nobody else holds the lock
                shutil.rmtree(left, ignore_errors=True)
            yield folder / name
            return
    raise DataError(
        f"{name} has to be downloaded, but no data folder is writable:\n"
        + "\n".join(faults)
        + "\nSet ENGRAM_DATA to a writable folder."
    )


@contextmanager
def _locked(folder: Path, name: str, say: Say) -> Iterator[None]:
    """Hold a lock in the folder, which is created if it is missing; at the end remove the lock, and the folder if it
    was created here and is still empty."""

    def busy() -> bool:
        say(f"{name}: another process is downloading it; waiting")
        return True

    lock = acquire(folder / ".lock", busy)
    assert lock is not None
    try:
        with tempfile.TemporaryFile(dir=folder):  # is it writable? The lock file may be older than this process
            pass
        yield
    finally:
        lock.release()
