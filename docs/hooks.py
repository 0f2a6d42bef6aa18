"""What the pages take from code and records when they are built, so that no measured number is typed into them.

A page asks by a comment: `<!-- engram: measured ewc -->`.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from engram.cli.look import ls_methods  # noqa: E402
from engram.cli.options import field_docs  # noqa: E402
from engram.cli.search import point  # noqa: E402
from engram.methods import methods  # noqa: E402
from engram.report.footer import agreement  # noqa: E402
from engram.report.layout import MARKS, TITLES, duration, number, ours  # noqa: E402
from engram.runs import records  # noqa: E402
from engram.runs.records import Record  # noqa: E402
from engram.search.ledger import tuned  # noqa: E402
from engram.studies.hsu2018.cells import (  # noqa: E402
    COPIED,
    QUEUE_TABLES,
    TABLES,
    Cell,
    Protocol,
    cells,
    published,
    runs_by_label,
    taken,
)
from engram.studies.hsu2018.long_queue import NETS, OPTIMISERS, SCENARIOS, Runs, curve, remarks, runs_of, settings  # noqa: E402


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs calls it for every page."""
    return filled(markdown)


def filled(markdown: str) -> str:
    """The page with what it asks for; what it asks for in vain is an error, so that the build fails."""

    def answer(found: re.Match[str]) -> str:
        what, *names = found[1].split()
        return ANSWERS[what](*names)

    return re.sub(r"<!-- engram: (.*?) -->", answer, markdown)


@cache
def read() -> tuple[Record, ...]:
    return tuple(r for file in sorted((ROOT / "results").glob("*.jsonl")) for r in records.read(file))


@cache
def listed() -> dict[str, dict[str, Any]]:
    return {row["method"]: row for row in ls_methods()}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)) + "\n"


def all_methods() -> str:
    """Every method with what it needs, keeps and reaches."""
    order = [*TITLES, *(name for name in listed() if name not in TITLES)]
    found = {cell.row: cell for cell in cells("table2", read(), columns=["class"])}
    return table(
        ["method", "what", "needs", "keeps", "Split MNIST, class"],
        (
            [
                f"[`{name}`]({name}.md)",
                listed()[name]["what"].rstrip("."),
                ", ".join(listed()[name]["needs"]) or "nothing",
                size(listed()[name]["kept_split"]),
                ours(found[name]) if name in found else "–",
            ]
            for name in order
            if name in listed()
        ),
    )


def glance(method: str) -> str:
    """What the class of a method declares."""
    cls, row = methods()[method], listed()[method]
    docs = field_docs(cls)
    facts = (
        f"**Needs:** {', '.join(row['needs']) or 'nothing'}. "
        f"**Keeps across a boundary:** {size(row['kept_split'])} on Split MNIST, {size(row['kept_permuted'])} on "
        f"Permuted MNIST, in class learning. **Optimiser:** {row['optimizer']}. "
        f"**Code:** `engram/methods/{method.replace('-', '_')}.py`.\n\n"
    )
    if not row["fields"]:
        return facts + "It has no hyper-parameters of its own.\n"
    defaults = cls()
    return facts + table(
        ["field, flag", "default", "what"],
        (
            [f"`{name}`, `--{name.replace('_', '-')}`", f"`{getattr(defaults, name)}`", docs.get(name, "")]
            for name in row["fields"]
        ),
    )


def measured(method: str) -> str:
    """The cells of a method in all tables, with what its runs cost."""
    runs = runs_by_label(read())
    rows, tables = [], []
    for name, (_, columns) in TABLES.items():
        if method not in published()[name]:
            continue
        tables.append(name)
        for cell in cells(name, read(), [method]):
            scenario = columns[cell.column]
            if name == "table4" and cell.column.endswith("/unknown"):
                continue  # the same cell as in tables 2 and 3
            made = [r for r in taken(runs, f"{scenario} {method}").values() if r.status == "done"]
            verdict = f"{MARKS[cell.verdict]} {cell.verdict}"
            rows.append(
                [f"`{scenario}`", ours(cell), str(cell.n), number(cell.paper, cell.paper_std), verdict, *cost(made)]
            )
    if not rows:
        return f"No published table has this row. `engram run split-mnist/class {method}` measures it.\n"
    commands = ", ".join(f"`engram reproduce {name} --rows {method}`" for name in tables)
    return (
        table(["scenario", "ours", "runs", "print", "verdict", "steps", "seconds a run"], rows)
        + f"\nAverage accuracy in percent, ± the population deviation. Made by {commands}; seconds are the median on "
        f"{machines()}.\n"
    )


