"""`engram describe`: a scenario's tasks, its kind as measured on the data, and its floor."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engram.cli import WrongCallError
from engram.cli.files import with_files
from engram.cli.options import flags_of, given, parse_flags
from engram.cli.screen import ERR, OUT
from engram.core.messages import count
from engram.core.registry import doc_of
from engram.runs.soundness import drop_control


@dataclass
class DescribeOptions:
    """Besides the scenario's own flags."""

    seed: int = 0
    """Draws class orders, permutations and samples."""
    json: bool = False
    """Print JSON."""


def describe_command(arguments: list[str]) -> int:
    """A scenario's tasks, its kind as measured on the data, and its floor."""
    from dataclasses import replace

    from engram.cli.resolve import take_flag
    from engram.scenarios import names as named
    from engram.scenarios.create import scenario as create_scenario

    usage = "usage: engram describe SCENARIO [--net NET] [--letters SET] [--json] [--seed N] [flags of the scenario]"
    arguments, net = take_flag(arguments, "--net")
    arguments, letters = take_flag(arguments, "--letters")
    arguments = with_files(arguments)
    words = [i for i, word in enumerate(arguments) if not word.startswith("-")]
    at = next((i for i in words if named.is_name(arguments[i])), words[0] if words else None)
    if at is None:
        if {"-h", "--help"} & set(arguments):
            print(usage)
            return 0
        raise WrongCallError(f"the scenario is missing, as in split-mnist/class\n{usage}")
    try:
        name = arguments[at] if letters is None else named.with_letters(arguments[at], letters)
        arguments = [name, *arguments[:at], *arguments[at + 1 :]]
        base = create_scenario(name)
        values, source = named.preparation(named.parse_name(name))
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    flags = flags_of("scenario", base, {f"scenario.{field}": source for field in values}, "")
    options = parse_flags(flags, DescribeOptions, arguments[1:], f"engram describe {arguments[0]}", doc_of(type(base)))
    try:
        scenario = replace(base, **given(flags, options, "scenario"))
        with ERR.status("drawing tasks") as status:

            def watch(done: int, of: int) -> None:
                status.update(f"comparing tasks: {done} of {count(of, 'pair')}")

            found = describe_scenario(name, scenario, options.seed, watch)
        if net is not None:
            found["net"] = describe_network(name, net, found)
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    if options.json:
        print(json.dumps(found))
    else:
        print_description(found)
    return 0


def describe_network(scenario: str, net: str, found: dict[str, Any]) -> dict[str, Any]:
    """The layers of a scenario's default network."""
    from engram.runs.spec import default_spec

    layers = default_spec(scenario, "adam", net=net).net.layers(tuple(found["shape"]), found["outputs"])
    return {
        "name": net,
        "parameters": sum(layer.parameters for layer in layers),
        "layers": [
            {"layer": layer.name, "activation": list(layer.activation), "parameters": layer.parameters}
            for layer in layers
        ],
    }


def describe_scenario(
    name: str, scenario: Any, seed: int, watch: Callable[[int, int], None] = lambda done, of: None
) -> dict[str, Any]:
    """All that `describe` says, as data."""
    from engram.scenarios.look import categorize_tasks

    tasks = scenario.tasks(seed)
    read = categorize_tasks(tasks, watch)
    return {
        "scenario": name,
        "kind": read.kind,
        "declared": scenario.kind,
        "heads": read.heads,
        "task_identity_at_test": read.task_identity_at_test,
        "floor": tasks.floor,
        "told_boundaries": tasks.stream is None,
        "outputs": tasks.outputs,
        "targets": [task.targets for task in tasks],
        "shape": list(tasks.shape),
        "tasks": [
            {
                "task": task.index + 1,
                "classes": list(task.classes),
                "train": len(task.train),
                "test": len(task.test),
                "outputs": [tasks.active(task.index, task.index).start, tasks.active(task.index, task.index).stop],
            }
            for task in tasks
        ],
        "copies": scenario.copies(),
        "evidence": read.evidence,
    }


