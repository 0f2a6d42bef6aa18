"""The memory ledger: bytes that a method holds beyond the network and its optimiser."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from engram.learning.method import Method


def size(value: Any) -> int:
    """Bytes of all tensors inside a value."""
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, nn.Module):
        return sum(size(tensor) for tensor in value.state_dict().values())
    if isinstance(value, dict):
        return sum(size(v) for v in value.values())
    if isinstance(value, list | tuple):
        return sum(size(v) for v in value)
    return 0


def memory(method: Method) -> dict[str, dict[str, int]]:
    """Bytes by part: `kept` across a boundary, `working` while training."""
    return {
        "kept": {name: size(getattr(method, name)) for name in method.kept},
        "working": {name: size(getattr(method, name)) for name in method.working},
    }
