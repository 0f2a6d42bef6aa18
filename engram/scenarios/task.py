"""Tasks: what is learned between two boundaries, as views of the pixels of a dataset."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, overload

import torch
from torch import Tensor

from engram.data.images import ClosedDataError as ClosedDataError
from engram.data.targets import Targets
from engram.scenarios.kinds import Kind, ScenarioError
from engram.scenarios.loader import Loader, Part

if TYPE_CHECKING:
    from engram.scenarios.stream import Stream

LOADED_BYTES = 600_000_000
"""If a task's pixels fit into this as floats, they are converted once per task, else batch by batch."""


class Batch(NamedTuple):
    """Images, with the output and the task of each."""

    x: Tensor  # (batch, pixels), float
    y: Tensor  # (batch,), index among all outputs of the network; (batch, k) floats if a task has values or labels
    t: Tensor  # (batch,), index of the task
    tasks: tuple[int, ...]  # the tasks that may occur in t
    extra: Mapping[str, Tensor] = {}  # what a buffer keeps with its images, such as logits

    def take(self, rows: Tensor) -> Batch:
        """Some of its images, by their places or by a mask."""
        extra = {name: column[rows] for name, column in self.extra.items()}
        return Batch(self.x[rows], self.y[rows], self.t[rows], self.tasks, extra)


class Data(ABC):
    """Labelled images that are read in batches. Sums and multiples are views, not copies."""

    tasks: tuple[int, ...]

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def batch(self, indices: Tensor) -> Batch:
        """The images at these indices (on the data's device)."""

    @abstractmethod
    def pixels(self, indices: Tensor) -> Tensor:
        """The pixels at these indices as stored: 8-bit if the source is, permuted, not scaled."""

    def order(self, rng: torch.Generator, batch: int) -> Tensor:
        """The indices of one epoch, in the order in which batches of this size use them."""
        return torch.randperm(len(self), generator=rng)

    @abstractmethod
    def leaves(self) -> Iterator[Pixels]:
        """The stored parts that this view is made of."""

    @property
    def device(self) -> torch.device:
        return next(self.leaves()).device

    def one_scaling(self) -> Scaling:
        """The scaling of all pixels to network input; raises if parts of the data have different scalings."""
        if any(leaf.dtype != torch.uint8 for leaf in self.leaves()):
            raise ScenarioError(
                "this method keeps or draws 8-bit pixels, and the data are not 8-bit; use another method, or give "
                "engram.Images"
            )
        first, *others = (leaf.scaling for leaf in self.leaves())
        if not all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True)):
            raise ScenarioError(
                "the data mix datasets that are normalised by different statistics, and this method keeps or draws "
                "images without their dataset; normalise all datasets alike (engram run: --normalize none, or one mean "
                "and standard deviation), or use another method"
            )
        return first

    def __add__(self, other: Data) -> Data:
        return Joined((self, other))

    def __rmul__(self, times: int) -> Data:
        return Repeated(self, times)

    def chunks(self, size: int = 1000) -> Iterator[Batch]:
        """All data in order, in batches of this size."""
        for start in range(0, len(self), size):
            yield self.batch(torch.arange(start, min(start + size, len(self)), device=self.device))

    @contextmanager
    def opened(self, load: bool = False) -> Iterator[None]:
        """Allow reading inside the block; with `load`, the data are kept as floats meanwhile, if they fit in memory."""
        leaves = list(dict.fromkeys(self.leaves()))
        fits = (
            load
            and sum(leaf.float_bytes for leaf in leaves) <= LOADED_BYTES
            and not any(leaf.mapped for leaf in leaves)
        )
        before = [(leaf.open, leaf.loaded) for leaf in leaves]
        try:
            for leaf in leaves:
                leaf.open = True
                if fits and leaf.loaded is None:
                    leaf.loaded = leaf.floats()
            yield
        finally:
            for leaf, (was_open, was_loaded) in zip(leaves, before, strict=True):
                leaf.open, leaf.loaded = was_open, was_loaded


class Scaling(NamedTuple):
    """8-bit pixel → network input: pixel · scale + shift, with one scale and shift per channel."""

    scale: Tensor  # (channels,)
    shift: Tensor

    def __call__(self, pixels: Tensor) -> Tensor:
        if pixels.dtype == torch.float32:
            return pixels
        x = pixels.to(torch.float32)
        if len(self.scale) == 1:
            return x.mul_(self.scale).add_(self.shift)
        by_channel = x.view(len(x), len(self.scale), -1)
        by_channel.mul_(self.scale[:, None]).add_(self.shift[:, None])
        return x

    def to_intensities(self, x: Tensor) -> Tensor:
        """Network input → intensities in [0, 1]."""
        by_channel = x.view(len(x), len(self.scale), -1)
        return by_channel.sub(self.shift[:, None]).div_(255 * self.scale[:, None]).clamp_(0, 1).view_as(x)

    def from_intensities(self, intensities: Tensor) -> Tensor:
        """Intensities in [0, 1] → network input."""
        by_channel = intensities.view(len(intensities), len(self.scale), -1)
        return by_channel.mul(255 * self.scale[:, None]).add_(self.shift[:, None]).view_as(intensities)

    @property
    def plain(self) -> bool:
        """Whether network input is the intensities themselves."""
        return bool((self.shift == 0).all() and torch.allclose(255 * self.scale, torch.ones_like(self.scale)))


