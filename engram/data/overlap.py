"""Test rows that are training rows too: their accuracy is not that on new data."""

from __future__ import annotations

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
    """Hashes of the test rows that are also in the training part, bit for bit; none if that is too large to compare."""
    if len(train) > MOST_COMPARED or train.dtype != test.dtype:
        return []
    hashes = [hash(row.tobytes()) for row in test]
    wanted = set(hashes)
    found = wanted.intersection(hash(row.tobytes()) for row in train)
    return [one for one in hashes if one in found]
