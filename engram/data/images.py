"""One labelled image set in memory, checked when it is made."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray


class DataError(ValueError):
    """Wrong data or no data. The message says what was wrong, what was expected and what to do."""


class ClosedDataError(RuntimeError):
    """Data were read that may not be seen at this point."""


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Images:
    """A labelled image set with a train and a test part.

    Pixels are uint8; floats in [0, 1] are accepted and rounded to 8 bits (`rint(255 x)`), so that a set
    has one content and one fingerprint. Anything that `np.asarray` reads will do, torch tensors included.
    """

    x_train: NDArray[np.uint8]
    """(n, height, width) or (n, height, width, 3)"""
    y_train: NDArray[np.int64]
    """(n,), every class of 0..k-1 at least once"""
    x_test: NDArray[np.uint8]
    y_test: NDArray[np.int64]
    classes: tuple[str, ...]
    """Class names; "0", "1", … where none were given."""
    name: str
    note: str
    """How this copy differs from the official set, for reports; empty where it does not."""

    def __init__(
        self,
        x_train: ArrayLike,
        y_train: ArrayLike,
        x_test: ArrayLike,
        y_test: ArrayLike,
        classes: Sequence[str] | None = None,
        name: str = "own",
        note: str = "",
    ) -> None:
        x = {"train": _pixels("x_train", x_train), "test": _pixels("x_test", x_test)}
        y = {"train": _labels("y_train", y_train), "test": _labels("y_test", y_test)}
        for part in x:
            if len(x[part]) != len(y[part]):
                raise DataError(f"x_{part} has {len(x[part])} images, but y_{part} has {len(y[part])} labels")
        sizes = x["train"].shape[1:], x["test"].shape[1:]
        if sizes[0] != sizes[1]:
            raise DataError(f"training images are {sizes[0]}, test images are {sizes[1]}: give both in one size")
        names = _class_names(y["train"], y["test"], classes)
        vars(self).update(  # frozen: set once, here
            x_train=x["train"],
            y_train=y["train"],
            x_test=x["test"],
            y_test=y["test"],
            classes=names,
            name=name,
            note=note,
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width), as networks count."""
        _, height, width, *channels = self.x_train.shape
        return (channels[0] if channels else 1, height, width)

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the content of the four arrays and their shapes; names and notes do not count."""
        digest = hashlib.sha256()
        for array in (self.x_train, self.y_train, self.x_test, self.y_test):
            digest.update(repr(array.shape).encode())
            digest.update(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).data)
        return f"sha256:{digest.hexdigest()[:16]}"

    def sealed(self) -> Images:
        """The same set with its test part out of reach: reading `x_test` or `y_test` raises. For tuning."""
        if "y_test" not in vars(self):
            return self
        known = {"fingerprint": self.fingerprint, "_whole": self}
        other = object.__new__(Images)
        vars(other).update({name: v for name, v in (vars(self) | known).items() if name not in ("x_test", "y_test")})
        return other

    def unsealed(self) -> Images:
        """The whole set, whether this one is sealed or not."""
        whole: Images = vars(self).get("_whole", self)
        return whole

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("x_test", "y_test"):
            raise ClosedDataError(
                f"the test images of {self.name} may not be read where images are held out for tuning"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        size = "×".join(map(str, self.shape))
        tests = len(self.y_test) if "y_test" in vars(self) else "sealed"
        return f"Images({self.name}: {len(self.y_train)}/{tests} images of {size}, {self.n_classes} classes)"


def _array(what: str, value: ArrayLike) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except Exception as error:  # ragged lists, tensors on a GPU or with gradients: each fails in its own way
        raise DataError(f"{what} cannot be read as an array: {error}") from error


def _pixels(what: str, value: ArrayLike) -> NDArray[np.uint8]:
    x = _array(what, value)
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
    low, high = x.min(), x.max()  # NaN spreads to both
    if not (np.isfinite(low) and np.isfinite(high)):
        raise DataError(f"{what} has pixels that are NaN or infinite: {wanted}")
    top = 1 if x.dtype.kind == "f" else 255
    if low < 0 or high > top:
        raise DataError(f"{what} has {x.dtype} pixels from {low} to {high}, not 0 to {top}: {wanted}")
    if x.dtype.kind == "f":
        x = np.rint(x * x.dtype.type(255))
    return x.astype(np.uint8)


def _labels(what: str, value: ArrayLike) -> NDArray[np.int64]:
    y = _array(what, value)
    if y.ndim != 1:
        raise DataError(f"{what} has shape {y.shape}: expected one label an image, (n,)")
    if y.size == 0:
        raise DataError(f"{what} is empty")
    if y.dtype.kind not in "iu":
        raise DataError(f"{what} has labels of type {y.dtype}: give integers 0, 1, …")
    if y.min() < 0:
        raise DataError(f"{what} has the label {y.min()}: labels are 0, 1, …")
    if y.max() > np.iinfo(np.int64).max:  # uint64 would wrap round
        raise DataError(f"{what} has the label {y.max()}: labels are 0, 1, … without gaps")
    return y.astype(np.int64, copy=False)


def _class_names(
    y_train: NDArray[np.int64], y_test: NDArray[np.int64], classes: Sequence[str] | None
) -> tuple[str, ...]:
    train, test = np.unique(y_train), np.unique(y_test)
    present = np.union1d(train, test)
    k = len(present)
    if present[-1] != k - 1:
        missing = np.setdiff1d(np.arange(min(int(present[-1]), k + 11)), present)  # enough to show ten
        raise DataError(
            f"labels go up to {present[-1]}, but {_listed(missing)} never occur: labels are 0..k-1 without "
            "gaps. Relabel both parts at once with np.unique(labels, return_inverse=True)"
        )
    if k < 2:
        raise DataError("all images have the label 0: at least two classes are needed")
    names = tuple(map(str, range(k))) if classes is None else tuple(map(str, classes))
    if len(names) != k:
        raise DataError(f"{len(names)} class names for {k} classes (labels 0 to {k - 1})")
    for part, there in (("training", train), ("test", test)):
        lacking = np.setdiff1d(present, there)
        if len(lacking):
            which = _listed([f"{i} ({names[i]})" if names[i] != str(i) else i for i in lacking])
            raise DataError(f"no {part} images of class {which}: each class needs both parts")
    return names


def _listed(values: Sequence[Any] | NDArray[Any]) -> str:
    return ", ".join(map(str, values[:10])) + (", …" if len(values) > 10 else "")
