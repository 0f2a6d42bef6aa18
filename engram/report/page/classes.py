"""Classes as the page shows them: confusion matrices, accuracy per class, and the names of outputs. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from engram.data.sets import CATALOG
from engram.runs.records import Record

CONFUSION = "confusion"
MOST_PREDICTED = 30
"""Predicted classes up to which a confusion matrix is shown; with more there is accuracy per class alone."""
SAME_LABELS = (
    "permute",
    "rotated",
    "transformed",
    "blurry-permuted",
    "blurry-rotated",
    "blurry-transformed",
)
"""Recipes whose outputs are the labels of their dataset, if all tasks share a head."""
SPLITS = ("split", "blurry-split")
"""Recipes that give each task some of the classes, in their order or in groups."""


def classes_data(runs: Sequence[Record]) -> dict[str, Any]:
    """How often which class was taken for which at the end, over all runs that know: per task, and over all tasks."""
    by_task: dict[int, Counter[tuple[int, int]]] = {}
    for run in runs:
        for task, cells in enumerate((run.extra.get(CONFUSION) or [[]])[-1]):
            for right, guess, number in filter(is_cell, cells or ()):
                by_task.setdefault(task, Counter())[right, guess] += number
    if not by_task:
        return {}
    names = output_names(runs[-1].spec.get("scenario", {}), max(by_task) + 1)
    own: list[Mapping[int, str]] = [names[task] if task < len(names) else {} for task in sorted(by_task)]
    whole: Counter[tuple[int, int]] = sum(by_task.values(), Counter())
    tasks = [
        {"task": task + 1, **task_classes(counts, named)}
        for (task, counts), named in zip(sorted(by_task.items()), own, strict=True)
    ]
    together = [{"task": 0, **task_classes(whole, agreed_names(own))}] if len(tasks) > 1 else []
    return {"matrices": [*together, *tasks], "most": MOST_PREDICTED}


def is_cell(cell: Any) -> bool:
    """Whether it is (right output, predicted output, how many)."""
    return isinstance(cell, list) and len(cell) == 3 and all(type(n) is int and n >= 0 for n in cell)


def task_classes(counts: Counter[tuple[int, int]], names: Mapping[int, str]) -> dict[str, Any]:
    """Rows of shares in percent: of a right class, each predicted one; and the accuracy of the class."""
    predicted = sorted({guess for _, guess in counts})
    square = sorted({*predicted, *(right for right, _ in counts)})  # so that a class that is never predicted is seen
    shown = next((some for some in (square, predicted) if len(some) <= MOST_PREDICTED), [])
    totals: Counter[int] = Counter()
    for (right, _), number in counts.items():
        totals[right] += number

    def share(right: int, guess: int) -> float:
        return 100 * counts[right, guess] / (totals[right] or 1)

    return {
        "predicted": [class_name(names, guess) for guess in shown],
        "rows": [
            {
                "right": class_name(names, right),
                "accuracy": share(right, right),
                "shares": [share(right, guess) for guess in shown],
                "n": totals[right],
            }
            for right in sorted(totals)
        ],
    }


def class_name(names: Mapping[int, str], output: int) -> str:
    return names.get(output, f"output {output}")


def agreed_names(tasks: Iterable[Mapping[int, str]]) -> dict[int, str]:
    """The names that outputs have in all tasks; in domain learning an output is another class in every task."""
    found: dict[int, set[str]] = {}
    for names in tasks:
        for output, name in names.items():
            found.setdefault(output, set()).add(name)
    return {output: next(iter(names)) for output, names in found.items() if len(names) == 1}


def output_names(scenario: Any, tasks: int) -> list[dict[int, str]]:
    """Per task: output → class, as far as a spec and the catalogue tell; none if the seed draws the order."""
    images = scenario.get("images") if isinstance(scenario, Mapping) else None
    if not isinstance(images, Mapping) or len(images) != 1 or next(iter(images)) not in CATALOG:
        return []
    names, kind = CATALOG[next(iter(images))].classes, scenario.get("kind")
    if scenario.get("make") in SAME_LABELS and kind == "domain":
        return [dict(enumerate(names))] * tasks
    if scenario.get("make") not in SPLITS or scenario.get("order", "fixed") != "fixed" or kind == "iid":
        return []
    groups = groups_of_classes(scenario, len(names))
    if kind == "domain":
        return [{output: names[label] for output, label in enumerate(group)} for group in groups]
    if kind == "task":
        starts = accumulate((len(group) for group in groups), initial=0)
        return [
            {start + i: names[label] for i, label in enumerate(group)}
            for start, group in zip(starts, groups, strict=False)
        ]
    number: dict[int, int] = {}
    for label in (label for group in groups for label in group):
        number.setdefault(label, len(number))
    return [{output: names[label] for label, output in number.items()}] * len(groups)


def groups_of_classes(scenario: Mapping[str, Any], classes: int) -> list[list[int]]:
    """The labels of each task of a split; none if a record states something else."""
    groups, size = scenario.get("groups") or [], scenario.get("classes_per_task", 2)
    if groups:
        whole = isinstance(groups, list) and all(isinstance(group, list) for group in groups)
        labels = [label for group in groups for label in group] if whole else [None]
        return groups if all(type(label) is int and 0 <= label < classes for label in labels) else []
    sizes = [size] * (classes // size) if type(size) is int and size > 0 else size
    if not isinstance(sizes, list) or not all(type(n) is int and n > 0 for n in sizes) or sum(sizes) != classes:
        return []
    return [list(range(end - n, end)) for n, end in zip(sizes, accumulate(sizes), strict=True)]
