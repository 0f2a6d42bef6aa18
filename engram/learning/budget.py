"""Methods within so many bytes: buffers are sized, what cannot fit is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from engram.learning.combine import combine
from engram.learning.memory import states_memory
from engram.learning.method import Method
from engram.scenarios.task import Tasks


def fit_budget(
    method: Method,
    budget: int,
    net: nn.Module,
    tasks: Tasks,
    name_of: Callable[[Any], str] = lambda m: type(m).__name__,
) -> Method:
    """The method with its buffers sized so that it keeps at most so many bytes at a boundary."""
    pixels = tasks.stored_values
    members = list(method.members())
    for member in members:
        if not states_memory(member):
            raise ValueError(
                f"memory_budget {budget:,}: {name_of(member)} does not state how much it keeps; give it a kept_bytes"
            )
    names = "+".join(map(name_of, members))
    fixed = sum(member.kept_bytes_after(net, pixels, len(tasks)) for member in members if not member.sized_by_budget)
    if fixed > budget:
        raise ValueError(f"method {names} keeps {fixed:,} bytes, more than memory_budget {budget:,}")
    return combine([m.fit_budget(budget - fixed, tasks) if m.sized_by_budget else m for m in members])
