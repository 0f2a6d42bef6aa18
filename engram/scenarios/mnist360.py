"""MNIST-360: digits that rotate along the stream, in a stream without boundaries (Buzzega et al., 2020)."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from engram.core.streams import stream
from engram.data.images import Images
from engram.scenarios._views import picture_shape
from engram.scenarios.kinds import Kind, ScenarioError
from engram.scenarios.rotate import rotate_each
from engram.scenarios.scenario import ImagePart, Ints, Scenario, count_training_images, prepare_images
from engram.scenarios.stream import Plan, Stream
from engram.scenarios.task import Pixels, Scaling, Task, Tasks

DIGITS_SHOWN = 9
"""Digits 0 to 8 occur; a turned 9 would be a 6."""
CHUNKS, ROUNDS = 6, 3
DEFAULT_BATCH = 16
"""Batch size that tasks are drawn for until a run names another."""


class Stage(NamedTuple):
    """Two digits that come together, and which chunk of each."""

    digits: tuple[int, int]
    chunks: tuple[int, int]


def stages() -> Iterator[Stage]:
    """Three rounds of the pairs (0, 1), (1, 2), …, (8, 0); each takes a fresh chunk of both, from the last on."""
    used = [0] * DIGITS_SHOWN
    for _ in range(ROUNDS):
        for first in range(DIGITS_SHOWN):
            digits = (first, (first + 1) % DIGITS_SHOWN)
            yield Stage(digits, (CHUNKS - 1 - used[digits[0]], CHUNKS - 1 - used[digits[1]]))
            for digit in digits:
                used[digit] += 1


def cut_into_chunks(rows: Ints) -> list[Ints]:
    """Six chunks in order: five of ⌊n/6⌋ + 1, and the rest."""
    size = len(rows) // CHUNKS + 1
    return [rows[size * i : size * (i + 1)] for i in range(CHUNKS - 1)] + [rows[size * (CHUNKS - 1) :]]


def compose_batches(left: Sequence[int], batch: int) -> list[tuple[int, int]]:
    """How many images of the first and of the second digit each batch of a stage has.

    A batch has both digits in the ratio of what is left of them; the stage ends when one is used up, and what is then
    left of the other is never shown.
    """
    first, second = left
    found = []
    while first > 0 and second > 0:
        a = min(round(batch * first / (first + second)), first)  # Python rounds halves to even, as the authors' code
        b = min(batch - a, second)
        found.append((a, b))
        first, second = first - a, second - b
    return found


@dataclass(eq=False)
class TurningPixels(Pixels):
    """Images that are each turned by an angle of their own."""

    angles: Sequence[float] = ()
    shape: tuple[int, int, int] = (1, 28, 28)

    def pixels(self, indices: Tensor) -> Tensor:
        return rotate_each(super().pixels(indices), [self.angles[i] for i in indices.tolist()], self.shape)


@dataclass(frozen=True, eq=False, kw_only=True)
class MNIST360(Scenario):
    """Digits 0 to 8 in 27 stages of two digits each, rotated a little further with every image (Buzzega et al., 2020).

    One epoch without boundaries, and one score at its end. The batch size is part of the stream: each batch has the two
    digits of its stage in the ratio of what is left of them. Each image is an independent draw from its chunk, with
    replacement. The network has ten outputs.
    """

    name = "mnist-360"
    dataset: ClassVar[str] = "mnist"
    boundaries = False

    kind: Kind = "class-known"
    """All outputs are active from the start."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind != "class-known":
            raise ScenarioError(f"kind {self.kind}: mnist-360 has one kind, class-known; leave it out")
        (images,) = self.images
        if images.n_classes != DIGITS_SHOWN + 1:
            raise ScenarioError(
                f"{images.name} has {images.n_classes} classes; mnist-360 takes 10, and leaves out the last"
            )
        fewest = int(count_training_images(self, images)[:DIGITS_SHOWN].min())
        if fewest < CHUNKS**2:
            raise ScenarioError(f"{images.name} has a class of {fewest} training images; mnist-360 needs {CHUNKS**2}")

    def sizes(self) -> list[int]:
        """All images, of which some batch sizes leave out a few."""
        return [int(count_training_images(self, self.images[0])[:DIGITS_SHOWN].sum())]

    def tasks(self, seed: int = 0, device: torch.device | str = "cpu") -> Tasks:
        return self.draw(prepare_images(self, self.images[0], device), seed, DEFAULT_BATCH)

    def draw(self, parts: tuple[ImagePart, ImagePart, Scaling], seed: int, batch: int) -> Tasks:
        """The stream for batches of this size, and the test images, which are drawn in batches of this size too."""
        train, test, scaling = parts
        shape = picture_shape(self)

        def turning(part: ImagePart, shown: list[tuple[int, int, float]], what: str) -> TurningPixels:
            rows, digits, angles = zip(*shown, strict=True)
            device = part.x.device
            return TurningPixels(
                part.x, torch.tensor(digits, device=device), 0, scaling, torch.tensor(rows, device=device),
                what=what, angles=angles, shape=shape, mapped=part.mapped, prepare=part.prepare,
            )  # fmt: skip

        shown, sizes = draw_training(train, seed, batch)
        task = Task(
            0,
            turning(train, shown, "training data"),
            turning(test, draw_test(test, seed, batch), "test data"),
            self.images[0].classes[:DIGITS_SHOWN],
        )
        redraw = functools.partial(self.draw, parts, seed)
        outputs = DIGITS_SHOWN + 1
        return Tasks((task,), self.kind, (slice(0, outputs),), outputs, shape, Turning(redraw, batch, tuple(sizes)))


