"""Sweeps that can be held and killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sweep_helpers import Sweep, forget_held, load_held


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sweep]:
    folder = tmp_path / "told"
    folder.mkdir()
    monkeypatch.setenv("HELD", str(folder))
    load_held()
    yield Sweep(folder, tmp_path / "out")
    forget_held()