def ledger(folder: str) -> str:
    """What a search found and what it spent, a row for each method."""
    lines = tuned(records.read(ROOT / "results/search" / folder / "records.jsonl"))
    return table(
        ["method", "best", "median", "worst", "best values", "reported runs", "trials", "steps of the trials", "looks"],
        (
            [
                f"`{line.method}`",
                *(f"{value:.2f}" if value is not None else "–" for value in (line.best, line.median, line.worst)),
                point(line.point),
                number(line.final, line.final_std),
                str(line.trials.runs),
                f"{line.trials.steps:,}",
                str(line.trials.looks),
            ]
            for line in lines
        ),
    )


def cost(made: Sequence[Record]) -> list[str]:
    if not made:
        return ["–", "–"]
    return [f"{statistics.median(r.steps for r in made):,.0f}", f"{statistics.median(r.seconds for r in made):,.0f}"]


def machines() -> str:
    names = {f"{r.environment['cpu']}, one thread" for r in read() if "cpu" in r.environment}
    return " or ".join(sorted(names)) or "no machine yet"


def whole_table(name: str) -> str:
    """A published table, ours above print."""
    found = {(cell.row, cell.column): cell for cell in cells(name, read())}
    columns = list(TABLES[name][1])
    rows = [
        [TITLES.get(row, row), *(f"{ours(c)}<br>({number(c.paper, c.paper_std)}) {MARKS[c.verdict]}" for c in of_row)]
        for row in published()[name]
        for of_row in [[found[row, column] for column in columns]]
    ]
    said = remarks(runs_of(name, read(), columns, "own")) if name in QUEUE_TABLES else []
    below = f"\n{'; '.join(said)}. {agreement(list(found.values()))}\n" if said else ""
    return table(["after task" if name in QUEUE_TABLES else "method", *columns], rows) + below


def disagreeing() -> str:
    """Of each table how many cells have runs and agree, and which of Tables 2 to 4 do not."""
    lines = []
    for name in TABLES:
        found = cells(name, read())
        made = [cell for cell in found if cell.n]
        others = [cell for cell in made if cell.verdict != "agrees"]
        line = f"- Table {name[-1]}: {len(made)} of {len(found)} cells have runs, {len(made) - len(others)} agree."
        if name not in QUEUE_TABLES and others:
            line += " Not: " + ", ".join(f"{TITLES[c.row]} in {c.column} ({beside_print(c)})" for c in others) + "."
        lines.append(line)
    return "\n".join(lines) + "\n"


def common() -> str:
    """The copied rows of Table 2 in the protocol of the others, beside their own."""
    columns = list(TABLES["table2"][1])
    protocols: tuple[Protocol, Protocol] = ("own", "common")
    own, in_common = (
        {(cell.row, cell.column): cell for cell in cells("table2", read(), COPIED, protocol=protocol)}
        for protocol in protocols
    )
    rows = [
        [TITLES[row], *(f"{ours(in_common[row, column])}<br>(own: {ours(own[row, column])})" for column in columns)]
        for row in published()["table2"]
        if row in COPIED
    ]
    return table(["method", *columns], rows)


def optimisers(name: str) -> str:
    """The penalties' columns of Table 5 or 6 with a new optimiser for each task, and with one for all."""
    printed = published()[name]
    columns = [column for column in TABLES[name][1] if "/" in column]
    words: dict[Protocol, str] = {"own": OPTIMISERS[True], "common": OPTIMISERS[False]}
    rows = []
    for column in columns:
        method, _, which = column.partition("/")
        for protocol, said in words.items():
            found = cells(name, read(), columns=[column], protocol=protocol)
            rows.append([f"{TITLES[method]}, {which}: {said}", *map(ours, found)])
        rows.append([f"{TITLES[method]}, {which}: print", *(f"{printed[n][column]:.2f}" for n in printed)])
    return table(["", *(f"after {n}" for n in printed)], rows) + "\n" + nearness(name, columns)


