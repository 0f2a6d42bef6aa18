"""A dataset of labelled images in memory, checked when it is created."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engram.core.messages import Say, tell
from engram.data.errors import DataError
from engram.data.mapped import MappedArray, by_place, file_of, of_its_own, stamp_of
from engram.data.overlap import tell_of_overlap
from engram.data.targets import CHOICES, Targets, check_columns, check_numbers, check_targets_word, read_array

HALF_PRECISION = 2.0**-11
"""What 16-bit floats may be off from the multiple of 1/255 that was meant, at most."""


class ClosedDataError(RuntimeError):
    """Data were read that may not be read at this point."""


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Images:
    """A dataset of labelled images with a train and a test part.

    The arrays are its own: what is written later into those that were given changes nothing.
    Pixels are uint8; floats in [0, 1] are accepted and rounded to 8 bits (`rint(255 x)`), so that the same images
    always have the same fingerprint; if that changes them, it is said, and `note` has it. Arrays can be
    anything that `np.asarray` reads, including torch tensors.
    """

    x_train: NDArray[np.uint8]
    """(n, height, width) or (n, height, width, 3)"""
    y_train: NDArray[Any]
    """(n,), each class 0..k-1 at least once; of values and labels (n, columns), 32-bit floats."""
    x_test: NDArray[np.uint8]
    y_test: NDArray[Any]
    classes: tuple[str, ...]
    """Names of the classes, values or labels; "0", "1", … if none were given."""
    name: str
    note: str
    """How this copy differs from the official dataset, for reports; empty if it does not."""
    targets: Targets = "classes"
    """What is predicted: one of several `classes`; numbers, `values`; or several `labels` at once."""
    _files: ClassVar[Mapping[Path, tuple[int, int]]] = MappingProxyType({})
    """Size and time of the files that arrays lie in, as they were then."""

    def __init__(
        self,
        x_train: ArrayLike,
        y_train: ArrayLike,
        x_test: ArrayLike,
        y_test: ArrayLike,
        classes: Sequence[str] | None = None,
        name: str = "own",
        note: str = "",
        targets: Targets = "classes",
    ) -> None:
        check_targets_word(targets)
        x = {"train": self.check_inputs("x_train", x_train), "test": self.check_inputs("x_test", x_test)}
        y: dict[str, NDArray[Any]] = {}
        for part, value in (("train", y_train), ("test", y_test)):
            what = f"y_{part}"
            y[part] = _check_labels(what, value) if targets == "classes" else check_numbers(what, value, targets)
        for part in x:
            if len(x[part]) != len(y[part]):
                raise DataError(f"x_{part} has {len(x[part])} images, but y_{part} has {len(y[part])} labels")
        sizes = x["train"].shape[1:], x["test"].shape[1:]
        if sizes[0] != sizes[1]:
            raise DataError(f"training images are {sizes[0]}, test images are {sizes[1]}: give both in the same size")
        self.check_units(x["train"], x["test"])
        if targets == "classes":
            names = _class_names(y["train"], y["test"], classes)
        else:
            names = check_columns(y["train"], y["test"], targets, classes)
        if rounded := max(_largest_change(given, x[part]) for part, given in (("train", x_train), ("test", x_test))):
            note = note or f"floats rounded to 8 bits, by up to {rounded:.4f}"
            tell(f"{name}: {note}; engram.Arrays keeps floats as they are")
        tell_of_overlap(name, x["train"], x["test"])
        self._set(x_train=of_its_own(x["train"], x_train), x_test=of_its_own(x["test"], x_test))
        self._set(y_train=of_its_own(y["train"], y_train), y_test=of_its_own(y["test"], y_test))
        self._set(classes=names, name=name, note=note, targets=targets)
        files = {file for part in x if (file := file_of(x[part]))}
        self._set(_files={file: stamp_of(file) for file in files if file.is_file()})

    @classmethod
    def of(
        cls,
        train: Any,
        test: Any = None,
        *,
        columns: tuple[str, str] | tuple[int, int] | None = None,
        classes: Sequence[str] | None = None,
        name: str = "own",
        say: Say = tell,
    ) -> Self:
        """A dataset of another library: anything with `__len__` and `__getitem__` whose items are pairs (input, label)
        or rows with columns, such as those of torchvision and Hugging Face, or a list of pairs.

        Args:
            train: The training part, or a mapping with the parts `train` and `test`.
            test: The test part.
            columns: Names (or places) of input and label in an item; by default, the only ones.
            classes: Class names; by default those that the dataset states.
            name: What the dataset is called in tables.
            say: Where progress goes if reading takes long.
        """
        from engram.data.items import Reader, class_names, split_parts

        parts = split_parts(train, test)
        reader = Reader(pixels=cls.check_inputs is Images.check_inputs, columns=columns, say=say)
        (x_train, y_train), (x_test, y_test) = (
            reader.read(p, w) for p, w in zip(parts, ("train", "test"), strict=True)
        )
        names = classes if classes is not None else class_names(parts[0], columns)
        return cls(x_train, y_train, x_test, y_test, classes=names, name=name)

    def _set(self, **values: Any) -> None:
        """Set the fields of the frozen instance; for `__init__` only."""
        for field, value in values.items():
            object.__setattr__(self, field, value)

    def __getstate__(self) -> dict[str, Any]:
        """For other processes: arrays that lie in a file are not sent, but where they lie."""
        return {name: by_place(value) for name, value in vars(self).items() if name != "_files"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set(**{name: v.open() if isinstance(v, MappedArray) else v for name, v in state.items()})

    @staticmethod
    def check_inputs(what: str, value: ArrayLike) -> NDArray[Any]:
        """The inputs as they are stored, or a DataError."""
        return _check_pixels(what, value)

    @staticmethod
    def check_units(train: NDArray[Any], test: NDArray[Any]) -> None:
        """Refuses inputs of which the two parts cannot be in the same units."""
        for what, x, other in (("x_train", train, test), ("x_test", test, train)):
            if x.max() == 1 and other.max() > 1:
                raise DataError(
                    f"{what} has 8-bit pixels from 0 to 1, the other part up to {other.max()}: give both as 0–255, or "
                    "both as floats 0–1"
                )

    @property
    def shape(self) -> tuple[int, ...]:
        """(channels, height, width), the order that networks expect."""
        _, height, width, *channels = self.x_train.shape
        return (channels[0] if channels else 1, height, width)

    @property
    def channels(self) -> int:
        return self.shape[0]

    def padded_shape(self, pad: int) -> tuple[int, ...]:
        """The shape with a border of so many pixels."""
        channels, height, width = self.shape
        return (channels, height + 2 * pad, width + 2 * pad)

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def fingerprint(self) -> str:
        """Hash of the four arrays and their shapes; names and notes are not included. If an array lies in a file that
        was changed since, it is refused."""
        for file, stamp in self._files.items():
            if not file.is_file() or stamp_of(file) != stamp:
                raise DataError(
                    f"{file} is not there any more, or was changed since {self.name} was made of it; make it anew"
                )
        return self._hash

    @cached_property
    def _hash(self) -> str:
        digest = self._new_digest()
        if self.targets != "classes":
            digest.update(f"targets {self.targets}".encode())
        for array in (self.x_train, self.y_train, self.x_test, self.y_test):
            digest.update(repr(array.shape).encode())
            digest.update(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).data)
        return f"sha256:{digest.hexdigest()[:16]}"

    def _new_digest(self) -> Any:
        return hashlib.sha256()

    def seal(self) -> Images:
        """The same dataset with an unreadable test part: reading `x_test` or `y_test` raises. For tuning."""
        return SealedImages(self)

    def unseal(self) -> Images:
        """The whole dataset, whether or not this one is sealed."""
        return self

    def rename(self, name: str) -> Images:
        """The same dataset under another name."""
        return replace(self, name=name)

    def __repr__(self) -> str:
        return self._describe(str(len(self.y_test)))

    def _describe(self, tests: str) -> str:
        size = "×".join(map(str, self.shape))
        return f"Images({self.name}: {len(self.y_train)}/{tests} images of {size}, {self.n_classes} {self.targets})"


class SealedImages(Images):
    """A dataset whose test part cannot be read, because training images are held out to be tested on instead."""

    whole: Images

    def __init__(self, whole: Images) -> None:
        self._set(x_train=whole.x_train, y_train=whole.y_train, classes=whole.classes, name=whole.name, note=whole.note)
        self._set(whole=whole, targets=whole.targets)

    @property
    def fingerprint(self) -> str:
        return self.whole.fingerprint

    @property
    def shape(self) -> tuple[int, ...]:
        return self.whole.shape

    @property
    def channels(self) -> int:
        return self.whole.channels

    def padded_shape(self, pad: int) -> tuple[int, ...]:
        return self.whole.padded_shape(pad)

    @property
    def x_test(self) -> NoReturn:
        self._refuse()

    @property
    def y_test(self) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ClosedDataError(f"the test images of {self.name} may not be read while images are held out for tuning")

    def seal(self) -> Images:
        return self

    def unseal(self) -> Images:
        return self.whole

    def rename(self, name: str) -> Images:
        return SealedImages(self.whole.rename(name))

    def __repr__(self) -> str:
        return self._describe("sealed")


def _check_pixels(what: str, value: ArrayLike) -> NDArray[np.uint8]:
    x = read_array(what, value)
    if x.ndim not in (3, 4) or (x.ndim == 4 and x.shape[3] != 3):
        hint = ""
        if x.ndim == 4 and x.shape[1] in (1, 3):
            hint = "; channels come last: np.moveaxis(x, 1, -1)" if x.shape[1] == 3 else "; give x[:, 0]"
        elif x.ndim == 4 and x.shape[3] == 1:
            hint = "; give x[..., 0]"
        raise DataError(f"{what} has shape {x.shape}: expected (n, height, width) or (n, height, width, 3){hint}")
    if x.size == 0:
        raise DataError(f"{what} is empty: its shape is {x.shape}")
    if x.dtype == np.uint8:
        return x
    wanted = "give uint8 0–255 or floats 0–1"
    if x.dtype.kind not in "iuf":
        raise DataError(f"{what} has pixels of type {x.dtype}: {wanted}")
    low, high = x.min(), x.max()  # both are NaN if any pixel is
    if not (np.isfinite(low) and np.isfinite(high)):
        raise DataError(f"{what} has pixels that are NaN or infinite: {wanted}")
    top = 1 if x.dtype.kind == "f" else 255
    if low < 0 or high > top:
        raise DataError(f"{what} has {x.dtype} pixels from {low} to {high}, not 0 to {top}: {wanted}")
    if x.dtype.kind == "f":
        x = np.rint(x * x.dtype.type(255))
    return x.astype(np.uint8)


def _largest_change(given: ArrayLike, stored: NDArray[Any]) -> float:
    """By how much rounding to 8 bits changed floats; 0 if they were 8-bit pixels, divided by 255, before."""
    x = np.asarray(given)
    if x.dtype.kind != "f" or stored.dtype != np.uint8:
        return 0.0
    change = max(float(np.abs(a.astype(np.float64) - b / 255).max()) for a, b in zip(x, stored, strict=True))
    return change if change > HALF_PRECISION else 0.0


def _check_labels(what: str, value: ArrayLike) -> NDArray[np.int64]:
    y = read_array(what, value)
    if y.ndim != 1:
        hint = "" if y.ndim != 2 or not y.size else f"; {CHOICES}"
        raise DataError(f"{what} has shape {y.shape}: expected one label per image, (n,){hint}")
    if y.size == 0:
        raise DataError(f"{what} is empty")
    if y.dtype.kind not in "iu":
        numbers = "give integers 0, 1, …, as np.unique(labels, return_inverse=True) counts them"
        hint = f"; {CHOICES}" if y.dtype.kind == "f" else f": {numbers}"
        raise DataError(f"{what} has labels of type {y.dtype}{hint}")
    if y.min() < 0:
        raise DataError(f"{what} has the label {y.min()}: labels are 0, 1, …")
    if y.max() > np.iinfo(np.int64).max:  # a uint64 would overflow
        raise DataError(f"{what} has the label {y.max()}: labels are 0, 1, … without gaps")
    return y.astype(np.int64, copy=False)


def _class_names(
    y_train: NDArray[np.int64], y_test: NDArray[np.int64], classes: Sequence[str] | None
) -> tuple[str, ...]:
    train, test = np.unique(y_train), np.unique(y_test)
    present = np.union1d(train, test)
    k = len(present)
    if present[-1] != k - 1:
        missing = np.setdiff1d(np.arange(min(int(present[-1]), k + 11)), present)  # enough to show ten of them
        raise DataError(
            f"labels go up to {present[-1]}, but {_join_first(missing)} never occur: labels are 0..k-1 without "
            "gaps. Relabel both parts together with np.unique(labels, return_inverse=True)"
        )
    if k < 2:
        raise DataError("all images have the label 0: give at least two classes")
    names = tuple(map(str, range(k))) if classes is None else tuple(map(str, classes))
    if len(names) != k:
        raise DataError(f"{len(names)} class names for {k} classes (labels 0 to {k - 1})")
    for part, labels in (("training", train), ("test", test)):
        absent = np.setdiff1d(present, labels)
        if len(absent):
            which = _join_first([f"{i} ({names[i]})" if names[i] != str(i) else i for i in absent])
            raise DataError(f"no {part} images of class {which}: each class needs training and test images")
    return names


def _join_first(values: Sequence[Any] | NDArray[Any]) -> str:
    return ", ".join(map(str, values[:10])) + (", …" if len(values) > 10 else "")
