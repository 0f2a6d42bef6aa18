"""Presets: the values that the published cells were made with, each with its source."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from engram.experiments.spec import NETS, Spec
from engram.learning.evaluate import Evaluation
from engram.learning.learner import Training
from engram.methods import method_class
from engram.scenarios.named import MAKERS, Name, parse, preparation, scenario


class Sourced(NamedTuple):
    """A value and where it comes from."""

    value: Any
    source: str


SCRIPTS = "the authors' scripts"
PAPER = "the paper's text"
OURS = "engram's choice, after Split MNIST"
DEFAULT = "engram's default"

PROTOCOLS: dict[str, dict[str, Any]] = {
    "split": {"hidden": (400, 400), "epochs": 4, "batch": 128},
    "permuted": {"hidden": (1000, 1000), "epochs": 10, "batch": 128},
}
"""Network and budget of the two MNIST scenarios."""

RATES: dict[str, dict[str, float]] = {
    "split": {"adam": 1e-3, "sgd": 1e-2, "adagrad": 1e-2},
    "permuted": {"adam": 1e-4, "sgd": 1e-3, "adagrad": 1e-3},
}
"""Learning rates by optimiser."""

Settings = dict[str, dict[str, Sourced]]
"""group (scenario, method, net, training) → field → value and source; only what differs from the defaults."""


def settings(name: Name, method: str) -> Settings:
    """What a named scenario and a method set."""
    published = name.images == "mnist"
    source = SCRIPTS if published else OURS
    values, prepared_by = preparation(name)
    protocol = PROTOCOLS[name.maker]
    optimizer = method_class(method).optimizer
    training = {"epochs": Sourced(protocol["epochs"], source), "batch": Sourced(protocol["batch"], source)}
    training["optimizer"] = Sourced(optimizer, source)
    training["lr"] = rate(name, optimizer, source)
    return {
        "scenario": {field: Sourced(value, prepared_by) for field, value in values.items()},
        "method": {},
        "net": {"hidden": Sourced(protocol["hidden"], source)},
        "training": training,
    }


def rate(name: Name, optimizer: str, source: str) -> Sourced:
    """The learning rate that goes with an optimiser in a scenario."""
    rates = RATES[name.maker]
    if (name.maker, optimizer, name.kind) == ("permuted", "sgd", "task"):
        return Sourced(1e-2, f"{source} (the paper's text says 0.001)")
    if optimizer not in rates:
        return Sourced(rates["adam"], "engram's choice, Adam's rate")
    return Sourced(rates[optimizer], source)


def preset(text: str, method: str, seed: int = 0) -> Spec:
    """The spec of a published setting."""
    name = parse(text)
    values = {
        group: {field: sourced.value for field, sourced in fields.items()}
        for group, fields in settings(name, method).items()
    }
    hidden = values["net"].pop("hidden")
    return Spec(
        scenario=scenario(text, **values["scenario"]),
        method=method_class(method)(**values["method"]),
        net=NETS["mlp"](*hidden, **values["net"]),
        training=Training(**values["training"]),
        seed=seed,
    )


def label(spec: Spec) -> str | None:
    """The name of the preset that a spec equals, seeds and what is looked at aside; None where there is none."""
    try:
        name = parse(spec.scenario_name)
        published = preset(str(name), spec.method_name, spec.seed)
    except ValueError:  # an unnamed scenario, or a method of the user's own
        return None
    same = replace(spec, evaluation=Evaluation(), threads=1).key == published.key
    return f"{name} {spec.method_name}" if same and name.maker in MAKERS else None
