"""Presets: the values that the published cells were made with, each with its source."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, NamedTuple, get_args

import torch

from engram.learning.combine import combine
from engram.learning.evaluate import Evaluation
from engram.learning.learner import Training
from engram.methods import members_of, method_class, methods
from engram.runs.spec import NETS, Spec, known, new_net
from engram.scenarios.names import LONG_QUEUE, ScenarioName, parse_name, preparation, scenario
from engram.studies.hsu2018 import long_queue, sources, twins
from engram.studies.hsu2018.cells import COPIED, SAMPLED, WHOLE_MEMORY, Protocol, labelled, preset_names
from engram.studies.hsu2018.twins import Variant


class Sourced(NamedTuple):
    """A value and where it comes from."""

    value: Any
    source: str


SCRIPTS, PAPER, COPIED_FROM = sources.SCRIPTS, sources.TEXT, sources.COPIED_FROM
OURS, AFTER_QUEUE = "engram's choice, after Split MNIST", "engram's choice, after the paper's long queue"
DEFAULT = "engram's default"

PROTOCOLS: dict[str, dict[str, Any]] = {
    "split": {"hidden": (400, 400), "epochs": 4, "batch": 128},
    "permuted": {"hidden": (1000, 1000), "epochs": 10, "batch": 128},
    "queue": {"hidden": (256, 256), "epochs": 10, "batch": 128},
}
"""Network and budget of the two MNIST scenarios and of the long queue."""

OWN: dict[str, dict[str, dict[str, Any]]] = {
    "split": {
        "scenario": {"pad": 0, "normalize": None, "order": "shuffled"},
        "training": {"steps": 2000, "drop_last": True},
    },
    "permuted": {
        "scenario": {"pad": 2, "normalize": None, "identity_first": False},
        "training": {"steps": 5000, "drop_last": True},
    },
}
"""What the rows that the paper copied were made with, where it differs from all other rows."""

RATES: dict[str, dict[str, float]] = {
    "split": {"adam": 1e-3, "sgd": 1e-2, "adagrad": 1e-2, "gem": 1e-2},
    "permuted": {"adam": 1e-4, "sgd": 1e-3, "adagrad": 1e-3, "gem": 1e-1},
    "queue": {"adam": 1e-3, "sgd": 1e-2, "adagrad": 1e-3, "gem": 1e-2},
}
"""Learning rates by optimiser, and GEM's."""
RATES_IN_TEXT = ("adam", "adagrad")
"""Optimisers that the paper has on the long queue."""

COEFS: dict[str, dict[str, tuple[float, float, float]]] = {
    "l2": {"split": (0.01, 0.5, 100), "permuted": (0.001, 0.02, 0), "queue": (0.01, 0.5, 100)},
    "ewc": {"split": (100, 100, 600), "permuted": (500, 150, 10), "queue": (100, 100, 600)},
    "online-ewc": {"split": (400, 700, 100), "permuted": (500, 250, 50), "queue": (100, 10, 10)},
    "si": {"split": (300, 3000, 600), "permuted": (1, 10, 0.3), "queue": (50, 1, 1)},
    "mas": {"split": (1, 10000, 1), "permuted": (0.01, 0.1, 0.003), "queue": (1, 10000, 1)},
}
"""Weights of the penalties in task, domain and class learning."""
CAPACITIES: dict[str, dict[str, int]] = {
    "rehearsal": {"split": 1100, "permuted": 4000, "queue": 679},
    "rehearsal-c": {"split": 4400, "permuted": 16000, "queue": 2716},
    "gem": {"split": 1100, "permuted": 4000, "queue": 679},
    "gem-textbook": {"split": 1100, "permuted": 4000, "queue": 679},
}
"""Images in the buffer."""
EQUAL_MEMORY = frozenset({"l2", "online-ewc", "si", "mas", "rehearsal", "rehearsal-c", "gem", "dgr", "rtf"})
"""Methods that the paper compares at equal memory; its EWC grows with the tasks, and LwF needs a copy of the model."""
SUBSAMPLED = 256
"""Images of GEM's memory that a step of permuted MNIST looks at: all 4000 would take days."""

