"""Random streams: every use of chance has its own generator, named by (seed, purpose, task)."""

import hashlib

import torch


def stream(seed: int, purpose: str, task: int = 0) -> torch.Generator:
    """A CPU generator that depends on nothing but its name.

    Since no stream is shared, a checkpoint needs no generator state, and an added use of chance leaves all
    others as they were.
    """
    digest = hashlib.sha256(f"{seed}/{purpose}/{task}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))
