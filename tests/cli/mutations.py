"""Draws what to replace in records, and by what: [victims, number] in, [[victim, path, value], ...] out, as JSON.

Run as a program of its own: hypothesis also draws constants of the modules that are loaded, so that in the process of
the tests the draws would depend on which tests came before.
"""

import json
import sys
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


HOSTILE = [
    int("9" * 400), -int("9" * 400), 1e308, -1e308, 1e16, float("nan"), float("inf"), -1, True, None, "", "text",
    "\ud800", "\x1b[2J", "a\x00b", "[red]", "</script>",
    [], {}, [[]], [None], {"x": []}, {"": {"": ""}}, [{"point": []}], nested(30), nested(450),
]  # fmt: skip
JSON = st.recursive(
    st.sampled_from(HOSTILE)
    | st.integers(-9, 10**20)
    | st.floats(allow_subnormal=False)
    | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything inside a value; of long lists the first two entries."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    return [path] * bool(path) + [found for name, one in inside for found in places(one, (*path, name))]


def draw_mutations(victims: list[dict[str, Any]], number: int) -> list[Any]:
    found: list[Any] = []
    where = [(one, path) for one, victim in enumerate(victims) for path in places(victim)]

    @settings(
        max_examples=number, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.sampled_from(where), JSON)
    def draw(place: tuple[int, tuple[Any, ...]], value: Any) -> None:
        found.append([*place, value])

    draw()
    return found


if __name__ == "__main__":
    print(json.dumps(draw_mutations(*json.load(sys.stdin))))
