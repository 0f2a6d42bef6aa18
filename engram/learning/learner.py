"""The learner: a network with one output layer, its optimiser, and the rule of which outputs are active."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Annotated, Literal
from weakref import ref

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from engram.core.ranges import Log
from engram.core.streams import stream
from engram.core.validation import check_values
from engram.learning import fast
from engram.learning.augment import augment_images, check_augmentation
from engram.learning.optimizer import Optimizer, accepted_options, check_own_options
from engram.learning.precision import Precision, products
from engram.learning.schedule import Schedule, check_schedule, rate_at
from engram.learning.targets import loss_by_head
from engram.scenarios.task import Batch, Data, Tasks

Params = list[Tensor]


@dataclass(frozen=True)
class Training:
    """How each task is trained, and for how long."""

    epochs: int | tuple[int, int] = 4
    """Epochs per task; two numbers: for the first task, and for each later task."""
    steps: int = 0
    """Optimiser steps per task, reshuffling when the data are used up; 0: by epochs."""
    batch: int = 128
    """Images per step."""
    optimizer: str = "adam"
    """Any optimiser of torch.optim, in lower case."""
    lr: Annotated[float, Log(1e-4, 1e-1)] = 1e-3
    """Learning rate; the schedule and methods (`learner.lr`) may change it."""
    momentum: float = 0.0
    """Momentum, for optimisers that have it."""
    weight_decay: float = 0.0
    """Weight decay, for optimisers that have it."""
    drop_last: bool = False
    """Leave out the last batch of an epoch if it is not full."""
    reset_optimizer: bool = False
    """Start each task with a fresh optimiser state."""
    schedule: Schedule = "constant"
    """How the learning rate falls: not at all, as half a cosine, by steps, or linearly."""
    schedule_over: Literal["task", "run"] = "task"
    """What the schedule spans: each task, or the whole run."""
    warmup: int = 0
    """Number of first steps in which the learning rate rises linearly."""
    lr_end: float = 0.0
    """Learning rate at which cosine and linear end."""
    lr_drops: tuple[float, ...] = (0.5, 0.75)
    """For the schedule step: shares of the steps after which the rate is multiplied by `lr_factor`."""
    lr_factor: float = 0.1
    """For the schedule step: factor of the learning rate at each drop."""
    clip: float = 0.0
    """Largest norm of the gradient of all parameters together; 0: it is not clipped."""
    label_smoothing: float = 0.0
    """Share of each target that is spread evenly over the active outputs."""
    nesterov: bool = False
    """Nesterov's momentum, for optimisers that have it."""
    betas: tuple[float, ...] = ()
    """Decay of the two running means of adam and its like; empty: the optimiser's own, usually 0.9 and 0.999."""
    optimizer_options: tuple[str, ...] = ()
    """Further fields of the optimiser, such as `eps=1e-7` or `rho=0.95`; also as flags: --optimizer.eps 1e-7."""
    augment: tuple[str, ...] = ()
    """Random changes of the training images: `crop4` (pad by 4 pixels and crop), `flip` (left and right)."""
    boundary_every: int = 0
    """On a stream without boundaries, steps after which methods that need boundaries consolidate, as if a task had
    ended; 0: never."""
    precision: Precision = "fp32"
    """Precision of the matrix products and convolutions of a training step; weights, optimiser state, losses,
    importances and evaluation are always fp32. bf16 is refused on processors without bfloat16 products."""

    def __post_init__(self) -> None:
        for f in fields(self):  # lists, as JSON and TOML have them, are tuples here
            if isinstance(value := getattr(self, f.name), list):
                object.__setattr__(self, f.name, tuple(value))
        check_values(self)
        check_epochs(self.epochs)
        if isinstance(self.epochs, tuple) and self.epochs[0] == self.epochs[1]:  # one setting, one key
            object.__setattr__(self, "epochs", self.epochs[0])
        for name, least in (("steps", 0), ("batch", 1), ("boundary_every", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} {getattr(self, name)} is out of range; give a whole number, {least} or more")
        for name in ("momentum", "weight_decay", "clip"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} {getattr(self, name)} is out of range; give 0 or more")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing {self.label_smoothing} is out of range; give 0 or more, below 1")
        if not 0 < self.lr < float("inf"):
            raise ValueError(f"lr {self.lr} is out of range; give a number above 0")
        if not isinstance(self.betas, tuple):
            raise ValueError(f"betas {self.betas!r} is not a list; give two numbers, 0 or more and below 1")
        accepted_options(self.optimizer, self.momentum, self.weight_decay, self.nesterov, self.betas)
        object.__setattr__(self, "optimizer_options", check_own_options(self.optimizer, self.optimizer_options))
        check_schedule(self)
        check_augmentation(self.augment)

    def new_optimizer(self, params: Sequence[Tensor]) -> Optimizer:
        """The optimiser that it asks for."""
        return Optimizer(
            params, self.optimizer, self.lr, self.momentum, self.weight_decay, self.nesterov, self.betas,
            self.optimizer_options,
        )  # fmt: skip

    @property
    def scheduled(self) -> bool:
        """Whether the learning rate depends on the step."""
        return self.schedule != "constant" or self.warmup > 0

    def steps_per_epoch(self, images: int) -> int:
        """Batches in one epoch."""
        full, rest = divmod(images, self.batch)
        return full if self.drop_last and full else full + (rest > 0)

    def for_task(self, number: int) -> Training:
        """As a task is trained, the first being number 0: `epochs` is one number."""
        return replace(self, epochs=self.epochs[min(number, 1)]) if isinstance(self.epochs, tuple) else self

    def samples_for(self, images: int) -> int:
        """Samples that a task of so many images has on a stream without boundaries, where no batch is cut short."""
        epochs = self.epochs[0] if isinstance(self.epochs, tuple) else self.epochs
        return self.steps * self.batch or epochs * images

    def steps_for(self, images: int) -> int:
        """Optimiser steps that a task of so many images takes; the first task if epochs are two numbers."""
        epochs = self.epochs[0] if isinstance(self.epochs, tuple) else self.epochs
        return self.steps or epochs * self.steps_per_epoch(images)