Settings = dict[str, dict[str, Sourced]]
"""group (scenario, method, net, training) → field → value and source; only what differs from the defaults."""


def settings(name: ScenarioName, method: str, protocol: Protocol = "own", net: str = "mlp") -> Settings:
    """What a named scenario and a method set; fields of combined methods (`rehearsal+si`) as `si.coef`.

    `own` is the protocol that each published row was made with; `common` that of all rows but the copied ones and the
    penalties on the long queue.
    """
    source = source_of(name)
    values, prepared_by = preparation(name)
    base = PROTOCOLS[name.maker]
    members = members_of(method)
    optimizer = combine([method_class(member)() for member in members]).optimizer
    rated = "gem" if any(member.startswith("gem") for member in members) else optimizer
    of_methods = {
        field if len(members) == 1 else f"{member}.{field}": sourced
        for member in members
        for field, sourced in method_settings(name, member, source).items()
    }
    if own := protocol == "own" and any(member in COPIED for member in members) and name.maker in OWN:
        source = COPIED_FROM
    found: Settings = {
        "scenario": {field: Sourced(value, prepared_by) for field, value in values.items()},
        "method": of_methods,
        "net": {"hidden": Sourced(base["hidden"], source)} if net == "mlp" else {},
        "training": {
            "epochs": Sourced(base["epochs"], source),
            "batch": Sourced(base["batch"], source),
            "optimizer": Sourced(
                optimizer, OURS if name.maker == "queue" and optimizer not in RATES_IN_TEXT else source
            ),
            "lr": rate(name, rated, source),
        },
    }
    if protocol == "own" and long_queue.resets(str(name), method):
        found["training"]["reset_optimizer"] = Sourced(
            True, "engram's choice, nearer to print; the paper's text has no"
        )
    if own:
        for group, fields in OWN[name.maker].items():
            found[group] |= {field: Sourced(value, COPIED_FROM) for field, value in fields.items()}
    return found


def source_of(name: ScenarioName) -> str:
    """Where the values of a scenario come from, if nothing else is said of one."""
    if name.maker == "queue":
        return PAPER if name.front.startswith(LONG_QUEUE) else AFTER_QUEUE
    return SCRIPTS if name.images == "mnist" else OURS


def method_settings(name: ScenarioName, method: str, source: str) -> dict[str, Sourced]:
    """The fields of a method that the published cells set; those of the `class` column for `class-known` and `iid`."""
    if name.maker == "queue":  # the paper does not tell them
        source = AFTER_QUEUE if method in long_queue.PENALTIES else OURS
        if long_queue.resets(str(name), method):
            source = f"the best weight of Table 5 (MLP, {long_queue.OPTIMISERS[True]}), by test accuracy"
    found = {}
    if method in COEFS:
        column = {"task": 0, "domain": 1}.get(name.kind, 2)
        inferred = "" if name.kind in ("task", "domain", "class") else " for class, in want of one"
        found["coef"] = Sourced(float(COEFS[method][name.maker][column]), source + inferred)
    if method in ("ewc", "online-ewc") and (name.maker, name.kind) == ("permuted", "domain"):
        found["estimator"] = Sourced("batch", source)
    if method in CAPACITIES:
        either = " (which of two they have, inferred from print)" if method == "gem" and name.maker != "queue" else ""
        found["capacity"] = Sourced(CAPACITIES[method][name.maker], source + either)
    if method.startswith("gem"):
        found["margin"] = Sourced(0.5, source)
        if method == "gem":
            found["slots_per_task"] = Sourced(2, "the authors' code of January 2019")
        if name.maker == "permuted":
            found["memory_batch"] = Sourced(SUBSAMPLED, "engram's choice: a sample of the memory at each step")
    return found


