"""Small made-up image sets, and runs on them, for tests whose answers are known without MNIST."""

import copy
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import engram as eg
from engram.learning.learner import Learner
from engram.learning.train import Checkpoint, Outcome, new_learner, train
from engram.scenarios.scenario import Scenario
from engram.scenarios.task import Batch, Data, Tasks


def blobs(
    classes: int = 4,
    train: int | list[int] = 40,
    test: int | list[int] = 10,
    size: int = 6,
    channels: int = 1,
    noise: float = 20.0,
    seed: int = 0,
    name: str = "own",
) -> eg.Images:
    """Each class is a pattern of its own with noise around it, in mixed order: easy to learn."""
    rng = np.random.default_rng(seed)
    shape = (size, size, 3) if channels == 3 else (size, size)
    centres = rng.uniform(0, 255, (classes, *shape))

    def part(counts: int | list[int]) -> tuple[Any, Any]:
        y = rng.permutation(np.repeat(np.arange(classes), counts))
        return np.clip(centres[y] + rng.normal(0, noise, (len(y), *shape)), 0, 255).astype(np.uint8), y

    return eg.Images(*part(train), *part(test), name=name)


def numbered(classes: int = 4, train: int = 40, test: int = 10) -> eg.Images:
    """Images of 2 × 3 pixels that carry their own number: 256·first + second pixel; the last is their class.

    Training images count from 0, test images from 10000.
    """

    def part(each: int, first: int) -> tuple[Any, Any]:
        y = np.arange(each * classes) % classes
        number = first + np.arange(len(y))
        x = np.zeros((len(y), 2, 3), np.uint8)
        x[:, 0, 0], x[:, 0, 1], x[:, 1, 2] = number // 256, number % 256, y
        return x, y

    return eg.Images(*part(train, 0), *part(test, 10_000))


def everything(data: Data) -> Batch:
    return data.batch(torch.arange(len(data)))


def numbers(data: Data) -> list[int]:
    """The numbers that images of `numbered` carry (in [0, 1], not permuted)."""
    pixels = (everything(data).x * 255).round().long()
    return (256 * pixels[:, 0] + pixels[:, 1]).tolist()


def learner_for(scenario: Scenario, *hidden: int, task: int = 0, seed: int = 0, **training: Any) -> Learner:
    """A fresh learner at a task."""
    tasks = scenario.tasks(seed)
    net = eg.MLP(*(hidden or (12, 10)))
    learner = new_learner(tasks, eg.Adam(), net, eg.Training(**training), seed, torch.device("cpu"))
    learner.task = task
    return learner


QUICK = eg.Training(epochs=3, batch=16, lr=0.01)


class Run:
    """A small run with copies of all its checkpoints."""

    def __init__(
        self,
        tasks: Tasks,
        method: Callable[[], eg.Method] = eg.Adam,
        training: eg.Training = QUICK,
        net: eg.MLP | None = None,
        resume: Checkpoint | None = None,
        **options: Any,
    ) -> None:
        self.checkpoints: list[Checkpoint] = []
        self.outcome: Outcome = train(
            tasks,
            method(),
            net or eg.MLP(12, 10),
            training,
            save=lambda checkpoint: self.checkpoints.append(through_a_file(checkpoint)),
            resume=copy.deepcopy(resume),
            **options,
        )

    def bits(self) -> dict[str, Any]:
        """All that two equal runs share, the network and the optimiser at the end included."""
        found = {name: value for name, value in vars(self.outcome).items() if name not in TIMES}
        last = self.checkpoints[-1]
        found["net"] = {name: value.tolist() for name, value in last["net"].items()}
        found["optimizer"] = {
            (i, name): value.tolist() if isinstance(value, torch.Tensor) else value
            for i, state in last["optimizer"]["state"].items()
            for name, value in state.items()
        }
        return found


TIMES = ("seconds", "resumed_after_task", "resumed_after_epoch", "resumed_after_step")


def through_a_file(checkpoint: Checkpoint) -> Checkpoint:
    """As `engram.runs.checkpoints` keeps it."""
    file = io.BytesIO()
    torch.save(checkpoint, file)
    file.seek(0)
    loaded: Checkpoint = torch.load(file, weights_only=True)
    return loaded