def check_epochs(epochs: object) -> None:
    """One whole number or two, each above 0."""
    for number in epochs if isinstance(epochs, tuple) and len(epochs) == 2 else (epochs,):
        if type(number) is not int:
            raise ValueError(
                f"epochs {epochs!r} has the wrong type; give one whole number, or two: first task, later tasks"
            )
        if number < 1:
            raise ValueError(f"epochs {number} is out of range; give a whole number, 1 or more")


def batches(data: Data, training: Training, rng: torch.Generator, skip_epochs: int = 0) -> Iterator[Batch]:
    """The one stream of shuffled batches, by epochs or by steps."""
    left = training.steps_for(len(data))
    per_epoch = training.steps_per_epoch(len(data))
    done = 0
    while left > 0:
        order = data.order(rng, training.batch)
        done += 1
        if done <= skip_epochs:
            left -= per_epoch
            continue
        for indices in torch.split(order.to(data.device), training.batch)[: min(per_epoch, left)]:
            yield data.batch(indices)
            left -= 1


@contextmanager
def in_eval_mode(net: nn.Module) -> Iterator[None]:
    """Layers that behave otherwise in training (dropout, batch norm) are as at test time inside the block."""
    modes = [(module, module.training) for module in net.modules()]
    net.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def parameter_of_task(net: nn.Module) -> inspect.Parameter | None:
    """The argument `t` of a network's forward, if it has one: the task of each sample."""
    cls: type = type(net)
    return parameters_of(cls).get("t")


@cache
def parameters_of(cls: type) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(cls.forward).parameters  # type: ignore[attr-defined]


