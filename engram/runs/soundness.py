"""Sound records: lines that anyone may have written, checked for types and bounds in one place. No torch."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engram.runs.records import Record

RECORDED_METRICS = (
    "average_accuracy", "average_incremental_accuracy", "forgetting", "backward_transfer", "forward_transfer",
    "pooled_accuracy",
)  # fmt: skip
LARGEST_MEASURED = 1e15
"""Bound on everything measured, in either direction: sums and squares of such numbers stay finite."""
LARGEST_SETTING = sys.float_info.max
"""Bound on the numbers of a spec, some of which are coefficients of any size: each can be converted to a float."""
DEEPEST = 20
"""Bound on how deep objects and lists may be nested; specs of the package have 4 levels."""
LONGEST_TEXT = 100_000
"""Bound on the characters of names and values; tables that show longer ones take minutes. Tracebacks have none."""
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that command a terminal, turn the direction of text, or cannot be written; not line ends and tabs."""
MAY_HOLD_CONTROL = re.compile(CONTROL.pattern + r"|\\[bfr]|\\u(?:00[01789]|202|206|d[89a-f])", re.IGNORECASE)
"""Finds such characters in a line of JSON, escaped or not: most lines have none, and need no second look."""
GROUPS = ("scenario", "net", "training", "evaluation")
"""Parts of a spec that are objects."""
AT = ("step", "task", "current", "first")
"""What an entry of a curve states."""


def is_sound_record(record: Record) -> bool:
    """Whether everything that reads records can rely on the types and bounds of this one."""
    return (
        all(is_text(text) for text in (record.key, record.scenario, record.method, record.status))
        and (record.error is None or isinstance(record.error, str))
        and is_whole(record.seed)
        and all(value is None or is_bounded(value) for value in (getattr(record, name) for name in RECORDED_METRICS))
        and all(is_bounded(value) and value >= 0 for value in (record.steps, record.seconds))
        and are_bounded(record.losses)
        and isinstance(record.accuracy, list)
        and all(are_bounded(row) and row != [] for row in record.accuracy)
        and isinstance(record.curve, list)
        and all(isinstance(at, dict) and are_bounded([at.get(name) for name in AT]) for at in record.curve)
        and is_memory(record.memory)
        and is_extra(record.extra)
        and isinstance(record.scores, list)
        and all(is_text(text) for text in record.scores)
        and all(is_plain(value) for value in (record.spec, record.environment, record.search))
        and is_spec(record.spec)
        and isinstance(record.environment, dict)
        and all(is_names(record.environment.get(name, {})) for name in ("data", "variables"))
        and (record.search == {} or is_search_note(record.search, record.spec))
    )


def drop_control(value: Any) -> Any:
    """JSON without control characters, in names too."""
    if isinstance(value, str):
        return CONTROL.sub("", value)
    if isinstance(value, list):
        return [drop_control(one) for one in value]
    return {drop_control(k): drop_control(v) for k, v in value.items()} if isinstance(value, dict) else value


def is_spec(spec: Any) -> bool:
    return (
        isinstance(spec, dict)
        and all(isinstance(spec.get(group, {}), dict) for group in GROUPS)
        and is_names(spec.get("scenario", {}).get("images", {}))
        and all(isinstance(spec.get(group, []), list) for group in ("method", "metrics"))
        and all(isinstance(member, dict) for group in ("method", "metrics") for member in spec.get(group, []))
        and all(isinstance(part.get("name", ""), str) for part in (spec.get("net", {}), *spec.get("method", [])))
        and all(isinstance(metric.get("name", ""), str) for metric in spec.get("metrics", []))
    )


def is_search_note(search: Any, spec: dict[str, Any]) -> bool:
    """Whether it says what part in a search a run had, and the spec what it was scored on."""
    return (
        isinstance(search, dict)
        and isinstance(search.get("point"), dict)
        and all(isinstance(value, str | int | float) for value in search["point"].values())
        and all(isinstance(search.get(name), str) for name in ("stage", "selected_on"))
        and "held_out" in spec.get("scenario", {})
    )


def is_memory(memory: Any) -> bool:
    """Whether it is sizes in bytes by name, in groups."""
    return isinstance(memory, dict) and all(
        isinstance(parts, dict) and all(is_whole(size) and size >= 0 for size in parts.values())
        for parts in memory.values()
    )


def is_extra(extra: Any) -> bool:
    """Whether it is rows of numbers, or of lists of numbers, by name."""
    return isinstance(extra, dict) and all(
        isinstance(rows, list) and all(isinstance(row, list) and is_measured(row) for row in rows)
        for rows in extra.values()
    )


def is_measured(value: Any, deepest: int = 3) -> bool:
    """Whether it is a bounded number, nothing, or a list of such."""
    if isinstance(value, list):
        return deepest > 0 and all(is_measured(one, deepest - 1) for one in value)
    return value is None or (is_bounded(value) and not isinstance(value, bool))


def is_names(value: Any) -> bool:
    """Whether it is text by name."""
    return isinstance(value, dict) and all(is_text(text) for part in value.items() for text in part)


def is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_TEXT


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63


def is_bounded(value: Any) -> bool:
    """Whether it is a number within the bounds of what can be measured; NaN is not."""
    return isinstance(value, int | float) and abs(value) <= LARGEST_MEASURED


def are_bounded(values: Any) -> bool:
    """The same of a whole list, in C: a folder of records holds hundreds of thousands of accuracies."""
    return (
        isinstance(values, list)
        and set(map(type, values)) <= {int, float}
        and all(map(LARGEST_MEASURED.__ge__, map(abs, values)))
    )


def is_plain(value: Any, deepest: int = DEEPEST) -> bool:
    """Whether it is JSON of a bounded depth, with bounded text, whose numbers can be converted to floats."""
    if isinstance(value, dict | list):
        inside = [*value, *value.values()] if isinstance(value, dict) else value
        return deepest > 0 and all(is_plain(one, deepest - 1) for one in inside)
    if isinstance(value, str):
        return is_text(value)
    return not isinstance(value, int) or abs(value) <= LARGEST_SETTING
