"""Rotate: each task has all classes, turned by its own angle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from engram.core.streams import stream
from engram.core.validation import check_values, is_number
from engram.data.images import Images
from engram.scenarios._views import draw_views, picture_shape
from engram.scenarios.kinds import Kind, ScenarioError
from engram.scenarios.scenario import Scenario, count_training_images, prepare_images
from engram.scenarios.task import Pixels, Tasks

ROTATIONS = 20
"""Number of tasks by default (Buzzega et al., 2020)."""
ROTATED_AT_ONCE = 128
"""Images that are turned at a time if each has its own angle: their coordinates stay in the processor's cache."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Rotate(Scenario):
    """Each task has all classes of one dataset, rotated by its own angle.

    The padded image is rotated counter-clockwise about its centre on a canvas of the same size; what comes from outside
    is black. `task`: each task has a head of all classes. `domain`: one head for all tasks. `class`: each class at
    another angle is a new class. `iid`: each task has all angles.
    """

    name = "rotated"

    kind: Kind = "domain"
    """What changes from task to task: task, domain, class, class-known (number of classes known in advance), iid."""
    rotations: int = 20
    """Number of tasks, if the angles are drawn."""
    angles: tuple[float, ...] = ()
    """Angle of each task in degrees; if none are given, the seed draws them uniformly from [0, 180)."""
    interpolation: Literal["nearest", "bilinear"] = "nearest"
    """Value between pixels: that of the nearest pixel, or a mean of the four around it, rounded to 8 bits."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_values(self)
        if self.rotations < 2:
            raise ScenarioError(f"rotations {self.rotations}: a scenario needs two or more tasks")
        if not isinstance(self.angles, tuple) or not all(is_number(a) and math.isfinite(a) for a in self.angles):
            raise ScenarioError(f"angles {self.angles!r}: give one number of degrees per task, or none to draw them")
        if len(self.angles) == 1:
            raise ScenarioError(f"angles {self.angles[0]}: a scenario needs two or more tasks, so give two or more")
        if self.angles and self.rotations not in (ROTATIONS, len(self.angles)):
            raise ScenarioError(
                f"rotations {self.rotations} and {len(self.angles)} angles contradict each other; give one of them"
            )

    def draw_angles(self, seed: int) -> list[float]:
        """The angle of each task in degrees."""
        if self.angles:
            return list(map(float, self.angles))
        draws = (torch.rand((), generator=stream(seed, "angle", i), dtype=torch.float64) for i in range(self.rotations))
        return [180 * draw.item() for draw in draws]

    def sizes(self) -> list[int]:
        return [int(count_training_images(self, self.images[0]).sum())] * (len(self.angles) or self.rotations)

    def tasks(self, seed: int = 0, device: torch.device | str = "cpu") -> Tasks:
        shape = picture_shape(self)
        angles = self.draw_angles(seed)

        def rotate_task(data: Pixels, task: int) -> Pixels:
            return replace(data, transform=Rotation(angles[task], shape, self.interpolation, device))

        return draw_views(self, prepare_images(self, self.images[0], device), len(angles), rotate_task, seed)


class Rotation:
    """Turns flat images (n, channels · height · width) by one angle: a weighted sum of gathered pixels."""

    def __init__(
        self,
        degrees: float,
        shape: tuple[int, int, int],
        interpolation: str = "nearest",
        device: torch.device | str = "cpu",
    ) -> None:
        channels, height, width = shape
        column, row = source_places(degrees, height, width)
        if interpolation == "nearest":
            corners = [(column.floor(), row.floor(), torch.ones_like(column))]
        else:
            column, row = column - 0.5, row - 0.5  # from pixel edges to pixel centres
            corners = [
                (x, y, (1 - (column - x).abs()) * (1 - (row - y).abs()))
                for x in (column.floor(), column.floor() + 1)
                for y in (row.floor(), row.floor() + 1)
            ]
        self.gathers: list[tuple[Tensor, Tensor]] = []  # (source of each pixel, its weight)
        for x, y, weight in corners:
            inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
            source = (y.clamp(0, height - 1) * width + x.clamp(0, width - 1)).long()
            every = (source + height * width * torch.arange(channels)[:, None]).flatten()
            self.gathers.append((every.to(device), (weight * inside).repeat(channels).float().to(device)))

    def __call__(self, x: Tensor) -> Tensor:
        if len(self.gathers) == 1:
            ((source, weight),) = self.gathers
            return x.index_select(1, source).mul_(weight.to(x.dtype))
        total = sum(x.index_select(1, source) * weight for source, weight in self.gathers)
        assert isinstance(total, Tensor)
        return total.add_(0.5).floor_().clamp_(0, 255).to(x.dtype)


def source_places(degrees: float | Sequence[float], height: int, width: int) -> tuple[Tensor, Tensor]:
    """(column, row) of the source of each pixel, flat, in coordinates of pixel edges; a row for each of several angles.

    A counter-clockwise rotation about the centre; Pillow's arithmetic, in double precision throughout.
    """
    # rounded as Pillow does: cos 45° and sin 45° become equal, and coordinates that cancel are on one side of an edge
    angles = list(degrees) if isinstance(degrees, Sequence) else [degrees]
    cos, sin = (
        torch.tensor([round(f(math.radians(angle)), 15) for angle in angles], dtype=torch.float64)[:, None]
        for f in (math.cos, math.sin)
    )
    y, x = torch.meshgrid(
        torch.arange(height, dtype=torch.float64) + 0.5 - height / 2,
        torch.arange(width, dtype=torch.float64) + 0.5 - width / 2,
        indexing="ij",
    )
    x, y = x.flatten(), y.flatten()
    column, row = cos * x - sin * y + width / 2, sin * x + cos * y + height / 2
    return (column, row) if isinstance(degrees, Sequence) else (column[0], row[0])


def rotate_each(x: Tensor, degrees: Sequence[float], shape: tuple[int, int, int]) -> Tensor:
    """Turns each flat image by its own angle, with the pixels of the nearest neighbour: as `Rotation`, bit for bit."""
    channels, height, width = shape
    out = torch.empty_like(x)
    for start in range(0, len(x), ROTATED_AT_ONCE):
        column, row = source_places(degrees[start : start + ROTATED_AT_ONCE], height, width)  # (images, height · width)
        column, row = column.floor_(), row.floor_()
        inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
        source = (row.clamp_(0, height - 1) * width + column.clamp_(0, width - 1)).long().to(x.device)
        images = x[start : start + ROTATED_AT_ONCE].view(len(source), channels, -1)
        turned = images.gather(2, source[:, None].expand_as(images)).mul_(inside[:, None].to(images))
        out[start : start + ROTATED_AT_ONCE] = turned.view(len(source), -1)
    return out


def rotate(images: Images, tasks: int | None = None, **options: Any) -> Rotate:
    """Create a scenario of rotated images with so many tasks; the options are the fields of `Rotate`."""
    if tasks is not None:
        options["rotations"] = tasks
    return Rotate(images=(images,), **options)
