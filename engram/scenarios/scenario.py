"""Scenarios: recipes that turn datasets into sequences of tasks. A seed draws the tasks of a recipe."""

from __future__ import annotations

import math
import reprlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial, wraps
from typing import Any, ClassVar, Literal, Self, get_args
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engram.core.messages import unknown
from engram.core.streams import stream
from engram.core.validation import is_number
from engram.data.arrays import Arrays
from engram.data.images import Images
from engram.scenarios.kinds import KINDS, Kind, ScenarioError
from engram.scenarios.task import Data, Joined, Pixels, Scaling, Task, Tasks

Ints = NDArray[np.int64]
Channels = float | tuple[float, ...]
Normalize = Literal["train"] | tuple[Channels, Channels] | None
"""How pixels are normalised: by a mean and a standard deviation (one for all channels, or one per channel), by those of
the padded training images (`train`), or not at all (None): pixels stay in [0, 1]."""
_FLATTENED: WeakKeyDictionary[Images, dict[str, tuple[int, Tensor]]] = WeakKeyDictionary()
"""Of each dataset in use: part → (border, pictures with that border). Nothing writes to these tensors."""
AS_IT_IS = Scaling(torch.ones(1), torch.zeros(1))
"""Of arrays that are not pictures."""
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
    """Training images of each class at most, always the same ones; 0: all of them."""
    imbalance: Imbalance = "none"
    """Long tail over the classes: exp gives class c of k the share ratio^(c / (k − 1)) of the first class's training
    images. Test images stay as they are."""
    ratio: float = 1.0
    """Size of the last class relative to the first, with imbalance exp: 0.01, say."""

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


@dataclass(frozen=True, eq=False)
class ImagePart:
    """The training or the test images of one dataset as a tensor."""

    x: Tensor  # (images, pixels), uint8
    y: Ints
    rows: Ints
    """The rows of x that are in use."""

    def rows_of_class(self, label: int) -> Ints:
        return self.rows_of_classes(slice(label, label + 1))

    def rows_of_classes(self, labels: slice) -> Ints:
        """The rows of consecutive classes, in the dataset's order."""
        y = self.y[self.rows]
        rows: Ints = self.rows[(y >= labels.start) & (y < labels.stop)]
        return rows


def prepare_images(
    scenario: Scenario, images: Images, device: torch.device | str, choose: ChooseRows | None = None
) -> tuple[ImagePart, ImagePart, Scaling]:
    """Pad and flatten a dataset's images, choose those in use, and compute the scaling; pixels stay 8-bit.

    Other arrays are only flattened, and normalised here if that is asked for.
    """
    train_rows, held_rows = (choose or choose_rows)(scenario, images)
    pictures = not isinstance(images.unseal(), Arrays)
    flatten = partial(flatten_once, pad=scenario.pad) if pictures else flatten_arrays
    x_train = flatten(images, "x_train")
    if scenario.held_out:
        x_test, y_test, test_rows = x_train, images.y_train, held_rows
    else:
        x_test, y_test = flatten(images, "x_test"), images.y_test
        test_rows = np.arange(len(y_test))
    if pictures:
        counted = x_train[torch.from_numpy(train_rows)] if scenario.normalize == "train" else x_train[:0]
        scaling = compute_scaling(scenario.normalize, counted, images.shape[0])
    else:
        scaling = AS_IT_IS
        if scenario.normalize is not None:
            mean, deviation = array_statistics(scenario.normalize, x_train[torch.from_numpy(train_rows)], images.shape)
            x_train, x_test = (standardize(x, mean, deviation) for x in (x_train, x_test))
    scaling = Scaling(scaling.scale.to(device), scaling.shift.to(device))
    train = ImagePart(x_train.to(device), images.y_train, train_rows)
    test = ImagePart(x_test.to(device), y_test, test_rows)
    return train, test, scaling


def flatten_once(images: Images, part: str, pad: int) -> Tensor:
    """A part of a dataset as `flatten_images` has it. It is kept with the dataset: a run draws its tasks several times,
    and the runs of a worker draw them from the same pictures."""
    x = getattr(images, part)  # refused if the part is sealed
    kept = _FLATTENED.setdefault(images.unseal(), {})
    if part not in kept or kept[part][0] != pad:
        kept[part] = pad, flatten_images(x, pad)
    return kept[part][1]


def flatten_images(x: NDArray[np.uint8], pad: int) -> Tensor:
    """(n, h, w[, 3]) → (n, channels · height · width) with a black border."""
    if x.ndim == 3:
        x = x[..., None]
    n, height, width, channels = x.shape
    padded = np.zeros((n, channels, height + 2 * pad, width + 2 * pad), np.uint8)
    padded[:, :, pad : pad + height, pad : pad + width] = x.transpose(0, 3, 1, 2)
    return torch.from_numpy(padded.reshape(n, -1))


def flatten_arrays(images: Images, part: str) -> Tensor:
    """(n, …) → (n, values), without a copy if the rows lie one after the other."""
    x = getattr(images, part)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # a map of a file: only read here
        return torch.from_numpy(x.reshape(len(x), -1))


def array_statistics(
    normalize: Literal["train"] | tuple[Channels, Channels], x: Tensor, shape: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each feature, or of each channel of a signal; a constant one is only centred."""
    if normalize == "train":
        by_channel = x.view(len(x), shape[0], -1).double()
        mean, deviation = by_channel.mean((0, 2)), by_channel.std((0, 2), correction=0)
        return mean, torch.where(deviation == 0, 1.0, deviation)
    mean, deviation = (torch.tensor(part, dtype=torch.float64).reshape(-1).expand(shape[0]) for part in normalize)
    return mean, deviation


def standardize(x: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """(x − mean) / standard deviation as 32-bit floats, in pieces."""
    out = torch.empty(x.shape, dtype=torch.float32)
    for start in range(0, len(x), 4096):
        part = x[start : start + 4096]
        scaled = (part.view(len(part), len(mean), -1).double() - mean[:, None]) / deviation[:, None]
        out[start : start + 4096] = scaled.view_as(part).float()
    return out


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


def compute_scaling(normalize: Normalize, x: Tensor, channels: int) -> Scaling:
    """The scaling of 8-bit pixels to (pixel / 255 − mean) / standard deviation."""
    mean: Channels
    deviation: Channels
    if normalize is None:
        mean, deviation = 0.0, 1.0
    elif normalize == "train":
        counts = torch.stack(
            [torch.bincount(part.flatten(), minlength=256) for part in x.view(len(x), channels, -1).unbind(1)]
        ).double()  # (channels, 256): sums are exact for any number of pixels
        levels = torch.arange(256, dtype=torch.float64) / 255
        share = counts / counts.sum(1, keepdim=True)
        means = share @ levels
        deviations = (share @ levels**2 - means**2).clamp(min=0).sqrt()
        if (deviations == 0).any():
            raise ScenarioError("all training pixels are equal, so they cannot be normalised; give --normalize none")
        mean, deviation = tuple(means.tolist()), tuple(deviations.tolist())
    else:
        mean, deviation = normalize
    scale, shift = [], []
    for c in range(channels):
        m = mean[c % len(mean)] if isinstance(mean, tuple) else mean
        s = deviation[c % len(deviation)] if isinstance(deviation, tuple) else deviation
        scale.append(1 / (255 * s))
        shift.append(-m / s)
    return Scaling(torch.tensor(scale), torch.tensor(shift))


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
