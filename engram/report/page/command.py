"""The `engram run` call that repeats a setting, from its spec alone."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from engram.report.page.settings import Setting, values
from engram.studies.hsu2018.cells import COPIED, labelled
from engram.studies.hsu2018.long_queue import resets

USUAL = {"evaluation.mask": True, "evaluation.forward_transfer": False, "evaluation.evaluate_every": 0, "threads": 1,
         "device": "cpu"}  # fmt: skip
"""What every run has that is not told otherwise."""
BUILT_IN = {path.stem.replace("_", "-") for path in Path(__file__).parents[2].joinpath("methods").glob("*.py")}
"""Methods that need no file, without loading them."""
NAMED = ("scenario.make", "scenario.images", "scenario.kind")
"""What the scenario's name says."""


def command(setting: Setting, published: Setting | None) -> str:
    """What to type: names, and what differs from the published setting, or every value where that is not at hand."""
    words = ["engram", "run", setting.scenario, setting.method]
    common = setting.label == labelled(setting.scenario, setting.method, "common")
    members = setting.method.split("+")
    own = any(member in COPIED for member in members) or resets(setting.scenario, setting.method)
    if own and (common or published is None):
        words += ["--protocol", "common"]  # whose values are those of all other methods
    whole = published is setting or common
    usual = (values(published) if published else {}) | USUAL
    given = values(setting)
    changed_optimizer = given.get("training.optimizer") != usual.get("training.optimizer")
    for name, value in given.items():
        if name == "net.name" and value not in ("mlp", usual.get(name)):
            words += ["--net", str(value)]
        if name in NAMED or name.endswith(".name") or (whole and name not in USUAL):
            continue
        off = value is False and name not in usual  # a switch that nobody has turned needs no word
        goes_with = name == "training.lr" and changed_optimizer  # whose own rate it would be else
        if goes_with or (not off and value != usual.get(name, ...)):
            words += flag(name, value)
    for member in members:
        if member not in BUILT_IN:
            words += ["--method-file", f"{member.replace('-', '_')}.py"]
    seeds = [run.seed for run in setting.runs]
    if seeds != [0]:
        words += ["--seeds", str(len(seeds))] if seeds == list(range(len(seeds))) else ["--seed", str(seeds[0])]
    return " ".join(shlex.quote(word) for word in words)


def flag(name: str, value: Any) -> list[str]:
    """The words that set a value: `method.coef` as `--coef`, `method.si.coef` as `--si.coef`."""
    group, _, field = name.partition(".")
    word = (field or group).replace("_", "-")
    if isinstance(value, bool):
        return [f"--{word}" if value else f"--no-{word}"]
    if isinstance(value, list):
        inner = [v for part in value for v in (part if isinstance(part, list) else [part])]
        return [f"--{word}", *map(str, inner)]
    return [f"--{word}", "none" if value is None and field == "normalize" else str(value)]
