"""Datasets of other libraries, read item by item: anything with `__len__` and `__getitem__`."""

from __future__ import annotations

import hashlib
import json
import os
import time
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engram.core.functions import function_parts
from engram.core.messages import Say
from engram.data.errors import DataError
from engram.data.files import data_folders

Columns = tuple[str, str] | tuple[int, int] | None
"""Where an item has its input and its label."""
LABEL_NAMES = ("label", "labels", "y", "target", "class")
READ_TWICE = 8
"""Items that are read twice, to notice random transforms."""
QUIET_SECONDS = 2.0
"""Reading that takes no longer says nothing."""


class ItemArrays(NamedTuple):
    """All items of a dataset."""

    x: NDArray[Any]
    y: NDArray[np.int64]


class Reader:
    """Reads datasets into arrays, and says where it is if that takes long.

    Args:
        pixels: Whether items are images, which are turned to (height, width) or (height, width, 3).
        columns: Where an item has its input and its label, if that is not clear.
        say: Where progress goes.
    """

    def __init__(self, *, pixels: bool, columns: Columns, say: Say) -> None:
        self.pixels, self.columns, self.say = pixels, columns, say

    def read(self, dataset: Any, part: str) -> ItemArrays:
        """All items, from the cache if the same content was read before."""
        check_sized(dataset, part)
        cached = cache_path(dataset, repr((self.pixels, self.columns)))
        if cached is not None and (known := load_cached(cached)) is not None:
            return known
        arrays = self.read_items(dataset, part)
        if cached is not None:
            save_cached(cached, arrays)
        return arrays

    def read_items(self, dataset: Any, part: str) -> ItemArrays:
        x: NDArray[Any] | None = None
        labels = np.empty(len(dataset), np.int64)
        started = said = time.monotonic()
        for i in range(len(dataset)):
            where = f"item {i} of {part}"
            value, labels[i] = self.read_item(dataset, i, where)
            if i < READ_TWICE and not np.array_equal(value, self.read_item(dataset, i, where)[0], equal_nan=True):
                raise DataError(
                    f"{where} is another one when it is read again: leave random transforms out; engram augments "
                    "images while it trains (Training.augment)"
                )
            if x is None:
                x = np.empty((len(dataset), *value.shape), value.dtype)
            x = fit(x, value, where, exact=self.pixels)
            x[i] = value
            if time.monotonic() - max(said, started + QUIET_SECONDS) > QUIET_SECONDS:
                said = time.monotonic()
                self.say(f"{part}: {i + 1:,} of {len(dataset):,} items read")
        assert x is not None
        return ItemArrays(x, labels)

    def read_item(self, dataset: Any, i: int, where: str) -> tuple[NDArray[Any], int]:
        try:
            item = dataset[i]
        except Exception as error:
            raise DataError(f"{where} cannot be read: {type(error).__name__}: {error}") from error
        given, label = split_item(item, self.columns, where)
        return (to_pixels(given, where) if self.pixels else to_values(given, where)), to_label(label, where)


def check_sized(dataset: Any, part: str) -> None:
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise DataError(
            f"{part} has type {type(dataset).__name__}, which has no length or no items; give a dataset with __len__ "
            "and __getitem__, such as a list of pairs"
        )
    if isinstance(dataset, str | bytes | Mapping | np.ndarray):
        what = f"{part} has type {type(dataset).__name__}"
        raise DataError(f"{what}; give a dataset of (input, label) items, one per sample")
    if not len(dataset):
        raise DataError(f"{part} has no items")


def split_parts(train: Any, test: Any) -> tuple[Any, Any]:
    """The two parts; also of one mapping that has both, as Hugging Face's DatasetDict."""
    if test is not None:
        return train, test
    if isinstance(train, Mapping):
        if {"train", "test"} <= set(train):
            return train["train"], train["test"]
        raise DataError(f"the dataset has the parts {', '.join(map(str, train))}; give one to train and one to test on")
    raise DataError("give two datasets: one to train and one to test on, as in Images.of(train, test)")


def split_item(item: Any, columns: Columns, where: str) -> tuple[Any, Any]:
    """Input and label of an item."""
    if isinstance(item, Mapping):
        names = columns or guess_columns(item, where)
        if missing := [name for name in names if name not in item]:
            raise DataError(f"{where} has no column {missing[0]!r}; its columns are {', '.join(map(str, item))}")
        return item[names[0]], item[names[1]]
    if not isinstance(item, tuple | list):
        what = f"{where} has type {type(item).__name__}"
        raise DataError(f"{what}; expected a pair (input, label), or a row with columns")
    if columns is None and len(item) != 2:
        raise DataError(f"{where} has {len(item)} parts; give the places of input and label, as in columns=(0, 1)")
    places = columns or (0, 1)
    if not all(isinstance(place, int) and -len(item) <= place < len(item) for place in places):
        raise DataError(f"{where} has {len(item)} parts without names, and columns is {columns}; give places from 0 on")
    return item[int(places[0])], item[int(places[1])]


