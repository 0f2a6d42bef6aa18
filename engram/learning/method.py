"""What a learner does against forgetting: the hooks. The base class is plain training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from engram.core.ranges import Each as Each
from engram.core.ranges import Log as Log
from engram.core.validation import check_values
from engram.learning.hooks import check_class
from engram.learning.learner import Learner
from engram.scenarios.task import Batch, Data, Task, Tasks

GradientStage = Literal["read", "add", "project"]


@dataclass
class Method:
    """Plain training. A method overrides what it does differently; its fields are its hyper-parameters.

    State is declared: what later tasks need in `kept`, what is rebuilt in each task in `working`. Attributes whose
    names begin with an underscore are scratch. Scratch and `working` are deleted at every boundary.
    """

    kept: ClassVar[tuple[str, ...]] = ()
    """Attributes that live across a boundary: they are in checkpoints and in the memory ledger."""
    working: ClassVar[tuple[str, ...]] = ()
    """Attributes held while a task is trained (teachers, path integrals); in the ledger, not in checkpoints."""
    needs: ClassVar[frozenset[str]] = frozenset()
    """A subset of {"boundaries", "task identity", "past data"}."""
    without_boundaries: ClassVar[tuple[str, ...]] = ()
    """A field and its value, with which the method does not need the boundaries that `needs` names; a literal, so that
    tables can say so."""
    target_kinds: ClassVar[tuple[str, ...]] = ("classes",)
    """Targets that it can train on, of classes, values, labels. It is refused for others, so that no method treats
    values or labels as classes by mistake."""
    title: ClassVar[str] = ""
    """What tables and figures call it; empty: its name."""
    family: ClassVar[str] = "own or combined"
    """Kind of method: methods of a family share a colour on the page."""
    look: ClassVar[tuple[str, str, str]] = ("", "", "")
    """Colour, marker and dash in figures; empty: derived from the name."""
    equal_memory: ClassVar[bool] = False
    """Whether it belongs to the first paper's comparison at equal memory."""
    optimizer: ClassVar[str] = "adam"
    """The optimiser if none is asked for."""
    networks: ClassVar[int] = 1
    """Networks that take a task's steps each: 2 with a generator beside the learner's."""
    gradient_stage: ClassVar[GradientStage] = "add"
    """When `adjust_gradients` is called among combined methods: `read` sees the gradients of the loss alone, `add` adds
    to them, `project` changes their sum."""
    replays: ClassVar[bool] = False
    """Whether a step costs more once there is a past: it goes over old data, or asks an old network."""
    sized_by_budget: ClassVar[bool] = False
    """Whether `fit_budget` can make it keep more or less."""
    gradient_steps: ClassVar[bool] = True
    """Whether the network is trained. If not, each task is one epoch, in which `after_step` gets every batch."""
    checkpoints: ClassVar[str] = "task"
    """`task`: resumable at each boundary; `epoch`: after each epoch too (nothing is kept within a task)."""

    def __post_init__(self) -> None:
        check_class(type(self), Method)
        check_values(self)

    @property
    def plain_loss(self) -> bool:
        """Whether the loss is the learner's own, whose gradients may have a closed form."""
        return type(self).loss is Method.loss

    def needs_boundaries(self) -> bool:
        """Whether it has to be told where tasks end, with its present hyper-parameters."""
        if self.without_boundaries:
            field, value = self.without_boundaries
            return "boundaries" in self.needs and getattr(self, field) != value
        return "boundaries" in self.needs

    def members(self) -> Sequence[Method]:
        """The methods that this one is made of: itself."""
        return (self,)

    def kept_bytes(self, net: nn.Module, pixels: int) -> int:
        """Bytes that it keeps at a boundary, at most, with this network and with images of so many pixels.

        To keep more than is declared here is an error.
        """
        return 0

    def kept_bytes_after(self, net: nn.Module, pixels: int, tasks: int) -> int:
        """The same for a sequence of so many tasks. Methods that keep something of each task state this instead."""
        return self.kept_bytes(net, pixels)

    def fit_budget(self, budget: int, tasks: Tasks) -> Method:
        """The method in the size at which it keeps at most so many bytes."""
        return self

    def network(self, net: nn.Module, tasks: Tasks) -> nn.Module:
        """The network to train."""
        return net

    def start(self, learner: Learner, tasks: Tasks) -> None:
        """Once, before the first task."""

    def curriculum(self, tasks: Tasks) -> Sequence[Task]:
        """The tasks to learn, in order."""
        return tasks

    def begin_task(self, learner: Learner, task: Task) -> None:
        """Before a task's first step."""

    def data(self, task: Task) -> Data:
        """The data that the batches of a task are drawn from."""
        return task.train

    def pass_sizes(self, images: Sequence[int]) -> list[int]:
        """Images per epoch of each task, given how many new ones each has: the size of `data`, in advance."""
        return list(images)

    def loss(self, learner: Learner, batch: Batch) -> Tensor:
        """The loss that is minimised."""
        return learner.loss(batch)

    def adjust_gradients(self, learner: Learner, batch: Batch) -> None:
        """Between the backward pass and the optimiser's step: penalties in closed form, projections."""

    def after_step(self, learner: Learner, batch: Batch) -> None:
        """After the optimiser's step, or instead of it if the method takes none (`gradient_steps`).

        The images of the batch are not augmented, so that they can be stored.
        """

    def end_task(self, learner: Learner, task: Task) -> None:
        """After a task's last step, while its training data may still be read."""

    def scores(self, learner: Learner, x: Tensor, task: int | None) -> Tensor:
        """Scores of test images, (n, all outputs): the largest active one is predicted.

        Args:
            learner: The learner after training.
            x: Images without their labels.
            task: Their task; None outside task learning, unless task identity is given.
        """
        t = None if task is None else torch.full((len(x),), task, device=x.device)
        return learner.logits(x, t)

    def side_step(self, learner: Learner) -> Callable[[Batch], object] | None:
        """A step of what is trained beside the network (a generator, say), for measuring its time; None: nothing is."""
        return None

    def samples(self, learner: Learner, n: int) -> Tensor | None:
        """Images that its generator draws, (n, pixels) in [0, 1]; None if it has none."""
        return None
