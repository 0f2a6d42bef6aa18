"""Scenarios by name: `split-mnist/class`, `permuted-mnist/domain`, `queue-mnist+svhn/domain`. No torch."""

from __future__ import annotations

import difflib
import math
from typing import Any, NamedTuple

from engram.core.messages import unknown
from engram.core.registry import SCENARIOS
from engram.data.sets import CATALOG
from engram.scenarios.kinds import KINDS, ScenarioError

PREPARATION: dict[str, tuple[dict[str, Any], str]] = {
    # the constants are the statistics of the padded images, rounded as in the authors' code
    "mnist": ({"pad": 2, "normalize": (0.1000, 0.2752)}, "the authors' code"),
    "fashion-mnist": ({"pad": 2, "normalize": "train"}, "as MNIST, by its own padded statistics"),
}
"""Default preparation of a dataset's images, and the source of these values."""
RECIPE_PREPARATION: dict[str, tuple[dict[str, Any], str]] = {
    "rotated": ({"pad": 0, "normalize": None}, "Buzzega et al., 2020"),
    "mnist-360": ({"pad": 0, "normalize": None}, "Buzzega et al., 2020"),
}
"""Preparation by recipe, if it is another one than the dataset's."""
OTHER_PREPARATION: tuple[dict[str, Any], str] = ({"pad": 0, "normalize": "train"}, "engram's choice")

LONG_QUEUE, WITH, LETTERS = "long-queue", "long-queue-with-", "emnist-letters"
STAND_IN = "cyrillic-letters"
"""Replaces EMNIST letters if they cannot be downloaded; the scenario's name then says so."""
ONLINE, BLURRY = "online-", SCENARIOS.prefix
"""What the name of a scenario may begin with: trained in one epoch of small batches; with tasks that overlap."""
NAMED_SCENARIOS = (
    "split-mnist", "permuted-mnist", "rotated-mnist", "repeating-split-mnist", "split-fashion-mnist", "split-cifar10",
    LONG_QUEUE, "blurry-split-mnist", "blurry-rotated-mnist", "online-split-mnist", "online-split-cifar10", "mnist-360",
)  # fmt: skip
"""The scenarios that `engram ls` lists; their names work with any other dataset too."""


def long_queue(letters: str = LETTERS) -> str:
    """The datasets of the paper's queue of 78 tasks, in its order, with this dataset of letters."""
    return f"mnist+fashion-mnist+{letters}+svhn+cifar100"


class ScenarioName(NamedTuple):
    """The parts of `split-mnist/class`."""

    maker: str
    images: str
    """One dataset, or several for a queue: `mnist+svhn`."""
    kind: str
    online: bool = False
    """Whether it was asked for with `online-`: a way to train, of which the scenario's own name says nothing."""

    def __str__(self) -> str:
        return self.front if has_one_kind(self.maker) else f"{self.front}/{self.kind}"

    @property
    def fronts(self) -> tuple[str, ...]:
        """What the patterns of defaults may match: the name, the name of what is blurred, and `online-` with these."""
        names = tuple(dict.fromkeys((self.front, self.front.removeprefix(BLURRY))))
        return (*names, *(f"{ONLINE}{name}" for name in names)) if self.online else names

    @property
    def front(self) -> str:
        """The name without its kind."""
        if has_one_kind(self.maker):
            usual = SCENARIOS.facts(self.maker).literals["dataset"]
            return self.maker if self.images == usual else f"{self.maker}-{self.images}"
        letters = self.images.split("+")[2] if self.images.count("+") == 4 else ""
        blurry = BLURRY if self.maker.startswith(BLURRY) else ""
        if (self.maker, self.images) != (f"{blurry}queue", long_queue(letters)):
            return f"{self.maker}-{self.images}"
        return f"{blurry}{LONG_QUEUE}" if letters == LETTERS else f"{blurry}{WITH}{letters}"


