"""Scenarios by name: `split-mnist/class`, `permuted-mnist/domain`, `split-my.npz/task`."""

from __future__ import annotations

import difflib
from typing import Any, NamedTuple

from engram.data import CATALOG, images
from engram.scenarios.permute import Permute
from engram.scenarios.scenario import Scenario
from engram.scenarios.split import Split
from engram.scenarios.task import KINDS, ScenarioError

MAKERS: dict[str, type[Scenario]] = {"split": Split, "permuted": Permute}

PREPARATION: dict[str, tuple[dict[str, Any], str]] = {
    # the constants are the padded images' statistics, rounded as in the authors' code
    "mnist": ({"pad": 2, "normalize": (0.1000, 0.2752)}, "the authors' code"),
    "fashion-mnist": ({"pad": 2, "normalize": "train"}, "as MNIST, by its own padded statistics"),
}
"""How the images of a set are prepared where nothing else is asked for, and where that comes from."""
OTHERS: tuple[dict[str, Any], str] = ({"pad": 0, "normalize": "train"}, "engram's choice")

NAMED = ("split-mnist", "permuted-mnist", "split-fashion-mnist", "split-cifar10")
"""The presets; any other image set can be put into these names."""


class Name(NamedTuple):
    """`split-mnist/class` taken apart."""

    maker: str
    images: str
    kind: str

    def __str__(self) -> str:
        return f"{self.maker}-{self.images}/{self.kind}"


def parse(text: str) -> Name:
    """Takes a scenario's name apart, and refuses what it does not know with the nearest names."""
    front, slash, kind = text.rpartition("/")
    maker, dash, images_name = front.partition("-")
    if not slash or kind not in KINDS:
        front = front if slash and kind not in KINDS else text
        near = difflib.get_close_matches(kind, KINDS, n=1) if slash else []
        raise ScenarioError(
            f"scenario {text!r} does not end in a kind; "
            + (f"did you mean {front}/{near[0]}? " if near else "")
            + f"write for example {NAMED[0]}/class, with one of the kinds {', '.join(KINDS)}"
        )
    if maker not in MAKERS or not dash or not images_name:
        known = [f"{name}/{kind}" for name in NAMED]
        near = difflib.get_close_matches(text, known, n=2) or known[:2]
        raise ScenarioError(
            f"scenario {text!r} is unknown; did you mean {' or '.join(near)}? "
            f"A name is split-SET/KIND or permuted-SET/KIND, with a set from {', '.join(CATALOG)}, or your own file.npz"
        )
    return Name(maker, images_name, kind)


def preparation(name: Name) -> tuple[dict[str, Any], str]:
    """The fields that a named scenario sets, and their source."""
    return PREPARATION.get(name.images, OTHERS)


def scenario(text: str, **options: Any) -> Scenario:
    """The scenario of this name; options replace fields."""
    name = parse(text)
    found = images(name.images)
    values = {**preparation(name)[0], **options}
    if name.maker == "split" and "classes_per_task" not in values:
        values["classes_per_task"] = fitting(found.n_classes)
    return MAKERS[name.maker](images=(found,), kind=name.kind, **values)  # type: ignore[arg-type]


def fitting(classes: int) -> int:
    """Classes a task where nothing is asked for: two, or the next number that makes two or more equal tasks."""
    return next((k for k in range(2, classes) if classes % k == 0), 1)
