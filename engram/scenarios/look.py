"""A dealt scenario as the categorisation sees it: arrays, and whether heads are shared."""

from __future__ import annotations

import torch

from engram.core.streams import stream
from engram.scenarios.categorize import Category, measured
from engram.scenarios.task import Tasks

IMAGES, MANY_TASKS = 1000, 20
"""Images a task: enough to tell classes and permutations apart, at a quarter of the time that 2,000 take. Half as many
where there are more tasks than this, at a quarter again."""


def category(tasks: Tasks) -> Category:
    """What kind of scenario this is, by its training images and outputs alone."""
    arrays = []
    images = IMAGES if len(tasks) <= MANY_TASKS else IMAGES // 2
    for task in tasks:
        rows = torch.randperm(len(task.train), generator=stream(0, "category", task.index))[:images]
        pixels = task.train.batch(rows.to(task.train.device)).x
        labels = torch.cat([leaf.y for leaf in task.train.leaves()])
        arrays.append((pixels.double().cpu().numpy(), labels.cpu().numpy()))
    return measured(arrays, "multi" if tasks.kind == "task" else "single", images)
