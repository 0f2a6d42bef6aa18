"""What the tests of the command line share: small image sets, answers, and waiting for files."""

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@dataclass(frozen=True)
class Answer:
    """What a call left: exit status, standard output, standard error."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which must hold one JSON document and nothing else."""
        return json.loads(self.out, parse_constant=_refused)

    @property
    def records(self) -> list[dict[str, Any]]:
        """Standard output, which must hold a record a line and nothing else."""
        return [json.loads(line, parse_constant=_refused) for line in self.out.splitlines()]


def _refused(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def wait_for(folder: Path, pattern: str, process: subprocess.Popen[str], seconds: float = 90) -> Path:
    """The file of that pattern, as soon as a running process has written to it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if (found := next(folder.glob(pattern), None)) and found.stat().st_size:
            return found
        if process.poll() is not None:
            pytest.fail(f"it ended with {process.returncode} before it wrote {pattern}: {process.stderr.read()}")
        time.sleep(0.002)  # a poll: the file system has nothing to wait on
    raise AssertionError(f"no {pattern} within {seconds} s")


def arrays(classes: int = 4, train: int = 24, test: int = 6, size: int = 6, **other: Any) -> dict[str, Any]:
    """A small image set: each class has a bright row or column of its own, in noise. `other` replaces arrays."""
    rng = np.random.default_rng(0)

    def part(each: int) -> tuple[Any, Any]:
        y = rng.permutation(np.repeat(np.arange(classes), each))
        x = rng.integers(0, 120, (len(y), size, size))
        for image, label in zip(x, y, strict=True):
            (image if label < size else image.T)[label % size] += 80
        return x.astype(np.uint8), y

    (x_train, y_train), (x_test, y_test) = part(train), part(test)
    found = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test, **other}
    return {name: array for name, array in found.items() if array is not None}


def written(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def same_but_for_time(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records without what another run of the same spec may have otherwise."""
    changing = ("peak_mb", "resumed_after_task", "resumed_after_epoch")
    return [
        {name: value for name, value in record.items() if name not in ("seconds", "environment")}
        | {"environment": {name: value for name, value in record["environment"].items() if name not in changing}}
        for record in records
    ]
