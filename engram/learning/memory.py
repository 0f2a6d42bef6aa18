"""The memory ledger: bytes that a method holds beyond the network and its optimiser, a step's scratch not counted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor, nn

from engram.learning.buffer import Buffer
from engram.learning.learner import Learner
from engram.learning.method import Method


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
    if isinstance(value, list | tuple):
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


def declared_bytes(method: Method, net: nn.Module, pixels: int) -> int | None:
    """What a method states that it keeps; None if one of its members keeps something and does not state how much."""
    if any(member.kept and type(member).kept_bytes is Method.kept_bytes for member in method.members()):
        return None
    return method.kept_bytes(net, pixels)


def check_memory(method: Method, learner: Learner, budget: int | None = None) -> None:
    """Refuses a method that keeps more bytes than it declares by `kept_bytes`, or more than the budget."""
    total = 0
    for member in method.members():
        parts = {name: bytes_of(getattr(member, name, None)) for name in member.kept}
        measured = sum(parts.values())
        total += measured
        if type(member).kept_bytes is Method.kept_bytes:
            continue
        declared = member.kept_bytes(learner.net, math.prod(learner.tasks.shape))
        if measured > declared:
            raise MemoryBudgetError(
                f"{type(member).__name__} keeps {measured:,} bytes after task {learner.task + 1} ({in_words(parts)}) "
                f"and declares {declared:,}; correct kept_bytes, or keep less"
            )
    if budget is not None and total > budget:
        raise MemoryBudgetError(
            f"the method keeps {total:,} bytes after task {learner.task + 1} ({in_words(memory(method)['kept'])}), "
            f"more than memory_budget {budget:,}"
        )


def in_words(parts: dict[str, int]) -> str:
    return ", ".join(f"{name} {size:,}" for name, size in parts.items())
