"""Processor time per step of rotated, transformed and blurred tasks, beside split tasks of the same images.

    python benchmarks/streams.py [--rounds 7] [--method adam] [--only rotated "blurred split"]

One epoch of MNIST in batches of 128 through a network of 400 and 400 units, in turns in one process. `step` is the time
from one step's end to the next, which has the making of a batch in it; `whole` is the time of drawing the tasks and
learning them, divided by their steps: rotating and converting images count there. There are 20 test images, so that
evaluation does not count. Printed are medians over rounds of the ratio to the split of the same round.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import numpy as np

import engram as eg
from engram.core.registry import METHODS
from engram.learning import train as bounded
from engram.learning import unbounded
from engram.learning.step import take_step
from engram.runs.run import settle
from engram.scenarios.scenario import Scenario


class Cost(NamedTuple):
    """Seconds per step."""

    step: float
    whole: float


def few_test_images() -> eg.Images:
    """MNIST with two test images per class."""
    mnist = eg.images("mnist")
    rows = np.concatenate([np.flatnonzero(mnist.y_test == label)[:2] for label in range(10)])
    return eg.Images(mnist.x_train, mnist.y_train, mnist.x_test[rows], mnist.y_test[rows])


def measure(scenario: Scenario, method: str) -> Cost:
    """One run."""
    ends: list[float] = []

    def watched(*given: object) -> object:
        loss = take_step(*given)  # type: ignore[arg-type]
        ends.append(time.process_time())
        return loss

    start = time.process_time()
    for module in (bounded, unbounded):
        module.take_step = watched  # type: ignore[assignment]
    bounded.train(scenario.tasks(0), METHODS[method](), eg.MLP(400, 400), eg.Training(epochs=1, batch=128))
    whole = time.process_time() - start
    return Cost(float(np.median(np.diff(ends))), whole / len(ends))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--method", default="adam")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="rows to measure")
    options = parser.parse_args()
    settle(threads=1)
    images = few_test_images()
    split = eg.split(images)
    others: dict[str, Callable[[], Scenario]] = {
        "rotated": lambda: eg.rotate(images, tasks=2),
        "rotated, bilinear": lambda: eg.rotate(images, tasks=2, interpolation="bilinear"),
        "transformed": lambda: eg.transform(images, ["invert", "blur"]),
        "blurred split": lambda: eg.blend(split, width=0.5),
        "blurred rotated": lambda: eg.blend(eg.rotate(images, tasks=2), width=0.5),
        "repeating split": lambda: eg.repeat(images),
    }
    others = {name: others[name] for name in options.only or others}
    ratios: dict[str, list[Cost]] = {name: [] for name in others}
    measure(split, options.method)  # the first run finds cold caches
    for _ in range(options.rounds):
        plain = measure(split, options.method)
        for name, make in others.items():
            found = measure(make(), options.method)
            ratios[name].append(Cost(found.step / plain.step, found.whole / plain.whole))
    print(f"split: {1000 * plain.step:.2f} ms per step, {1000 * plain.whole:.2f} ms with all that is done before")
    print(f"{'times a split':<20}{'step':>8}{'whole':>8}")
    for name, costs in ratios.items():
        print(f"{name:<20}{median(c.step for c in costs):8.3f}{median(c.whole for c in costs):8.3f}")


if __name__ == "__main__":
    main()
