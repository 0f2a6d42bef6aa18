"""A task's data for a loop of one's own, as PyTorch's DataLoader would give them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from engram.core.streams import stream
from engram.scenarios.kinds import ScenarioError

if TYPE_CHECKING:
    from engram.scenarios.task import Data, Task

Part = Literal["train", "test"]


class Loader:
    """Batches (x, y, t) of a task: each `for` loop over it is one epoch, and `len` is its number of batches.

    Training data are shuffled anew in each epoch, in the order of engram's own loop with the same seed and batch size.
    Test data come in their own order.
    """

    def __init__(self, task: Task, part: Part, batch: int, drop_last: bool) -> None:
        if part not in ("train", "test"):
            raise ScenarioError(f"loader {part!r}: give 'train' or 'test'")
        if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
            raise ScenarioError(f"batch {batch!r} is out of range; give a whole number, 1 or more")
        self.task, self.part = task, part
        self.batch_size, self.drop_last = batch, drop_last
        self.data: Data = task.train if part == "train" else task.test
        self._rng = stream(task.seed, "shuffle", task.index)

    def __len__(self) -> int:
        full, rest = divmod(len(self.data), self.batch_size)
        return full if self.drop_last and full else full + (rest > 0)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        shuffled = self.part == "train"
        order = self.data.order(self._rng, self.batch_size) if shuffled else torch.arange(len(self.data))
        for indices in torch.split(order.to(self.data.device), self.batch_size)[: len(self)]:
            batch = self.data.batch(indices)
            yield batch.x.view(len(batch.x), *self.task.shape), batch.y, batch.t
