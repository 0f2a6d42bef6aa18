"""Test rows that are training rows too: their accuracy is not that on new data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engram.core.messages import tell

MOST_COMPARED = 1_000_000
"""Rows of the training part beyond which nothing is compared."""
_TOLD: set[int] = set()


def tell_of_overlap(name: str, train: NDArray[np.generic], test: NDArray[np.generic]) -> None:
    """Says how many test rows are training rows too, once for the same rows."""
    if not (shared := shared_rows(train, test)) or (rows := hash((len(train), *shared))) in _TOLD:
        return
    _TOLD.add(rows)
    tell(
        f"{name}: {len(shared):,} of {len(test):,} test inputs are training inputs too, so that accuracy on them is "
        "not accuracy on new data"
    )


def shared_rows(train: NDArray[np.generic], test: NDArray[np.generic]) -> list[int]:
    """Hashes of the test rows that are also in the training part.

    None if that is too large to compare, or if training rows occur more than once at least as often: few values in few
    columns make equal rows.
    """
    if len(train) > MOST_COMPARED or not {train.dtype.kind, test.dtype.kind} <= set("biuf"):
        return []
    common = np.result_type(train, test)
    known, wanted = hashes_of(train, common), hashes_of(test, common)
    shared = wanted[np.isin(wanted, known)]
    _, times = np.unique(known, return_counts=True)
    repeated = int(times[times > 1].sum())
    return [] if repeated * len(test) >= len(shared) * len(train) else [int(one) for one in shared]


def hashes_of(rows: NDArray[np.generic], dtype: np.dtype[Any]) -> NDArray[np.int64]:
    """Equal for rows of equal numbers, of whatever type they were."""
    if dtype.kind == "f":  # 0 and −0 are equal
        return np.fromiter((hash((row.astype(dtype) + 0.0).tobytes()) for row in rows), np.int64, len(rows))
    return np.fromiter((hash(row.astype(dtype, copy=False).tobytes()) for row in rows), np.int64, len(rows))
