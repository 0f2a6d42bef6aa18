"""Scenarios by name: `split-mnist/class`, `permuted-mnist/domain`, `queue-mnist+svhn/domain`, `long-queue/task`."""

from __future__ import annotations

import difflib
import math
from typing import Any, NamedTuple

from engram.data import CATALOG, DataError, Images, images
from engram.scenarios.permute import Permute
from engram.scenarios.queue import Queue
from engram.scenarios.scenario import Scenario
from engram.scenarios.split import Split
from engram.scenarios.task import KINDS, ScenarioError

MAKERS: dict[str, type[Scenario]] = {"split": Split, "permuted": Permute, "queue": Queue}

PREPARATION: dict[str, tuple[dict[str, Any], str]] = {
    # the constants are the padded images' statistics, rounded as in the authors' code
    "mnist": ({"pad": 2, "normalize": (0.1000, 0.2752)}, "the authors' code"),
    "fashion-mnist": ({"pad": 2, "normalize": "train"}, "as MNIST, by its own padded statistics"),
}
"""How the images of a set are prepared where nothing else is asked for, and where that comes from."""
OTHERS: tuple[dict[str, Any], str] = ({"pad": 0, "normalize": "train"}, "engram's choice")

LONG_QUEUE, WITH, LETTERS = "long-queue", "long-queue-with-", "emnist-letters"
STAND_IN = "cyrillic-letters"
"""What stands in for EMNIST letters where they cannot be had; a name that has it says so."""
NAMED = ("split-mnist", "permuted-mnist", "split-fashion-mnist", "split-cifar10", LONG_QUEUE)
"""The presets; any other image set can be put into these names."""


def long_queue(letters: str = LETTERS) -> str:
    """The sets of the paper's queue of 78 tasks, in its order, with this set of letters."""
    return f"mnist+fashion-mnist+{letters}+svhn+cifar100"


class Name(NamedTuple):
    """`split-mnist/class` taken apart."""

    maker: str
    images: str
    """One set, or several of a queue: `mnist+svhn`."""
    kind: str

    def __str__(self) -> str:
        return f"{self.front}/{self.kind}"

    @property
    def front(self) -> str:
        letters = self.images.split("+")[2] if self.images.count("+") == 4 else ""
        if (self.maker, self.images) != ("queue", long_queue(letters)):
            return f"{self.maker}-{self.images}"
        return LONG_QUEUE if letters == LETTERS else f"{WITH}{letters}"


def parse(text: str) -> Name:
    """Takes a scenario's name apart, and refuses what it does not know with the nearest names."""
    front, slash, kind = text.rpartition("/")
    if not slash or kind not in KINDS:
        front = front if slash and kind not in KINDS else text
        near = difflib.get_close_matches(kind.lower(), KINDS, n=1) if slash else []
        raise ScenarioError(
            f"scenario {text!r} does not end in a kind; "
            + (f"did you mean {front}/{near[0]}? " if near else "")
            + f"write for example {NAMED[0]}/class, with one of the kinds {', '.join(KINDS)}"
        )
    if front == LONG_QUEUE:
        front = f"queue-{long_queue()}"
    elif front.startswith(WITH):
        front = f"queue-{long_queue(front.removeprefix(WITH))}"
    maker, dash, images_name = front.partition("-")
    if maker not in MAKERS or not dash or not all(images_name.split("+")):
        known = [f"{name}/{kind}" for name in NAMED]
        near = difflib.get_close_matches(text, known, n=2) or known[:2]
        raise ScenarioError(
            f"scenario {text!r} is unknown; did you mean {' or '.join(near)}? "
            "A name is split-SET/KIND, permuted-SET/KIND or queue-SET+SET/KIND, "
            f"with sets from {', '.join(CATALOG)}, or your own file.npz"
        )
    return Name(maker, images_name, kind)


def is_name(text: str) -> bool:
    """Whether a word can only be meant as the name of a scenario."""
    return "/" in text and (text.partition("-")[0] in MAKERS or text.startswith(LONG_QUEUE))


def with_letters(text: str, letters: str) -> str:
    """The long queue with another set of letters; other scenarios have none to replace."""
    name = parse(text)
    if not name.front.startswith(LONG_QUEUE):
        raise ScenarioError(f"letters {letters}: {text} has none to replace; only {LONG_QUEUE}/KIND has")
    return str(Name("queue", long_queue(letters), name.kind))


def preparation(name: Name) -> tuple[dict[str, Any], str]:
    """The fields that a named scenario sets, and their source."""
    return OTHERS if name.maker == "queue" else PREPARATION.get(name.images, OTHERS)


def scenario(text: str, **options: Any) -> Scenario:
    """The scenario of this name; options replace fields."""
    name = parse(text)
    found = tuple(map(loaded, name.images.split("+") if name.maker == "queue" else [name.images]))
    values = {**preparation(name)[0], **options}
    if name.maker != "permuted" and "classes_per_task" not in values:
        k = fitting(math.gcd(*(one.n_classes for one in found)), alone=len(found) == 1)
        values["classes_per_task"] = "all" if k == 1 and len(found) > 1 else k
    return MAKERS[name.maker](images=found, kind=name.kind, **values)  # type: ignore[arg-type]


def loaded(name: str) -> Images:
    try:
        return images(name)
    except DataError as error:
        if name != LETTERS:
            raise
        raise DataError(f"{error}\nFor {LONG_QUEUE}, {STAND_IN} can stand in: --letters {STAND_IN}") from error


def fitting(classes: int, alone: bool = True) -> int:
    """Classes a task where nothing is asked for: two, or the next number that makes equal tasks, of a set that is
    alone two or more; 1 where there is none."""
    return next((k for k in range(2, classes + (not alone)) if classes % k == 0), 1)
