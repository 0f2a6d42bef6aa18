"""The `engram run` call that repeats a setting."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from engram.analysis.differences import all_values
from engram.core.registry import METHODS
from engram.report.page.settings import PageSetting
from engram.report.selection import usual_setting
from engram.runs.defaults import Protocol
from engram.runs.setting import OWN_CODE, Setting, differs, evaluation_defaults, flat_values

NOT_IN_SETTINGS = {"threads": 1, "device": "cpu"}
"""Beside the evaluation: what a record states that no setting contains, and its default."""


def run_command(found: PageSetting) -> str:
    """What to type: the names, and flags for what differs from the defaults."""
    setting, records = found.setting, found.runs.records
    spec = records[0].spec
    own = setting_flags(setting, "own")
    if own is None:  # no defaults are known, so that every recorded value is stated
        words = [word for name, value in flat_values(spec) for word in flag_words(name, value)]
    else:
        common = setting_flags(setting, "common")
        shorter = common is not None and len(common) + 2 < len(own)
        words = ["--protocol", "common", *common] if shorter and common is not None else own
    words += besides(spec)
    for member in setting.members:
        if member not in METHODS.built_in:
            words += ["--file", f"{member.replace('-', '_')}.py"]
    seeds = [record.seed for record in records]
    if seeds != [0]:
        words += ["--seeds", str(len(seeds))] if seeds == list(range(len(seeds))) else ["--seed", str(seeds[0])]
    return " ".join(shlex.quote(word) for word in ["engram", "run", setting.scenario, setting.method, *words])


def setting_flags(setting: Setting, protocol: Protocol) -> list[str] | None:
    """The flags that make a setting of the defaults under a protocol; None if there are no defaults.

    Network and optimiser come first: they decide which defaults the others have.
    """
    names = (setting.scenario, setting.method, protocol)
    net, optimizer = str(setting.value("net.name")), str(setting.value("training.optimizer"))
    plain, base = usual_setting(*names, net), usual_setting(*names, net, optimizer)
    if plain is None or base is None:
        return None
    words = flag_words("net.name", net) if net != "mlp" else []
    words += flag_words("training.optimizer", optimizer) if plain.value("training.optimizer") != optimizer else []
    wanted, given = all_values(setting), all_values(base)
    changed = {name: wanted.get(name) for name in {**wanted, **given} if differs(wanted.get(name), given.get(name))}
    if "training.epochs" in changed and not changed.get("training.steps"):  # epochs replace steps
        changed.pop("training.steps", None)
    return words + [word for name, value in changed.items() for word in flag_words(name, value)]


def besides(spec: Mapping[str, Any]) -> list[str]:
    """Flags for what a record states that does not belong to its setting."""
    usual = evaluation_defaults()
    given = spec.get("evaluation", {})
    words = [
        word
        for name, value in (given.items() if isinstance(given, Mapping) else ())
        if name in usual and differs(value, usual[name])
        for word in flag_words(f"evaluation.{name}", value)
    ]
    for name, default in NOT_IN_SETTINGS.items():
        words += flag_words(name, spec[name]) if spec.get(name, default) != default else []
    names = [str(metric["name"]) for metric in spec.get("metrics", []) if "name" in metric]
    words += ["--metric", *names] if names else []
    return words


def flag_words(name: str, value: Any) -> list[str]:
    """The words that set a value: `method.coef` as `--coef`, `method.si.coef` as `--si.coef`."""
    group, _, field = name.partition(".")
    if name.endswith(OWN_CODE):
        return []
    word = "net" if name == "net.name" else (field or group).replace("_", "-")
    if isinstance(value, bool):
        return [f"--{word}" if value else f"--no-{word}"]
    if isinstance(value, list | tuple):
        inner = [v for part in value for v in (part if isinstance(part, list | tuple) else [part])]
        return [f"--{word}", *map(str, inner)]
    return [f"--{word}", "none" if value is None and field == "normalize" else str(value)]
