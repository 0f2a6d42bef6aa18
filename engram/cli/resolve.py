"""From the words of a command line to the spec of a run."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import torch

from engram.cli import WrongCallError
from engram.cli.options import Flag, flags_of, given
from engram.learning.combine import combine
from engram.learning.evaluate import Evaluation
from engram.learning.method import Method
from engram.learning.train import new_learner
from engram.methods import load_file, methods, name_of
from engram.methods.rehearsal import Rehearsal
from engram.runs import records
from engram.runs.checkpoints import check_kept
from engram.runs.run import resolve_device
from engram.runs.spec import NETS, Spec, SpecError, net_name, new_net
from engram.scenarios.names import is_name, parse_name, with_letters
from engram.studies.hsu2018.cells import Protocol
from engram.studies.hsu2018.presets import DEFAULT, settings
from engram.studies.hsu2018.sources import as_in_print


def with_method_files(arguments: list[str]) -> list[str]:
    """Loads the files of --method-file and takes the flag out: the methods in them are flags' and names' source."""
    left = []
    words = iter(arguments)
    try:
        for word in words:
            if word == "--method-file":
                load_file(Path(next(words, "")))
            elif word.startswith("--method-file="):
                load_file(Path(word.partition("=")[2]))
            else:
                left.append(word)
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    return left


def taken(arguments: list[str], flag: str) -> tuple[list[str], str | None]:
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
    arguments, net = taken(arguments, "--net")
    arguments, letters = taken(arguments, "--letters")
    if net is not None and net not in NETS:
        raise WrongCallError(f"net {net!r} is unknown; choose from {', '.join(NETS)}")
    return arguments, net or "mlp", scenario_name if letters is None else with_letters(scenario_name, letters)


def fitted(spec: Spec, options: Any) -> Spec:
    """The spec within what the learner may use: no boundaries, so many bytes."""
    if options.no_boundaries and "boundaries" in spec.method.needs:
        free = ", ".join(name for name, cls in methods().items() if "boundaries" not in cls.needs)
        raise ValueError(f"method {spec.method_name} needs task boundaries; without them there are {free}")
    if options.memory_budget is None:
        return spec
    budget = positive("memory_budget", options.memory_budget)
    tasks = spec.scenario.tasks(spec.seed)
    pixels = math.prod(tasks.shape)
    net = spec.net.build(tasks.shape, tasks.outputs)
    buffers = [m for m in spec.method.members() if isinstance(m, Rehearsal)]
    for member in spec.method.members():
        if member.kept and type(member).kept_bytes is Method.kept_bytes:
            raise ValueError(
                f"memory_budget {budget:,}: {name_of(member)} does not say how much it keeps; give it a kept_bytes"
            )
    fixed = sum(m.kept_bytes(net, pixels) for m in spec.method.members() if m not in buffers)
    if fixed > budget:
        raise ValueError(f"method {spec.method_name} keeps {fixed:,} bytes, more than memory_budget {budget:,}")
    members = list(spec.method.members())
    for buffer in buffers:
        slots = len(tasks) * buffer.slots()
        scales = slots * 2 * tasks.shape[0] * torch.float32.itemsize  # each slot keeps how its pixels are scaled
        images = max(0, budget - fixed - scales) // buffer.image_bytes(pixels)
        if images < slots:
            raise ValueError(f"memory_budget {budget:,} leaves room for {images} images; {slots} or more are needed")
        members[members.index(buffer)] = replace(buffer, capacity=images)
    return replace(spec, method=combine(members))


def tried(spec: Spec) -> None:
    """Deals the tasks, builds network and method and begins the first task: what only they can tell is told before
    anything runs."""
    tasks, method = spec.scenario.tasks(spec.seed), copy.deepcopy(spec.method)
    try:
        learner = new_learner(tasks, method, spec.net, spec.training, spec.seed, torch.device("cpu"))
        for member in method.members():
            check_kept({name: getattr(member, name, None) for name in member.kept})
        first = method.curriculum(tasks)[0]  # with offline, all tasks at once
        learner.task = first.index
        method.begin_task(learner, first)
    except ValueError:
        raise
    except Exception:  # a fault, no refusal: the run will meet it again, and record it
        return


def positionals(arguments: list[str]) -> tuple[list[str], str, str]:
    """(the flags, scenario, method): in front, or after flags where the first is the name of a scenario."""
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
    for word, following in zip(arguments, [*arguments[1:], ""], strict=False):
        value = following if word == "--protocol" else word.removeprefix("--protocol=")
        if word == "--protocol" or value != word:
            if value not in get_args(Protocol):
                raise ValueError(f"protocol {value!r} is unknown; choose from {', '.join(get_args(Protocol))}")
            return "own" if value == "own" else "common"
    return "own"


def all_flags(base: Spec, scenario_name: str, method_name: str, protocol: Protocol = "own") -> list[Flag]:
    """Every value that a run is defined by, with the preset's as defaults."""
    groups = settings(parse_name(scenario_name), method_name, protocol, net_name(base.net))
    sources = as_in_print(scenario_name, method_name.split("+"), protocol)
    for group, values in groups.items():
        sources[group] |= {field: s.source for field, s in values.items()}
    flags = []
    for group in ("scenario", "method", "net", "training", "evaluation"):
        if group == "method":
            for prefix, member in prefixed(base.method).items():
                flags += flags_of(group, member, sources[group], DEFAULT, prefix)
        else:
            flags += flags_of(group, getattr(base, group), sources[group], DEFAULT)
    return flags


def prefixed(method: Method) -> dict[str, Method]:
    """What the flags of each member begin with; nothing where there is one."""
    members = method.members()
    return {name_of(member) if len(members) > 1 else "": member for member in members}


def spec_from(base: Spec, flags: list[Flag], options: Any) -> Spec:
    """The spec with what the command line changed."""
    on_nodes = options.engine == "ray" and options.device != "auto"  # whose devices are not ours
    net = given(flags, options, "net")
    if "hidden" in net and not net["hidden"]:
        raise ValueError("hidden is empty; give the size of one layer or more")
    return Spec(
        scenario=replace(base.scenario, **given(flags, options, "scenario")),
        method=combine(
            [type(m)(**given(flags, options, "method", prefix)) for prefix, m in prefixed(base.method).items()]
        ),
        net=new_net(type(base.net), net),
        training=replace(base.training, **given(flags, options, "training")),
        evaluation=Evaluation(**given(flags, options, "evaluation")),
        threads=positive("threads", options.threads),
        device=options.device if on_nodes else resolve_device(options.device),
    )


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
    path = Path(what)
    if path.is_file():
        try:
            text = path.read_text()
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
    for folder in folders:
        for file in sorted(folder.glob("*.jsonl")):
            for record in records.read(file):
                if record.key == what:
                    return record.spec
    *others, last = (f"{folder}/" for folder in folders)
    raise SpecError(f"{what!r} is neither a file nor the key of a record in {', '.join(others)} or {last}")
