"""Registries and loaded files as they were, after every test."""

import sys
from collections.abc import Iterator

import pytest

from engram.core.registry import REGISTRIES
from engram.core.userfile import _BESIDE


@pytest.fixture(autouse=True)
def _untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for registry in REGISTRIES:
        monkeypatch.setattr(registry, "added", {})
        monkeypatch.setattr(registry, "removed", set())
    monkeypatch.setattr("engram.core.userfile._LOADED", {})
    monkeypatch.setattr("engram.core.code._TEXTS", {})
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("engram_user_") or name in _BESIDE.texts:
            del sys.modules[name]
    _BESIDE.texts.clear()
