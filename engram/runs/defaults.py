"""Defaults of named scenarios, from `defaults.toml`: a setting for every scenario and method. No torch."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Any, Literal

from engram.core.messages import unknown
from engram.core.registry import METHODS
from engram.runs.setting import OWN_CODE, Setting, differs, show
from engram.scenarios.names import ScenarioName, default_classes_per_task, parse_name, preparation

Protocol = Literal["own", "common"]
"""`own`: methods that a paper copied from another one as that one ran them, and penalties on the long queue with a new
optimiser for each task; `common`: trained as all other methods."""
CLASS_DEFAULT = "engram's default"
KINDS_LISTED = ("task", "domain", "class")


@cache
def stated_defaults() -> dict[str, Any]:
    """`defaults.toml` as data."""
    return tomllib.loads(resources.files("engram.runs").joinpath("defaults.toml").read_text(encoding="utf-8"))


def default_setting(
    scenario: str, method: str, protocol: Protocol = "own", net: str = "mlp", optimizer: str | None = None
) -> Setting:
    """The setting of a named scenario and a method (`rehearsal+si`: several) if nothing else is asked for."""
    name = parse_name(scenario)
    members = split_method(method)
    if optimizer is None:
        own = [str(METHODS.facts(member).literals.get("optimizer", "adam")) for member in members]
        optimizer = next((one for one in own if one != "adam"), "adam")
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    prepared, prepared_by = preparation(name)
    for field, value in {**prepared, **default_classes_per_task(name)}.items():
        values[f"scenario.{field}"], sources[f"scenario.{field}"] = value, prepared_by
    values["training.optimizer"] = optimizer
    stated = name.maker != "queue" or optimizer in ("adam", "adagrad")
    sources["training.optimizer"] = source_text("scripts" if stated else "ours", name)
    values["net.name"] = net
    fronts = name.fronts
    for rule in stated_defaults()["rule"]:
        if applies(rule["when"], fronts, name.kind, members, optimizer, protocol):
            for field, value, source in rule_values(rule, name, members):
                if net == "mlp" or not field.startswith("net."):
                    values[field], sources[field] = value, source
    if protocol == "own" and {"lwf", "dgr", "rtf"} & set(members) and name.maker in ("split", "permuted"):
        sources["training.optimizer"] = source_text("copied", name)
    return Setting(str(name), method).with_values(values, sources)


def split_method(method: str) -> list[str]:
    """`rehearsal+si` as the names of its members, each of which is known."""
    members = method.split("+")
    if not all(members):
        raise ValueError(f"method {method!r}: write a name on both sides of the +, as in rehearsal+online-ewc")
    if len(set(members)) < len(members):
        raise ValueError(f"method {method!r}: a method is named twice; a combination has each one once")
    for member in members:
        if member not in METHODS:
            raise ValueError(unknown("method", member, METHODS, nearest=2))
    return members


def applies(
    when: Mapping[str, Sequence[str]],
    fronts: Sequence[str],
    kind: str,
    members: Sequence[str],
    optimizer: str,
    protocol: Protocol,
) -> bool:
    """Whether all conditions of a rule hold for a scenario of these names and this kind; patterns last, since they take
    longest."""
    return (
        kind in when.get("kind", (kind,))
        and ("method" not in when or bool(set(members) & set(when["method"])))
        and ("only" not in when or (len(members) == 1 and members[0] in when["only"]))
        and optimizer in when.get("optimizer", (optimizer,))
        and protocol in when.get("protocol", (protocol,))
        and any(fnmatchcase(front, pattern) for front in fronts for pattern in when.get("scenario", ("*",)))
    )


def rule_values(rule: Mapping[str, Any], name: ScenarioName, members: Sequence[str]) -> Iterator[tuple[str, Any, str]]:
    """(flat name, value, source) of all that a rule sets."""
    source = source_text(rule["source"], name)
    for group in ("scenario", "net", "training"):
        for field, value in rule.get(group, {}).items():
            yield f"{group}.{field}", read_value(field, value), source
    concerned = [member for member in members if member in rule["when"].get("method", ())]
    for member in concerned:
        prefix = "method" if len(members) == 1 else f"method.{member}"
        for field, value in rule.get("fields", {}).items():
            yield f"{prefix}.{field}", value, source
        for field, listed in rule.get("by_kind", {}).items():
            known = name.kind in KINDS_LISTED
            value = listed[KINDS_LISTED.index(name.kind) if known else -1]
            yield f"{prefix}.{field}", value, source if known else f"{source} for class, because none is published"


def read_value(field: str, value: Any) -> Any:
    """As the classes hold it: lists as tuples, and no normalisation as None."""
    if field == "normalize" and value == "none":
        return None
    return tuple(value) if isinstance(value, list) else value


def source_text(key: str, name: ScenarioName) -> str:
    patterns: dict[str, str] = stated_defaults()["sources"][key]
    return next(text for pattern, text in patterns.items() if fnmatchcase(name.front, pattern))


def confirmed_sources(setting: Setting, protocol: Protocol = "own") -> dict[str, str]:
    """Sources of values that are left at the defaults of their classes, because published numbers were made so."""
    name, found = parse_name(setting.scenario), dict[str, str]()
    optimizer = str(setting.value("training.optimizer"))
    for rule in stated_defaults()["confirmed"]:
        if applies(rule["when"], name.fronts, name.kind, setting.members, optimizer, protocol):
            for group in ("scenario", "net", "training", "evaluation"):
                found |= {f"{group}.{field}": text for field, text in rule.get(group, {}).items()}
            for member in setting.members:
                prefix = "method" if len(setting.members) == 1 else f"method.{member}"
                found |= {f"{prefix}.{field}": text for field, text in rule.get("fields", {}).items()}
    return found


def describe_setting(setting: Setting) -> str:
    """`split-mnist/class gem (slots_per_task 1)`: the names, and what differs from their defaults."""
    changes = changes_from_default(setting)
    words = [f"{name.rpartition('.')[2]} {show(value)}" for name, value in changes.items()]
    return f"{setting.scenario} {setting.method}" + (f" ({', '.join(words)})" if words else "")


def changes_from_default(setting: Setting, known: dict[tuple[str, ...], Setting] | None = None) -> dict[str, Any]:
    """What a setting has that the default of its scenario and method has not.

    `known` keeps defaults for whoever asks about many settings.
    """
    names_of = (setting.scenario, setting.method, str(setting.value("net.name")))
    known = {} if known is None else known
    try:
        if names_of not in known:
            known[names_of] = default_setting(setting.scenario, setting.method, net=names_of[2])
        usual = known[names_of]
    except ValueError:  # a scenario or a method that is not known here
        return dict(sorted(setting.values.items()))
    names = sorted({*setting.values, *usual.values} - {f"method.{OWN_CODE}"})
    return {n: setting.value(n) for n in names if differs(setting.value(n), usual.value(n))}


def plain_setting(
    scenario: str, method: str, protocol: Protocol = "own", net: str = "mlp", optimizer: str | None = None
) -> Setting:
    """A scenario and a method with the defaults of their classes alone."""
    name, members = parse_name(scenario), split_method(method)
    own = [str(METHODS.facts(member).literals.get("optimizer", "adam")) for member in members]
    values = {f"scenario.{field}": value for field, value in default_classes_per_task(name).items()}
    values |= {"net.name": net, "training.optimizer": optimizer or next((o for o in own if o != "adam"), "adam")}
    return Setting(str(name), method).with_values(values, dict.fromkeys(values, CLASS_DEFAULT))


def choose_values(setting: Setting, chosen: Mapping[str, Any], sources: Mapping[str, str] | None = None) -> Setting:
    """A setting with the values that somebody chose, which beat every default.

    Epochs and steps exclude each other: who chooses epochs does not get the steps of a default.
    """
    if chosen.get("training.steps") and "training.epochs" in chosen:
        raise ValueError(
            f"epochs {chosen['training.epochs']} and steps {chosen['training.steps']} contradict each other: give one"
        )
    if "training.epochs" in chosen and "training.steps" not in chosen and setting.values.get("training.steps"):
        chosen = {**chosen, "training.steps": 0}
    return setting.with_values(chosen, sources).with_own_code()
