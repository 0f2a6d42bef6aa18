"""Augmentation: random changes of the images that are trained on, on their device, from a stream of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from engram.core.code import MADE_OF, captured_values
from engram.core.messages import unknown
from engram.core.registry import AUGMENTATIONS, functions_with
from engram.scenarios.task import Tasks

EXAMPLES = ("crop4", "flip")
"""What a name looks like: the number of `crop` is its padding in pixels."""


def augment_images(x: Tensor, names: Sequence[str], shape: Sequence[int], rng: torch.Generator) -> Tensor:
    """Each image changed by its own draws, by one name after the other; x keeps its shape, flat or not.

    Args:
        x: Network input, (n, pixels) or (n, channels, height, width).
        names: Such as `crop4` and `flip`.
        shape: (channels, height, width)
        rng: A CPU generator, so that every device draws the same.
    """
    images = x.reshape(len(x), *shape)
    for name in names:
        if name in AUGMENTATIONS.added:
            images = AUGMENTATIONS.added[name].change(images, rng)
        else:
            images = flip(images, rng) if name == "flip" else crop_at_random(images, padding_of(name), rng)
    return images.reshape(x.shape)


class Augmentation:
    """A function `(images, rng)` of a user's file, by its name: it gets a batch as networks do, (n, channels, height,
    width), and the stream to draw from, and returns tensors of the same shape."""

    function: ClassVar[Callable[[Tensor, torch.Generator], Tensor]]

    @classmethod
    def change(cls, images: Tensor, rng: torch.Generator) -> Tensor:
        changed = cls.function(images, rng)
        if not isinstance(changed, Tensor) or changed.shape != images.shape or changed.dtype != images.dtype:
            found = f"{changed.dtype} {tuple(changed.shape)}" if isinstance(changed, Tensor) else type(changed).__name__
            raise ValueError(
                f"augment {cls.__name__} returned {found} for images {images.dtype} {tuple(images.shape)}; return a "
                "tensor of their shape and type"
            )
        return changed

    @staticmethod
    def recipes_in(module: ModuleType) -> list[type[Augmentation]]:
        """Augmentations from the functions of a file that take (images, rng)."""
        return [augmentation_class(f) for f in functions_with(module, ["images", "rng"])]


def augmentation_class(function: FunctionType) -> type[Augmentation]:
    """The entry of a function; its code is in the key of a run."""
    name = function.__name__.replace("_", "-")
    if name == "flip" or padding_of(name):
        raise ValueError(f"there is an augmentation {name} already; give the function another name")
    own = {"function": staticmethod(function), "name": name, MADE_OF: (function, captured_values(function))}
    return type(name, (Augmentation,), {**own, "__doc__": function.__doc__, "__module__": __name__})


def flip(images: Tensor, rng: torch.Generator) -> Tensor:
    """Left and right change places in every second image, at random."""
    chosen = (torch.rand(len(images), generator=rng) < 0.5).to(images.device)
    return torch.where(chosen[:, None, None, None], images.flip(3), images)


def crop_at_random(images: Tensor, padding: int, rng: torch.Generator) -> Tensor:
    """Each image is shifted by up to `padding` pixels both ways; what comes in from outside is 0."""
    n, channels, height, width = images.shape
    down, right = torch.randint(2 * padding + 1, (2, n), generator=rng).to(images.device)
    here = torch.arange(max(height, width), device=images.device)
    rows, columns = down[:, None] + here[:height], right[:, None] + here[:width]  # of the padded image
    padded = pad(images, (padding,) * 4)
    places = rows[:, :, None] * padded.shape[3] + columns[:, None, :]  # (n, height, width)
    return padded.flatten(2).gather(2, places.view(n, 1, -1).expand(-1, channels, -1)).view(images.shape)


def padding_of(name: str) -> int:
    """The number in `crop4`; 0 if the name is not of this form."""
    found = re.fullmatch(r"crop([1-9][0-9]{0,3})", name)
    return int(found[1]) if found else 0


def check_augmentation(names: object) -> None:
    """Refuses names that mean nothing."""
    if not isinstance(names, tuple):
        raise ValueError(f"augment {names!r} is not a list; give names such as {', '.join(EXAMPLES)}")
    for name in names:
        if name != "flip" and name not in AUGMENTATIONS.added and not (isinstance(name, str) and padding_of(name)):
            raise ValueError(
                f"{unknown('augment', name, [*EXAMPLES, *AUGMENTATIONS.added])}; the number of crop is its padding in "
                "pixels; a function of your own is in a file: --file"
            )
    if len(set(names)) < len(names):
        raise ValueError(f"augment {' '.join(names)}: a name is given twice")


def check_augmentable(names: Sequence[str], tasks: Tasks) -> None:
    """Refuses inputs that have no left and right: vectors, and images whose pixels are permuted."""
    if not names:
        return
    asked = f"augment {' '.join(names)}"
    built_in = [name for name in names if name not in AUGMENTATIONS.added]
    if built_in and (len(tasks.shape) != 3 or min(tasks.shape[1:]) < 2):
        raise ValueError(f"{asked} is for images; these inputs have the shape {tuple(tasks.shape)}")
    if any(leaf.permutation is not None for task in tasks for leaf in task.train.leaves()):
        raise ValueError(f"{asked} is for images; these have their pixels permuted")
    most = max(map(padding_of, built_in), default=0)
    if built_in and most > min(tasks.shape[1:]):
        raise ValueError(f"{asked}: the padding is larger than the images; give at most {min(tasks.shape[1:])} pixels")
