"""Categorise the tasks of a scenario: their images and labels as arrays, and whether they share a head."""

from __future__ import annotations

import torch

from engram.core.streams import stream
from engram.scenarios.categorize import MAX_IMAGES, Category, Sample, categorize_samples
from engram.scenarios.network_test import NETWORK_IMAGES
from engram.scenarios.task import Tasks

MANY_TASKS = 20
"""With more tasks than this, half as many images per task are compared, in a quarter of the time."""


def categorize_tasks(tasks: Tasks) -> Category:
    """The kind of a scenario, measured on its training images and outputs alone."""
    samples = []
    share = 1 if len(tasks) <= MANY_TASKS else 2
    for task in tasks:
        rows = torch.randperm(len(task.train), generator=stream(0, "category", task.index))[: NETWORK_IMAGES // share]
        pixels = task.train.batch(rows.to(task.train.device)).x
        labels = torch.cat([leaf.y for leaf in task.train.leaves()])
        if labels.ndim == 2:  # values and labels have a head of their own, so its number stands for them
            head = tasks.heads[task.index].start
            labels = labels[:, 0].long() if task.targets == "classes" else torch.full_like(labels[:, 0].long(), head)
        samples.append(Sample(pixels.double().cpu().numpy(), labels.cpu().numpy()))
    shape = tasks.shape if len(tasks.shape) == 3 else ()
    return categorize_samples(samples, "multi" if tasks.kind == "task" else "single", shape, MAX_IMAGES // share)