def nearness(name: str, columns: Sequence[str]) -> str:
    """How many cells lie within the band of print in each protocol."""
    protocols: tuple[Protocol, Protocol] = ("own", "common")
    found = [[c for c in cells(name, read(), columns=columns, protocol=p) if c.n] for p in protocols]
    new, one = (f"{sum(cell.verdict == 'agrees' for cell in made)} of {len(made)}" for made in found)
    return f"Within 5 points of print: {new} cells with {OPTIMISERS[True]}, {one} with {OPTIMISERS[False]}.\n"


def weights(name: str, method: str) -> str:
    """Every weight of a penalty along the queue, above print's best and worst in Table 5 or 6."""
    printed, runs = published()[name], Runs(read())
    tried = settings(NETS[name], [method])
    rows = []
    for setting in tried:
        made = runs.done(setting, runs.scenario(tried))
        values = [f"{curve(made)[int(n) - 1]:.2f}" if made else "–" for n in printed]
        rows.append([f"weight {setting.weight:g}", *values])
    for which in ("best", "worst"):
        rows.append([f"print, {which}", *(f"{printed[n][f'{method}/{which}']:.2f}" for n in printed)])
    return table([TITLES[method], *(f"after {n}" for n in printed)], rows)


def along(name: str, column: str, *changed: str) -> str:
    """Runs of settings (`coef=0.01,xi=0.001`) above a column of Table 5 or 6, the mean over the seeds that all have."""
    method, _, which = column.partition("/")
    printed = published()[name]
    said = {f"reset_optimizer={value}": words for value, words in OPTIMISERS.items()}
    found = [runs_with(NETS[name], method, dict(part.split("=") for part in setting.split(","))) for setting in changed]
    seeds = sorted(set.intersection(*map(set, found)))
    rows = []
    for setting, runs in zip(changed, found, strict=True):
        values = curve([runs[seed] for seed in seeds])
        words = ", ".join(said.get(part, part.replace("=", " ")) for part in setting.split(","))
        rows.append([words, *(f"{values[int(n) - 1]:.2f}" for n in printed)])
    rows.append([f"print, {which}" if which else "print", *(f"{printed[n][column]:.2f}" for n in printed)])
    title = f"{TITLES[method]}, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    return table([title, *(f"after {n}" for n in printed)], rows)


def runs_with(net: str, method: str, changed: dict[str, str]) -> dict[int, Record]:
    """Runs on the long queue, by seed, with fields of the method or the training changed, all others as usual."""
    fields = vars(methods()[method]()) | {"reset_optimizer": False}
    for name, text in changed.items():
        like = fields[name]
        fields[name] = text == "True" if isinstance(like, bool) else type(like)(text)
    found = {
        record.seed: record
        for record in read()
        if from_queue(record, net, method)
        and fields.items() <= (record.spec["training"] | record.spec["method"][0]).items()
    }
    if not found:
        raise ValueError(f"no record of {method} on the long queue with {changed}")
    return found


def from_queue(record: Record, net: str, method: str) -> bool:
    """Whether it is one of the long queue with random heads."""
    made = record.spec["net"]
    return (record.scenario, record.method, made["name"], made.get("heads")) in [
        (scenario, method, net, "random") for scenario in SCENARIOS.values()
    ]


