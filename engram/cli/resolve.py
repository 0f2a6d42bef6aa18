"""From the words of a command line to the spec of a run."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import torch

from engram.cli import WrongCallError
from engram.cli.options import Flag, flags_of, given
from engram.core.code import is_outside
from engram.core.messages import unknown
from engram.core.needs import methods_without_boundaries
from engram.core.registry import METHODS, METRICS, NETS
from engram.core.userfile import told_fault
from engram.learning.budget import fit_budget
from engram.learning.measure import check_metrics
from engram.learning.method import Method
from engram.learning.state import check_kept, state_of
from engram.learning.targets import check_targets
from engram.learning.train import check_method_here, new_learner
from engram.learning.unbounded import learns_stream, plan_stream, view_of_learner
from engram.nets._start import Start
from engram.runs.defaults import CLASS_DEFAULT, Protocol, choose_values, confirmed_sources, default_setting
from engram.runs.records import read_records
from engram.runs.run import resolve_device
from engram.runs.setting import Setting
from engram.runs.spec import Spec, SpecError, spec_of_setting
from engram.scenarios.names import is_name, parse_name, with_letters


def take_flag(arguments: list[str], flag: str) -> tuple[list[str], str | None]:
    """(the other words, the value of a flag that decides which other flags there are)."""
    left, value = [], None
    words = iter(arguments)
    for word in words:
        if word == flag:
            value = next(words, "")
        elif word.startswith(f"{flag}="):
            value = word.partition("=")[2]
        else:
            left.append(word)
    return left, value


def net_and_letters(arguments: list[str], scenario_name: str) -> tuple[list[str], str, str]:
    """(the other words, --net, the scenario's name with --letters in it)."""
    arguments, net = take_flag(arguments, "--net")
    arguments, letters = take_flag(arguments, "--letters")
    if net is not None and net not in NETS:
        raise WrongCallError(unknown("net", net, NETS))
    return arguments, net or "mlp", scenario_name if letters is None else with_letters(scenario_name, letters)


def apply_limits(spec: Spec, options: Any) -> Spec:
    """The spec within what the learner may use: no boundaries, so many bytes."""
    if options.no_boundaries and spec.method.needs_boundaries():
        free = ", ".join(methods_without_boundaries(spec.scenario.kind))
        raise ValueError(f"method {spec.method_name} needs task boundaries; without them there are {free}")
    if options.memory_budget is None:
        return spec
    budget = positive("memory_budget", options.memory_budget)
    tasks = spec.scenario.tasks(spec.seed)
    net = spec.network.build(tasks.shape, tasks.outputs)
    return replace(spec, method=fit_budget(spec.method, budget, net, tasks, METHODS.name_of))


def try_spec(spec: Spec, faults: bool = False) -> None:
    """Draws the tasks, builds network and method and begins the first task: what only they can tell is told before
    anything runs.

    Args:
        spec: A run.
        faults: Faults in the code of methods and networks are told as well. The run itself would meet and record them.
    """
    method = copy.deepcopy(spec.method)
    try:
        tasks = spec.scenario.tasks(spec.seed).for_batch(spec.training.batch)
    except (ValueError, OSError):
        raise
    except Exception as error:
        if not is_outside(type(spec.scenario)):
            raise
        raise ValueError(f"scenario {spec.scenario_name} cannot be drawn: {told_fault(error)}") from error
    check_method_here(method, tasks, spec.training, spec.evaluation)
    check_targets(method, tasks)
    check_metrics({METRICS.name_of(metric): metric for metric in spec.metrics}, method)
    streams = learns_stream(tasks, method)
    if streams:
        plan = plan_stream(tasks, method, spec.training)
        tasks = view_of_learner(tasks, plan, spec.training.boundary_every)
    try:
        learner = new_learner(tasks, method, spec.network, spec.training, spec.seed, torch.device("cpu"))
        for member in method.members():
            check_kept({name: state_of(getattr(member, name, None)) for name in member.kept})
        if streams and not spec.training.boundary_every:
            return
        first = method.curriculum(tasks)[0]  # with offline, all tasks at once
        learner.task = first.index
        method.begin_task(learner, first)
    except ValueError:
        raise
    except (Exception, SystemExit) as error:
        if faults:
            raise ValueError(told_fault(error)) from error


def positionals(arguments: list[str]) -> tuple[list[str], str, str]:
    """(the flags, scenario, method): in front, or after flags if the first is the name of a scenario."""
    for i, word in enumerate(arguments):
        if word.startswith("-") or (i > 0 and not is_name(word)):
            continue
        follows = arguments[i + 1] if i + 1 < len(arguments) else ""
        if follows and not follows.startswith("-"):
            return arguments[:i] + arguments[i + 2 :], word, follows
        return arguments[:i] + arguments[i + 1 :], word, ""
    return arguments, "", ""


def protocol_of(arguments: list[str]) -> Protocol:
    """The protocol asked for: it decides on the defaults of all other flags."""
    _, value = take_flag(arguments, "--protocol")
    if value is not None and value not in get_args(Protocol):
        raise ValueError(unknown("protocol", value, get_args(Protocol)))
    return "common" if value == "common" else "own"


def chosen_optimizer(arguments: list[str]) -> str | None:
    """The optimiser asked for: it decides on the default of the learning rate."""
    return take_flag(arguments, "--optimizer")[1]


def all_flags(base: Spec, setting: Setting, protocol: Protocol = "own") -> list[Flag]:
    """Every value that a run is defined by, with the setting's as defaults, and where they come from."""
    sources = confirmed_sources(setting, protocol) | dict(setting.sources)
    flags = []
    for group in ("scenario", "method", "net", "training", "evaluation"):
        if group == "method":
            for prefix, member in members_by_prefix(base.method).items():
                flags += flags_of(group, member, sources, CLASS_DEFAULT, prefix)
        else:
            flags += flags_of(group, getattr(base, group), sources, CLASS_DEFAULT)
    return flags


def members_by_prefix(method: Method) -> dict[str, Method]:
    """What the flags of each member begin with; nothing if there is one."""
    members = method.members()
    return {METHODS.name_of(member) if len(members) > 1 else "": member for member in members}


def named_flags(arguments: Sequence[str]) -> set[str]:
    """The flags that a command line names: `lr`, `si.coef`, `drop_last` (also of `--no-drop-last`)."""
    words = [word.partition("=")[0].removeprefix("--") for word in arguments if word.startswith("--")]
    return {name.removeprefix("no-").replace("-", "_") for name in words} | {name.replace("-", "_") for name in words}


def choose(base: Setting, flags: list[Flag], options: Any, arguments: Sequence[str]) -> Setting:
    """The setting with the values that the command line names: they beat every default."""
    named = named_flags(arguments)
    chosen: dict[str, Any] = {}
    for group in ("scenario", "method", "net", "training", "evaluation"):
        for member in dict.fromkeys(f.member for f in flags if f.group == group):
            for field, value in given(flags, options, group, member).items():
                label = f"{member}.{field}" if member else field
                if label.replace("-", "_") in named:
                    chosen[f"{group}.{label}"] = value
    if "net.hidden" in chosen and not chosen["net.hidden"]:
        raise ValueError("hidden is empty; give the size of one layer or more")
    return choose_values(base, chosen, dict.fromkeys(chosen, "this command"))


def spec_from(setting: Setting, options: Any) -> Spec:
    """The spec of a setting on the device that was asked for."""
    on_nodes = options.engine == "ray" and options.device != "auto"  # whose devices are not ours
    return replace(
        spec_of_setting(setting),
        threads=positive("threads", options.threads),
        device=options.device if on_nodes else resolve_device(options.device),
        start=Start(str(getattr(options, "weights", None) or ""), getattr(options, "freeze", "none")),
        metrics=measured_metrics(getattr(options, "metric", ())),
    )


def measured_metrics(names: Sequence[str]) -> tuple[Any, ...]:
    """Of these metrics the ones that a run has to measure; the others are read from its record."""
    found = [METRICS.find(name)() for name in dict.fromkeys(names)]
    return tuple(metric for metric in found if metric.is_measured)


def positive(name: str, value: int) -> int:
    if value < 1:
        raise ValueError(f"{name} {value} is out of range; give 1 or more")
    return value


def seeds_of(options: Any) -> list[int]:
    if options.seeds is not None:
        if options.seed is not None:
            raise ValueError("give --seed or --seeds, not both")
        return list(range(positive("seeds", options.seeds)))
    return [options.seed or 0]


def find_spec(what: str, out: Path) -> dict[str, Any]:
    """A recorded spec: in a JSON file, or by the key of a record."""
    path = Path(what)
    if path.is_file():
        try:
            text = path.read_text(encoding="utf-8")
            lines = [line for line in text.split("\n") if line.strip()] if path.suffix == ".jsonl" else [text]
            found = [json.loads(line) for line in lines]
        except (ValueError, RecursionError) as error:
            raise SpecError(f"{what} is not JSON: {error}") from error
        if len(found) != 1:
            raise SpecError(f"{what} holds {len(found) or 'no'} records; name one by its key")
        (values,) = found
        spec = values.get("spec", values) if isinstance(values, dict) else values
        if not isinstance(spec, dict):
            raise SpecError("not a spec of a run: it holds no names and values")
        return spec
    folders = list(dict.fromkeys((out, Path("runs"), Path("results"))))
    for record in read_records(*folders):
        if record.key == what:
            return record.spec
    *others, last = (f"{folder}/" for folder in folders)
    raise SpecError(f"{what!r} is neither a file nor the key of a record in {', '.join(others)} or {last}")


def default_or_refuse(scenario: str, method: str, protocol: Protocol, net: str, optimizer: str | None) -> Setting:
    """The setting of a scenario and a method, by names."""
    parse_name(scenario)
    return default_setting(scenario, method, protocol, net, optimizer).with_own_code()
