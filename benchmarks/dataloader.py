"""The loop that most projects write: a Dataset with per-image transforms and a DataLoader. A yardstick for speed.

    python benchmarks/dataloader.py mnist 2 400 400 < lines     for each line a pass over the first 2 classes

It does the work of `engram run split-mnist/class adam` on the first task: the same images, network, batches and
optimiser. Images are kept as 8-bit arrays and become tensors one by one, by the steps that torchvision's MNIST and
its transforms Pad, ToTensor and Normalize take: a PIL image, a border, a float tensor, the statistics as tensors.
It runs in a process of its own with PyTorch's settings, but for one thread: what engram sets for a run (memory that is
kept, denormals) is engram's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset

MEAN, DEVIATION = (0.1000,), (0.2752,)


def pad(image: Image.Image) -> Image.Image:
    return ImageOps.expand(image, border=2, fill=0)


def to_tensor(image: Image.Image) -> Tensor:
    """(height, width) 8-bit → (1, height, width) in [0, 1]"""
    pixels = torch.from_numpy(np.array(image, np.uint8, copy=True))
    pixels = pixels.view(image.size[1], image.size[0], 1).permute(2, 0, 1).contiguous()
    return pixels.to(torch.get_default_dtype()).div(255)


def normalize(image: Tensor) -> Tensor:
    image = image.clone()
    mean, deviation = (torch.as_tensor(v, dtype=image.dtype).view(-1, 1, 1) for v in (MEAN, DEVIATION))
    if (deviation == 0).any():
        raise ValueError("a deviation of 0 cannot be divided by")
    return image.sub_(mean).div_(deviation)


class ImageDataset(Dataset[tuple[Tensor, int]]):
    """Images that are transformed one by one, when they are asked for."""

    transforms: tuple[Callable[[Any], Any], ...] = (pad, to_tensor, normalize)

    def __init__(self, x: NDArray[np.uint8], y: NDArray[np.int64]) -> None:
        self.x, self.y = torch.tensor(x), torch.tensor(y)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image: Any = Image.fromarray(self.x[index].numpy())
        for transform in self.transforms:
            image = transform(image)
        return image, int(self.y[index])


def loader(x: NDArray[np.uint8], y: NDArray[np.int64], classes: int, batch: int = 128) -> DataLoader[Any]:
    """The first classes of a set; in the training process, since worker processes would take more cores."""
    rows = np.flatnonzero(y < classes).tolist()
    return DataLoader(Subset(ImageDataset(x, y), rows), batch_size=batch, shuffle=True)


def mlp(sizes: tuple[int, ...]) -> nn.Module:
    layers: list[nn.Module] = [nn.Flatten()]
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def train(net: nn.Module, batches: Any, optimizer: torch.optim.Optimizer, outputs: int) -> int:
    """One pass; the number of steps taken."""
    criterion = nn.CrossEntropyLoss()
    steps = 0
    for x, y in batches:
        loss = criterion(net(x)[:, :outputs], y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
    return steps


def main(name: str, classes: int, *hidden: int) -> None:
    """Says how many steps a pass has, then for each line of the input how many seconds one took."""
    from engram.data.catalog import images

    torch.set_num_threads(1)
    found = images(name)
    net = mlp((1024, *hidden, found.n_classes))
    optimizer = torch.optim.Adam(net.parameters())
    batches = loader(found.x_train, found.y_train, classes)
    print(len(batches), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        train(net, batches, optimizer, classes)
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
