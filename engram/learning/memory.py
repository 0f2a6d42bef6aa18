"""The memory ledger: bytes that a method holds beyond the network and its optimiser, a step's scratch not counted."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from torch import Tensor, nn

from engram.learning.buffer import Buffer
from engram.learning.learner import Learner
from engram.learning.method import Method
from engram.scenarios.task import Tasks


class MemoryBudgetError(ValueError):
    """A method keeps more than it declared, or than it was allowed."""


def bytes_of(value: Any) -> int:
    """Bytes of all tensors and arrays inside a value."""
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, Buffer):
        return value.bytes
    if isinstance(value, Learner):  # a teacher
        return bytes_of(value.net)
    if isinstance(value, nn.Module):
        return sum(bytes_of(tensor) for tensor in value.state_dict().values())
    if isinstance(value, dict):
        return sum(bytes_of(v) for v in value.values())
    if isinstance(value, list | tuple | set | frozenset | deque):
        return sum(bytes_of(v) for v in value)
    return 0


def memory(method: Method) -> dict[str, dict[str, int]]:
    """Bytes by part: `kept` across a boundary, `working` while training."""
    ledger: dict[str, dict[str, int]] = {"kept": {}, "working": {}}
    for member in method.members():
        for part, names in (("kept", member.kept), ("working", member.working)):
            for name in names:
                ledger[part][name] = ledger[part].get(name, 0) + bytes_of(getattr(member, name, None))
    return ledger


def states_memory(member: Method) -> bool:
    """Whether a method says how much it keeps."""
    cls = type(member)
    stated = cls.kept_bytes is not Method.kept_bytes or cls.kept_bytes_after is not Method.kept_bytes_after
    return stated or not member.kept


def declared_bytes(method: Method, net: nn.Module, tasks: Tasks) -> int | None:
    """What a method states that it keeps; None if one of its members keeps something and does not state how much."""
    if not all(map(states_memory, method.members())):
        return None
    return method.kept_bytes_after(net, tasks.stored_values, len(tasks))


def check_memory(method: Method, learner: Learner, budget: int | None = None) -> None:
    """Refuses a method that keeps more bytes than it declares by `kept_bytes`, or more than the budget."""
    total = 0
    for member in method.members():
        parts = {name: bytes_of(getattr(member, name, None)) for name in member.kept}
        measured = sum(parts.values())
        total += measured
        if not states_memory(member):
            continue
        declared = member.kept_bytes_after(learner.net, learner.tasks.stored_values, len(learner.tasks))
        if measured > declared:
            raise MemoryBudgetError(
                f"{type(member).__name__} keeps {measured:,} bytes after task {learner.task + 1} ({in_bytes(parts)}) "
                f"and declares {declared:,}; correct kept_bytes, or keep less"
            )
    if budget is not None and total > budget:
        raise MemoryBudgetError(
            f"the method keeps {total:,} bytes after task {learner.task + 1} ({in_bytes(memory(method)['kept'])}), "
            f"more than memory_budget {budget:,}"
        )


def in_bytes(parts: dict[str, int]) -> str:
    return ", ".join(f"{name} {size:,}" for name, size in parts.items())
