"""A dataset whose images belong to tasks already: hospitals, users, years."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engram.data.arrays import Arrays, check_inputs_word, looks_like_images
from engram.data.errors import DataError
from engram.data.images import Images
from engram.data.targets import read_array

PARTS = ("x_train", "y_train", "x_test", "y_test")


class TaskSizes(NamedTuple):
    """Number of images of each task; the images of a task lie one after the other."""

    train: tuple[int, ...]
    test: tuple[int, ...]

    def task_of_rows(self, part: str) -> NDArray[np.int64]:
        """The task of each row of the training or the test part."""
        sizes = self.train if part == "train" else self.test
        return np.repeat(np.arange(len(sizes)), sizes)


class TaskedImages(Images):
    """Images of several tasks. Classes may be missing from a task, and sizes may differ."""

    sizes: TaskSizes

    def _new_digest(self) -> Any:
        digest = super()._new_digest()
        digest.update(repr(tuple(self.sizes)).encode())
        return digest

    def rename(self, name: str) -> Images:
        return with_sizes(type(self), self.sizes, [getattr(self, part) for part in PARTS], self.classes, name)


class TaskedArrays(TaskedImages, Arrays):
    """Arrays of several tasks that are not pictures."""


def with_sizes(
    cls: type[TaskedImages], sizes: TaskSizes, arrays: Sequence[Any], classes: Sequence[str] | None, name: str
) -> TaskedImages:
    x_train, y_train, x_test, y_test = arrays
    dataset = cls(x_train, y_train, x_test, y_test, classes, name)
    dataset._set(sizes=sizes)
    return dataset


def join_tasks(
    tasks: Sequence[Sequence[ArrayLike] | Images],
    classes: Sequence[str] | None = None,
    name: str = "own",
    inputs: str = "",
) -> TaskedImages:
    """One dataset of all tasks, each given as (x_train, y_train, x_test, y_test) or as a dataset.

    They are read as images if `inputs` says so, or if nobody says and the inputs of all tasks are whole numbers in the
    shape of pictures; else as arrays.
    """
    check_inputs_word(inputs)
    if isinstance(tasks, str | bytes) or not isinstance(tasks, Sequence) or len(tasks) < 2:
        raise DataError("a sequence needs two or more tasks; give a list of (x_train, y_train, x_test, y_test)")
    parts = [_arrays_of_task(number, task) for number, task in enumerate(tasks, start=1)]
    for number, part in enumerate(parts, start=1):
        if part[0].shape[1:] != parts[0][0].shape[1:]:
            raise DataError(
                f"task {number} has inputs of shape {part[0].shape[1:]} and task 1 of {parts[0][0].shape[1:]}; bring "
                "all of them to one shape"
            )
    pictures = inputs == "images" or (
        not inputs
        and all(looks_like_images(part[0]) and looks_like_images(part[2]) for part in parts)
        and not any(isinstance(task, Arrays) for task in tasks)
    )
    types = {part[i].dtype for part in parts for i in (0, 2)}
    if pictures and len(types) > 1:  # 8-bit and [0, 1] side by side
        raise DataError(f"the tasks have pixels of types {', '.join(sorted(map(str, types)))}; give one type for all")
    sizes = TaskSizes(tuple(len(part[0]) for part in parts), tuple(len(part[2]) for part in parts))
    joined = [np.concatenate([part[i] for part in parts]) for i in range(4)]
    return with_sizes(TaskedImages if pictures else TaskedArrays, sizes, joined, classes, name)


def _arrays_of_task(number: int, task: Sequence[ArrayLike] | Images) -> list[NDArray[Any]]:
    """The four arrays of a task; what is wrong with one of them is said with the task's number."""
    if isinstance(task, Images):
        if task.targets != "classes":
            raise DataError(f"task {number} has {task.targets}, and a sequence takes classes")
        return [getattr(task, part) for part in PARTS]
    if isinstance(task, str | bytes | np.ndarray) or not isinstance(task, Sequence) or len(task) != 4:
        raise DataError(f"task {number} is not (x_train, y_train, x_test, y_test)")
    arrays = [read_array(f"{part} of task {number}", array) for part, array in zip(PARTS, task, strict=True)]
    for part, x, y in (("train", arrays[0], arrays[1]), ("test", arrays[2], arrays[3])):
        if x.ndim < 2 or x.size == 0:
            raise DataError(f"x_{part} of task {number} has shape {x.shape}: expected (n, …) with one row or more")
        if y.shape != (len(x),):
            raise DataError(f"task {number}: x_{part} has {len(x)} rows, but y_{part} has shape {y.shape}")
        if y.dtype.kind not in "iu":
            raise DataError(f"y_{part} of task {number} has labels of type {y.dtype}: give integers 0, 1, …")
    if arrays[0].shape[1:] != arrays[2].shape[1:]:
        raise DataError(f"task {number}: training inputs are {arrays[0].shape[1:]}, test inputs {arrays[2].shape[1:]}")
    return arrays
