"""What a learner does against forgetting: the hooks. The base class is plain training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from engram.core.ranges import Each as Each
from engram.core.ranges import Log as Log
from engram.core.validation import check_values
from engram.learning.learner import Learner
from engram.scenarios.task import Batch, Data, Task, Tasks


@dataclass
class Method:
    """Plain training. A method overrides what it does differently; its fields are its hyper-parameters."""

    kept: ClassVar[tuple[str, ...]] = ()
    """Attributes that live across a boundary: checkpoints and the ledger read them here."""
    working: ClassVar[tuple[str, ...]] = ()
    """Attributes held beside them while training (teachers, path integrals); derived, so not in checkpoints."""
    needs: ClassVar[frozenset[str]] = frozenset()
    """Of {"boundaries", "task identity", "past data"}."""
    title: ClassVar[str] = ""
    """What tables and figures call it; empty: its name."""
    family: ClassVar[str] = "own or combined"
    """Kind of method: methods of a family share a colour on the page."""
    look: ClassVar[tuple[str, str, str]] = ("", "", "")
    """Colour, marker and dash in figures; empty: derived from the name."""
    equal_memory: ClassVar[bool] = False
    """Whether it belongs to the first paper's comparison at equal memory."""
    optimizer: ClassVar[str] = "adam"
    """The optimiser where none is asked for."""
    networks: ClassVar[int] = 1
    """Networks that take a task's steps each: 2 with a generator beside the learner's."""
    turn: ClassVar[int] = 1
    """Whose `adjust_gradients` comes when among combined methods: 0 wants the gradients of the loss alone, 1 adds to
    them, 2 has the last word on their sum."""
    checkpoints: ClassVar[str] = "task"
    """`task`: resumable at each boundary; `epoch`: at each pass too (nothing is kept within a task)."""

    def __post_init__(self) -> None:
        check_values(self)

    @property
    def plain_loss(self) -> bool:
        """Whether the loss is the learner's own, whose gradients have a closed form."""
        return type(self).loss is Method.loss

    def members(self) -> Sequence[Method]:
        """The methods that this one is made of: itself."""
        return (self,)

    def kept_bytes(self, net: nn.Module, pixels: int) -> int:
        """What it keeps at a boundary, at most, with this network and with images of so many pixels."""
        return 0

    def network(self, net: nn.Module, tasks: Tasks) -> nn.Module:
        """The network to train."""
        return net

    def start(self, learner: Learner, tasks: Tasks) -> None:
        """Once, before the first task."""

    def curriculum(self, tasks: Tasks) -> Sequence[Task]:
        """What is learned one after the other."""
        return tasks

    def begin_task(self, learner: Learner, task: Task) -> None:
        """Before a task's first step."""

    def data(self, task: Task) -> Data:
        """What is drawn from while a task is learned."""
        return task.train

    def pass_sizes(self, images: Sequence[int]) -> list[int]:
        """Images that a pass over each task draws, given how many new ones each has: the size of `data`, in advance."""
        return list(images)

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        """What is minimised."""
        return learner.loss(batch)

    def adjust_gradients(self, learner: Learner, batch: Batch) -> None:
        """Between the backward pass and the optimiser's step: penalties in closed form, projections."""

    def after_step(self, learner: Learner) -> None:
        """After the optimiser's step."""

    def end_task(self, learner: Learner, task: Task) -> None:
        """After a task's last step, while its training data may still be read."""

    def samples(self, learner: Learner, n: int) -> Tensor | None:
        """Images that its generator draws, (n, pixels) in [0, 1]; None where it has none."""
        return None
