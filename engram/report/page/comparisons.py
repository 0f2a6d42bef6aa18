"""Whether rows of one column differ by more than chance, over the seeds that they have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

from engram.analysis.statistics import Paired, correct_tests
from engram.studies.table import compare_values


def compare_rows(rows: Mapping[str, Mapping[int, float]]) -> dict[str, dict[str, Any]]:
    """reference → other → the test of other − reference, from seed → value of each row; Holm's correction over the
    tests with one reference."""
    tests: dict[str, dict[str, Paired]] = {row: {} for row in rows}
    for a, b in combinations(rows, 2):
        test = compare_values(rows[a], rows[b])
        tests[a][b], tests[b][a] = test, replace(test, difference=-test.difference)
    found = {}
    for reference in rows:
        others = [row for row in rows if row != reference]
        adjusted = correct_tests([tests[reference][other] for other in others])
        found[reference] = {
            other: {"difference": test.difference, "n": test.n, "p": test.adjusted, "word": test.word}
            for other, test in zip(others, adjusted, strict=True)
        }
    return found