def rate(name: ScenarioName, optimizer: str, source: str) -> Sourced:
    """The learning rate that goes with an optimiser in a scenario."""
    rates = RATES[name.maker]
    if (name.maker, optimizer, name.kind) == ("permuted", "sgd", "task"):
        return Sourced(1e-2, f"{source} (the paper's text says 0.001)")
    if optimizer not in rates:
        return Sourced(rates["adam"], "engram's choice, Adam's rate")
    if name.maker == "queue" and optimizer not in RATES_IN_TEXT:
        return Sourced(rates[optimizer], OURS)
    return Sourced(rates[optimizer], source)


def preset(text: str, method: str, seed: int = 0, protocol: Protocol = "own", net: str = "mlp") -> Spec:
    """The spec of a published setting."""
    name = parse_name(text)
    values = {
        group: {field: sourced.value for field, sourced in fields.items()}
        for group, fields in settings(name, method, protocol, net).items()
    }
    members = [
        method_class(member)(**{field: s.value for field, s in method_settings(name, member, "").items()})
        for member in members_of(method)
    ]
    return Spec(
        scenario=scenario(text, **values["scenario"]),
        method=combine(members),
        net=new_net(known("net", net, NETS), values["net"]),
        training=Training(**values["training"]),
        seed=seed,
    )


def kept_bytes(text: str, method: str) -> int:
    """What a preset's method keeps at a boundary, at most, by the sizes of MNIST's networks."""
    name = parse_name(text)
    values = settings(name, method)
    outputs = {"split": (2, 10), "permuted": (10, 100)}[name.maker][name.kind != "domain"]
    side = 28 + 2 * values["scenario"]["pad"].value
    with torch.device("meta"):
        net = NETS["mlp"](*values["net"]["hidden"].value).build((1, side, side), outputs)
    fields = {field: sourced.value for field, sourced in values["method"].items()}
    return method_class(method)(**fields).kept_bytes(net, side * side)


def spec_of(text: str, seed: int = 0) -> Spec:
    """The spec of a label, as records carry it: `split-mnist/class gem`, `… lwf common`, a twin's, `… gem one-slot`,
    or of the long queue, `long-queue/task si coef=0.1 net=cnn`."""
    variant = all_variants().get(text)
    if variant is None:
        scenario_name, method, *common = text.split()
        return preset(scenario_name, method, seed, "common" if common else "own")
    spec = preset(variant.scenario, variant.method, seed, net=variant.changes.get("net.name", "mlp"))
    for place, value in variant.changes.items():
        group, field = place.split(".")
        if place == "net.heads":
            spec = replace(spec, net=new_net(type(spec.net), asdict(spec.net) | {"heads": value}))
        elif place != "net.name":
            spec = replace(spec, **{group: replace(getattr(spec, group), **{field: value})})
    return spec


def all_variants() -> dict[str, Variant]:
    """The settings of twins, of the long queue, and of what presets stand in for, by label."""
    whole = {f"{text} {WHOLE_MEMORY}": Variant(text.split()[0], "gem", {"method.memory_batch": 0}) for text in SAMPLED}
    return twins.variants() | long_queue.variants() | whole


def label(spec: Spec) -> str | None:
    """The label of the preset, twin or run of the long queue that a spec equals, seeds and what is looked at aside."""
    try:
        name = str(parse_name(spec.scenario_name))
        names = dict.fromkeys(labelled(name, spec.method_name, protocol) for protocol in get_args(Protocol))
        found = [text for text in names if text in preset_names()]
        found += [text for text, variant in all_variants().items() if variant[:2] == (name, spec.method_name)]
        specs = {text: spec_of(text, spec.seed) for text in found}
    except ValueError:  # an unnamed scenario, or a method of the user's own
        return None
    if any(type(member) not in methods().values() for member in spec.method.members()):
        return None
    key = replace(spec, evaluation=Evaluation(), threads=1).key
    return next((text for text, published in specs.items() if published.key == key), None)