def sampled(maker: str) -> str:
    """GEM with a sample of its memory and with all of it: what results/gem-sampled.jsonl has, over common seeds."""

    def but_the_sample(record: Record) -> str:
        method = {**record.spec["method"][0], "memory_batch": 0}
        return json.dumps({**record.spec, "seed": 0, "method": [method]}, sort_keys=True)

    tried = [r for r in records.read(ROOT / "results" / "gem-sampled.jsonl") if r.scenario.startswith(f"{maker}-")]
    kinds = {but_the_sample(record): record.scenario for record in tried}
    made: dict[str, dict[int, dict[int, float]]] = {}  # scenario → images a step → seed → accuracy
    for record in read():
        if record.method == "gem" and record.average_accuracy is not None and but_the_sample(record) in kinds:
            runs = made.setdefault(record.scenario, {}).setdefault(record.spec["method"][0]["memory_batch"], {})
            runs[record.seed] = record.average_accuracy
    sizes = sorted({size for of in made.values() for size in of}, key=lambda size: size or math.inf)
    rows = []
    for size in sizes:
        row = [f"{size} images a step" if size else "all images"]
        for of in made.values():
            seeds = set.intersection(*map(set, of.values()))
            row.append(f"{statistics.fmean(of[size][seed] for seed in seeds):.2f}" if size in of else "–")
        rows.append(row)
    return table(["GEM looks at", *(scenario.partition("/")[2] for scenario in made)], rows)


def times(name: str) -> str:
    """How long the runs of a table's cells took, as medians by method; those of a like time together. Table 4 has split
    and permuted scenarios, which are apart."""
    made: dict[str, dict[str, list[float]]] = {}
    for record in records.read(ROOT / "results" / f"{name}.jsonl"):
        twin = name not in QUEUE_TABLES and record.preset != f"{record.scenario} {record.method}"
        if record.status == "done" and not twin:
            of = made.setdefault(record.scenario.partition("-")[0] if name == "table4" else "", {})
            of.setdefault(record.method, []).append(record.seconds)
    return "; ".join(f"{maker}: {like_times(of)}" if maker else like_times(of) for maker, of in made.items())


def like_times(made: dict[str, list[float]]) -> str:
    """Medians by method, those of a like time together."""
    medians = sorted((statistics.median(seconds), method) for method, seconds in made.items())
    groups: list[list[tuple[float, str]]] = []
    for found in medians:
        if groups and found[0] < 2 * groups[-1][0][0]:
            groups[-1].append(found)
        else:
            groups.append([found])
    return "; ".join(
        f"{', '.join(f'`{method}`' for _, method in group)} "
        + " to ".join(dict.fromkeys(duration(seconds) for seconds in (group[0][0], group[-1][0])))
        for group in groups
    )


def readme_table(runs: dict[str, int] | None = None) -> str:
    """Table 2 for the README: each row over its seeds 0 … n − 1, n as given, or as many as all columns have."""
    scenarios = list(TABLES["table2"][1].values())
    by_label = runs_by_label(read())
    rows = []
    for row in published()["table2"]:
        of_row = [by_label.get(f"{scenario} {row}", {}) for scenario in scenarios]
        n = next(i for i in count() if any(i not in found for found in of_row))
        n = (runs or {}).get(TITLES[row], n)
        made = [found[seed] for found in of_row for seed in range(n)]
        rows.append([TITLES[row], str(n), *(beside_print(cell) for cell in cells("table2", made, [row]))])
    return table(["method", "runs", *TABLES["table2"][1]], rows)


def beside_print(cell: Cell) -> str:
    printed = f"({number(cell.paper, cell.paper_std)})"
    return printed if cell.ours is None else f"{ours(cell)} {printed} {MARKS[cell.verdict]}"


def renew_readme() -> None:
    """`make readme`: writes the table between its two comments."""
    page = ROOT / "README.md"
    text = re.sub(
        r"(<!-- table2 -->\n).*?(<!-- end -->)",
        lambda m: f"{m[1]}\n{readme_table()}\n{m[2]}",
        page.read_text(),
        flags=re.S,
    )
    page.write_text(text)


def size(amount: int) -> str:
    return "nothing" if not amount else f"{amount / 1e6:.1f} MB"


ANSWERS: dict[str, Callable[..., str]] = {
    "methods": all_methods,
    "glance": glance,
    "measured": measured,
    "ledger": ledger,
    "table": whole_table,
    "common": common,
    "disagreeing": disagreeing,
    "along": along,
    "optimisers": optimisers,
    "sampled": sampled,
    "times": times,
    "weights": weights,
}

if __name__ == "__main__":
    renew_readme()
