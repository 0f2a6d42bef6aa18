"""The memory ledger: bytes that a method holds beyond the network and its optimiser, a step's scratch not counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engram.core.code import is_outside
from engram.learning.buffer import Buffer
from engram.learning.learner import Learner
from engram.learning.method import Method
from engram.learning.optimizer import Optimizer
from engram.scenarios.task import Tasks

NOTES = 1000
"""Bytes of numbers and text that nobody has to declare."""


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


def bytes_in_words(value: Any, alone: bool = True) -> int:
    """Bytes of all numbers and text inside a value: 8 for a number, 1 for a truth value, text in UTF-8.

    A number that stands alone is a counter and has none, but for what it has above 8 bytes. The numbers and words that
    are the keys of a dictionary say where something is, and have none.
    """
    if isinstance(value, str):
        return len(value.encode(errors="surrogatepass"))
    if isinstance(value, bytes | bytearray):
        return len(value)
    if isinstance(value, int | float | complex | np.generic):
        size = bytes_of_number(value)
        return size if size > 8 or not alone else 0
    if isinstance(value, dict):
        keys = (key for key in value if isinstance(key, tuple | frozenset | bytes))
        return sum(bytes_in_words(v, False) for v in (*keys, *value.values()))
    if isinstance(value, list | tuple | set | frozenset | deque):
        return sum(bytes_in_words(v, False) for v in value)
    return 0


def bytes_of_number(value: Any) -> int:
    if isinstance(value, np.generic):
        return value.nbytes
    if isinstance(value, int) and not isinstance(value, bool):
        return max(8, (value.bit_length() + 7) // 8)
    return 1 if isinstance(value, bool) else 16 if isinstance(value, complex) else 8


def bytes_kept(value: Any, notes: bool = True) -> int:
    """Bytes of a value that lives across a boundary: tensors, arrays, numbers and text; an optimiser has none."""
    if isinstance(value, Optimizer | torch.optim.Optimizer):
        return 0
    if not isinstance(value, Buffer) and callable(state := getattr(value, "state_dict", None)):
        value = state()
    return bytes_of(value) + (bytes_in_words(value) if notes else 0)


def kept_by(member: Method, notes: bool = True) -> dict[str, int]:
    """Bytes of each attribute that a method keeps; without its notes, those of tensors and arrays.

    The package's own methods name in `uncounted` the attributes that note a few numbers per task, such as how its
    pixels are scaled, which were never counted in records; nobody else's are left out.
    """
    uncounted = {n for cls in type(member).__mro__ if not is_outside(cls) for n in vars(cls).get("uncounted", ())}
    values = {name: getattr(member, name, None) for name in member.kept}
    return {n: bytes_of(value) if n in uncounted else bytes_kept(value, notes) for n, value in values.items()}


def bytes_of_notes(member: Method) -> int:
    """Bytes of the numbers and the text that a method keeps, if they are few: the classes seen so far, say."""
    notes = sum(kept_by(member).values()) - sum(kept_by(member, notes=False).values())
    return notes if notes <= NOTES else 0


def memory(method: Method, on_network: Mapping[str, int] | None = None) -> dict[str, dict[str, int]]:
    """Bytes by part: `kept` across a boundary, with what was put on the network; `working` while training."""
    ledger: dict[str, dict[str, int]] = {"kept": {}, "working": {}}
    for member in method.members():
        working = {name: bytes_of(getattr(member, name, None)) for name in member.working}
        for part, sizes in (("kept", kept_by(member)), ("working", working)):
            for name, size in sizes.items():
                ledger[part][name] = ledger[part].get(name, 0) + size
    ledger["kept"] |= on_network or {}
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


def check_memory(method: Method, learner: Learner, on_network: Mapping[str, int], budget: int | None = None) -> None:
    """Refuses a method that keeps more bytes than it declares by `kept_bytes`, or more than the budget.

    Args:
        method: The method.
        learner: Its learner, at a boundary.
        on_network: Bytes of what the method has put on the network.
        budget: Bytes that it may keep.
    """
    for member in method.members():
        if not states_memory(member):
            continue
        parts = kept_by(member)
        measured = sum(parts.values()) - bytes_of_notes(member)
        declared = member.kept_bytes_after(learner.net, learner.tasks.stored_values, len(learner.tasks))
        if measured > declared:
            raise MemoryBudgetError(
                f"{type(member).__name__} keeps {measured:,} bytes after task {learner.task + 1} ({in_bytes(parts)}) "
                f"and declares {declared:,}; correct kept_bytes, or keep less"
            )
    kept = memory(method, on_network)["kept"]
    notes = sum(map(bytes_of_notes, method.members()))
    total, stated = sum(kept.values()) - notes, declared_bytes(method, learner.net, learner.tasks)
    if on_network and stated is not None and total > stated:
        names = "+".join(type(member).__name__ for member in method.members())
        raise MemoryBudgetError(
            f"{names} keeps {total:,} bytes after task {learner.task + 1} ({in_bytes(kept)}) and declares {stated:,}; "
            f"what it puts on the network ({', '.join(on_network)}) counts as well: make it an attribute of the "
            "method, name that in `kept`, and state its bytes in kept_bytes"
        )
    if budget is not None and total > budget:
        raise MemoryBudgetError(
            f"the method keeps {total:,} bytes after task {learner.task + 1} ({in_bytes(kept)}), "
            f"more than memory_budget {budget:,}"
        )


def in_bytes(parts: dict[str, int]) -> str:
    return ", ".join(f"{name} {size:,}" for name, size in parts.items())