class Prepare(NamedTuple):
    """What is done to rows as they are read from a file: a border, channels first, standardised features."""

    function: Callable[[Tensor], Tensor]  # (n, values as stored) → (n, width)
    width: int
    dtype: torch.dtype


@dataclass(eq=False)
class Pixels(Data):
    """Stored 8-bit images of one task: rows of a tensor that several tasks may share."""

    x: Tensor  # (all images, pixels): uint8, or floats that are already scaled
    y: Tensor  # (images of this view,)
    task: int
    scaling: Scaling
    rows: Tensor | None = None  # rows of x that belong to this view; None: all
    permutation: Tensor | None = None  # of the pixels
    transform: Callable[[Tensor], Tensor] | None = None  # (n, pixels) as stored → the same shape and type
    open: bool = True
    what: str = "data"
    loaded: Tensor | None = field(default=None, repr=False)
    mapped: bool = False  # x lies in a file: it is never copied as a whole
    prepare: Prepare | None = None  # what is done to rows of x first, if it could not be done to x as a whole

    def __post_init__(self) -> None:
        self.tasks = (self.task,)

    def __len__(self) -> int:
        return len(self.y)

    def leaves(self) -> Iterator[Pixels]:
        yield self

    @property
    def device(self) -> torch.device:
        return self.x.device

    @property
    def dtype(self) -> torch.dtype:
        """Of `pixels`."""
        return self.x.dtype if self.prepare is None else self.prepare.dtype

    @property
    def width(self) -> int:
        """Values of an image."""
        return self.x.shape[1] if self.prepare is None else self.prepare.width

    @property
    def float_bytes(self) -> int:
        return 4 * len(self) * self.width

    def pixels(self, indices: Tensor) -> Tensor:
        if not self.open:
            raise ClosedDataError(f"{self.what} of task {self.task + 1} may not be read now")
        rows = indices if self.rows is None else self.rows.index_select(0, indices)
        x = self.x.index_select(0, rows)
        x = x if self.prepare is None else self.prepare.function(x)
        x = x if self.permutation is None else x.index_select(1, self.permutation)
        return x if self.transform is None else self.transform(x)

    def floats(self) -> Tensor:
        """All images as network input, converted in pieces to keep the 8-bit copy small."""
        out = torch.empty(len(self), self.width, device=self.device)
        for start in range(0, len(self), 4096):
            rows = torch.arange(start, min(start + 4096, len(self)), device=self.device)
            out[start : start + 4096] = self.scaling(self.pixels(rows))
        return out

    def batch(self, indices: Tensor) -> Batch:
        x = self.scaling(self.pixels(indices)) if self.loaded is None else self.loaded.index_select(0, indices)
        y = self.y.index_select(0, indices)
        t = torch.full_like(y if y.ndim == 1 else y[:, 0], self.task, dtype=torch.long)
        return Batch(x, y, t, self.tasks)


class Joined(Data):
    """Several data, one after the other."""

    def __init__(self, parts: Sequence[Data]) -> None:
        self.parts = tuple(parts)
        self.tasks = tuple(sorted({task for part in self.parts for task in part.tasks}))
        self.ends = torch.tensor([len(part) for part in self.parts]).cumsum(0).tolist()

    def __len__(self) -> int:
        return int(self.ends[-1])

    def leaves(self) -> Iterator[Pixels]:
        for part in self.parts:
            yield from part.leaves()

    def _pieces(self, indices: Tensor) -> Iterator[tuple[Data, Tensor, Tensor]]:
        """(part, positions in the batch, indices in the part) for each part that the batch has images of."""
        start = 0
        for part, end in zip(self.parts, self.ends, strict=True):
            here = ((indices >= start) & (indices < end)).nonzero().squeeze(1)
            if len(here):
                yield part, here, indices.index_select(0, here) - start
            start = end

    def batch(self, indices: Tensor) -> Batch:
        pieces = [(here, part.batch(inside)) for part, here, inside in self._pieces(indices)]
        x = pieces[0][1].x.new_empty(len(indices), pieces[0][1].x.shape[1])
        y, t = pieces[0][1].y.new_empty(len(indices), *pieces[0][1].y.shape[1:]), indices.new_empty(len(indices))
        for here, piece in pieces:
            x.index_copy_(0, here, piece.x)
            y.index_copy_(0, here, piece.y)
            t.index_copy_(0, here, piece.t)
        return Batch(x, y, t, self.tasks)

    def pixels(self, indices: Tensor) -> Tensor:
        pieces = [(here, part.pixels(inside)) for part, here, inside in self._pieces(indices)]
        x = pieces[0][1].new_empty(len(indices), pieces[0][1].shape[1])
        for here, piece in pieces:
            x.index_copy_(0, here, piece)
        return x