@dataclass(frozen=True, eq=False)
class Turning(Stream):
    """The stream of MNIST-360, for one batch size."""

    redraw: functools.partial[Tasks]
    batch: int
    batch_sizes: tuple[int, ...]

    def tasks_for_batch(self, tasks: Tasks, batch: int) -> Tasks:
        return tasks if batch == self.batch else self.redraw(batch)

    def plan(self, tasks: Tasks, lengths: Sequence[int], batch: int, drop_last: bool = False) -> Plan:
        if list(lengths) != [len(tasks[0].train)] or drop_last:
            raise ScenarioError("mnist-360 is shown once, as it is; give epochs 1, and neither steps nor drop_last")
        return Plan(torch.arange(lengths[0]), self.batch_sizes, (len(self.batch_sizes),))


def draw_training(part: ImagePart, seed: int, batch: int) -> tuple[list[tuple[int, int, float]], list[int]]:
    """((row, digit, angle) of each image in the order in which it is shown, the number of images per step)."""
    rows = [part.rows_of_class(digit) for digit in range(DIGITS_SHOWN)]
    chunks = [cut_into_chunks(own) for own in rows]
    counters = [0] * DIGITS_SHOWN
    shown: list[tuple[int, int, float]] = []
    sizes = []
    for number, stage in enumerate(stages()):
        own = [chunks[digit][chunk] for digit, chunk in zip(stage.digits, stage.chunks, strict=True)]
        drawn = [  # with replacement: some images are never shown
            iter(
                chunk[
                    torch.randint(len(chunk), (len(chunk),), generator=stream(seed, f"digit {which}", number)).numpy()
                ]
            )
            for which, chunk in enumerate(own)
        ]
        for counts in compose_batches([len(chunk) for chunk in own], batch):
            for digit, count, images in zip(stage.digits, counts, drawn, strict=True):
                for _ in range(count):
                    angle = ((digit - 1) * 60 + counters[digit] * 360 / len(rows[digit])) % 360
                    shown.append((int(next(images)), digit, angle))
                    counters[digit] += 1
            sizes.append(sum(counts))
    return shown, sizes


def draw_test(part: ImagePart, seed: int, batch: int) -> list[tuple[int, int, float]]:
    """(row, digit, angle) of each test image: independent samples of `batch` images, each without replacement."""
    found = []
    for digit in range(DIGITS_SHOWN):
        own, rng = part.rows_of_class(digit), stream(seed, "test digit", digit)
        draws: list[Ints] = []
        while sum(map(len, draws)) < len(own):
            draws.append(own[torch.randperm(len(own), generator=rng)[:batch].numpy()])
        rows = np.concatenate(draws)[: len(own)]
        found += [(int(row), digit, k * 360 / len(own) % 360) for k, row in enumerate(rows)]
    return found


def mnist360(images: Images, **options: object) -> MNIST360:
    """Create the scenario MNIST-360 of these images; the options are the fields of `MNIST360`."""
    return MNIST360(images=(images,), **options)  # type: ignore[arg-type]
