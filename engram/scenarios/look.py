"""Categorise the tasks of a scenario: their images and labels as arrays, and whether they share a head."""

from __future__ import annotations

import torch
from torch import Tensor

from engram.core.streams import stream
from engram.scenarios.categorize import MAX_IMAGES, Category, HeadLayout, Sample, Watch, categorize_samples
from engram.scenarios.network_test import NETWORK_IMAGES
from engram.scenarios.task import Data, Tasks

STRETCHES = 9
"""Parts that a stream of a single task is cut into, to see what changes along it."""
MANY_TASKS = 20
"""With more tasks than this, half as many images per task are compared, in a quarter of the time."""


def categorize_tasks(tasks: Tasks, watch: Watch = lambda done, of: None) -> Category:
    """The kind of a scenario, measured on its training images and outputs alone."""
    samples = []
    share = 1 if len(tasks) <= MANY_TASKS else 2
    for number, (data, own) in enumerate(parts_in_order(tasks)):
        rows = own[torch.randperm(len(own), generator=stream(0, "category", number))[: NETWORK_IMAGES // share]]
        pixels = data.batch(rows.to(data.device)).x
        labels = torch.cat([leaf.y for leaf in data.leaves()])[own.to(data.device)]
        if labels.ndim == 2:  # values and labels have a head of their own, so its number stands for them
            head, what = tasks.heads[number].start, tasks[number].targets
            labels = labels[:, 0].long() if what == "classes" else torch.full_like(labels[:, 0].long(), head)
        samples.append(Sample(pixels.double().cpu().numpy(), labels.cpu().numpy()))
    shape = tasks.shape if len(tasks.shape) == 3 else ()
    heads: HeadLayout = "multi" if tasks.kind == "task" else "single"
    parts = "tasks" if len(tasks) > 1 else "stretches of the stream"
    return categorize_samples(samples, heads, shape, MAX_IMAGES // share, parts, watch)


def parts_in_order(tasks: Tasks) -> list[tuple[Data, Tensor]]:
    """The training data of each task and their rows; a single task, which is a stream in order, in stretches."""
    if len(tasks) > 1:
        return [(task.train, torch.arange(len(task.train))) for task in tasks]
    train = tasks[0].train
    return [(train, rows) for rows in torch.arange(len(train)).tensor_split(STRETCHES)]
