"""A bare loop of plain training with any network, with augmentation on tensors. A yardstick for speed.

It does the work of a step of `engram run split-cifar10/class adam --net resnet18 --augment crop4 flip`, as one writes
it down for one purpose: shuffled batches from one tensor, crop and flip, cross-entropy over the active outputs, fused
Adam.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def crop(x: Tensor, pad: int, rng: torch.Generator) -> Tensor:
    """A window at random of each padded image."""
    n, channels, height, width = x.shape
    down, right = torch.randint(2 * pad + 1, (2, n), generator=rng)
    rows = down[:, None, None] + torch.arange(height)[:, None]
    columns = right[:, None, None] + torch.arange(width)
    padded = F.pad(x, (pad,) * 4)
    places = (rows * padded.shape[3] + columns).view(n, 1, -1).expand(-1, channels, -1)
    return padded.flatten(2).gather(2, places).view_as(x)


def flip(x: Tensor, rng: torch.Generator) -> Tensor:
    """Left and right change places in every second image."""
    return torch.where((torch.rand(len(x), generator=rng) < 0.5)[:, None, None, None], x.flip(3), x)


def stepper(
    net: nn.Module,
    x: Tensor,
    y: Tensor,
    outputs: slice,
    batch: int,
    lr: float,
    pad: int,
    order: torch.Generator,
    augment: torch.Generator,
) -> Callable[[], None]:
    """A function that takes one step; x is (n, channels, height, width), and pad 0 leaves images as they are."""
    optimizer = torch.optim.Adam(net.parameters(), lr=lr, fused=True)
    net.train()

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            for rows in torch.randperm(len(x), generator=order).split(batch):
                yield x[rows], y[rows]

    data = batches()

    def step() -> None:
        images, labels = next(data)
        if pad:
            images = flip(crop(images, pad, augment), augment)
        optimizer.zero_grad()
        F.cross_entropy(net(images)[:, outputs], labels).backward()
        optimizer.step()

    return step
