"""What all tests share: one thread, and MNIST where it can be had."""

import os

import pytest
import torch

import engram as eg
from engram.data.errors import DataError
from engram.scenarios.task import Tasks


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)


@pytest.fixture(autouse=True)
def _one_mode_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray reads once per process whether clusters need a token; test_ray_token.py starts another process with one."""
    if "RAY_AUTH_MODE" not in os.environ:
        monkeypatch.setenv("RAY_AUTH_MODE", "disabled")


@pytest.fixture(scope="session")
def mnist() -> eg.Images:
    """The real set, from the user's own data folders: fetched once on a machine."""
    try:
        return eg.images("mnist")
    except DataError as error:
        return pytest.skip(f"no place has MNIST: {error}")


@pytest.fixture(scope="session")
def padded() -> dict[str, object]:
    """How the paper prepares MNIST."""
    return {"pad": 2, "normalize": (0.1000, 0.2752)}


@pytest.fixture(scope="module")
def split_mnist(mnist: eg.Images, padded: dict[str, object]) -> dict[str, Tasks]:
    return {kind: eg.split(mnist, kind=kind, **padded).tasks(0) for kind in ("task", "domain", "class")}


@pytest.fixture(scope="module")
def permuted_mnist(mnist: eg.Images, padded: dict[str, object]) -> dict[str, Tasks]:
    return {kind: eg.permute(mnist, kind=kind, **padded).tasks(0) for kind in ("task", "domain", "class")}
