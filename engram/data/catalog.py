"""Datasets by name: load, download and list them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engram.core.messages import Say, tell, unknown
from engram.data.arrays import Arrays, check_inputs_word, hint_at_pictures, looks_like_images
from engram.data.errors import DataError
from engram.data.files import Form, Paths, data_folders, fetch, find_files
from engram.data.formats import LabelledArrays, TaskArrays, read_npy_folder, read_npz
from engram.data.images import Images
from engram.data.sets import CATALOG, PublishedDataset
from engram.data.tasked import join_tasks

KEPT_IN_MEMORY = 6
"""Number of datasets that are kept after loading: one more than the longest queue has."""
_LOADED_IMAGES: dict[tuple[str, str], Images] = {}
_BLANK: dict[str, Images] = {}


def images(name: str, *, say: Say = tell) -> Images:
    """Load the dataset of this name; download it first if it is not on this machine.

    `name` is a key of `CATALOG`, the stem of your own `.npz` file in the folder ENGRAM_DATA, the path of an `.npz`
    file, a folder with x_train.npy and so on, or a folder of `.npz` files, a task each. A dataset that was loaded
    before is returned again, unless its file has changed.
    """
    if name in _BLANK:
        return _BLANK[name]
    path, _ = _find_prepared(name)
    files = sorted(path.glob("*.np[yz]")) if path and path.is_dir() else [path]
    origin = " ".join(f"{one} {one.stat().st_mtime_ns}" if one else str(data_folders()) for one in files)
    if (name, origin) not in _LOADED_IMAGES:
        while len(_LOADED_IMAGES) >= KEPT_IN_MEMORY:
            del _LOADED_IMAGES[next(iter(_LOADED_IMAGES))]
        _LOADED_IMAGES[name, origin] = _read(name, say)
    return _LOADED_IMAGES[name, origin]


@contextmanager
def use_blank_images() -> Iterator[None]:
    """Inside the block, published datasets have one pixel per class: enough for a help text, without a download."""
    for value, (name, known) in enumerate(CATALOG.items()):
        if not _find_prepared(name)[0]:
            y = np.arange(len(known.classes))
            x = np.full((len(y), 1, 1), value + 2, np.uint8)  # different pixels: a queue refuses the same dataset twice
            _BLANK[name] = Images(x, y, x + 128, y, known.classes, name)
    try:
        yield
    finally:
        _BLANK.clear()


def _read(name: str, say: Say) -> Images:
    path, note = _find_prepared(name)
    known = CATALOG.get(name)
    classes = known.classes if known else None
    if path and path.is_dir():
        read = read_npy_folder if any(path.glob("*.npy")) else read_folder
        return _build(str(path), read(path), classes, name, note, say)
    if path:
        return _build(str(path), read_npz(path), classes, name, note, say)
    form, paths = _fetch(name, say)
    return _build(name, form.read(paths), classes, name, note, say)


def _fetch(name: str, say: Say) -> tuple[Form, Paths]:
    known = _find_published(name)
    return fetch(name, known.forms, say, known.copies)


def get(name: str, say: Say = tell) -> Path:
    """Download a dataset's files if they are missing, and return the folder that contains them."""
    path, _ = _find_prepared(name)
    if path:
        return path.parent
    _, paths = _fetch(name, say)
    return next(iter(paths.values())).parent


def is_here(name: str) -> bool:
    """Whether a dataset is on this machine, so that loading it downloads nothing."""
    known = CATALOG.get(name)
    forms = known.forms if known else ()
    try:
        return _find_prepared(name)[0] is not None or any(len(find_files(name, f)) == len(f.files) for f in forms)
    except DataError:
        return False


def available() -> dict[str, Path | None]:
    """Map each known dataset, and each of your own `.npz` files in the data folders, to its file or folder, or None."""
    places: dict[str, Path | None] = {}
    for name, known in CATALOG.items():
        path, _ = _find_prepared(name)
        folders = (
            next(iter(paths.values())).parent
            for form in known.forms
            if len(paths := find_files(name, form)) == len(form.files)
        )
        places[name] = path or next(folders, None)
    copies = {copy for known in CATALOG.values() for copy in known.copies}
    return places | {name: path for name, path in _npz_files().items() if name not in copies | places.keys()}


