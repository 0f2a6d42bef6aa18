"""Sequence: tasks from arrays of one's own, such as four hospitals, ten users, five years."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike

from engram.data.arrays import Arrays
from engram.data.images import Images
from engram.data.tasked import TaskedImages, join_tasks
from engram.scenarios.kinds import Kind, ScenarioError
from engram.scenarios.scenario import (
    ImagePart,
    Ints,
    Scenario,
    hold_out,
    mix_tasks,
    prepare_images,
    select_subset,
    view_rows,
)
from engram.scenarios.split import heads_of, number_outputs
from engram.scenarios.task import Pixels, Task, Tasks


@dataclass(frozen=True, eq=False, kw_only=True)
class TaskSequence(Scenario):
    """Tasks of your own, in your order; classes may be missing from a task, and sizes may differ.

    The images are those of one dataset with tasks, or of several datasets, one after the other. `task`: each task has
    a head of the classes that it has. `domain`: one head of all classes. `class`: one head that grows with the classes
    seen. `iid`: the images of all tasks, distributed at random over as many tasks.
    """

    name = "sequence"
    several_datasets = True

    kind: Kind = "domain"
    """What changes from task to task: task, domain, class, class-known (number of classes known in advance), iid."""

    def __post_init__(self) -> None:
        super().__post_init__()
        names = sorted(one.name for one in self.images)
        if len(set(names)) < len(names):
            raise ScenarioError(f"datasets {', '.join(names)}: give each its own name, because records name them")
        check_labels(self.joined(), self.kind)

    def joined(self) -> TaskedImages:
        """All tasks as one dataset."""
        whole = tuple(one.unseal() for one in self.images)
        if len(whole) == 1 and isinstance(whole[0], TaskedImages):
            return whole[0]
        if len(whole) < 2:
            raise ScenarioError(
                f"{', '.join(one.name for one in whole) or 'nothing'} has no tasks; give a file with x_train_0, "
                "y_train_0, x_test_0, y_test_0, x_train_1, …, a folder of .npz files, several datasets (a.npz+b.npz), "
                "or engram.sequence([(x, y, x_test, y_test), …])"
            )
        return join_datasets(whole)

    def sizes(self) -> list[int]:
        rows, _ = choose_rows_by_task(self, self.joined())
        counts = np.bincount(self.joined().sizes.task_of_rows("train")[rows])
        return [round(len(rows) / len(counts))] * len(counts) if self.kind == "iid" else counts.tolist()

    def tasks(self, seed: int = 0, device: torch.device | str = "cpu") -> Tasks:
        images = self.joined()
        count = len(images.sizes.train)
        given = images.seal() if self.held_out else images
        train, test, scaling = prepare_images(self, given, device, choose_rows_by_task)
        of_train = images.sizes.task_of_rows("train")
        of_test = of_train if self.held_out else images.sizes.task_of_rows("test")
        shared = self.kind in ("domain", "iid")
        everything = list(range(images.n_classes))
        groups = [
            everything if shared else np.unique(train.y[of_rows(train, of_train, i)]).tolist() for i in range(count)
        ]
        outputs = number_outputs(groups, self.kind)

        def data_of(part: ImagePart, tasks_of_rows: Ints, what: str, task: int) -> Pixels:
            rows = of_rows(part, tasks_of_rows, task)
            output = np.full(images.n_classes, -1)
            for seen, numbers in zip(groups[: task + 1], outputs[: task + 1], strict=True):
                output[seen] = numbers  # of several heads, the last one counts: the task's own
            if (output[part.y[rows]] < 0).any():  # by `per_class` or `imbalance`
                raise ScenarioError(
                    f"task {task + 1} has test images of a class of which it has no training images left"
                )
            return view_rows(part, rows, output[part.y[rows]], task, scaling, what)

        tasks = tuple(
            Task(
                i,
                data_of(train, of_train, "training data", i),
                data_of(test, of_test, "test data", i),
                tuple(images.classes[label] for label in groups[i]),
            )
            for i in range(count)
        )
        shape = images.padded_shape(self.pad)
        if self.kind == "iid":
            return mix_tasks(tasks, seed, images.classes, shape)
        return Tasks(tasks, self.kind, heads_of(outputs, self.kind), max(map(max, outputs)) + 1, shape)


def of_rows(part: ImagePart, tasks_of_rows: Ints, task: int) -> Ints:
    """The rows in use that belong to a task."""
    rows: Ints = part.rows[tasks_of_rows[part.rows] == task]
    return rows


def choose_rows_by_task(scenario: Scenario, images: Images) -> tuple[Ints, Ints]:
    """As `choose_rows`, but images are held out of each class of each task; a single one is kept for training."""
    whole = images.unseal()
    assert isinstance(whole, TaskedImages)
    task = whole.sizes.task_of_rows("train")
    rows = select_subset(scenario, images.y_train)
    counts = np.bincount(task[rows], minlength=len(whole.sizes.train))
    if not counts.all():
        raise ScenarioError(f"no training images of task {int(counts.argmin()) + 1} are left; keep more of each class")
    if not scenario.held_out:
        return rows, rows[:0]
    _, stratum, size = np.unique(
        task[rows] * images.n_classes + images.y_train[rows], return_inverse=True, return_counts=True
    )
    several = np.flatnonzero(size[stratum] > 1)
    missing = np.setdiff1d(task, task[rows[several]])
    if len(missing):
        raise ScenarioError(f"task {missing[0] + 1} has one training image per class, so none can be held out")
    _, dense = np.unique(stratum[several], return_inverse=True)
    kept, held = hold_out(dense, scenario.held_out)
    single = np.flatnonzero(size[stratum] == 1)
    return np.sort(rows[np.concatenate([several[kept], single])]), rows[several[held]]


def check_labels(images: TaskedImages, kind: Kind) -> None:
    """Raise if a task is tested on a class that has no output by then."""
    train, test = (images.sizes.task_of_rows(part) for part in ("train", "test"))
    seen: Ints = np.array([], np.int64)
    for task in range(len(images.sizes.train)):
        own, tested = np.unique(images.y_train[train == task]), np.unique(images.y_test[test == task])
        seen = own if kind == "task" else np.union1d(seen, own)
        absent = np.setdiff1d(tested, seen).tolist()
        if absent and kind in ("task", "class", "class-known"):
            where = "that task" if kind == "task" else "that task or before"
            raise ScenarioError(
                f"task {task + 1} has test images of class {', '.join(images.classes[c] for c in absent)}, but no "
                f"training images of it are in {where}; leave them out, or use kind domain, with one head for all"
            )


@lru_cache(maxsize=2)  # all runs of a sweep need the same
def join_datasets(sets: tuple[Images, ...]) -> TaskedImages:
    """Datasets as one, a task each, or as many as each has; the one with the most classes names them."""
    tasks: list[Any] = []
    for images in sets:
        tasks += tasks_of(images) if isinstance(images, TaskedImages) else [images]
    classes = max((images.classes for images in sets), key=len)
    inputs = "arrays" if any(isinstance(images.unseal(), Arrays) for images in sets) else "images"
    return join_tasks(tasks, classes, "+".join(images.name for images in sets), inputs)


def tasks_of(images: TaskedImages) -> list[list[Any]]:
    """(x_train, y_train, x_test, y_test) of each task."""
    ends = [list(accumulate(sizes, initial=0)) for sizes in images.sizes]
    return [
        [
            images.x_train[ends[0][i] : ends[0][i + 1]],
            images.y_train[ends[0][i] : ends[0][i + 1]],
            images.x_test[ends[1][i] : ends[1][i + 1]],
            images.y_test[ends[1][i] : ends[1][i + 1]],
        ]
        for i in range(len(images.sizes.train))
    ]


def sequence(
    tasks: Sequence[Sequence[ArrayLike] | Images],
    kind: Kind = "domain",
    *,
    classes: Sequence[str] | None = None,
    name: str = "own",
    inputs: Literal["images", "arrays", ""] = "",
    **options: Any,
) -> TaskSequence:
    """Create a scenario from (x_train, y_train, x_test, y_test) of each task; options are the fields of
    `TaskSequence`. Whole numbers in the shape of pictures are images, and floats stay as they are, unless `inputs` says
    what they are: `images` (floats in [0, 1] are rounded to 8 bits) or `arrays`."""
    return TaskSequence(images=(join_tasks(tasks, classes, name, inputs),), kind=kind, **options)