class Repeated(Data):
    """The same data, several times."""

    def __init__(self, data: Data, times: int) -> None:
        self.data, self.times, self.tasks = data, times, data.tasks

    def __len__(self) -> int:
        return self.times * len(self.data)

    def leaves(self) -> Iterator[Pixels]:
        return self.data.leaves()

    def batch(self, indices: Tensor) -> Batch:
        return self.data.batch(indices % len(self.data))

    def pixels(self, indices: Tensor) -> Tensor:
        return self.data.pixels(indices % len(self.data))


@dataclass(frozen=True, eq=False)
class Task:
    """(X, Y, t): what is learned between two boundaries."""

    index: int
    """From 0."""
    train: Data
    test: Data
    classes: tuple[str, ...]
    """Names of the classes of this task, in the order of their outputs; or of its values or labels."""
    seed: int = 0
    """The seed that drew this task."""
    targets: Targets = "classes"
    """What is predicted."""
    shape: tuple[int, ...] = ()
    """The shape of one sample, as networks get it."""

    def loader(self, part: Part, batch: int = 128, *, drop_last: bool = False) -> Loader:
        """The task's data in batches (x, y, t), for a loop of your own.

        x has the shape that networks expect, (batch, channels, height, width) or (batch, features); y the index of the
        right output; t the index of the task. Each `for` loop over it is an epoch, in the order in which `engram.run`
        with the same seed and batch size goes through it. Inside a run, the test part is closed.

        Args:
            part: `train` or `test`.
            batch: Samples per batch.
            drop_last: Leave out the last batch if it is not full.
        """
        return Loader(self, part, batch, drop_last)


@dataclass(frozen=True, eq=False)
class Tasks(Sequence[Task]):
    """The tasks of a scenario as drawn by one seed, and the outputs of the network that belong to each task."""

    tasks: tuple[Task, ...]
    kind: Kind
    heads: tuple[slice, ...]
    """The outputs of each task's own classes."""
    outputs: int
    shape: tuple[int, ...]
    """The shape of the network's input: (channels, height, width) of an image, (features,) of a vector."""
    stream: Stream | None = None
    """How the tasks are shown if the learner is not told where they begin and end; None: it is told."""

    def for_batch(self, batch: int) -> Tasks:
        """The same tasks, drawn for batches of this size if that makes a difference."""
        return self if self.stream is None else self.stream.tasks_for_batch(self, batch)

    def __len__(self) -> int:
        return len(self.tasks)

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Task]: ...
    def __getitem__(self, index: int | slice) -> Task | Sequence[Task]:
        return self.tasks[index]

    def active(self, task: int, seen: int) -> slice:
        """The active outputs for a task once task `seen` is learned: its own head, the outputs so far, or all."""
        if self.kind == "task":
            return self.heads[task]
        if self.kind == "class":
            return slice(0, self.heads[max(task, seen)].stop)
        return slice(0, self.outputs)

    @cached_property
    def only_classes(self) -> bool:
        """Whether all tasks are classifications."""
        return all(task.targets == "classes" for task in self.tasks)

    @property
    def stored_values(self) -> int:
        """Values of a stored sample: of its input, and of its targets if they are more than an output's number."""
        first = next(self.tasks[0].train.leaves())
        target = 0 if self.only_classes else first.y.shape[1] * (4 if first.x.dtype == torch.uint8 else 1)
        return math.prod(self.shape) + target

    @property
    def floor(self) -> float:
        """Forgetting floor: the percentage of a learner that is perfect on the last task and guesses on the others."""
        if self.kind in ("class", "class-known"):
            last = torch.cat([leaf.y for leaf in self[-1].test.leaves()])
            # a class that comes back in the last task is right in earlier tasks as well
            known = [torch.cat([torch.isin(leaf.y, last) for leaf in task.test.leaves()]) for task in self[:-1]]
            guesses = sum(100 * float(right.double().mean()) for right in known)
        else:
            guesses = sum(self.guess(j) for j in range(len(self) - 1))
        return (100 + guesses) / len(self)

    def guess(self, task: int) -> float:
        """The score of guessing in percent: one of the active outputs; the mean of values, whose R² is 0; labels, whose
        mean average precision is their share of ones."""
        if self[task].targets == "classes":
            active = self.active(task, task)
            return 100 / int(active.stop - active.start)
        if self[task].targets == "values":
            return 0.0
        width = self.heads[task].stop - self.heads[task].start
        return 100 * float(torch.cat([leaf.y[:, :width] for leaf in self[task].test.leaves()]).mean())

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Close all training and test data inside the block; code that needs data opens just those."""
        leaves = [leaf for task in self for data in (task.train, task.test) for leaf in data.leaves()]
        was_open = [leaf.open for leaf in leaves]
        for leaf in leaves:
            leaf.open = False
        try:
            yield
        finally:
            for leaf, was in zip(leaves, was_open, strict=True):
                leaf.open = was


def pool(tasks: Sequence[Task]) -> Task:
    """Join all tasks into one."""
    return Task(
        index=tasks[-1].index,
        train=Joined([task.train for task in tasks]),
        test=Joined([task.test for task in tasks]),
        classes=tuple(name for task in tasks for name in task.classes),
    )