class Learner:
    """A network being trained on the tasks of a scenario."""

    def __init__(self, net: nn.Module, tasks: Tasks, training: Training, seed: int, device: torch.device) -> None:
        self.net = net.to(device)
        self.tasks = tasks
        self.training = training
        self.seed = seed
        self.device = device
        self.task = 0
        """Index of the current task."""
        self.steps = 0
        """Optimiser steps so far, those of helpers (a generator, say) included."""
        self.step_of_task = 0
        """Index of the current step within its task, from 0."""
        self.steps_of_task = 0
        """Number of steps in this task. In `begin_task` it follows from `pass_sizes`; from the first step
        on from the size of the method's data."""
        self.steps_before_task = self.steps_of_run = 0
        """Steps of all tasks before this one, and of all tasks, computed from `pass_sizes`."""
        self.told = True
        """Whether it is told where tasks begin and end."""
        self.smooths = False
        """Whether a loss with smoothed labels was computed."""
        self.seen: tuple[int, ...] | None = None
        """Outputs whose labels were shown so far, in class learning on a stream without boundaries; else None."""
        self.unseen: tuple[int, ...] = ()
        """Outputs that `active` includes although their labels were not shown yet: a stream may show 3 before 2."""
        self.network_replaced = False
        """Whether the method trains another network than the one asked for."""
        self.network_places: frozenset[tuple[str, str]] = frozenset()
        """(module, attribute) of all that the network held before the method could put something on it."""
        self.params: Params = [p for p in self.net.parameters() if p.requires_grad]
        if not self.params:
            raise ValueError(f"{type(net).__name__} has no parameters to train: none of them requires a gradient")
        self.one = torch.ones((), device=device)
        self.watch: Callable[[float], None] = lambda _: None
        """Told the mean loss now and then by methods that train something beside the network."""
        self.precision: Precision = "fp32"
        """Of products at this moment: for the loss of a step what training asks for, else fp32."""
        self._trained: dict[int, ref[Tensor]] = {}
        """All that an optimiser has had, by their ids."""
        self._streams: dict[tuple[int, str], torch.Generator] = {}
        self._output_layer: str | None = None
        self.new_optimizer()
        self.own_names = frozenset({*vars(self), "own_names"})
        """Attributes of every learner."""

    def new_optimizer(self) -> None:
        self._trained |= {id(p): ref(p) for p in self.params}
        self.optimizer = self.training.new_optimizer(self.params)
        if self.training.scheduled:
            self.lr = self.training.lr

    def was_trained(self, p: Tensor) -> bool:
        """Whether an optimiser has it or had it."""
        return (found := self._trained.get(id(p))) is not None and found() is p

    @property
    def lr(self) -> float:
        """The learning rate of the current step. Setting it sets `base_lr`, which the schedule begins with; without a
        schedule both are the same. A new task does not reset it; a new optimiser does.
        """
        return float(self.optimizer.param_groups[0]["lr"])

    @lr.setter
    def lr(self, value: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = float(value)
            if self.training.scheduled:
                group["initial_lr"] = float(value)  # torch's own schedulers call it so; a checkpoint has it
        self.apply_schedule()

    @property
    def base_lr(self) -> float:
        """The learning rate that the schedule begins with."""
        group = self.optimizer.param_groups[0]
        return float(group.get("initial_lr", group["lr"]))

    def apply_schedule(self) -> None:
        """Sets the learning rate of the step at hand; nothing if it is constant."""
        if not self.training.scheduled:
            return
        step, steps = self.step_of_task, self.steps_of_task
        if self.training.schedule_over == "run":
            step, steps = self.steps_before_task + step, self.steps_of_run
        for group in self.optimizer.param_groups:
            group["lr"] = rate_at(self.training, group["initial_lr"], step, steps)

    def augment(self, batch: Batch) -> Batch:
        """The batch with freshly augmented images; itself if training asks for none.

        The batch that `loss` and `adjust_gradients` get is augmented already; a method that replays stored images
        besides calls this. `after_step` gets the images as they are, to be stored.
        """
        names = self.training.augment
        if not names:
            return batch
        return batch._replace(x=augment_images(batch.x, names, self.tasks.shape, self.rng("augment")))

    def clip_gradients(self) -> None:
        """Scales all gradients so that their common norm is at most `clip`; nothing if that is 0."""
        if self.training.clip:
            nn.utils.clip_grad_norm_(self.params, self.training.clip)

    def logits(self, x: Tensor, t: Tensor | None = None) -> Tensor:
        """(batch, pixels) → (batch, all outputs). `t`, the task of each sample, reaches networks that take it."""
        if self.precision == "fp32":
            return self._output(x, t)
        return self._logits_and_output(x, t)[0]

    def _output(self, x: Tensor, t: Tensor | None) -> Tensor:
        """What the network returns. It must leave its input as it is, which methods store and use again."""
        before = x._version
        out: Tensor = self.net(*self.inputs(x, t))
        if x._version != before:
            raise ValueError(
                f"{type(self.net).__name__} changes its input in place, which is used again after it; let it begin "
                "with a copy (x = x.clone()), or write x = 2 * x rather than x *= 2, and no inplace=True in its first "
                "layer"
            )
        return out

    def _logits_and_output(self, x: Tensor, t: Tensor | None) -> tuple[Tensor, Tensor]:
        """Logits as 32-bit floats, and what the network returned."""
        with products(self.precision, self.device):
            out = self._output(x, t)
        return out.float(), out

    def inputs(self, x: Tensor, t: Tensor | None) -> tuple[Tensor, ...]:
        """What the network is called with: x, and t if its `forward` takes an argument of that name."""
        wanted = parameter_of_task(self.net)
        if wanted is None or (t is None and wanted.default is not inspect.Parameter.empty):
            return (x,)
        if t is None:
            raise ValueError(
                f"{type(self.net).__name__} takes the task of each sample (t), which is not known here; "
                "give its t a default, or give task identity (--give-task-identity)"
            )
        return x, t

    def features(self, x: Tensor, t: Tensor | None = None) -> Tensor:
        """(batch, pixels) → (batch, width): the input of the output layer.

        That is the nn.Linear whose output is the network's, or the submodule that the network names in an attribute
        `output_layer`.
        """
        name = self._output_layer or getattr(self.net, "output_layer", None)
        named = self.net.named_modules() if name is None else [(name, self.net.get_submodule(name))]
        candidates = {module: called for called, module in named if name or isinstance(module, nn.Linear)}
        calls: list[tuple[nn.Module, Tensor, Tensor]] = []

        def note(module: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
            calls.append((module, arguments[0], output))

        handles = [module.register_forward_hook(note) for module in candidates]
        try:
            _, returned = self._logits_and_output(x, t)
        finally:
            for handle in handles:
                handle.remove()
        last = [(module, features) for module, features, output in calls if output is returned]
        if len(last) != 1:
            raise ValueError(
                f"{type(self.net).__name__} has no output layer to take features from: its output is not that of "
                f"{name or 'an nn.Linear'}; let the network name the layer whose output it returns, "
                'as in output_layer = "head"'
            )
        module, features = last[0]
        self._output_layer = candidates[module]
        return features.float()

    def active(self, task: int) -> slice:
        """The active outputs for a task: its own head, those seen so far, or all."""
        if self.seen is not None:
            return slice(0, self.seen[-1] + 1 if self.seen else self.tasks.outputs)
        return self.tasks.active(task, self.task)

    def see(self, labels: Iterable[int]) -> None:
        """Adds labels to those that a stream has shown so far."""
        self.seen = tuple(sorted({*(self.seen or ()), *labels}))
        self.unseen = tuple(sorted({*range(self.seen[-1])} - {*self.seen})) if self.seen else ()

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy, each sample over its active outputs, with smoothed labels if training asks for it; by the
        head of each task if tasks have values or labels."""
        return self.loss_of(self.logits(batch.x, batch.t), batch)

    def loss_of(self, logits: Tensor, batch: Batch) -> Tensor:
        """The same, from logits that were computed already."""
        self.smooths = True
        if not self.tasks.only_classes:
            return loss_by_head(self, logits, batch)
        smoothing = self.training.label_smoothing
        if self.unseen:
            seen = torch.tensor(self.seen, device=logits.device)
            return cross_entropy(logits[:, seen], torch.searchsorted(seen, batch.y), label_smoothing=smoothing)
        if self.tasks.kind != "task" or len(batch.tasks) == 1:
            outputs = self.active(batch.tasks[0])
            start = outputs.start
            y = batch.y - start if start else batch.y
            return cross_entropy(logits[:, outputs], y, label_smoothing=smoothing)
        heads = [self.active(task) for task in batch.tasks]
        sizes = {head.stop - head.start for head in self.tasks.heads}
        if len(sizes) == 1:  # equal heads: pick each sample's own
            (size,) = sizes
            own = logits.view(len(logits), -1, size)[torch.arange(len(batch.t), device=batch.t.device), batch.t]
            return cross_entropy(own, batch.y - size * batch.t, label_smoothing=smoothing)
        total = logits.new_zeros(())
        for task, head in zip(batch.tasks, heads, strict=True):
            here = (batch.t == task).nonzero().squeeze(1)
            if len(here):
                own = logits.index_select(0, here)[:, head]
                y = batch.y.index_select(0, here) - head.start
                total = total + cross_entropy(own, y, reduction="sum", label_smoothing=smoothing)
        return total / len(batch.y)

    @torch.no_grad()
    def predict(self, batch: Batch, mask: bool = True) -> Tensor:
        """The likeliest active output of each sample, by the network's own logits."""
        return self.largest(self.logits(batch.x, batch.t), batch.t, batch.tasks, mask)

    def largest(self, scores: Tensor, t: Tensor, tasks: tuple[int, ...], mask: bool = True) -> Tensor:
        """The largest active output of each sample; without a mask, the largest of all (a task's head is known anyway).

        Args:
            scores: (batch, all outputs)
            t: (batch,), the task of each sample.
            tasks: Those that may occur in t.
            mask: Whether outputs that are not active are left out.
        """
        if mask and self.unseen:
            scores = scores.index_fill(1, torch.tensor(self.unseen, device=scores.device), float("-inf"))
        if self.tasks.kind != "task":
            outputs = self.active(tasks[0]) if mask else slice(0, self.tasks.outputs)
            return scores[:, outputs].argmax(1) + outputs.start
        guess = torch.zeros_like(t)
        for task in tasks:
            head = self.active(task)
            guess = torch.where(t == task, scores[:, head].argmax(1) + head.start, guess)
        return guess

    def gradients(self, batch: Batch) -> Params:
        """The gradients of the plain loss; `p.grad` is not changed."""
        return self.loss_and_gradients(batch)[1]

    def loss_and_gradients(self, batch: Batch) -> tuple[Tensor, Params]:
        """The plain loss and its gradients; `p.grad` is not changed."""
        if fast.has_closed_form(self.net):
            return fast.loss_and_gradients(self, self.net, batch)
        with torch.enable_grad():
            loss = self.loss(batch)
        return loss.detach(), self._gradients_of(loss)

    def gradients_from(self, x: Tensor, delta: Callable[[Tensor], Tensor], t: Tensor | None = None) -> Params:
        """The gradients of any function of the outputs, given its gradient at the logits."""
        if fast.has_closed_form(self.net):
            return fast.gradients_from(self.net, x, delta, self.precision)
        with torch.enable_grad():
            logits = self.logits(x, t)
        return self._gradients_of(logits, delta(logits.detach()))

    def _gradients_of(self, value: Tensor, at_value: Tensor | None = None) -> Params:
        gradients = torch.autograd.grad(value, self.params, at_value, allow_unused=True)
        return [torch.zeros_like(p) if g is None else g for p, g in zip(self.params, gradients, strict=True)]

    def frozen(self) -> Learner:
        """A copy in evaluation mode, without gradients and without an optimiser's state: a teacher."""
        teacher = copy.copy(self)
        teacher.net = copy.deepcopy(self.net).requires_grad_(False).eval()
        teacher.params = []
        teacher._streams = {}
        teacher.precision = "fp32"
        del teacher.optimizer
        return teacher

    @contextmanager
    def step_precision(self) -> Iterator[None]:
        """For the loss of a step and its gradients: products have the precision that training asks for."""
        self.precision = self.training.precision
        try:
            yield
        finally:
            self.precision = "fp32"

    def rng(self, purpose: str) -> torch.Generator:
        """The random stream of this run, task and purpose: one, which a second call in the same task continues."""
        name = (self.task, purpose)
        if name not in self._streams:
            self._streams[name] = stream(self.seed, purpose, self.task)
        return self._streams[name]

    def fresh_rng(self, purpose: str) -> torch.Generator:
        """The same stream from its beginning, whoever has drawn from it."""
        return stream(self.seed, purpose, self.task)

    def begin_task(self, task: int, steps: int) -> None:
        """Before a task: its streams begin anew."""
        self.task, self.step_of_task, self.steps_of_task = task, 0, steps
        self._streams.clear()
        self.apply_schedule()

    def stream_states(self) -> dict[str, Tensor]:
        """Where this task's streams are, for a checkpoint within the task."""
        return {purpose: rng.get_state() for (task, purpose), rng in self._streams.items() if task == self.task}

    def set_stream_states(self, states: dict[str, Tensor]) -> None:
        """Moves this task's streams, also those that a method holds already, to where a checkpoint left them."""
        for purpose, state in states.items():
            self.rng(purpose).set_state(state)
