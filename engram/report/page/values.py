"""Values of runs that the page calculates with: exact, by seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Exact(float):
    """A number that is not rounded for the page, because tests are made of it."""


def values_by_seed(values: Mapping[int, float]) -> dict[str, Any]:
    """`of`: the values by seed; `seeds` only if they are not 0, 1, 2, …"""
    seeds = sorted(values)
    found: dict[str, Any] = {"of": [Exact(values[seed]) for seed in seeds]}
    return found if seeds == list(range(len(seeds))) else {**found, "seeds": seeds}
