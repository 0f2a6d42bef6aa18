"""Random streams: every use of chance has its own generator, named by (seed, purpose, task)."""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def stream(seed: int, purpose: str, task: int = 0) -> torch.Generator:
    """A CPU generator that depends on nothing but its name.

    Since no stream is shared, an added use of chance leaves all others as they were.
    """
    return torch.Generator().manual_seed(seed_of(seed, purpose, task))


def seed_of(seed: int, purpose: str, task: int = 0) -> int:
    """The number that the stream of this name begins with."""
    digest = hashlib.sha256(f"{seed}/{purpose}/{task}".encode()).digest()
    return int.from_bytes(digest[:7], "little")


def seed_global_generators(value: int, device: torch.device | None = None) -> None:
    """Seeds what layers and users' code draw from without naming a stream: PyTorch, NumPy and Python."""
    torch.default_generator.manual_seed(value)
    if device is not None and device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(value)
    random.seed(value)
    np.random.seed(value % (1 << 32))  # noqa: NPY002  (users' code draws from it)


@contextmanager
def own_global_generators(device: torch.device | None = None) -> Iterator[None]:
    """Global generators are back in the caller's state after the block, whatever is drawn or seeded inside."""
    cuda = [device] if device is not None and device.type == "cuda" else []
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=cuda):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)  # noqa: NPY002
