"""Networks × methods: each pair trains, or refuses in words. `python -m engram.checks.networks [METHOD …]`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

from engram.checks.facts import BrokenError, Fact, SkippedError, state_fact
from engram.checks.trials import make_spec, run_trial
from engram.core.messages import select
from engram.core.registry import METHODS
from engram.nets._start import Start
from engram.nets.convnet import ConvNet
from engram.nets.net import Net
from engram.nets.resnet18 import ResNet18

NETWORKS: dict[str, tuple[Net, Start]] = {
    "convnet with batch norm and dropout": (ConvNet(width=4, dropout=0.5), Start()),
    "narrow resnet18": (ResNet18(width=2), Start()),
    "frozen backbone": (ConvNet(width=4), Start(freeze="backbone")),
}
"""What a user may bring, in small."""
WORDS_OF_REFUSALS = ("net", "mlp", "frozen", "layer")
"""A refusal names what does not fit; another error is a fault."""


def check_pairs(methods: Sequence[str] = ()) -> Iterator[Fact]:
    """A fact for each method and network; one that is refused is not checked (`holds` is None), with the reason."""
    for name in select("method", methods, METHODS):
        for network in NETWORKS:
            yield state_fact(f"{name}, {network}", lambda m=name, n=network: trains_or_refuses(m, n))  # type: ignore[misc]


def trains_or_refuses(name: str, network: str) -> str:
    method = METHODS[name]()
    net, start = NETWORKS[network]
    kind = "task" if "task identity" in method.needs else "class"
    spec = make_spec(method, net, kind)
    spec = replace(spec, start=start, training=replace(spec.training, epochs=1, batch=24))
    try:
        record = run_trial(spec).record
    except (ValueError, TypeError) as error:
        if any(word in str(error).lower() for word in WORDS_OF_REFUSALS):
            raise SkippedError(f"refused: {error}") from error
        raise
    if record.status != "done":
        raise BrokenError(f"the run {record.status}")
    return f"{record.average_accuracy:.1f} in {kind} learning"


def main(methods: Sequence[str]) -> int:
    broken = 0
    for fact in check_pairs(methods):
        broken += fact.holds is False
        mark = {True: "trains", None: "refuses", False: "FAILS"}[fact.holds]
        print(f"{mark:<8} {fact.name}: {fact.detail}", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