def print_description(found: dict[str, Any]) -> None:
    title = f"{found['scenario']}: {count(len(found['tasks']), 'task')}"
    tasks = Table(title=escape(title), title_justify="left")
    for column in ("task", "classes", "train", "test", "active outputs"):
        tasks.add_column(column, justify="left" if column == "classes" else "right")
    for task in found["tasks"]:
        names = task["classes"] if len(task["classes"]) <= 12 else [*task["classes"][:10], "…"]
        shown = escape(drop_control(" ".join(names)))
        first, last = task["outputs"]
        tasks.add_row(str(task["task"]), shown, f"{task['train']:,}", f"{task['test']:,}", f"{first + 1}–{last}")
    OUT.print(tasks)
    print_rows([found])
    for column, reason in found["evidence"]["reasons"].items():
        OUT.print(f"  {column}: {reason}", markup=False)
    print_evidence(found["evidence"])
    head = "several heads, selected by task identity, also at test time" if found["heads"] == "multi" else (
        "one head; task identity is not needed at test time"
    )  # fmt: skip
    OUT.print(f"  {head}")
    if not found["told_boundaries"]:
        OUT.print("  a stream without boundaries: the learner is not told where a task begins or ends")
    if len(found["tasks"]) > 1:
        OUT.print(
            f"  forgetting floor: {found['floor']:.2f} % (perfect on the last task, guessing on the others)"
            + ("" if found["kind"] == "iid" else "; an accuracy near it means forgetting, not a bug")
        )
    if set(found["targets"]) != {"classes"}:
        OUT.print(f"  targets by task: {', '.join(found['targets'])}; scored by accuracy, R², mean average precision")
    for text in found["copies"]:
        OUT.print(f"  {text}", markup=False)
    if "net" in found:
        print_network(found["net"])
    if found["kind"] != found["declared"].removesuffix("-known"):
        OUT.print(f"[yellow]the data say {found['kind']}, the scenario was declared {found['declared']}[/]")


MOST_ROWS = 10
"""Pairs of tasks that are printed; --json has all of them."""


def print_evidence(evidence: dict[str, Any]) -> None:
    """What was measured between consecutive tasks, and along the stream."""
    table = Table(title="Evidence: a task beside the one before it, and beside the first", title_justify="left")
    for column in ("task", "distance", "p", "network", "p ", "corrected p", "P(Y)", "distance¹", "P(Y)¹"):
        table.add_column(column, justify="right")
    drift = evidence["drift"]
    for pair in evidence["pairs"][:MOST_ROWS]:
        at = pair["tasks"][1]
        network = ["–", "–"] if pair["accuracy"] is None else [f"{pair['accuracy']:.3f}", f"{pair['p_network']:.2g}"]
        table.add_row(
            str(at), f"{pair['energy']:.3g}", f"{pair['p_distances']:.2g}", *network, f"{pair['p_value']:.2g}",
            f"{pair['total_variation']:.2f}", f"{drift['x'][at - 1]:.3g}", f"{drift['y'][at - 1]:.2f}",
        )  # fmt: skip
    OUT.print(table)
    more = len(evidence["pairs"]) - MOST_ROWS
    OUT.print(
        (f"  and {more} more pairs (--json has them); " if more > 0 else "  ")
        + "distance: energy distance between images; network: accuracy of a network in assigning two "
        "held-out images to the two tasks, – if the distances decide; P(Y): total variation distance; "
        "¹ from the first task"
    )


def print_network(net: dict[str, Any]) -> None:
    table = Table(title=f"net {net['name']}: {net['parameters']:,} parameters", title_justify="left")
    for column in ("layer", "activation", "parameters"):
        table.add_column(column, justify="left" if column == "layer" else "right")
    for layer in net["layers"]:
        size = "×".join(map(str, layer["activation"]))
        table.add_row(layer["layer"], size, f"{layer['parameters']:,}" if layer["parameters"] else "")
    OUT.print(table)


def print_rows(found: list[dict[str, Any]], console: Console = OUT) -> None:
    """Rows of the paper's Table 1, as measured."""
    table = Table(title="What changes between consecutive tasks (the paper's Table 1)", title_justify="left")
    table.add_column("scenario")
    for column in found[0]["evidence"]["row"]:
        table.add_column(column, justify="left" if column == "learning scenario" else "center")
    for one in found:
        table.add_row(escape(one["scenario"]), *one["evidence"]["row"].values())
    console.print(table)
    console.print("  S one head, M several heads, I task identity given")
