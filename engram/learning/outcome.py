"""What a run has found so far, and checkpoints of it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from engram.core.messages import tell
from engram.learning.beside import NetBeside
from engram.learning.learner import Learner
from engram.learning.method import Method
from engram.learning.saved_changes import put_beside
from engram.learning.state import kept_state, restore_kept_state

SAMPLES = 64
"""Images that a generator is asked for after a task."""


@dataclass
class Progress:
    """Where a run is; handed to `watch` now and then."""

    task: int
    """From 1, among `tasks`."""
    tasks: int
    step: int
    """Steps done, of about `steps` in all."""
    steps: int
    loss: float
    accuracy: list[float] | None = None
    """Percent on each seen task: right after a task."""
    samples: NDArray[np.uint8] | None = None
    """Images that the method's generator draws, if it has one: right after a task. (n, h, w) or (n, h, w, 3)"""
    learner: Learner | None = None
    """The learner itself, with its network, its weights (`params`) and the gradients of the last step (`p.grad`): to be
    read, not changed. None if the run is in another process."""


@dataclass
class Outcome:
    """What a run found. It is also what a checkpoint carries of the past."""

    status: Literal["done", "diverged", "failed"] = "done"
    accuracy: list[list[float]] = field(default_factory=list)
    """accuracy[i][j]: percent on task j after task i."""
    pooled_accuracy: float | None = None
    """Percent over all test images together, at the end."""
    steps: int = 0
    seconds: float = 0.0
    memory: dict[str, dict[str, int]] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    """Mean training loss of each task."""
    running: tuple[float, int] = (0.0, 0)
    """Summed loss and steps of the current task."""
    curve: list[dict[str, float]] = field(default_factory=list)
    """Accuracy within tasks, if asked for."""
    untrained: list[float] = field(default_factory=list)
    before: list[float] = field(default_factory=list)
    """Percent on tasks 2 … T, untrained and just before each was learned, if asked for."""
    resumed_after_task: int = 0
    resumed_after_epoch: int = 0
    """Epochs of the next task that were done when the run was resumed; both are 0 if it never was."""
    resumed_after_step: int = 0
    """Steps that were done when a run on a stream without boundaries was resumed; 0 if it never was."""
    told_boundaries: str = ""
    """On a stream without boundaries `no`, or how often boundaries were made up (`every 100 steps`); else empty."""
    network: dict[str, Any] = field(default_factory=dict)
    """`class` and `parameters` of the network that was trained, if the method replaced the one asked for."""
    extra: dict[str, list[list[Any]]] = field(default_factory=dict)
    """By metric on logits: entry [i][j] on task j after task i."""
    scores: list[str] = field(default_factory=list)
    """What each task is scored by, if not all are by accuracy."""
    kept: dict[str, Any] = field(default_factory=dict)
    """Tensors that the run leaves beside its record, if asked for."""


class MisfitError(ValueError):
    """A checkpoint holds something else than this run would have saved."""


Checkpoint = dict[str, Any]


def capture(
    outcome: Outcome, learner: Learner, method: Method, beside: NetBeside, task: int, epoch: int, step: int
) -> Checkpoint:
    """All that a run needs to go on after `task` tasks and `epoch` epochs of the next, or `step` steps of a stream."""
    return {
        "task": task,
        "epoch": epoch,
        **({"step": step} if step else {}),
        "net": learner.net.state_dict(),
        **({"beside": changes} if (changes := beside.changes(learner.net)) else {}),
        **({"unsaved": names} if (names := beside.unsaved(learner.net)) else {}),
        "optimizer": learner.optimizer.state_dict(),
        "method": kept_state(method),
        "outcome": {name: value for name, value in vars(outcome).items() if not name.startswith("resumed_")},
        "streams": learner.stream_states() if epoch or step else {},
    }


def restore(checkpoint: Checkpoint, learner: Learner, method: Method) -> Outcome:
    """Puts a checkpoint's state back; what was measured so far."""
    checkpoint = copy.deepcopy(checkpoint)  # whoever holds it may resume from it again
    try:
        if "beside net" in checkpoint:
            raise ValueError("plain attributes of a network are saved in another form now")
        learner.net.load_state_dict(checkpoint["net"])
        put_beside(learner.net, checkpoint.get("beside", []))
        learner.optimizer.load_state_dict(checkpoint["optimizer"])
        restore_kept_state(method, checkpoint["method"])
        task = checkpoint["task"]
        outcome = Outcome(
            **checkpoint["outcome"],
            resumed_after_task=task,
            resumed_after_epoch=checkpoint["epoch"],
            resumed_after_step=checkpoint.get("step", 0),
        )
        if len(outcome.accuracy) != task:
            raise ValueError(f"{len(outcome.accuracy)} tasks were measured after {task}")
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:  # torch's and Python's
        raise MisfitError("its checkpoint was made by other code and does not fit") from error
    learner.steps = outcome.steps
    for name in checkpoint.get("unsaved", []):
        tell(f"{name}, which a hook of the network's layers uses, begins anew in this resumed run")
    return outcome


def samples(learner: Learner, method: Method) -> NDArray[np.uint8] | None:
    """What the method's generator draws now, as pictures."""
    drawn = method.samples(learner, SAMPLES)
    if drawn is None:
        return None
    by_channel = drawn.view(-1, *learner.tasks.shape).permute(0, 2, 3, 1)
    pictures: NDArray[np.uint8] = by_channel.mul(255).round().to("cpu", torch.uint8).numpy()
    return pictures[..., 0] if pictures.shape[-1] == 1 else pictures
