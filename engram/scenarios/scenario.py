"""Scenarios: recipes that turn datasets into sequences of tasks. A seed draws the tasks of a recipe."""

from __future__ import annotations

import math
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial, wraps
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engram.core.code import is_outside
from engram.core.messages import unknown
from engram.core.streams import own_global_generators, seed_global_generators, seed_of, stream
from engram.core.validation import is_number
from engram.data.arrays import Arrays
from engram.data.images import Images
from engram.scenarios.kinds import KINDS, Kind, ScenarioError
from engram.scenarios.prepare import AS_IT_IS, Channels, Normalize, array_statistics, flatten_part, standardize_part
from engram.scenarios.prepare import ImagePart as ImagePart
from engram.scenarios.prepare import Ints as Ints
from engram.scenarios.prepare import compute_scaling as compute_scaling
from engram.scenarios.task import Data, Joined, Pixels, Scaling, Task, Tasks

Order = Literal["fixed", "shuffled"]
"""Order of classes or tasks: as in the datasets, or shuffled by the run's seed."""
Imbalance = Literal["none", "exp"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Scenario(ABC):
    """What all recipes share: the datasets, the kind, and how pixels become network input."""

    name: ClassVar[str]
    """The recipe's name: `permuted` in `permuted-mnist/domain`."""
    make: ClassVar[str]
    """The recipe's name in specs and keys. Equal to `name`, unless version 0.1 spelled it differently."""
    several_datasets: ClassVar[bool] = False
    """Whether the recipe takes several datasets, as in `queue-mnist+svhn/domain`."""
    any_targets: ClassVar[bool] = False
    """Whether the recipe takes datasets with values or labels, too."""
    boundaries: ClassVar[bool] = True
    """Whether the learner is told where a task ends and the next begins."""

    images: tuple[Images, ...] = field(default=())
    kind: Kind = "class"
    """What changes from task to task: task, domain, class, class-known (number of classes known in advance), iid."""
    pad: int = 0
    """Black pixels added on each side before anything else."""
    normalize: Normalize = None
    """`train` (statistics of the padded training images), or mean and standard deviation; none: pixels in [0, 1]."""
    held_out: float = 0.0
    """Share of each class's training images that replaces the test images; 0: use the real test images."""
    per_class: int = 0
    """Largest number of training images per class, always the same ones; 0: all of them."""
    imbalance: Imbalance = "none"
    """Long tail over the classes: exp gives class c of k the share ratio^(c / (k − 1)) of the first class's training
    images. Test images are not reduced."""
    ratio: float = 1.0
    """Size of the last class relative to the first, with imbalance exp, such as 0.01."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls) and "make" not in vars(cls):
            cls.make = cls.name
        if "tasks" in vars(cls):
            cls.tasks = with_seed(cls.tasks)  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        for f in fields(self):
            object.__setattr__(self, f.name, freeze(getattr(self, f.name)))
        for dataset in self.images:
            if not isinstance(dataset, Images):
                raise ScenarioError(
                    f"images {reprlib.repr(dataset)} are not a dataset; give engram.images(name) or engram.Images(…)"
                )
        if not is_number(self.held_out) or not 0 <= self.held_out < 1:
            raise ScenarioError(f"held_out {self.held_out!r} is out of range; give a share from 0 to below 1")
        check_subset(self)
        # if training images replace the test images, nothing that runs can read the real ones
        images = tuple(dataset.seal() if self.held_out else dataset.unseal() for dataset in self.images)
        object.__setattr__(self, "images", images)
        if self.kind not in KINDS:
            raise ScenarioError(unknown("kind", self.kind, KINDS))
        if not isinstance(self.pad, int) or not 0 <= self.pad <= 64:
            raise ScenarioError(f"pad {self.pad} is out of range; give 0 to 64 pixels")
        if self.normalize is not None and self.normalize != "train":
            check_normalize(self.normalize, [dataset.shape[0] for dataset in self.images])
        for dataset in self.images:
            if dataset.targets != "classes" and not (self.any_targets and self.kind == "task"):
                raise ScenarioError(
                    f"{dataset.name} has {dataset.targets} as targets, which need a head of their own: give "
                    f"engram.queue([…], kind='task'), not {type(self).name} of kind {self.kind}"
                )
            dataset.padded_shape(self.pad)  # refused if only pictures can have a border

    def holdout(self, fraction: float) -> Self:
        """The same scenario with a share of the training images in place of the test images, for tuning."""
        return replace(self, held_out=fraction)

    def copies(self) -> list[str]:
        """Notes on datasets that are not the official ones."""
        return [f"{images.name}: {images.note}" for images in self.images if images.note]

    @abstractmethod
    def tasks(self, seed: int = 0, device: torch.device | str = "cpu") -> Tasks:
        """The tasks that this seed draws."""

    def deal(self, seed: int, device: torch.device | str = "cpu") -> Tasks:
        """Version 0.1's name of `tasks`."""
        return self.tasks(seed, device)

    @abstractmethod
    def sizes(self) -> list[int]:
        """Number of training images per task, known before the tasks are drawn."""


def with_seed(draw: Callable[..., Tasks]) -> Callable[..., Tasks]:
    """A recipe's `tasks` whose tasks know their seed and their shape, which a loop of one's own needs."""

    @wraps(draw)
    def draw_with_seed(self: Scenario, seed: int = 0, device: torch.device | str = "cpu") -> Tasks:
        if is_outside(type(self)):  # what somebody's own recipe draws without naming a stream follows from the seed
            with own_global_generators():
                seed_global_generators(seed_of(seed, "scenario"))
                drawn = draw(self, seed, device)
        else:
            drawn = draw(self, seed, device)
        return replace(drawn, tasks=tuple(replace(task, seed=seed, shape=drawn.shape) for task in drawn.tasks))

    return draw_with_seed


def check_normalize(normalize: tuple[Channels, Channels], channels: list[int]) -> None:
    """Raise unless `normalize` is a mean and a standard deviation, each one number or one number per channel."""
    parts = [part if isinstance(part, tuple) else (part,) for part in normalize] if type(normalize) is tuple else []
    if len(parts) != 2 or not all(parts) or not all(is_number(v) for part in parts for v in part):
        raise ScenarioError(
            f"normalize {normalize!r} is unknown; give 'train', None, or a mean and a standard deviation (numbers, or "
            "tuples with one number per channel)"
        )
    means, deviations = parts
    if not all(math.isfinite(v) for v in (*means, *deviations)) or min(deviations) <= 0:
        raise ScenarioError(f"normalize {normalize}: give finite means, and finite standard deviations above 0")
    for n in channels:
        if {len(means), len(deviations)} - {1, n}:
            raise ScenarioError(f"normalize {normalize} is for {len(means)} channels, but the images have {n}")


def check_subset(scenario: Scenario) -> None:
    """Raise unless `per_class`, `imbalance` and `ratio` are in range and do not contradict each other."""
    if type(scenario.per_class) is not int or scenario.per_class < 0:
        raise ScenarioError(f"per_class {scenario.per_class!r}: give a whole number of images, or 0 for all of them")
    check_choice("imbalance", scenario.imbalance, get_args(Imbalance))
    ratio = scenario.ratio
    if not is_number(ratio) or not 0 < ratio <= 1:
        raise ScenarioError(f"ratio {ratio!r} is out of range; give the size of the last class relative to the first")
    if (scenario.imbalance == "none") != (ratio == 1):
        raise ScenarioError(
            f"imbalance {scenario.imbalance} and ratio {ratio} contradict each other; give both, as in imbalance exp, "
            "ratio 0.01, or neither"
        )
    if scenario.per_class or scenario.imbalance != "none":
        for images in scenario.images:
            if images.targets != "classes":
                raise ScenarioError(
                    f"{images.name} has {images.targets}, not classes; leave out per_class and imbalance"
                )


def check_choice(field: str, value: object, choices: Sequence[str]) -> None:
    """Raise unless the value of a field is one of its choices."""
    if value not in choices:
        raise ScenarioError(unknown(field, value, choices))


def freeze(value: Any) -> Any:
    """Turn lists into tuples, so that a recipe cannot change after it was created."""
    return tuple(freeze(v) for v in value) if isinstance(value, list | tuple) else value


def prepare_images(
    scenario: Scenario, images: Images, device: torch.device | str, choose: ChooseRows | None = None
) -> tuple[ImagePart, ImagePart, Scaling]:
    """Pad and flatten a dataset's images, choose those in use, and compute the scaling; pixels stay 8-bit.

    Other arrays are only flattened, and normalised if that is asked for. What lies in a file stays there: the same is
    done to its rows as they are read.
    """
    train_rows, held_rows = (choose or choose_rows)(scenario, images)
    pictures = not isinstance(images.unseal(), Arrays)
    flatten = partial(flatten_part, images, pad=scenario.pad if pictures else None)
    train = flatten("x_train", images.y_train, train_rows)
    if scenario.held_out:
        test = replace(train, rows=held_rows)
    else:
        test = flatten("x_test", images.y_test, np.arange(len(images.y_test)))
    scaling = AS_IT_IS
    if pictures:
        scaling = compute_scaling(scenario.normalize, train, images.shape[0])
    elif scenario.normalize is not None:
        mean, deviation = array_statistics(scenario.normalize, train, images.shape)
        train, test = (standardize_part(part, mean, deviation) for part in (train, test))
    scaling = Scaling(scaling.scale.to(device), scaling.shift.to(device))
    return replace(train, x=train.x.to(device)), replace(test, x=test.x.to(device)), scaling


def strata(images: Images) -> Ints:
    """The groups that are held out from in equal shares: classes; of values and labels there is one."""
    found: Ints = images.y_train if images.targets == "classes" else np.zeros(len(images.y_train), np.int64)
    return found


def choose_rows(scenario: Scenario, images: Images) -> tuple[Ints, Ints]:
    """(rows of the training images to learn from, rows of those held out): first the subset, then a part of it."""
    y = strata(images)
    rows = select_subset(scenario, y)
    if not scenario.held_out:
        return rows, rows[:0]
    kept, held = hold_out(y[rows], scenario.held_out)
    return rows[kept], rows[held]


ChooseRows = Callable[[Scenario, Images], tuple[Ints, Ints]]


def select_subset(scenario: Scenario, y: Ints) -> Ints:
    """Rows of the images that `per_class` and `imbalance` leave. The run's seed has no effect, and a smaller subset is
    a part of a larger one."""
    counts = np.bincount(y)
    left = subset_sizes(scenario, counts)
    if (left == counts).all():
        return np.arange(len(y))
    rng = stream(0, "subset")
    chosen = []
    for label, size in enumerate(left):
        rows = np.flatnonzero(y == label)
        chosen.append(rows[torch.randperm(len(rows), generator=rng).numpy()[:size]])
    found: Ints = np.sort(np.concatenate(chosen))
    return found


def subset_sizes(scenario: Scenario, counts: Ints) -> Ints:
    """How many of each class's images are left (Cui et al., 2019, for the long tail): one at least, if there is one."""
    left = np.minimum(counts, scenario.per_class) if scenario.per_class else counts
    if scenario.imbalance == "exp":
        profile = scenario.ratio ** (np.arange(len(counts)) / max(1, len(counts) - 1))
        left = np.minimum(left, np.maximum(1, np.round(left[0] * profile).astype(np.int64)))
    return left


def hold_out(y: Ints, fraction: float) -> tuple[Any, Any]:
    """(kept rows, held-out rows), drawn per class. The run's seed has no effect: all trials use the same."""
    rng = stream(0, "holdout")
    kept, held = [], []
    for label in range(int(y.max()) + 1):
        rows = np.flatnonzero(y == label)[torch.randperm(int((y == label).sum()), generator=rng).numpy()]
        cut = count_held_out(len(rows), fraction)
        if cut < 1:
            raise ScenarioError(f"class {label} has only one training image, so none can be held out")
        held.append(rows[:cut])
        kept.append(rows[cut:])
    return np.sort(np.concatenate(kept)), np.sort(np.concatenate(held))


def count_held_out(n: int, fraction: float) -> int:
    """How many of a class's n images are held out: at least one, and at least one is kept."""
    return min(max(1, round(fraction * n)), n - 1) if fraction else 0


def count_training_images(scenario: Scenario, images: Images) -> Ints:
    """Number of training images per class, without those held out; one number of values and labels."""
    counts = np.bincount(strata(images), minlength=images.n_classes if images.targets == "classes" else 1)
    return np.array([n - count_held_out(int(n), scenario.held_out) for n in subset_sizes(scenario, counts)])


def view_rows(
    part: ImagePart,
    rows: Ints,
    outputs: NDArray[Any],
    task: int,
    scaling: Scaling,
    what: str,
    permutation: Tensor | None = None,
) -> Pixels:
    """Rows of a part as the data of a task; `outputs` has the output of each image, or its values or labels."""
    device = part.x.device
    everything = len(rows) == len(part.x) and bool((rows == np.arange(len(rows))).all())
    return Pixels(
        part.x,
        torch.from_numpy(np.ascontiguousarray(outputs)).to(device),
        task,
        scaling,
        rows=None if everything else torch.from_numpy(np.ascontiguousarray(rows)).to(device),
        permutation=permutation,
        what=what,
        mapped=part.mapped,
        prepare=part.prepare,
    )


def mix_tasks(pool: Sequence[Task], seed: int, classes: tuple[str, ...], shape: tuple[int, ...]) -> Tasks:
    """Kind `iid`: distribute the images of all tasks at random over as many tasks of equal size, with one output per
    class."""
    count = len(pool)

    def distribute(part: str) -> list[Data]:
        mixed: list[list[Data]] = [[] for _ in range(count)]
        for task in pool:
            (leaf,) = (task.train if part == "train" else task.test).leaves()
            order = torch.randperm(len(leaf), generator=stream(seed, f"deal {part}", task.index)).to(leaf.device)
            rows = torch.arange(len(leaf.x), device=leaf.device) if leaf.rows is None else leaf.rows
            # the remainders of consecutive tasks go to different new tasks, so that sizes differ little
            for i, share in enumerate(order.tensor_split(count)):
                target = (i + task.index) % count
                mixed[target].append(
                    replace(leaf, y=leaf.y[share], rows=rows[share], task=target, loaded=None)  # same pixels
                )
        return [Joined(parts) for parts in mixed]

    trains, tests = distribute("train"), distribute("test")
    tasks = tuple(Task(i, train, test, classes) for i, (train, test) in enumerate(zip(trains, tests, strict=True)))
    return Tasks(tasks, "iid", (slice(0, len(classes)),) * count, len(classes), shape)
