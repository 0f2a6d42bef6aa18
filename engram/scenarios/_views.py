"""What permuted, rotated and transformed images share: each task has all classes, seen in its own way."""

from __future__ import annotations

from collections.abc import Callable

from engram.scenarios.kinds import ScenarioError
from engram.scenarios.scenario import ImagePart, Scenario, mix_tasks, view_rows
from engram.scenarios.task import Pixels, Scaling, Task, Tasks

See = Callable[[Pixels, int], Pixels]
"""(the data of a task as stored, the task) → the data as the task shows them."""


def picture_shape(scenario: Scenario) -> tuple[int, int, int]:
    """(channels, height, width) of the images with their border; other arrays are refused."""
    (images,) = scenario.images
    shape = images.padded_shape(scenario.pad)
    if len(shape) != 3:
        raise ScenarioError(
            f"{images.name} has arrays of {'×'.join(map(str, shape))}, and {scenario.name} takes images"
        )
    channels, height, width = shape
    return channels, height, width


def draw_views(
    scenario: Scenario, parts: tuple[ImagePart, ImagePart, Scaling], count: int, see: See, seed: int
) -> Tasks:
    """So many tasks with all classes each: a head per task, one head for all, or new outputs for each task."""
    (images,) = scenario.images
    train, test, scaling = parts
    k, shared = images.n_classes, scenario.kind in ("domain", "iid")

    def data_of(part: ImagePart, what: str, task: int) -> Pixels:
        outputs = part.y[part.rows] + (0 if shared else k * task)
        return see(view_rows(part, part.rows, outputs, task, scaling, what), task)

    tasks = tuple(
        Task(i, data_of(train, "training data", i), data_of(test, "test data", i), images.classes) for i in range(count)
    )
    shape = images.padded_shape(scenario.pad)
    if scenario.kind == "iid":
        return mix_tasks(tasks, seed, images.classes, shape)
    heads = tuple(slice(0, k) if shared else slice(k * i, k * (i + 1)) for i in range(count))
    return Tasks(tasks, scenario.kind, heads, k if shared else k * count, shape)
