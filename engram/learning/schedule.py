"""Schedules: the learning rate as a function of the step, so that a resumed run has the rates of one that was not."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from engram.learning.learner import Training

Schedule = Literal["constant", "cosine", "step", "linear"]
USED_BY = {
    "lr_end": ("cosine", "linear"),
    "lr_drops": ("step",),
    "lr_factor": ("step",),
    "schedule_over": ("cosine", "linear", "step"),
}
"""The schedules that a field matters to; warm-up goes with all of them."""


def rate_at(training: Training, base: float, step: int, steps: int) -> float:
    """The learning rate of a step, from 0, of so many.

    Warm-up rises linearly to the base rate, which its last step has. Cosine and linear then fall to `lr_end`, which
    they would have one step after the last. Drops count from the first step, warm-up included.
    """
    warmup = training.warmup
    if step < warmup:
        return base * (step + 1) / warmup
    if training.schedule == "constant":
        return base
    if training.schedule == "step":
        return base * training.lr_factor ** sum(step >= at * steps for at in training.lr_drops)
    done = min((step - warmup) / max(steps - warmup, 1), 1.0)
    share = (1 + math.cos(math.pi * done)) / 2 if training.schedule == "cosine" else 1 - done
    return training.lr_end + (base - training.lr_end) * share


def check_schedule(training: Training) -> None:
    """Refuses values out of range, and those that the schedule would not look at."""
    if training.warmup < 0:
        raise ValueError(f"warmup {training.warmup} is out of range; give a whole number, 0 or more")
    if not 0 <= training.lr_end < math.inf:
        raise ValueError(f"lr_end {training.lr_end} is out of range; give 0 or more")
    if not 0 < training.lr_factor < math.inf:
        raise ValueError(f"lr_factor {training.lr_factor} is out of range; give a number above 0")
    if not isinstance(training.lr_drops, tuple):
        raise ValueError(f"lr_drops {training.lr_drops!r} is not a list; give shares of the steps, between 0 and 1")
    if training.schedule == "step" and not training.lr_drops:
        raise ValueError("lr_drops is empty, and schedule step would change nothing; give shares of the steps")
    for at in training.lr_drops:
        if isinstance(at, bool) or not isinstance(at, int | float) or not 0 < at < 1:
            raise ValueError(f"lr_drops: {at!r} is out of range; give shares of the steps, between 0 and 1")
    for name, schedules in USED_BY.items():
        value = getattr(training, name)
        warming = name == "schedule_over" and training.warmup > 0
        if training.schedule not in schedules and not warming and value != default_value(training, name):
            raise ValueError(
                f"{name} {value}: schedule {training.schedule} has no {name}; choose from {', '.join(schedules)}"
            )


def check_warmup(training: Training, steps: list[int]) -> None:
    """Refuses a warm-up that no task, or not the run, would come to the end of."""
    most = sum(steps) if training.schedule_over == "run" else max(steps, default=0)
    if training.warmup > most:
        what = "the run" if training.schedule_over == "run" else "a task"
        raise ValueError(f"warmup {training.warmup}: {what} has {most} steps, and would never reach lr; give less")


def default_value(training: Training, name: str) -> object:
    return next(f.default for f in fields(training) if f.name == name)
