"""Methods × networks and methods × streams: each pair trains, or refuses in words.

`python -m engram.checks.pairs [METHOD …]` prints a line for each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from engram.checks.facts import BrokenError, Fact, SkippedError, state_fact
from engram.checks.trials import made_up_images, make_spec, run_trial, ten_digits
from engram.core.messages import select
from engram.core.registry import METHODS
from engram.nets._start import Start
from engram.nets.convnet import ConvNet
from engram.nets.mlp import MLP
from engram.nets.net import Net
from engram.nets.resnet18 import ResNet18
from engram.runs.spec import Spec
from engram.scenarios.blend import blend
from engram.scenarios.mnist360 import MNIST360
from engram.scenarios.repeat import repeat
from engram.scenarios.rotate import rotate
from engram.scenarios.scenario import Scenario
from engram.scenarios.sequence import sequence
from engram.scenarios.split import split
from engram.scenarios.transform import transform

NETWORKS: dict[str, tuple[Net, Start]] = {
    "convnet with batch norm and dropout": (ConvNet(width=4, dropout=0.5), Start()),
    "narrow resnet18": (ResNet18(width=2), Start()),
    "frozen backbone": (ConvNet(width=4), Start(freeze="backbone")),
}
"""What a user may bring, in small."""
WORDS_OF_REFUSALS = (
    "net",
    "mlp",
    "frozen",
    "layer",
    "boundaries",
    "task identity",
    "domain learning",
    "class learning",
)
"""A refusal names what does not fit; another error is a fault."""


def kind_for(name: str) -> Any:
    """The kind that a method is tried in."""
    return "task" if "task identity" in METHODS[name]().needs else "class"


def in_parts(kind: Any) -> Scenario:
    """Three tasks of unequal sizes and label sets, as arrays of one's own."""
    images = made_up_images()
    parts = []
    for labels in ((0, 1, 2), (1, 2), (2, 3, 4, 5)):
        rows, test_rows = np.isin(images.y_train, labels), np.isin(images.y_test, labels)
        parts.append((images.x_train[rows], images.y_train[rows], images.x_test[test_rows], images.y_test[test_rows]))
    return sequence(parts, kind=kind)


def shared_kind(kind: str) -> Any:
    """The kind of tasks that all have the same classes."""
    return kind if kind == "task" else "domain"


STREAMS: dict[str, Callable[[Any], Scenario]] = {
    "rotated": lambda kind: rotate(made_up_images(), tasks=3, kind=shared_kind(kind)),
    "transformed": lambda kind: transform(made_up_images(), ["none", "invert", "blur"], kind=shared_kind(kind)),
    "classes that return": lambda kind: split(made_up_images(), groups=((0, 1), (2, 1), (3, 4, 5)), kind=kind),
    "own sequence": in_parts,
    "long tail": lambda kind: split(made_up_images(), imbalance="exp", ratio=0.1, kind=kind),
    "repeating": lambda kind: repeat(made_up_images(), kind=kind),
    "cyclic": lambda kind: repeat(made_up_images(), order="cyclic", kind=kind),
    "blurry": lambda kind: blend(split(made_up_images(), kind=kind), width=0.5),
    "mnist-360": lambda _: MNIST360(images=(ten_digits(),)),
}
"""Every way in which tasks may follow each other, in small, by the kind that a method can run in."""


def check_networks(methods: Sequence[str] = ()) -> Iterator[Fact]:
    """A fact for each method and network; one that is refused is not checked (`holds` is None), with the reason."""
    for name in select("method", methods, METHODS):
        for network, (net, start) in NETWORKS.items():
            spec = replace(make_spec(METHODS[name](), net, kind_for(name)), start=start)
            yield state_fact(f"{name}, {network}", lambda s=spec: trains_or_refuses(lambda: s))  # type: ignore[misc]


def check_streams(methods: Sequence[str] = ()) -> Iterator[Fact]:
    """The same for each method and stream."""
    for name in select("method", methods, METHODS):
        for stream in STREAMS:
            yield state_fact(f"{name}, {stream}", lambda m=name, s=stream: trains_or_refuses(lambda: on_stream(m, s)))  # type: ignore[misc]


def on_stream(name: str, stream: str) -> Spec:
    return make_spec(METHODS[name](), MLP(12, 10), scenario=STREAMS[stream](kind_for(name)))


def trains_or_refuses(make: Callable[[], Spec]) -> str:
    """The accuracy of a short run; raises SkippedError with the words of a refusal."""
    try:
        spec = make()
        record = run_trial(replace(spec, training=replace(spec.training, epochs=1, batch=24))).record
    except (ValueError, TypeError) as error:
        if any(word in str(error).lower() for word in WORDS_OF_REFUSALS):
            raise SkippedError(f"refused: {error}") from error
        raise
    if record.status != "done":
        raise BrokenError(f"the run {record.status}")
    return f"{record.average_accuracy:.1f} in {spec.scenario.kind} learning"


def print_pairs(methods: Sequence[str]) -> int:
    """Prints all facts; 1 if one does not hold."""
    broken = 0
    for facts in (check_networks(methods), check_streams(methods)):
        for fact in facts:
            broken += fact.holds is False
            mark = {True: "trains", None: "refuses", False: "FAILS"}[fact.holds]
            print(f"{mark:<8} {fact.name}: {fact.detail}", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(print_pairs(sys.argv[1:]))
