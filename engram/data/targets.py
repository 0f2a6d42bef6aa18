"""What a dataset has to predict for each sample: one of several classes, numbers, or several labels at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engram.core.messages import unknown
from engram.data.errors import DataError

Targets = Literal["classes", "values", "labels"]
"""`classes`: one of k, trained by cross-entropy and scored by accuracy. `values`: numbers, trained by squared error and
scored by R². `labels`: any of k at once, trained by binary cross-entropy and scored by mean average precision."""
SCORES = {"classes": "accuracy", "values": "R²", "labels": "mean average precision"}
"""What a task is scored by, in percent."""
CHOICES = (
    'say what they are: targets="values" (numbers, trained by squared error, scored by R²), targets="labels" (a column '
    "of 0 and 1 per label, several at once), or give whole numbers 0, 1, …, one per sample, for classes"
)


def check_targets_word(targets: Any) -> None:
    if targets not in get_args(Targets):
        raise DataError(unknown("targets", targets, get_args(Targets)))


def read_array(what: str, value: ArrayLike) -> NDArray[Any]:
    if np.ma.is_masked(value):
        raise DataError(f"{what} has masked values: fill them in, x.filled(…), or leave those rows out")
    try:
        return np.asarray(value)
    except Exception as error:  # ragged lists and tensors on a GPU or with gradients raise different types
        raise DataError(f"{what} cannot be read as an array: {error}") from error


def check_numbers(what: str, value: ArrayLike, targets: Targets) -> NDArray[np.float32]:
    """Values or labels as 32-bit floats, (n, columns)."""
    y = read_array(what, value)
    if y.ndim == 1 and targets == "values":
        y = y[:, None]
    if y.ndim != 2 or y.size == 0:
        wanted = "(n,) or (n, values)" if targets == "values" else "(n, labels)"
        raise DataError(f"{what} has shape {y.shape}: expected {wanted}")
    if y.dtype.kind not in "iufb":
        raise DataError(f"{what} has targets of type {y.dtype}: give numbers")
    found = y.astype(np.float32)
    if not np.isfinite(found).all():
        raise DataError(f"{what} has targets that are NaN, infinite, or too large for 32-bit floats")
    if targets == "labels" and not np.isin(found, (0, 1)).all():
        raise DataError(f"{what} has other labels than 0 and 1: give a column per label")
    return found


def check_columns(
    y_train: NDArray[np.float32], y_test: NDArray[np.float32], targets: Targets, names: Sequence[str] | None
) -> tuple[str, ...]:
    """The names of the columns; refused if the score of one would not be defined."""
    k = y_train.shape[1]
    if y_test.shape[1] != k:
        raise DataError(f"y_train has {k} columns, y_test has {y_test.shape[1]}: give both the same")
    known = tuple(map(str, range(k))) if names is None else tuple(map(str, names))
    if len(known) != k:
        raise DataError(f"{len(known)} names for {k} columns of targets")
    for column, name in enumerate(known):
        if targets == "values" and np.ptp(y_test[:, column]) == 0:
            raise DataError(f"value {name} is the same in all test data: R² is not defined")
        if targets == "labels" and not y_test[:, column].any():
            raise DataError(f"label {name} is 0 in all test data: its average precision is not defined")
    return known
