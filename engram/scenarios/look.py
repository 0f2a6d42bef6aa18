"""A dealt scenario as the categorisation sees it: arrays, and whether heads are shared."""

from __future__ import annotations

import torch

from engram.scenarios.categorize import Category, categorize
from engram.scenarios.streams import stream
from engram.scenarios.task import Tasks

IMAGES = 1000
"""Images a task: enough to tell classes and permutations apart, at a quarter of the time that 2,000 take."""


def category(tasks: Tasks) -> Category:
    """What kind of scenario this is, by its training images and outputs alone."""
    arrays = []
    for task in tasks:
        rows = torch.randperm(len(task.train), generator=stream(0, "category", task.index))[:IMAGES]
        batch = task.train.batch(rows.to(task.train.device))
        arrays.append((batch.x.cpu().numpy(), batch.y.cpu().numpy()))
    return categorize(arrays, heads="multi" if tasks.kind == "task" else "single")
