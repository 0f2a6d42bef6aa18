"""Streams without boundaries: tasks that are shown image after image, to a learner that is not told where they end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from engram.scenarios.task import LOADED_BYTES, Batch, ClosedDataError, Data, Pixels, Tasks


class Plan(NamedTuple):
    """What a stream shows in which step, and where each task would end if there were boundaries."""

    rows: Tensor  # (samples,): index among the training images of all tasks, task after task
    sizes: tuple[int, ...]  # samples of each step
    ends: tuple[int, ...]  # of each task, the number of steps after which it nominally ends


class Stream(ABC):
    """How the tasks of a scenario are shown without boundaries."""

    @abstractmethod
    def plan(self, tasks: Tasks, lengths: Sequence[int], batch: int, drop_last: bool = False) -> Plan:
        """What is shown.

        Args:
            tasks: As they were drawn.
            lengths: Samples of each task: its images times its epochs, or its steps times the batch size.
            batch: Samples per step.
            drop_last: Whether the last step is left out if its batch is not full.
        """

    def tasks_for_batch(self, tasks: Tasks, batch: int) -> Tasks:
        """The tasks, drawn for batches of this size, if what they contain depends on it."""
        return tasks


def cut_into_batches(samples: int, batch: int, drop_last: bool = False) -> tuple[int, ...]:
    """The sizes of the batches of so many samples."""
    full, rest = divmod(samples, batch)
    return (batch,) * full + ((rest,) if rest and not (drop_last and full) else ())


class Shown(Data):
    """A stretch of a stream, in the order in which it is shown. It cannot be read again, unless a block allows it."""

    def __init__(self, source: Data, rows: Tensor, number: int) -> None:
        self.source, self.rows, self.number = source, rows, number
        self.tasks = (number,)
        self.open = False

    def __len__(self) -> int:
        return len(self.rows)

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Allow reading inside the block, after all of it was shown."""
        self.open = True
        try:
            yield
        finally:
            self.open = False

    def _rows(self, indices: Tensor) -> Tensor:
        if not self.open:
            raise ClosedDataError(
                "a stream without boundaries shows its images in batches, and they may not be read besides; keep what "
                "is needed later, in a buffer, say"
            )
        return self.rows.index_select(0, indices)

    def batch(self, indices: Tensor) -> Batch:
        batch = self.source.batch(self._rows(indices))
        return batch._replace(t=torch.full_like(batch.y, self.number), tasks=self.tasks)

    def pixels(self, indices: Tensor) -> Tensor:
        return self.source.pixels(self._rows(indices))

    def leaves(self) -> Iterator[Pixels]:
        return self.source.leaves()


class StreamReader:
    """Reads the batches of a plan. A task's images are converted once, and held from its first batch to its last."""

    def __init__(self, tasks: Tasks, plan: Plan) -> None:
        self.tasks, device = tasks, tasks[0].train.device
        ends = torch.tensor(list(accumulate(len(task.train) for task in tasks)))
        rows = plan.rows[: sum(plan.sizes)]
        part = torch.bucketize(rows, ends, right=True)
        step = torch.repeat_interleave(torch.tensor(plan.sizes))
        # task by task within a batch, so that a batch is a few pieces; the order within a batch has no effect on a loss
        place, order = torch.sort(step * len(tasks) + part, stable=True)
        starts = torch.cat([ends.new_zeros(1), ends[:-1]])
        self.rows = (rows - starts[part])[order].to(device)
        found, counts = torch.unique_consecutive(place, return_counts=True)
        self.pieces: list[list[tuple[int, int, int]]] = [[] for _ in plan.sizes]  # (task, start, end) in self.rows
        self.last_step: dict[int, int] = {}
        end = 0
        for code, count in zip(found.tolist(), counts.tolist(), strict=True):
            at, task = divmod(code, len(tasks))
            self.pieces[at].append((task, end, end + count))
            self.last_step[task] = at
            end += count
        self.held: dict[int, ExitStack] = {}

    def batch(self, step: int) -> Batch:
        """The images of a step, with the task that each comes from."""
        found = []
        for task, start, end in self.pieces[step]:
            if task not in self.held:
                self._hold(task)
            found.append(self.tasks[task].train.batch(self.rows[start:end]))
            if self.last_step[task] == step:
                self.held.pop(task).close()
        if len(found) == 1:
            return found[0]
        x, y, t = (torch.cat([getattr(piece, name) for piece in found]) for name in ("x", "y", "t"))
        return Batch(x, y, t, tuple(sorted({task for piece in found for task in piece.tasks})))

    def _hold(self, task: int) -> None:
        """Opens a task's images; as floats if they fit into memory beside those that are held already."""
        size = sum(leaf.float_bytes for one in (*self.held, task) for leaf in self.tasks[one].train.leaves())
        self.held[task] = ExitStack()
        self.held[task].enter_context(self.tasks[task].train.opened(load=size <= LOADED_BYTES))

    def close(self) -> None:
        """Closes what is still held."""
        while self.held:
            self.held.popitem()[1].close()


def outputs_of(data: Data) -> Tensor:
    """The output of every image, without reading pixels."""
    return torch.cat([leaf.y for leaf in data.leaves()])