def _npz_files() -> dict[str, Path]:
    """The `.npz` files in the data folders by stem, and folders with x_train.npy; of several with one name, the first
    counts."""
    files: dict[str, Path] = {}
    for folder in data_folders():
        for path in filter(Path.is_file, sorted(folder.glob("*.npz"))):
            files.setdefault(path.stem, path)
        for path in sorted(folder.glob("*/x_train.npy")):
            files.setdefault(path.parent.name, path.parent)
    return files


def _find_prepared(name: str) -> tuple[Path | None, str]:
    """The prepared `.npz` file for a name, or None, and the note that describes it."""
    if name.endswith(".npz"):
        path = Path(name).expanduser()
        if not path.is_file():
            raise DataError(f"file {path} does not exist")
        return path, ""
    files = _npz_files()
    known = CATALOG.get(name)
    if not known and name not in files and (folder := _find_folder(name)):
        return folder, ""
    copies = {name: "prepared copy", **known.copies} if known else {name: ""}
    return next(((files[copy], note) for copy, note in copies.items() if copy in files), (None, ""))


def _find_folder(name: str) -> Path | None:
    """A folder of .npz files, a task each, or of .npy files: in one of the data folders, or by its path."""
    places = [*(folder / name for folder in data_folders()), Path(name).expanduser()]
    return next((place for place in places if place.is_dir() and any(place.glob("*.np[yz]"))), None)


def read_folder(folder: Path) -> TaskArrays:
    """The tasks of a folder of .npz files, in the order of their names, in which numbers count as numbers."""
    paths = sorted(
        folder.glob("*.npz"),
        key=lambda path: [(w.isdigit(), int(w) if w.isdigit() else 0, w) for w in re.split(r"([0-9]+)", path.stem)],
    )
    tasks: list[list[NDArray[Any]]] = []
    classes, inputs = None, ""
    for path in paths:
        arrays = read_npz(path)
        if isinstance(arrays, TaskArrays):
            raise DataError(f"{path} has several tasks; in a folder, each file is one task")
        if arrays.targets != "classes":
            raise DataError(f"{path} has {arrays.targets}, and a sequence takes classes")
        if arrays.classes and classes and list(arrays.classes) != list(classes):
            raise DataError(f"{path} names other classes than the files before it")
        if tasks and arrays.inputs != inputs:
            raise DataError(f"{path} says other than the files before it what its inputs are; say the same in all")
        tasks.append(list(arrays[:4]))
        classes, inputs = arrays.classes or classes, arrays.inputs
    return TaskArrays(tasks, classes, inputs)


def _find_published(name: str) -> PublishedDataset:
    """The catalog's entry for a name; raises if the name is unknown or nobody publishes the files."""
    known = CATALOG.get(name)
    if known is None:
        raise DataError(
            unknown("dataset", name, sorted({*CATALOG, *_npz_files()}), nearest=3)
            + ", or give the path of an .npz file with x_train, y_train, x_test and y_test"
        )
    if not known.forms:
        folders = " or ".join(map(str, data_folders()))
        raise DataError(
            f"{name} cannot be downloaded, because it has no official host: put the prepared file {name}.npz in "
            f"{folders}, or set ENGRAM_DATA to the folder that contains it"
        )
    return known


def _build(
    origin: str,
    arrays: LabelledArrays | TaskArrays,
    classes: tuple[str, ...] | None,
    name: str,
    note: str,
    say: Say,
) -> Images:
    names = arrays.classes or classes
    try:
        check_inputs_word(arrays.inputs)
        first = arrays.tasks[0][0] if isinstance(arrays, TaskArrays) else arrays.x_train
        if not arrays.inputs and (hint := hint_at_pictures(first)):
            say(f"{origin}: {hint}")
        if isinstance(arrays, TaskArrays):
            return join_tasks(arrays.tasks, names, name, arrays.inputs)
        pictures = arrays.inputs == "images" if arrays.inputs else looks_like_images(arrays.x_train)
        dataset = Images if pictures else Arrays
        return dataset(*arrays[:4], classes=names, name=name, note=note, targets=arrays.targets)  # type: ignore[arg-type]
    except DataError as error:
        raise DataError(f"{origin}: {error}") from error
