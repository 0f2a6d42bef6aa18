"""Scenarios: how image sets become a sequence of tasks. A scenario is a recipe; a seed deals its tasks."""

from __future__ import annotations

import math
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engram.core.streams import stream
from engram.core.validation import is_number
from engram.data import Images
from engram.scenarios.task import KINDS, Data, Joined, Kind, Pixels, Scaling, ScenarioError, Task, Tasks

Ints = NDArray[np.int64]
Channels = float | tuple[float, ...]
Normalize = Literal["train"] | tuple[Channels, Channels] | None
"""Mean and deviation to normalise by (for all channels, or for each), `train`: those of the training part
after padding, None: pixels stay in [0, 1]."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Scenario(ABC):
    """What all recipes share: where the images come from, the kind, and how pixels become network input."""

    make: ClassVar[str]
    """The recipe's name in specs."""

    images: tuple[Images, ...] = field(default=())
    kind: Kind = "class"
    """What changes from task to task: task, domain, class, class-known (number of classes known in advance), iid."""
    pad: int = 0
    """Black pixels added on each side before anything else."""
    normalize: Normalize = None
    """`train` (statistics of the padded training images), or mean and deviation; none leaves pixels in [0, 1]."""
    held_out: float = 0.0
    """Share of the training images of each class that takes the place of the test images; 0: the real test images."""

    def __post_init__(self) -> None:
        for f in fields(self):
            object.__setattr__(self, f.name, fixed(getattr(self, f.name)))
        for images in self.images:
            if not isinstance(images, Images):
                raise ScenarioError(
                    f"images {reprlib.repr(images)} are no image set; give engram.images(name), or engram.Images(…)"
                )
        if not is_number(self.held_out) or not 0 <= self.held_out < 1:
            raise ScenarioError(f"held_out {self.held_out!r} is out of range; give a share from 0 to below 1")
        # where training images take their place, nothing that runs can read the real test images
        parts = tuple(images.seal() if self.held_out else images.unseal() for images in self.images)
        object.__setattr__(self, "images", parts)
        if self.kind not in KINDS:
            raise ScenarioError(f"kind {self.kind!r} is unknown; choose from {', '.join(KINDS)}")
        if not isinstance(self.pad, int) or not 0 <= self.pad <= 64:
            raise ScenarioError(f"pad {self.pad} is out of range; give 0 to 64 pixels")
        if self.normalize is not None and self.normalize != "train":
            check_normalize(self.normalize, [images.shape[0] for images in self.images])

    def holdout(self, fraction: float) -> Self:
        """The same scenario with part of the training images in the place of the test images, for tuning."""
        return replace(self, held_out=fraction)

    def copies(self) -> list[str]:
        """What there is to say of image sets that are not the official ones."""
        return [f"{images.name}: {images.note}" for images in self.images if images.note]

    @abstractmethod
    def deal(self, seed: int, device: torch.device | str = "cpu") -> Tasks:
        """The tasks that this seed gives."""

    @abstractmethod
    def sizes(self) -> list[int]:
        """Training images of each task, known without dealing."""


def check_normalize(normalize: tuple[Channels, Channels], channels: list[int]) -> None:
    """Refuses statistics that are no numbers, or that are not one for all channels or one for each."""
    parts = [part if isinstance(part, tuple) else (part,) for part in normalize] if type(normalize) is tuple else []
    if len(parts) != 2 or not all(parts) or not all(is_number(v) for part in parts for v in part):
        raise ScenarioError(
            f"normalize {normalize!r} is unknown; give 'train', None, or a mean and a deviation (numbers, or tuples of "
            "one for each channel)"
        )
    means, deviations = parts
    if not all(math.isfinite(v) for v in (*means, *deviations)) or min(deviations) <= 0:
        raise ScenarioError(f"normalize {normalize}: give finite means, and finite deviations above 0")
    for n in channels:
        if {len(means), len(deviations)} - {1, n}:
            raise ScenarioError(f"normalize {normalize} is for {len(means)} channels, the images have {n}")


def fixed(value: Any) -> Any:
    """Lists as tuples, so that a recipe cannot change after it was made."""
    return tuple(fixed(v) for v in value) if isinstance(value, list | tuple) else value


@dataclass(frozen=True, eq=False)
class Part:
    """The training or test images of one set as a tensor, with the rows of each class."""

    x: Tensor  # (images, pixels), uint8
    y: Ints
    rows: Ints
    """The rows of x that are in use."""

    def of_class(self, label: int) -> Ints:
        return self.of_classes(slice(label, label + 1))

    def of_classes(self, labels: slice) -> Ints:
        """The rows of consecutive classes, in the set's own order."""
        y = self.y[self.rows]
        found: Ints = self.rows[(y >= labels.start) & (y < labels.stop)]
        return found


def prepare(scenario: Scenario, images: Images, device: torch.device | str) -> tuple[Part, Part, Scaling]:
    """Pads and flattens a set's images, holds out, and works out the scaling; pixels stay 8-bit."""
    x_train = flat(images.x_train, scenario.pad)
    if scenario.held_out:
        x_test, y_test = x_train, images.y_train
        train_rows, test_rows = hold_out(y_test, scenario.held_out)
    else:
        x_test, y_test = flat(images.x_test, scenario.pad), images.y_test
        train_rows, test_rows = np.arange(len(images.y_train)), np.arange(len(y_test))
    scaling = scaling_of(scenario.normalize, x_train[torch.from_numpy(train_rows)], images.shape[0])
    scaling = Scaling(scaling.scale.to(device), scaling.shift.to(device))
    train = Part(x_train.to(device), images.y_train, train_rows)
    test = Part(x_test.to(device), y_test, test_rows)
    return train, test, scaling


