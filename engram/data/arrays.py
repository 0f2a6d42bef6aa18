"""A dataset of labelled arrays that are not pictures: features, tables, signals. Values are kept as they are."""

from __future__ import annotations

import hashlib
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engram.core.messages import unknown
from engram.data.errors import DataError
from engram.data.images import Images
from engram.data.targets import read_array

Inputs = Literal["images", "arrays"]
"""What inputs are: pictures, stored in 8 bits, or anything else, kept as it is."""
LOOKED_AT = 1000
"""Rows that a hint looks at."""
EXACT_WHOLE = 2**24
"""Whole numbers up to this size are exact in 32-bit floats."""
VALUES_AT_ONCE = 1 << 20
"""Values that are looked at in one go: a memory-mapped array is never read whole."""


class Arrays(Images):
    """A dataset of labelled arrays of any shape: (n, features), (n, channels, length), …

    Values are not rounded: 32-bit floats reach the network bit for bit, other floats are converted to 32 bits, whole
    numbers are converted batch by batch. Memory-mapped arrays of 32-bit floats or whole numbers are not copied.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample, as networks get it."""
        return tuple(self.x_train.shape[1:])

    @property
    def channels(self) -> int:
        return 1 if len(self.shape) == 1 else self.shape[0]

    def padded_shape(self, pad: int) -> tuple[int, ...]:
        if pad:
            raise DataError(f"pad {pad}: only images have a border; give pad 0")
        return self.shape

    @staticmethod
    def check_inputs(what: str, value: ArrayLike) -> NDArray[Any]:
        return _check_values(what, value)

    @staticmethod
    def check_units(train: NDArray[Any], test: NDArray[Any]) -> None:
        kinds = ["floats" if x.dtype.kind == "f" else "whole numbers" for x in (train, test)]
        if kinds[0] != kinds[1]:
            raise DataError(f"x_train has {kinds[0]}, x_test {kinds[1]}: give both in the same units, and as one type")

    def _describe(self, tests: str) -> str:
        size = "×".join(map(str, self.shape))
        return f"Arrays({self.name}: {len(self.y_train)}/{tests} arrays of {size}, {self.n_classes} {self.targets})"

    def _new_digest(self) -> Any:
        return hashlib.sha256(f"arrays {self.x_train.dtype} {self.x_test.dtype}".encode())


def looks_like_images(x: NDArray[Any]) -> bool:
    """Whether an array of which nobody says what it is counts as pictures: whole numbers in the shape of pictures.

    Floats never do, because pictures are stored in 8 bits and floats would be rounded.
    """
    if x.dtype.kind not in "iu":
        return False
    if x.ndim not in (3, 4) or (x.ndim == 4 and x.shape[3] != 3):
        return x.ndim > 2 and x.dtype == np.uint8  # refused there, with the shape to give
    return True


def check_inputs_word(inputs: str) -> None:
    """Refuses what `inputs` of a file or a sequence cannot be; empty: nobody says."""
    if inputs and inputs not in get_args(Inputs):
        raise DataError(unknown("inputs", inputs, get_args(Inputs)))


def hint_at_pictures(x: NDArray[Any]) -> str:
    """What to do if floats that are kept as they are were meant as pictures; empty if they cannot be."""
    shaped = x.ndim == 3 or (x.ndim == 4 and x.shape[3] == 3)
    if x.dtype.kind != "f" or not shaped or not x.size:
        return ""
    few = x[:LOOKED_AT]
    if not (few.min() >= 0 and few.max() <= 1):
        return ""
    size = "×".join(map(str, x.shape[1:]))
    return (
        f"floats are kept as they are, as arrays of {size}; if they are images, say so (inputs='images' in the file: "
        "rounded to 8 bits), or save 8-bit pixels"
    )


def _check_values(what: str, value: ArrayLike) -> NDArray[Any]:
    x = read_array(what, value)
    if x.ndim < 2:
        raise DataError(f"{what} has shape {x.shape}: expected (n, features) or (n, …)")
    if x.size == 0:
        raise DataError(f"{what} is empty: its shape is {x.shape}")
    if x.dtype.kind not in "iufb":
        raise DataError(f"{what} has values of type {x.dtype}: give floats or whole numbers")
    whole = x.dtype.kind in "iu"
    for start in range(0, len(x), max(1, VALUES_AT_ONCE // max(1, x[0].size))):
        part = x[start : start + max(1, VALUES_AT_ONCE // max(1, x[0].size))]
        low, high = float(part.min()), float(part.max())  # NaN if any value is
        if not (np.isfinite(low) and np.isfinite(high)):
            raise DataError(f"{what} has values that are NaN or infinite: fill them in or leave those rows out")
        if whole and max(-low, high) > EXACT_WHOLE:
            raise DataError(f"{what} has the value {high if high > -low else low:.0f}, which 32-bit floats cannot hold")
        if not whole and max(-low, high) > float(np.finfo(np.float32).max):
            raise DataError(f"{what} has values beyond the range of 32-bit floats")
    return x if whole or x.dtype == np.float32 else x.astype(np.float32)
