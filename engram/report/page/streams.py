"""Drift along streams for the page: what `engram describe SCENARIO --json` measured, read from files. No torch."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from engram.core.validation import is_number
from engram.runs.soundness import LARGEST_MEASURED, drop_control

LARGEST_FILE = 5_000_000
"""Bytes; what is larger is not a description."""
MOST_CLASSES_NAMED = 60
"""Classes up to which the page shows which of them each task has."""


def description_files(place: Path) -> list[Path]:
    """The files that can hold descriptions: a file of that name, or those in a folder, at any depth."""
    found = [place] if place.suffix == ".json" else sorted(place.rglob("*.json")) if place.is_dir() else []
    return [path for path in found if path.is_file() and path.stat().st_size <= LARGEST_FILE]


def read_streams(files: Iterable[Path]) -> list[dict[str, Any]]:
    """The descriptions among these files, the last one of each scenario; other JSON files are none of ours."""
    found: dict[str, dict[str, Any]] = {}
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
            stream = stream_data(drop_control(json.loads(text))) if '"evidence"' in text else None
        except (OSError, ValueError, RecursionError):
            continue
        if stream:
            found[stream["scenario"]] = stream
    return [found[name] for name in sorted(found)]


def stream_data(given: Any) -> dict[str, Any] | None:
    """What the page shows of a description; None if it is something else. Anyone may have written it."""
    try:
        evidence, tasks = given["evidence"], given["tasks"]
        drift, pairs = evidence["drift"], evidence["pairs"]
        x, y = numbers(drift["x"]), numbers(drift["y"])
        found: dict[str, Any] = {
            "scenario": word(given["scenario"]),
            "kind": word(given["kind"]),
            "reasons": [[word(name), word(reason)] for name, reason in evidence["reasons"].items()],
            "stretches": len(tasks) == 1 < len(x),
            "x": x,
            "y": y,
            "x_before": numbers(pair["energy"] for pair in pairs),
            "y_before": numbers(pair["total_variation"] for pair in pairs),
            "x_differs": [pair["x_differs"] is True for pair in pairs],
            "y_differs": [pair["y_differs"] is True for pair in pairs],
            "tasks": [
                {"classes": [word(name) for name in task["classes"]], "train": whole(task["train"])} for task in tasks
            ],
        }
    except (KeyError, TypeError, AttributeError, ValueError):
        return None
    if not len(x) == len(y) == len(pairs) + 1 > 1:
        return None
    classes = {name for task in found["tasks"] for name in task["classes"]}
    if found["stretches"] or len(classes) > MOST_CLASSES_NAMED:
        found["tasks"] = []
    return found


def word(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST_MEASURED:
        raise TypeError("not a number of samples")
    return value


def numbers(values: Iterable[Any]) -> list[float]:
    found = list(values)
    if not all(is_number(value) and abs(value) <= LARGEST_MEASURED for value in found):
        raise TypeError("not numbers")
    return found
