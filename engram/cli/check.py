"""`engram check`: whether a method, network or scenario keeps the contract."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from rich.markup import escape

from engram.checks.facts import Fact, all_hold
from engram.cli import WrongCallError
from engram.cli.files import with_files
from engram.cli.options import parse_options
from engram.cli.output import with_name
from engram.cli.screen import ERR, OUT
from engram.core.messages import unknown
from engram.core.registry import METHODS, NETS, SCENARIOS

MARKS = {True: "[green]✓[/]", False: "[red]✗[/]", None: "[dim]–[/]"}


@dataclass
class CheckOptions:
    """Checks the contract on small made-up images, one line per fact: same seed same bits, resumed equals
    uninterrupted, declared memory covers measured memory, coefficient 0 equals plain training, the same record in other
    processes, no undeclared state, nothing read that the key does not show. Exit status 1 if a fact does not hold."""

    name: tyro.conf.Positional[str]
    """A method, a network or a scenario recipe, by name (`engram ls methods|nets`), or one of your file."""
    short: bool = False
    """Only what takes a second or two: one network, this process."""
    engine: tuple[Literal["local", "ray"], ...] = ("local",)
    """Where records are compared: processes of this machine, and a Ray cluster."""
    json: bool = False
    """Print JSON: a list of facts."""
    file: Path | None = None  # read before all others
    """Python file with what is checked; may be given several times."""
    method_file: Path | None = None
    """The same as --file."""


def check_command(arguments: list[str]) -> int:
    """The command."""
    known = [*METHODS, *NETS, *SCENARIOS]
    options = parse_options(
        CheckOptions, with_name(with_files(arguments), "method, network or scenario", known), "engram check"
    )
    facts: list[Fact] = []
    try:
        for fact in facts_of_name(options):
            facts.append(fact)
            if not options.json:
                detail = f"  [dim]{escape(fact.detail)}[/]" if fact.holds else f": {escape(fact.detail)}"
                OUT.print(f"{MARKS[fact.holds]} {escape(fact.name)}{detail if fact.detail else ''}")
    except ValueError as error:
        raise WrongCallError(str(error)) from error
    if options.json:
        print(json.dumps([fact.to_json() for fact in facts]))
    else:
        broken = sum(fact.holds is False for fact in facts)
        skipped = sum(fact.holds is None for fact in facts)
        ERR.print(f"{options.name}: {len(facts) - broken - skipped} hold, {broken} do not, {skipped} not checked")
    return 0 if all_hold(facts) else 1


def facts_of_name(options: CheckOptions) -> Iterator[Fact]:
    from engram.checks.contract import check_by_name

    if not any(options.name in registry for registry in (METHODS, NETS, SCENARIOS)) and "+" not in options.name:
        raise ValueError(unknown("method, network or scenario", options.name, [*METHODS, *NETS, *SCENARIOS], nearest=2))
    yield from check_by_name(options.name, engines=options.engine, short=options.short)
