"""Image sets by name: loaded, fetched, listed."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from engram.data.files import Form, Paths, data_folders, fetch, find
from engram.data.formats import Arrays, read_npz
from engram.data.images import DataError, Images
from engram.data.progress import Say, tell
from engram.data.sets import SETS, ImageSet

CATALOG: dict[str, ImageSet] = {image_set.name: image_set for image_set in SETS}
KEPT_IN_MEMORY = 6
"""Image sets that are not read again: as many as the longest queue of them, and one."""
_LOADED: dict[tuple[str, str], Images] = {}
_BLANK: dict[str, Images] = {}


def images(name: str, *, say: Say = tell) -> Images:
    """The image set of that name, fetched first where it is not on this machine.

    `name` is one of `CATALOG`, or the stem of an own `.npz` in the folder ENGRAM_DATA, or the path of one. A set that
    was read before is given again, as long as it comes from the same place.
    """
    if name in _BLANK:
        return _BLANK[name]
    path, _ = _prepared(name)
    place = f"{path} {path.stat().st_mtime_ns}" if path else str(data_folders())
    if (name, place) not in _LOADED:
        while len(_LOADED) >= KEPT_IN_MEMORY:
            del _LOADED[next(iter(_LOADED))]
        _LOADED[name, place] = _read(name, say)
    return _LOADED[name, place]


@contextmanager
def blank() -> Iterator[None]:
    """Inside the block, published sets are one pixel a class: enough for a help text, and nothing is fetched."""
    for shade, (name, known) in enumerate(CATALOG.items()):
        if not _prepared(name)[0]:
            y = np.arange(len(known.classes))
            x = np.full((len(y), 1, 1), shade, np.uint8)  # of its own: a queue has no set twice
            _BLANK[name] = Images(x, y, x, y, known.classes, name)
    try:
        yield
    finally:
        _BLANK.clear()


def _read(name: str, say: Say) -> Images:
    path, note = _prepared(name)
    known = CATALOG.get(name)
    classes = known.classes if known else None
    if path:
        return _made(str(path), read_npz(path), classes, name, note)
    form, paths = _fetched(name, say)
    return _made(name, form.read(paths), classes, name, note)


def _fetched(name: str, say: Say) -> tuple[Form, Paths]:
    known = _known(name)
    return fetch(name, known.forms, say, known.copies)


def get(name: str, say: Say = tell) -> Path:
    """Bring a set's files to this machine, and return the folder that they are in."""
    path, _ = _prepared(name)
    if path:
        return path.parent
    _, paths = _fetched(name, say)
    return next(iter(paths.values())).parent


def available() -> dict[str, Path | None]:
    """Where each known set, and each own `.npz` in the data folders, is now: a file or a folder, or None."""
    places: dict[str, Path | None] = {}
    for name, known in CATALOG.items():
        path, _ = _prepared(name)
        folders = (
            next(iter(paths.values())).parent
            for form in known.forms
            if len(paths := find(name, form)) == len(form.files)
        )
        places[name] = path or next(folders, None)
    copies = {copy for known in CATALOG.values() for copy in known.copies}
    return places | {name: path for name, path in _npz().items() if name not in copies | places.keys()}


def _npz() -> dict[str, Path]:
    """The `.npz` files of the data folders by their stems; the first folder that has one counts."""
    found: dict[str, Path] = {}
    for folder in data_folders():
        for path in sorted(folder.glob("*.npz")):
            found.setdefault(path.stem, path)
    return found


def _prepared(name: str) -> tuple[Path | None, str]:
    """The prepared file that a name means, if it is here, and the note that goes with it."""
    if name.endswith(".npz"):
        path = Path(name).expanduser()
        if not path.is_file():
            raise DataError(f"there is no file {path}")
        return path, ""
    here = _npz()
    known = CATALOG.get(name)
    copies = {name: "prepared copy", **known.copies} if known else {name: ""}
    return next(((here[copy], note) for copy, note in copies.items() if copy in here), (None, ""))


def _known(name: str) -> ImageSet:
    """The set to be fetched; refuses an unknown name, and a set that nobody publishes."""
    known = CATALOG.get(name)
    if known is None:
        choices = sorted({*CATALOG, *_npz()})
        near = difflib.get_close_matches(name, choices, n=3)
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        raise DataError(
            f"there is no image set {name!r}.{meant} Known sets: {', '.join(choices)}; "
            "or give the path of an .npz file with x_train, y_train, x_test, y_test"
        )
    if not known.forms:
        folders = " or ".join(map(str, data_folders()))
        raise DataError(
            f"{name} has no official host: put its prepared file {name}.npz in {folders}, "
            "or set ENGRAM_DATA to the folder that has it"
        )
    return known


def _made(origin: str, arrays: Arrays, classes: tuple[str, ...] | None, name: str, note: str) -> Images:
    try:
        return Images(*arrays[:4], classes=arrays.classes or classes, name=name, note=note)
    except DataError as error:
        raise DataError(f"{origin}: {error}") from error
