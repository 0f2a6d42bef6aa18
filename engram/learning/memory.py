"""The memory ledger: bytes that a method holds beyond the network and its optimiser, a step's scratch not counted."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor, nn

from engram.learning.learner import Learner
from engram.learning.method import Method


def size(value: Any) -> int:
    """Bytes of all tensors and arrays inside a value."""
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, Learner):  # a teacher
        return size(value.net)
    if isinstance(value, nn.Module):
        return sum(size(tensor) for tensor in value.state_dict().values())
    if isinstance(value, dict):
        return sum(size(v) for v in value.values())
    if isinstance(value, list | tuple):
        return sum(size(v) for v in value)
    return 0


def memory(method: Method) -> dict[str, dict[str, int]]:
    """Bytes by part: `kept` across a boundary, `working` while training."""
    ledger: dict[str, dict[str, int]] = {"kept": {}, "working": {}}
    for member in method.members():
        for part, names in (("kept", member.kept), ("working", member.working)):
            for name in names:
                ledger[part][name] = ledger[part].get(name, 0) + size(getattr(member, name, None))
    return ledger
