"""Where a field is searched: said once, in its annotation."""

from __future__ import annotations

from typing import NamedTuple


class Log(NamedTuple):
    """The range in which a field is searched, on a logarithmic scale: `Annotated[float, Log(1e-2, 1e4)]`."""

    low: float
    high: float


class Each:
    """Every choice of a field is tried: `Annotated[Literal["shuffled", "balanced"], Each()]`."""
