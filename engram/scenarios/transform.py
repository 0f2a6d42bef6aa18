"""Transform: each task has all classes, changed by its own function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, pad

from engram.core.functions import function_name, hash_function
from engram.core.messages import unknown
from engram.core.streams import own_global_generators, seed_global_generators, seed_of
from engram.data.images import Images
from engram.scenarios._views import draw_views, picture_shape
from engram.scenarios.kinds import Kind, ScenarioError
from engram.scenarios.scenario import Scenario, count_training_images, prepare_images
from engram.scenarios.task import Pixels, Tasks

ImageFunction = Callable[[Tensor], Tensor]
"""Intensities in [0, 1], (n, channels, height, width) → the same shape."""
IMAGES_AT_ONCE = 2000
"""Images that a function gets at a time."""


def invert(x: Tensor) -> Tensor:
    return 1 - x


def blur(x: Tensor) -> Tensor:
    """The mean of 3 × 3 pixels; the pixels at the edge count for those beyond it."""
    return avg_pool2d(pad(x, (1, 1, 1, 1), mode="replicate"), 3, stride=1)


def add_noise(x: Tensor) -> Tensor:
    """Normal noise with a standard deviation of 0.2."""
    return x + 0.2 * torch.randn_like(x)


FUNCTIONS: dict[str, ImageFunction] = {"none": lambda x: x, "invert": invert, "blur": blur, "noise": add_noise}
"""Functions that have a name, for the command line."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Transform(Scenario):
    """Each task has all classes of one dataset, changed by its own function.

    A function gets the padded images as intensities in [0, 1], (n, channels, height, width), and returns the same
    shape; the result is cut to [0, 1] and rounded to 8 bits. It is called on all images of a task when a seed draws the
    tasks, and on the first ones again, to see that it gives the same; what it draws from PyTorch's, NumPy's or Python's
    global generator is the same for the same seed. The kinds are those of rotated images.
    """

    name = "transformed"

    kind: Kind = "domain"
    """What changes from task to task: task, domain, class, class-known (number of classes known in advance), iid."""
    functions: tuple[str | ImageFunction, ...] = ("none", "invert", "blur", "noise")
    """A function for each task: none, invert, blur, noise, or (from Python) any function on tensors."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.functions, tuple) or len(self.functions) < 2:
            raise ScenarioError(f"functions {self.functions!r}: give one function per task, two or more")
        for function in self.functions:
            if isinstance(function, str) and function.startswith("code "):
                raise ScenarioError(
                    f"function {function} is a user's function, whose code a record does not contain; "
                    "make the scenario with engram.transform, in the script that has the function"
                )
            if not callable(function) and function not in FUNCTIONS:
                raise ScenarioError(
                    unknown("function", function, FUNCTIONS) + ", or give a function on tensors (from Python)"
                )
            if callable(function):
                hash_function(function)  # what cannot be part of a key is refused now

    def sizes(self) -> list[int]:
        return [int(count_training_images(self, self.images[0]).sum())] * len(self.functions)

    def tasks(self, seed: int = 0, device: torch.device | str = "cpu") -> Tasks:
        shape = picture_shape(self)

        def transform_task(data: Pixels, task: int) -> Pixels:
            function = self.functions[task]
            stored = (data.x if data.rows is None else data.x.index_select(0, data.rows)).cpu()
            name = seed_of(seed, f"transform {data.what}", task)
            with own_global_generators():
                seed_global_generators(name)
                x = apply_function(FUNCTIONS[function] if isinstance(function, str) else function, stored, shape)
                if callable(function):
                    seed_global_generators(name)
                    check_repeats(function, stored[:IMAGES_AT_ONCE], shape, x[:IMAGES_AT_ONCE])
            return replace(data, x=x.to(device), rows=None)

        return draw_views(self, prepare_images(self, self.images[0], device), len(self.functions), transform_task, seed)


def check_repeats(function: ImageFunction, stored: Tensor, shape: tuple[int, int, int], before: Tensor) -> None:
    """Refuses a function that gives other images than before when it is called again."""
    if not torch.equal(apply_function(function, stored, shape), before):
        raise ScenarioError(
            f"function {function_name(function)} gives other images when it is called again, so that a run could not "
            "be repeated; let it draw from the global generators (torch.rand), which the seed of the run sets, and "
            "remember nothing"
        )


def apply_function(function: ImageFunction, stored: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """8-bit images (n, pixels) → the same, changed."""
    out = torch.empty_like(stored)
    for start in range(0, len(stored), IMAGES_AT_ONCE):
        x = stored[start : start + IMAGES_AT_ONCE].float().div_(255).view(-1, *shape)
        with torch.no_grad():
            y = function(x)
        name = function_name(function)
        size = (min(IMAGES_AT_ONCE, len(stored) - start), *shape)
        if not isinstance(y, Tensor) or y.shape != size:
            found = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
            raise ScenarioError(f"function {name} returned {found} for images {size}; return a tensor of their shape")
        if not torch.isfinite(y).all():
            raise ScenarioError(f"function {name} returned pixels that are NaN or infinite")
        out[start : start + IMAGES_AT_ONCE] = y.float().clamp(0, 1).mul(255).round().to(torch.uint8).view(len(y), -1)
    return out


def transform(images: Images, functions: Sequence[str | ImageFunction], **options: Any) -> Transform:
    """Create a scenario with a task per function on images; the options are the fields of `Transform`."""
    given = tuple(functions) if isinstance(functions, Sequence) and not isinstance(functions, str) else functions
    return Transform(images=(images,), functions=given, **options)  # type: ignore[arg-type]
