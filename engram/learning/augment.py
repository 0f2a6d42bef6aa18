"""Augmentation: random changes of the images that are trained on, on their device, from a stream of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from engram.core.messages import unknown
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
        images = flip(images, rng) if name == "flip" else crop_at_random(images, padding_of(name), rng)
    return images.reshape(x.shape)


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
        if name != "flip" and not (isinstance(name, str) and padding_of(name)):
            raise ValueError(f"{unknown('augment', name, EXAMPLES)}; the number of crop is its padding in pixels")
    if len(set(names)) < len(names):
        raise ValueError(f"augment {' '.join(names)}: a name is given twice")


def check_augmentable(names: Sequence[str], tasks: Tasks) -> None:
    """Refuses inputs that have no left and right: vectors, and images whose pixels are permuted."""
    if not names:
        return
    asked = f"augment {' '.join(names)}"
    if len(tasks.shape) != 3 or min(tasks.shape[1:]) < 2:
        raise ValueError(f"{asked} is for images; these inputs have the shape {tuple(tasks.shape)}")
    if any(leaf.permutation is not None for task in tasks for leaf in task.train.leaves()):
        raise ValueError(f"{asked} is for images; these have their pixels permuted")
    most = max(map(padding_of, names))
    if most > min(tasks.shape[1:]):
        raise ValueError(f"{asked}: the padding is larger than the images; give at most {min(tasks.shape[1:])} pixels")
