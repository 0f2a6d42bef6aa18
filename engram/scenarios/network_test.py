"""A classifier two-sample test (Lopez-Paz & Oquab, 2017): can a small network tell the images of two tasks apart?

Half of each task's images train the network, the other half form pairs, an image of either task. The network says which
of the two is of the second task. If nothing differs, it is right with probability ½ in each pair, independently, so the
number of right answers is binomial, exactly, whatever the network has learned.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from engram.core.streams import own_global_generators, seed_global_generators, seed_of

NETWORK_IMAGES = 3000
"""Largest number of images per task that the network sees, half of them in training."""
FEWEST_IMAGES = 40
"""With fewer images per task no accuracy could reach the level; the distances decide alone."""
TRAINING_STEPS, STEP_IMAGES, PEAK_RATE = 200, 24, 4e-3
"""Gradient steps, images per step, and the peak learning rate."""
LARGEST_SIDE, SMALLEST_SIDE = 32, 8
"""Larger pictures are averaged down; smaller ones are taken for vectors."""

Inputs = NDArray[np.float64]


class NetworkTest(NamedTuple):
    """What the network reached on held-out pairs."""

    accuracy: float
    """Share of pairs in which it was right; ½ if it cannot tell the tasks apart."""
    pairs: int
    """Held-out pairs, without those to which it gave equal scores."""
    p_value: float
    """One-sided exact binomial test against ½."""


def network_test(x1: Inputs, x2: Inputs, shape: tuple[int, ...] = ()) -> NetworkTest | None:
    """Train a network to tell two samples apart, and test it on what it has not seen; None if there is too little.

    Args:
        x1: images (n, values) in random order.
        x2: images (m, values) in random order.
        shape: (channels, height, width) of an image; anything else is a vector.
    """
    from scipy.stats import binomtest  # slow to import, and only needed here

    # sorted, so that the result does not depend on which task comes first
    first, second = sorted((x1, x2), key=lambda x: (len(x), x.tobytes()))
    n = min(len(first), NETWORK_IMAGES)
    if n < FEWEST_IMAGES:
        return None
    with one_thread(), own_global_generators():
        seed_global_generators(seed_of(0, "network test"))
        # the first n of either are a random part of it; one scale for both, or it would tell them apart
        scale = max(float(np.abs(x).max()) for x in (first, second)) or 1.0
        tasks = [as_input(x[:n] / scale, shape) for x in (first, second)]
        half = n // 2
        net = train_network(torch.cat([x[:half] for x in tasks]), half)
        with torch.no_grad():
            scores = [net(x[half:]).squeeze(1).double() for x in tasks]
    right, wrong = int((scores[1] > scores[0]).sum()), int((scores[1] < scores[0]).sum())
    if not right + wrong:
        return NetworkTest(0.5, 0, 1.0)
    p_value = binomtest(right, right + wrong, alternative="greater").pvalue
    return NetworkTest(right / (right + wrong), right + wrong, float(p_value))


def as_input(x: Inputs, shape: tuple[int, ...]) -> Tensor:
    """Pictures twice, as they are and each with mean 0 and standard deviation 1 of its own, else vectors."""
    values = torch.from_numpy(x).float()
    if len(shape) != 3 or min(shape[1:]) < SMALLEST_SIDE:
        return values
    values = values.view(-1, *shape)
    if max(shape[1:]) > LARGEST_SIDE:
        values = functional.adaptive_avg_pool2d(values, (min(shape[1], LARGEST_SIDE), min(shape[2], LARGEST_SIDE)))
    mean, deviation = values.mean((1, 2, 3), keepdim=True), values.std((1, 2, 3), keepdim=True)
    return torch.cat([values, (values - mean) / (deviation + 1e-3)], 1)


def train_network(x: Tensor, half: int) -> nn.Module:
    """A network that scores the second half of x above the first; ready to be evaluated."""
    net = new_network(tuple(x.shape[1:]))
    y = (torch.arange(len(x)) >= half).float()
    optimizer = torch.optim.Adam(net.parameters(), PEAK_RATE, weight_decay=1e-4)
    full = len(x) // STEP_IMAGES * STEP_IMAGES  # batch norm takes no batch of one image
    batches = (rows for _ in range(TRAINING_STEPS) for rows in torch.randperm(len(x))[:full].view(-1, STEP_IMAGES))
    for step, rows in enumerate(islice(batches, TRAINING_STEPS), start=1):
        optimizer.param_groups[0]["lr"] = PEAK_RATE * min(
            4 * step / TRAINING_STEPS, (1 + TRAINING_STEPS - step) / TRAINING_STEPS
        )
        loss = functional.binary_cross_entropy_with_logits(net(x[rows]).squeeze(1), y[rows])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return net.eval()


def new_network(shape: tuple[int, ...]) -> nn.Module:
    """Three strided convolutions for pictures, one hidden layer for vectors."""
    if len(shape) == 1:
        return nn.Sequential(nn.BatchNorm1d(shape[0]), nn.Linear(shape[0], 64), nn.ReLU(), nn.Linear(64, 1))
    layers: list[nn.Module] = [nn.BatchNorm2d(shape[0])]
    for channels, after, size in ((shape[0], 16, 5), (16, 32, 3), (32, 32, 3)):
        layers += [nn.Conv2d(channels, after, size, 2, size // 2), nn.BatchNorm2d(after), nn.ReLU()]
    height, width = (-(-side // 8) for side in shape[1:])
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * height * width, 1))


@contextmanager
def one_thread() -> Iterator[None]:
    """The same sums on every machine; the caller's number of threads is back after the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