def guess_columns(row: Mapping[str, Any], where: str) -> tuple[str, str]:
    labels = [name for name in row if name in LABEL_NAMES]
    others = [name for name in row if name not in labels]
    if len(labels) != 1 or len(others) != 1:
        raise DataError(
            f"{where} has the columns {', '.join(map(str, row))}; say which are input and label, as in "
            "columns=('image', 'label')"
        )
    return others[0], labels[0]


def to_label(value: Any, where: str) -> int:
    try:
        array = np.asarray(value)
        if array.shape != () or array.dtype.kind not in "iub":
            raise TypeError
        return int(array)
    except Exception as error:
        raise DataError(f"{where} has the label {value!r:.60}; give whole numbers 0, 1, …") from error


def to_values(value: Any, where: str) -> NDArray[Any]:
    """An input that is kept as it is."""
    try:
        array = np.asarray(value)
    except Exception as error:
        raise DataError(f"{where} cannot be read as an array: {error}") from error
    if array.dtype.kind not in "iufb" or not array.ndim:
        raise DataError(f"{where} is {value!r:.60}; give an array of numbers with one dimension or more")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise DataError(f"{where} has values that are NaN or infinite: fill them in or leave the item out")
    return array


def to_pixels(value: Any, where: str) -> NDArray[Any]:
    """An image as (height, width) or (height, width, 3): 8-bit, or floats in [0, 1]."""
    mode = getattr(value, "mode", None)  # of Pillow's images
    if isinstance(mode, str) and mode not in ("L", "RGB"):
        raise DataError(f"{where} is an image of mode {mode}; convert it to L or RGB: image.convert('RGB')")
    array = to_values(value, where)
    if array.ndim == 3:
        channels_first = array.shape[0] in (1, 3) and (hasattr(value, "detach") or array.shape[2] not in (1, 3))
        array = np.moveaxis(array, 0, -1) if channels_first else array  # tensors have their channels first
        array = array[..., 0] if array.shape[2] == 1 else array
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3):
        raise DataError(f"{where} has shape {array.shape}: expected an image with one or three channels")
    low, high, top = array.min(initial=0), array.max(initial=0), 1 if array.dtype.kind == "f" else 255
    if low < 0 or high > top:
        raise DataError(
            f"{where} has {array.dtype} pixels from {low} to {high}, not 0 to {top}: leave out what normalises; "
            "engram does (normalize)"
        )
    return array


def fit(x: NDArray[Any], value: NDArray[Any], where: str, *, exact: bool) -> NDArray[Any]:
    """The array for all items, with a type that can hold this one too."""
    if value.shape != x.shape[1:]:
        raise DataError(f"{where} has shape {value.shape}, item 0 has {x.shape[1:]}: give all items the same shape")
    if value.dtype == x.dtype:
        return x
    if exact:
        raise DataError(f"{where} has values of type {value.dtype}, item 0 of type {x.dtype}: give all the same type")
    return x.astype(np.promote_types(x.dtype, value.dtype))


def class_names(dataset: Any, columns: Columns) -> Sequence[str] | None:
    """The names that a dataset gives its classes: torchvision's `classes`, or the features of Hugging Face."""
    named = getattr(dataset, "classes", None)
    features = getattr(dataset, "features", None)
    if named is None and isinstance(features, Mapping):
        chosen = [columns[1]] if columns else [name for name in features if name in LABEL_NAMES]
        named = getattr(features.get(chosen[0]), "names", None) if len(chosen) == 1 else None
    if isinstance(named, list | tuple) and all(isinstance(name, str) for name in named):
        return named
    return None


def cache_path(dataset: Any, how: str) -> Path | None:
    """Where the arrays of this content are kept; None if its content cannot be told without reading all items.

    It can for folders of files (`samples`, as ImageFolder has them: all bytes of all files and the code of transforms)
    and for datasets of Hugging Face, which name their content (`_fingerprint`) and how they format it.
    """
    digest = hashlib.sha256(how.encode())
    try:
        fingerprint = getattr(dataset, "_fingerprint", None)
        if isinstance(fingerprint, str) and hasattr(dataset, "format"):
            parts = function_parts([type(dataset), fingerprint, len(dataset), dataset.format], set())
        elif isinstance(samples := getattr(dataset, "samples", None), list):
            parts = function_parts(dataset, set())
            for path, _ in samples:
                with Path(path).open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
        else:
            return None
    except (ValueError, TypeError, OSError):  # what has no content that could be named
        return None
    digest.update(json.dumps(parts).encode())
    return data_folders()[-1] / "read" / f"{digest.hexdigest()[:32]}.npz"


def load_cached(path: Path) -> ItemArrays | None:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return ItemArrays(arrays["x"], arrays["y"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None  # not there, or damaged: read again


def save_cached(path: Path, arrays: ItemArrays) -> None:
    """A cache that cannot be written is no reason to stop."""
    part = path.with_suffix(f".{os.getpid()}.part")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("wb") as file:
                np.savez(file, x=arrays.x, y=arrays.y)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
