"""Where a set's files are on this machine, and how they get there: checked, whole, and once."""

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

import pooch

from engram.core.locks import acquire
from engram.data.formats import Arrays
from engram.data.images import DataError
from engram.data.progress import Say, tell
from engram.data.sources import File, Source, SourceError, reason

Paths = dict[str, Path]

PART = ".part-"  # how a folder of unfinished files begins


@dataclass(frozen=True)
class Form:
    """One form in which a set is published: its files, how they are read, and who has them."""

    files: tuple[File, ...]
    read: Callable[[Paths], Arrays]
    sources: tuple[Source, ...]


def data_folders() -> list[Path]:
    """Where files are looked for: the folder that ENGRAM_DATA names, then the user's cache folder."""
    own = os.environ.get("ENGRAM_DATA")
    return [*([Path(own).expanduser().absolute()] if own else []), Path(pooch.os_cache("engram"))]


def find(name: str, form: Form) -> Paths:
    """Those files of a form that are on this machine, not yet checked. Put by hand, one may also be gzipped."""
    found: Paths = {}
    for file in form.files:
        for folder in data_folders():
            plain = folder / name / file.name
            for path in (plain, plain.with_name(f"{file.name}.gz")):
                if os.access(path, os.F_OK):  # unlike is_file, says no where a folder may not be entered
                    found.setdefault(file.name, path)
    return found


def fetch(name: str, forms: Sequence[Form], say: Say = tell, copies: Iterable[str] = ()) -> tuple[Form, Paths]:
    """The first form of the set `name` that is here or can be brought here, with the paths of its files.

    Its files come from the data folders, else from the forms' sources in order. Each is checked by its hash. `copies`:
    names of prepared files that would do as well, to be told where nothing can be had.
    """
    if here := _complete(name, forms):
        return here
    with _folder_for(name, say) as folder:
        tried = []
        for form in forms:
            for source in form.sources:
                if here := _complete(name, forms):  # another process, or the source before
                    return here
                missing = [file for file in form.files if file.name not in find(name, form)]
                try:
                    with tempfile.TemporaryDirectory(prefix=PART, dir=folder) as work:
                        for file, content in source.contents(missing, Path(work), say):
                            if (found := _sha256(content)) != file.sha256:
                                raise SourceError(f"{file.name} has sha256 {found}, not {file.sha256}")
                            _keep(content, folder / file.name)
                except Exception as error:  # whatever a source does wrong is a reason to try the next
                    tried.append(f"{source}: {reason(error)}")
                    say(f"{name}: {tried[-1]}")
        if here := _complete(name, forms):
            return here
    prepared = " or ".join(f"{copy}.npz" for copy in (name, *copies))
    by_hand = "\n  or ".join(", ".join(file.name for file in form.files) for form in forms)
    raise DataError(
        f"{name} is not on this machine, and no place could give it:\n"
        + "".join(f"  {line}\n" for line in tried)
        + f"To put it there by hand: the folder is {folder}, the files are\n  {by_hand}\n"
        + f"(or a prepared {prepared} in {folder.parent})"
    )


def _complete(name: str, forms: Sequence[Form]) -> tuple[Form, Paths] | None:
    for form in forms:
        paths = find(name, form)
        if len(paths) == len(form.files):
            for file in form.files:
                _check(paths[file.name], file)
            return form, paths
    return None


def _check(path: Path, file: File) -> None:
    """Refuse a file whose content is not the published one; it is left where it is."""
    try:
        found = _sha256(path, packed=path.name == f"{file.name}.gz")
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {reason(error)}. Remove it to have it fetched again") from error
    if found != file.sha256:
        raise DataError(
            f"{path} is not the published {file.name}: expected sha256 {file.sha256}, found {found} "
            f"({path.stat().st_size} bytes). It may be cut off; remove it to have it fetched again"
        )


def _sha256(path: Path, packed: bool = False) -> str:
    with gzip.open(path) if packed else path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _keep(content: Path, target: Path) -> None:
    """Move a finished file to its name in one step, after its bytes are on the disk."""
    with content.open("rb") as file:
        os.fsync(file.fileno())
    content.replace(target)


@contextmanager
def _folder_for(name: str, say: Say) -> Iterator[Path]:
    """A folder for the set `name` in the first data folder that can be written; one process at a time has it."""
    faults = []
    for folder in data_folders():
        with ExitStack() as stack:
            try:
                there = next(path for path in (folder / name, folder, *folder.parents) if path.exists())
                if not there.stat().st_mode & 0o222:
                    raise PermissionError(errno.EROFS, "read-only")  # root could, but was not meant to
                stack.enter_context(_locked(folder / name, name, say))
            except OSError as error:
                faults.append(f"  {folder}: {reason(error)}")
                continue
            for left in (folder / name).glob(f"{PART}*"):  # of a process that was killed: nobody else holds the lock
                shutil.rmtree(left, ignore_errors=True)
            yield folder / name
            return
    raise DataError(
        f"{name} has to be fetched, but no folder for it can be written:\n"
        + "\n".join(faults)
        + "\nSet ENGRAM_DATA to a folder that can."
    )


@contextmanager
def _locked(folder: Path, name: str, say: Say) -> Iterator[None]:
    """The folder, made where it is not there, and a lock in it. Afterwards the lock goes, and what was made and is
    still empty."""

    def busy() -> bool:
        say(f"{name}: another process is fetching it; waiting")
        return True

    lock = acquire(folder / ".lock", busy)
    assert lock is not None
    try:
        with tempfile.TemporaryFile(dir=folder):  # a lock that was left by a killed process says nothing of that
            pass
        yield
    finally:
        lock.release()
