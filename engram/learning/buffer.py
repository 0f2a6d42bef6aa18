"""The buffer: images of the past that rehearsal methods keep, in a fixed number of slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from engram.learning.learner import Learner
from engram.scenarios.task import Batch, Data, Joined, Pixels, Scaling, Task

Rule = Literal["reservoir", "balanced", "ring", "task-ring", "per-task", "per-class"]
Storage = Literal["uint8", "float"]
STORED: Mapping[Storage, torch.dtype] = {"uint8": torch.uint8, "float": torch.float32}


class Buffer:
    """Images with the output and the task of each, in at most `capacity` slots. A method names it in `kept`.

    Args:
        learner: Its device, its random streams, and the scaling of its tasks' pixels are used.
        capacity: Images, at most.
        rule: Which images stay. `reservoir`: every image offered so far is equally likely (Vitter, 1985). `balanced`:
            classes have equal shares, and within a class every image is equally likely (Chrysakis & Moens, 2020).
            `ring`: the newest. `task-ring`: the newest ⌊capacity / n⌋ of each of all n tasks. `per-task`, `per-class`:
            the first ⌊capacity / n⌋ of each of the n tasks or classes so far; older ones give up their last.
        store: `uint8`: 8-bit pixels, which lose nothing of an 8-bit source; `float`: the network's input itself.
        extra: Name and width of further columns, such as {"logits": outputs}. They are stored as 32-bit floats.
    """

    def __init__(
        self,
        learner: Learner,
        capacity: int,
        rule: Rule = "reservoir",
        store: Storage = "uint8",
        extra: Mapping[str, int] | None = None,
    ) -> None:
        if not isinstance(capacity, int) or capacity < 1:
            raise ValueError(f"capacity {capacity} is out of range; give 1 image or more")
        if store == "uint8":
            scalings = [scaling_of_pixels(task) for task in learner.tasks]
            self.scale, self.shift = (  # of each task, (tasks, channels, 1)
                torch.stack([scaling[i] for scaling in scalings])[..., None].to(learner.device) for i in (0, 1)
            )
        if rule == "task-ring" and capacity < (tasks := len(learner.tasks)):
            raise ValueError(f"capacity {capacity} has no image for each of {tasks} tasks; give {tasks} or more")
        if not learner.tasks.only_classes and rule in ("balanced", "per-class"):
            raise ValueError(f"rule {rule} needs classes, and not all tasks have them; choose another rule")
        self.learner, self.capacity, self.rule, self.store = learner, capacity, rule, store
        self.widths = dict(extra or {})
        self.offered = 0
        """Number of images offered so far."""
        self.offered_by_class: dict[int, int] = {}
        self.offered_by_task: dict[int, int] = {}
        self.filled = 0
        """Number of slots in use, which are the first ones."""
        self.columns: dict[str, Tensor] = {}
        """x, y, t and the extra ones, (capacity, …) each; made when the first image comes."""

    def __len__(self) -> int:
        return self.filled

    @property
    def bytes(self) -> int:
        """Bytes of all slots, empty ones included."""
        return sum(column.numel() * column.element_size() for column in self.columns.values())

    # adding -----------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def add(self, batch: Batch, **extra: Tensor) -> None:
        """Offers the images of a batch one after the other; the rule decides which are stored."""
        self._prepare(batch, extra)
        if not len(batch.y):
            return
        quotas = self.rule in ("per-task", "per-class")
        self._write(batch, extra, self._within_quotas(batch) if quotas else self._places(batch))
        self.offered += len(batch.y)

    @torch.no_grad()
    def put(self, batch: Batch, places: Mapping[int, int], **extra: Tensor) -> None:
        """Stores images of a batch in slots that the caller chose, for methods with a rule of their own.

        Args:
            batch: Images.
            places: Slot → row of the batch. Slots that are not in use yet are filled from the first on, without gaps.
            extra: A value for every image of the batch in each extra column.
        """
        self._prepare(batch, extra)
        slots = {*range(self.filled), *places}
        if slots != set(range(len(slots))) or len(slots) > self.capacity:
            raise ValueError(f"slots {sorted(places)} leave gaps after the {self.filled} of {self.capacity} in use")
        self._write(batch, extra, places)

    def _prepare(self, batch: Batch, extra: Mapping[str, Tensor]) -> None:
        if set(extra) != set(self.widths):
            raise ValueError(
                f"the buffer has the extra columns {sorted(self.widths)} and was given {sorted(extra)}; give a value "
                "for each that it was made with"
            )
        if len(batch.y) and not self.columns:
            self._allocate(batch.x.shape[1:])

    def _allocate(self, shape: torch.Size) -> None:
        device = self.learner.device
        self.columns = {
            "x": torch.zeros(self.capacity, *shape, dtype=STORED[self.store], device=device),
            "y": self._no_targets().to(device),
            "t": torch.zeros(self.capacity, dtype=torch.int16, device=device),
        }
        self.columns |= {name: torch.zeros(self.capacity, n, device=device) for name, n in self.widths.items()}

    def _no_targets(self) -> Tensor:
        """A column for what is right: the number of an output, or the numbers of values and labels."""
        if self.learner.tasks.only_classes:
            return torch.zeros(self.capacity, dtype=torch.int16)
        width = next(self.learner.tasks[0].train.leaves()).y.shape[1]
        return torch.zeros(self.capacity, width)

    def _write(self, batch: Batch, extra: Mapping[str, Tensor], places: Mapping[int, int]) -> None:
        if not places:
            return
        slots, rows = (torch.tensor(list(each), device=batch.x.device) for each in (places, places.values()))
        self.filled = max(self.filled, max(places) + 1)
        t = batch.t.index_select(0, rows)
        x = batch.x.index_select(0, rows)
        values = {
            "x": self._to_pixels(x, t) if self.store == "uint8" else x,
            "y": batch.y.index_select(0, rows),
            "t": t,
        }
        values |= {name: value.detach().index_select(0, rows) for name, value in extra.items()}
        for name, value in values.items():
            column = self.columns[name]
            column.index_copy_(0, slots.to(column.device), value.to(column))

    def _places(self, batch: Batch) -> dict[int, int]:
        """slot → row of the batch that is stored there; a later row replaces an earlier one."""
        rng = self.learner.rng("buffer")
        if self.rule == "ring":
            return {(self.offered + row) % self.capacity: row for row in range(len(batch.y))}
        if self.rule == "task-ring":
            return self._ring_places(batch.t.tolist())
        if self.rule == "balanced":
            return self._balanced_places(batch.y.tolist(), rng)
        number = torch.arange(self.offered, self.offered + len(batch.y))
        drawn = (torch.rand(len(number), dtype=torch.float64, generator=rng) * (number + 1)).long()
        slots = torch.where(number < self.capacity, number, drawn).tolist()
        return {slot: row for row, slot in enumerate(slots) if slot < self.capacity}

    def _ring_places(self, owners: list[int]) -> dict[int, int]:
        """Each task has as many slots as every other; in them, its newest image replaces its oldest."""
        share = self.capacity // len(self.learner.tasks)
        t = self.columns["t"][: self.filled]
        slots = {owner: (t == owner).nonzero().squeeze(1).tolist() for owner in set(owners)}
        places: dict[int, int] = {}
        filled = self.filled
        for row, owner in enumerate(owners):
            offered = self.offered_by_task.get(owner, 0)
            self.offered_by_task[owner] = offered + 1
            if len(slots[owner]) < share:
                slots[owner].append(filled)
                filled += 1
            places[slots[owner][offered % share]] = row
        return places

    def _balanced_places(self, labels: list[int], rng: torch.Generator) -> dict[int, int]:
        held = self.columns["y"][: self.filled].tolist()
        places: dict[int, int] = {}
        for row, label in enumerate(labels):
            seen = self.offered_by_class[label] = self.offered_by_class.get(label, 0) + 1
            if len(held) < self.capacity:
                slot = len(held)
                held.append(label)
            else:
                mine = [i for i, other in enumerate(held) if other == label]
                counts = {other: held.count(other) for other in set(held)}
                most = max(counts.values())
                if len(mine) == most:  # Chrysakis & Moens 2020, algorithm 1: a reservoir within the largest classes
                    drawn = draw_below(seen, rng)
                    if drawn >= len(mine):
                        continue
                    slot = mine[drawn]
                else:
                    largest = [i for i, other in enumerate(held) if counts[other] == most]
                    slot = largest[draw_below(len(largest), rng)]
                held[slot] = label
            places[slot] = row
        return places

    def _within_quotas(self, batch: Batch) -> dict[int, int]:
        """Trims older owners to their quota; slot → row of the new images that fit into theirs."""
        name = "t" if self.rule == "per-task" else "y"
        held = self.columns[name][: self.filled].tolist()
        new = (batch.t if name == "t" else batch.y).tolist()
        quota = self.capacity // len({*held, *new})
        kept, count = take_first(held, quota)
        if len(kept) < self.filled:
            index = torch.tensor(kept, dtype=torch.long, device=self.learner.device)
            for column in self.columns.values():
                column[: len(kept)] = column.index_select(0, index)
            self.filled = len(kept)
        rows, _ = take_first(new, quota, count)
        return dict(enumerate(rows, self.filled))

    # drawing ----------------------------------------------------------------------------------------------------------

    def draw(self, n: int, past: bool = False) -> Batch | None:
        """Up to n images without replacement, freshly augmented if training asks for that; None if there are none.

        Args:
            n: Images; all, if fewer are held.
            past: Whether images of the current task are left out.
        """
        held = torch.arange(self.filled)
        if past and self.filled:
            held = held[self.columns["t"][: self.filled].cpu() < self.learner.task]
        if not len(held):
            return None
        order = torch.randperm(len(held), generator=self.learner.rng("buffer draws"))[:n]
        return self.learner.augment(self.batch(held[order].to(self.learner.device)))

    def batch(self, rows: Tensor) -> Batch:
        """The images in these slots as network input."""
        x, y, t = (self.columns[name].index_select(0, rows) for name in ("x", "y", "t"))
        t = t.long()
        extra = {name: self.columns[name].index_select(0, rows) for name in self.widths}
        x = self._from_pixels(x, t) if self.store == "uint8" else x
        return Batch(x, y if y.is_floating_point() else y.long(), t, tuple(range(self.learner.task + 1)), extra)

    def everything(self) -> Batch | None:
        """All images, in the order of their slots; None if there are none."""
        return self.batch(torch.arange(self.filled, device=self.learner.device)) if self.filled else None

    def data(self) -> Data:
        """The images as data to train on, task by task; for a buffer that holds some."""
        return Joined(list(self._parts()))

    def _parts(self) -> Iterator[Pixels]:
        t = self.columns["t"][: self.filled]
        for task in sorted(set(t.tolist())):
            rows = (t == task).nonzero().squeeze(1)
            scaling = next(self.learner.tasks[task].train.leaves()).scaling
            y = self.columns["y"][rows]
            yield Pixels(
                self.columns["x"][rows], y if y.is_floating_point() else y.long(), task, scaling, what="buffer"
            )

    # pixels -----------------------------------------------------------------------------------------------------------

    def _to_pixels(self, x: Tensor, t: Tensor) -> Tensor:
        by_channel = x.reshape(len(x), self.scale.shape[1], -1)
        return by_channel.sub(self.shift[t]).div_(self.scale[t]).round_().clamp_(0, 255).view_as(x).to(torch.uint8)

    def _from_pixels(self, pixels: Tensor, t: Tensor) -> Tensor:
        by_channel = pixels.to(torch.float32).view(len(pixels), self.scale.shape[1], -1)
        return by_channel.mul_(self.scale[t]).add_(self.shift[t]).view_as(pixels)

    # checkpoints ------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs; random streams are the learner's."""
        return {
            "offered": self.offered,
            "offered_by_class": dict(self.offered_by_class),
            "offered_by_task": dict(self.offered_by_task),
            "columns": {name: column[: self.filled].clone() for name, column in self.columns.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Puts back what `state_dict` took."""
        columns: dict[str, Tensor] = state["columns"]
        self.offered, self.offered_by_class = state["offered"], dict(state["offered_by_class"])
        self.offered_by_task = dict(state.get("offered_by_task", {}))  # checkpoints of before have none
        self.filled, self.columns = 0, {}
        if columns:
            if set(columns) != {"x", "y", "t", *self.widths}:
                raise ValueError(f"the stored columns are {sorted(columns)}")
            self._allocate(columns["x"].shape[1:])
            self.filled = len(columns["y"])
            for name, column in self.columns.items():
                column[: self.filled] = columns[name].to(column.device)


def image_bytes(pixels: int, store: Storage = "uint8", extra: int = 0) -> int:
    """Bytes of one slot of a buffer: pixels, label, task and so many extra floats."""
    return pixels * STORED[store].itemsize + 2 * torch.int16.itemsize + extra * torch.float32.itemsize


def scaling_of_pixels(task: Task) -> Scaling:
    """The one scaling of a task's 8-bit pixels; refused for data that 8 bits do not hold."""
    if any(leaf.dtype != torch.uint8 for leaf in task.train.leaves()):
        raise ValueError(
            f"task {task.index + 1} has float data, which 8 bits do not hold; "
            "use --store float, in a study store = 'float'"
        )
    return task.train.one_scaling()


def draw_below(n: int, rng: torch.Generator) -> int:
    return int(torch.randint(n, (), generator=rng))


def take_first(
    owners: list[int], quota: int, held: Mapping[int, int] | None = None
) -> tuple[list[int], dict[int, int]]:
    """The first indices of each owner up to its quota, and how many each has then; `held`: how many it has already."""
    count = dict(held or {})
    taken = []
    for index, owner in enumerate(owners):
        if count.get(owner, 0) < quota:
            count[owner] = count.get(owner, 0) + 1
            taken.append(index)
    return taken, count
