"""How arrays become what a network can read: flat, with a border, normalised; in memory, or as they are read."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engram.data.arrays import VALUES_AT_ONCE
from engram.data.images import Images
from engram.data.mapped import is_mapped
from engram.scenarios.kinds import ScenarioError
from engram.scenarios.task import Prepare, Scaling

Ints = NDArray[np.int64]
Channels = float | tuple[float, ...]
Normalize = Literal["train"] | tuple[Channels, Channels] | None
"""How pixels are normalised: by a mean and a standard deviation (one for all channels, or one per channel), by those of
the padded training images (`train`), or not at all (None): pixels stay in [0, 1]."""
_FLATTENED: WeakKeyDictionary[Images, dict[str, tuple[int, Tensor]]] = WeakKeyDictionary()
"""Of each dataset in use: part → (border, pictures with that border). Nothing writes to these tensors."""
AS_IT_IS = Scaling(torch.ones(1), torch.zeros(1))
"""Of arrays that are not pictures."""


@dataclass(frozen=True, eq=False)
class ImagePart:
    """The training or the test images of one dataset as a tensor."""

    x: Tensor  # (images, pixels), uint8
    y: Ints
    rows: Ints
    """The rows of x that are in use."""
    mapped: bool = False
    """Whether x lies in a file."""
    prepare: Prepare | None = None
    """What is left to do to rows of x."""

    def pieces(self) -> Iterator[Tensor]:
        """The rows in use, a million values or so at a time."""
        for rows in torch.split(torch.from_numpy(self.rows), max(1, VALUES_AT_ONCE // self.x.shape[1])):
            piece = self.x[rows]
            yield piece if self.prepare is None else self.prepare.function(piece)

    def rows_of_class(self, label: int) -> Ints:
        return self.rows_of_classes(slice(label, label + 1))

    def rows_of_classes(self, labels: slice) -> Ints:
        """The rows of consecutive classes, in the dataset's order."""
        y = self.y[self.rows]
        rows: Ints = self.rows[(y >= labels.start) & (y < labels.stop)]
        return rows


def flatten_part(images: Images, part: str, y: Ints, rows: Ints, pad: int | None) -> ImagePart:
    """A part of images with a border of `pad` pixels, or of other arrays (None)."""
    x: NDArray[Any] = getattr(images, part)
    if pad is None or (is_mapped(x) and x.ndim == 3 and not pad):
        return ImagePart(flatten_arrays(x), y, rows, is_mapped(x))
    if not is_mapped(x):
        return ImagePart(flatten_once(images, part, pad), y, rows)
    shape, channels = x.shape[1:], 3 if x.ndim == 4 else 1
    width = channels * (shape[0] + 2 * pad) * (shape[1] + 2 * pad)

    def flatten_rows(stored: Tensor) -> Tensor:
        return flatten_images(stored.numpy(force=True).reshape(-1, *shape), pad).to(stored.device)

    return ImagePart(flatten_arrays(x), y, rows, True, Prepare(flatten_rows, width, torch.uint8))


def flatten_once(images: Images, part: str, pad: int) -> Tensor:
    """A part of a dataset as `flatten_images` has it. It is kept with the dataset: a run draws its tasks several times,
    and the runs of a worker draw them from the same pictures."""
    x = getattr(images, part)  # refused if the part is sealed
    kept = _FLATTENED.setdefault(images.unseal(), {})
    if part not in kept or kept[part][0] != pad:
        kept[part] = pad, flatten_images(x, pad)
    return kept[part][1]


def flatten_images(x: NDArray[np.uint8], pad: int) -> Tensor:
    """(n, h, w[, 3]) → (n, channels · height · width) with a black border."""
    if x.ndim == 3:
        x = x[..., None]
    n, height, width, channels = x.shape
    padded = np.zeros((n, channels, height + 2 * pad, width + 2 * pad), np.uint8)
    padded[:, :, pad : pad + height, pad : pad + width] = x.transpose(0, 3, 1, 2)
    return torch.from_numpy(padded.reshape(n, -1))


def flatten_arrays(x: NDArray[Any]) -> Tensor:
    """(n, …) → (n, values), without a copy if the rows lie one after the other."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # a map of a file: only read here
        return torch.from_numpy(x.reshape(len(x), -1))


def array_statistics(
    normalize: Literal["train"] | tuple[Channels, Channels], part: ImagePart, shape: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each feature, or of each channel of a signal; a constant one is only centred."""
    if normalize == "train":
        count = len(part.rows) * (part.x.shape[1] // shape[0])
        mean = sum_pieces(x.double().view(len(x), shape[0], -1).sum((0, 2)) for x in part.pieces()) / count
        squares = ((x.double().view(len(x), shape[0], -1) - mean[:, None]).square_().sum((0, 2)) for x in part.pieces())
        deviation = (sum_pieces(squares) / count).sqrt()
        return mean, torch.where(deviation == 0, 1.0, deviation)
    mean, deviation = (torch.tensor(part, dtype=torch.float64).reshape(-1).expand(shape[0]) for part in normalize)
    return mean, deviation


def sum_pieces(pieces: Iterable[Tensor]) -> Tensor:
    """Their sum, without keeping them: small tensors that stay between large ones would tear memory into holes."""
    pieces = iter(pieces)
    total = next(pieces).clone()
    for piece in pieces:
        total += piece
    return total


def standardize_part(part: ImagePart, mean: Tensor, deviation: Tensor) -> ImagePart:
    """The part with standardised features; as they are read, if it lies in a file."""
    function = partial(standardize, mean=mean, deviation=deviation)
    if part.mapped:
        return replace(part, prepare=Prepare(function, part.x.shape[1], torch.float32))
    return replace(part, x=function(part.x))


def standardize(x: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """(x − mean) / standard deviation as 32-bit floats, in pieces."""
    out = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    mean, deviation = mean.to(x.device), deviation.to(x.device)
    for start in range(0, len(x), 4096):
        part = x[start : start + 4096]
        scaled = (part.view(len(part), len(mean), -1).double() - mean[:, None]) / deviation[:, None]
        out[start : start + 4096] = scaled.view_as(part).float()
    return out


def compute_scaling(normalize: Normalize, part: ImagePart, channels: int) -> Scaling:
    """The scaling of 8-bit pixels to (pixel / 255 − mean) / standard deviation."""
    mean: Channels
    deviation: Channels
    if normalize is None:
        mean, deviation = 0.0, 1.0
    elif normalize == "train":
        counts = sum_pieces(count_levels(x, channels) for x in part.pieces()).double()  # exact for any number of pixels
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


def count_levels(x: Tensor, channels: int) -> Tensor:
    """(channels, 256): how often each 8-bit value occurs."""
    return torch.stack(
        [torch.bincount(part.flatten(), minlength=256) for part in x.view(len(x), channels, -1).unbind(1)]
    )