def parse_name(text: str) -> ScenarioName:
    """Parse a scenario's name; an unknown one is refused with the nearest names."""
    online, text = text.startswith(ONLINE), text.removeprefix(ONLINE)
    front, slash, kind = text.rpartition("/")
    if has_one_kind(maker := SCENARIOS.first_name(front or text)):
        if slash:
            raise ScenarioError(f"scenario {text!r} has one kind only; write {front}")
        facts = SCENARIOS.facts(maker)
        images = text.removeprefix(maker).removeprefix("-") or facts.literals["dataset"]
        return ScenarioName(maker, images, str(facts.defaults["kind"]), online)
    if not slash:
        raise ScenarioError(
            f"scenario {text!r} has no kind; write for example {NAMED_SCENARIOS[0]}/class, with one of the kinds "
            f"{', '.join(KINDS)}"
        )
    if kind not in KINDS:
        near = difflib.get_close_matches(kind.lower(), KINDS, n=1)
        hint = f"did you mean {front}/{near[0]}? " if near else ""
        raise ScenarioError(f"scenario {text!r} does not end in a kind; {hint}choose from {', '.join(KINDS)}")
    blurry, plain = (BLURRY if front.startswith(BLURRY) else ""), front.removeprefix(BLURRY)
    if plain == LONG_QUEUE:
        front = f"{blurry}queue-{long_queue()}"
    elif plain.startswith(WITH):
        front = f"{blurry}queue-{long_queue(plain.removeprefix(WITH))}"
    maker = SCENARIOS.first_name(front)
    dataset = front.removeprefix(f"{maker}-") if maker else ""
    if not maker or dataset == front or not all(dataset.split("+")):
        patterns = [f"{name}-SET{'+SET' * takes_several(name)}/KIND" for name in SCENARIOS if not has_one_kind(name)]
        known = [name if has_one_kind(name) else f"{name}/{kind}" for name in NAMED_SCENARIOS]
        raise ScenarioError(
            unknown("scenario", text, known, nearest=2)
            + f", or write {' or '.join(patterns)} with datasets from {', '.join(CATALOG)}, or your own file.npz"
        )
    return ScenarioName(maker, dataset, kind, online)


def has_one_kind(maker: str) -> bool:
    """Whether a recipe has one kind and a dataset of its own, so that its name is a scenario's: `mnist-360`."""
    return maker in SCENARIOS and "dataset" in SCENARIOS.facts(maker).literals


def is_name(text: str) -> bool:
    """Whether a word can only be the name of a scenario."""
    text = text.removeprefix(ONLINE)
    front = text.rpartition("/")[0]
    if has_one_kind(SCENARIOS.first_name(text)):
        return True
    return "/" in text and (bool(SCENARIOS.first_name(front)) or front.removeprefix(BLURRY).startswith(LONG_QUEUE))


def maker_of(text: str) -> str:
    """The recipe that a scenario's name begins with; empty if it is not one of the registry's."""
    text = text.removeprefix(ONLINE)
    blurry = BLURRY if text.startswith(BLURRY) else ""
    if text.removeprefix(BLURRY).startswith(LONG_QUEUE):
        return f"{blurry}queue"
    return SCENARIOS.first_name(text.rpartition("/")[0] or text)


def with_letters(text: str, letters: str) -> str:
    """The name of the long queue with another dataset of letters; other scenarios have none to replace."""
    name = parse_name(text)
    if not name.front.removeprefix(BLURRY).startswith(LONG_QUEUE):
        raise ScenarioError(f"letters {letters}: {text} has no letters to replace; only {LONG_QUEUE}/KIND has")
    return f"{ONLINE if name.online else ''}{name._replace(images=long_queue(letters))}"


def preparation(name: ScenarioName) -> tuple[dict[str, Any], str]:
    """The fields that a named scenario sets by default, and their source."""
    usual = OTHER_PREPARATION if takes_several(name.maker) else PREPARATION.get(name.images, OTHER_PREPARATION)
    return RECIPE_PREPARATION.get(name.maker.removeprefix(BLURRY), usual)


def takes_several(maker: str) -> bool:
    """Whether a recipe takes several datasets, as in `queue-mnist+svhn/domain`."""
    return bool(SCENARIOS.facts(maker).literals.get("several_datasets"))


def datasets_of(name: ScenarioName) -> list[str]:
    """The datasets that a name states."""
    return name.images.split("+") if takes_several(name.maker) else [name.images]


def default_classes_per_task(name: ScenarioName) -> dict[str, Any]:
    """The default of `classes_per_task`, if the recipe has that field: by the numbers of classes of its datasets."""
    if "classes_per_task" not in SCENARIOS.facts(name.maker).defaults:
        return {}
    sets = datasets_of(name)
    k = fitting_classes(math.gcd(*map(number_of_classes, sets)), alone=len(sets) == 1)
    return {"classes_per_task": "all" if k == 1 and len(sets) > 1 else k}


def number_of_classes(dataset: str) -> int:
    """Of a dataset of the catalog without reading it."""
    if dataset in CATALOG:
        return len(CATALOG[dataset].classes)
    from engram.data.catalog import images  # here, because tables of known datasets are made without NumPy

    return images(dataset).n_classes


def fitting_classes(classes: int, alone: bool = True) -> int:
    """The smallest number of classes per task, from 2 on, that gives tasks of equal size, else 1.

    A dataset that is alone has to give two tasks or more.
    """
    return next((k for k in range(2, classes + (not alone)) if classes % k == 0), 1)