def flat(x: NDArray[np.uint8], pad: int) -> Tensor:
    """(n, h, w[, 3]) → (n, channels · height · width) with a black border."""
    if x.ndim == 3:
        x = x[..., None]
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0))) if pad else x
    return torch.from_numpy(np.ascontiguousarray(padded.transpose(0, 3, 1, 2)).reshape(len(x), -1))


def hold_out(y: Ints, fraction: float) -> tuple[Any, Any]:
    """(kept rows, held-out rows), by class. It does not depend on a run's seed: all trials tune on the same."""
    rng = stream(0, "holdout")
    kept, held = [], []
    for label in range(int(y.max()) + 1):
        rows = np.flatnonzero(y == label)[torch.randperm(int((y == label).sum()), generator=rng).numpy()]
        cut = held_out_of(len(rows), fraction)
        if cut < 1:
            raise ScenarioError(f"class {label} has one training image, so none can be held out")
        held.append(rows[:cut])
        kept.append(rows[cut:])
    return np.sort(np.concatenate(kept)), np.sort(np.concatenate(held))


def held_out_of(n: int, fraction: float) -> int:
    """How many of a class's n images are held out: one at least, and one stays."""
    return min(max(1, round(fraction * n)), n - 1) if fraction else 0


def training_counts(images: Images, held_out: float) -> Ints:
    """Training images of each class, less those held out."""
    counts = np.bincount(images.y_train, minlength=images.n_classes)
    return np.array([n - held_out_of(int(n), held_out) for n in counts])


def scaling_of(normalize: Normalize, x: Tensor, channels: int) -> Scaling:
    """8-bit pixels to (pixel / 255 − mean) / deviation."""
    mean: Channels
    deviation: Channels
    if normalize is None:
        mean, deviation = 0.0, 1.0
    elif normalize == "train":
        counts = torch.stack(
            [torch.bincount(part.flatten(), minlength=256) for part in x.view(len(x), channels, -1).unbind(1)]
        ).double()  # (channels, 256): exact sums, however many pixels
        levels = torch.arange(256, dtype=torch.float64) / 255
        share = counts / counts.sum(1, keepdim=True)
        means = share @ levels
        deviations = (share @ levels**2 - means**2).clamp(min=0).sqrt()
        if (deviations == 0).any():
            raise ScenarioError("all training pixels are equal, so they cannot be normalised; give --normalize none")
        mean, deviation = tuple(means.tolist()), tuple(deviations.tolist())
    else:
        mean, deviation = normalize
    scale, shift = [], []
    for c in range(channels):
        m = mean[c % len(mean)] if isinstance(mean, tuple) else mean
        s = deviation[c % len(deviation)] if isinstance(deviation, tuple) else deviation
        scale.append(1 / (255 * s))
        shift.append(-m / s)
    return Scaling(torch.tensor(scale), torch.tensor(shift))


def view(
    part: Part,
    rows: Ints,
    outputs: Ints,
    task: int,
    scaling: Scaling,
    what: str,
    permutation: Tensor | None = None,
) -> Pixels:
    """The rows of a part as data of a task, with the output that each image belongs to."""
    device = part.x.device
    everything = len(rows) == len(part.x) and bool((rows == np.arange(len(rows))).all())
    return Pixels(
        part.x,
        torch.from_numpy(np.ascontiguousarray(outputs)).to(device),
        task,
        scaling,
        rows=None if everything else torch.from_numpy(np.ascontiguousarray(rows)).to(device),
        permutation=permutation,
        what=what,
    )


def dealt(pool: Sequence[Task], seed: int, classes: tuple[str, ...], shape: tuple[int, int, int]) -> Tasks:
    """Kind `iid`: the images of all tasks, dealt at random into as many tasks of equal size; a class an output."""
    parts = len(pool)

    def deal(which: str) -> list[Data]:
        hands: list[list[Data]] = [[] for _ in range(parts)]
        for task in pool:
            (leaf,) = (task.train if which == "train" else task.test).leaves()
            order = torch.randperm(len(leaf), generator=stream(seed, f"deal {which}", task.index)).to(leaf.device)
            rows = torch.arange(len(leaf.x), device=leaf.device) if leaf.rows is None else leaf.rows
            # each task's remainder goes to other hands than the last one's, so that sizes differ by few
            for i, share in enumerate(order.tensor_split(parts)):
                hand = (i + task.index) % parts
                hands[hand].append(
                    replace(leaf, y=leaf.y[share], rows=rows[share], task=hand, loaded=None)  # same pixels
                )
        return [Joined(hand) for hand in hands]

    trains, tests = deal("train"), deal("test")
    tasks = tuple(Task(i, train, test, classes) for i, (train, test) in enumerate(zip(trains, tests, strict=True)))
    return Tasks(tasks, "iid", (slice(0, len(classes)),) * parts, len(classes), shape)
