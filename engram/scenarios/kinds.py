"""The kinds of scenario: the paper's Table 1. No torch."""

from __future__ import annotations

from typing import Literal, get_args

Kind = Literal["task", "domain", "class", "class-known", "iid"]
"""What changes from task to task; `class-known` is `class` with the number of classes known in advance."""
KINDS: tuple[str, ...] = get_args(Kind)


class ScenarioError(ValueError):
    """The scenario cannot be created; the message says why, and what to change."""
