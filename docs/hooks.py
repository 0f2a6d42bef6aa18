"""What the pages take from code and records when they are built, so that no measured number is typed into them.

A page asks by a comment: `<!-- engram: measured ewc -->`.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any, get_args

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from paper_pages import PAPER_ANSWERS, in_papers  # noqa: E402

from engram.cli import COMMANDS, dispatch  # noqa: E402
from engram.cli.ls import list_methods  # noqa: E402
from engram.cli.options import field_docs  # noqa: E402
from engram.cli.schema import record_schema, study_schema  # noqa: E402
from engram.cli.search import point_text  # noqa: E402
from engram.core.messages import duration  # noqa: E402
from engram.core.registry import METHODS  # noqa: E402
from engram.report.footer import VERDICT_MARKS, agreement  # noqa: E402
from engram.report.layout import mean_text, our_text  # noqa: E402
from engram.report.written import write_table  # noqa: E402
from engram.runs.defaults import Protocol  # noqa: E402
from engram.runs.records import Record, read_records  # noqa: E402
from engram.runs.setting import Setting, SettingRuns, group_by_setting, setting_of_record  # noqa: E402
from engram.search.ledger import tuned  # noqa: E402
from engram.studies.catalog import built_in_study, find_study, results_of, study_names, tables_with  # noqa: E402
from engram.studies.hsu2018.queue import (  # noqa: E402
    OPTIMISERS,
    QueueResults,
    mean_curve,
    queue_setting,
    stand_ins,
    tried_settings,
)
from engram.studies.study import Study, method_title  # noqa: E402
from engram.studies.table import Cell, make_cells  # noqa: E402
from engram.workbench import make_table  # noqa: E402

RESULTS = ROOT / "results"
PAPER = RESULTS / "hsu2018"
TABLES = ("table2", "table3", "table4", "table5", "table6")
COPIED = ("lwf", "dgr", "rtf")
"""Rows that the paper copied from another one, with that one's protocol."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs calls it for every page."""
    return filled(markdown)


def on_page_content(html: str, **_: Any) -> str:
    """MkDocs calls it for every page: formulas become MathML, which browsers typeset without a script or a network."""
    from latex2mathml.converter import convert

    def typeset(found: re.Match[str]) -> str:
        formula = unescape(found[2] or found[3]).strip()
        display = "block" if found[1] == "div" else "inline"
        made = convert(formula, display=display)
        if "\\" in made or "&#x0005C;" in made:  # a command that the converter does not know stays as it is
            raise ValueError(f"formula {formula}: a command is unknown to latex2mathml")
        return made

    pattern = r'<(span|div) class="arithmatex">(?:\\\((.*?)\\\)|\\\[(.*?)\\\])</\1>'
    return re.sub(pattern, typeset, html, flags=re.DOTALL)


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """MkDocs calls it once: the schemas become files of the site."""
    from mkdocs.structure.files import File

    for name, schema in (("record", record_schema()), ("study", study_schema())):
        text = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        files.append(File.generated(config, f"schemas/{name}.schema.json", content=text))
    return files


def filled(markdown: str) -> str:
    """The page with what it asks for; what it asks for in vain is an error, so that the build fails."""

    def answer(found: re.Match[str]) -> str:
        what, *names = found[1].split()
        return ANSWERS[what](*names)

    return re.sub(r"<!-- engram: (.*?) -->", answer, markdown)


@cache
def read() -> tuple[Record, ...]:
    """The records of the paper's tables."""
    return tuple(read_records(PAPER))


@cache
def groups() -> dict[Setting, SettingRuns]:
    return group_by_setting(read())


@cache
def cells(name: str, protocol: Protocol = "own") -> dict[tuple[str, str], Cell]:
    """The cells of a table by row and column."""
    made = make_cells(results_of(built_in_study(name), read()), protocol=protocol)
    return {(cell.row, cell.column): cell for cell in made}


def mark(cell: Cell) -> str:
    return VERDICT_MARKS[cell.verdict or "missing"]


def published_text(cell: Cell) -> str:
    return "–" if cell.paper is None else mean_text(cell.paper, cell.paper_std)


@cache
def listed() -> dict[str, dict[str, Any]]:
    return {row["method"]: row for row in list_methods()}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)) + "\n"


def all_methods() -> str:
    """Every method with what it needs, keeps and reaches."""
    rows = built_in_study("table2").rows
    order = [*rows, *(name for name in listed() if name not in rows)]
    found = {row: cell for (row, column), cell in cells("table2").items() if column == "class"}
    return table(
        ["method", "what", "needs", "keeps", "Split MNIST, class"],
        (
            [
                f"[`{name}`]({name}.md)",
                listed()[name]["what"].rstrip("."),
                ", ".join(listed()[name]["needs"]) or "nothing",
                size(listed()[name]["kept_split"]),
                our_text(found[name]) if name in found else "–",
            ]
            for name in order
            if name in listed()
        ),
    )


def glance(method: str) -> str:
    """What the class of a method declares."""
    cls, row = METHODS[method], listed()[method]
    docs = field_docs(cls)
    code = f"engram/methods/{method.replace('-', '_')}.py"
    lines = len((ROOT / code).read_text(encoding="utf-8").splitlines())
    facts = (
        f"**Needs:** {', '.join(row['needs']) or 'nothing'}. "
        f"**Keeps across a boundary:** {size(row['kept_split'])} on Split MNIST, {size(row['kept_permuted'])} on "
        f"Permuted MNIST, in class learning. **Optimiser:** {row['optimizer']}. "
        f"**Code:** `{code}`, {lines} lines.\n\n"
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
    """A method in every published protocol, with what its runs cost."""
    if found := in_papers(method):
        return (
            found
            + f"\nAverage accuracy in percent, ± the population standard deviation. `engram reproduce TABLE --rows "
            f"ROW` makes these runs, `engram compare methods --rows {method}` shows them; seconds are the median on "
            f"{machines()}.\n"
        )
    kind = "task" if "task identity" in listed()[method]["needs"] else "class"
    return f"No published table has this row. `engram run split-mnist/{kind} {method}` measures it.\n"


def ledger(folder: str) -> str:
    """What a search found and what it spent, a row for each method."""
    lines = tuned(read_records(RESULTS / "search" / folder))
    return table(
        ["method", "best", "median", "worst", "best values", "reported runs", "trials", "steps of the trials", "looks"],
        (
            [
                f"`{line.method}`",
                *(f"{value:.2f}" if value is not None else "–" for value in (line.best, line.median, line.worst)),
                point_text(line.point),
                "–" if line.final is None else mean_text(line.final, line.final_std),
                str(line.trials.runs),
                f"{line.trials.steps:,}",
                str(line.trials.looks),
            ]
            for line in lines
        ),
    )


def machines() -> str:
    names = {f"{r.environment['cpu']}, one thread" for r in read() if "cpu" in r.environment}
    return " or ".join(sorted(names)) or "no machine yet"


def whole_table(name: str) -> str:
    """A published table, ours above the published numbers."""
    study = built_in_study(name)
    rows = [
        [
            study.row_title(row) if row in METHODS else row,
            *(f"{our_text(c)}<br>({published_text(c)}) {mark(c)}" for c in cells_of_row(name, row)),
        ]
        for row in study.rows
    ]
    below = ""
    if study.python:
        behind = [record for cell in cells(name).values() for record in cell.runs.records]
        below = f"\n{'; '.join(stand_ins(behind))}. {agreement(list(cells(name).values()))}\n"
    return table(["after task" if study.python else "method", *study.columns], rows) + below


def cells_of_row(name: str, row: str, protocol: Protocol = "own") -> list[Cell]:
    return [cell for cell in cells(name, protocol).values() if cell.row == row]


def cells_of_column(name: str, column: str, protocol: Protocol = "own") -> list[Cell]:
    return [cell for cell in cells(name, protocol).values() if cell.column == column]


def disagreeing() -> str:
    """Of each table how many cells have runs and agree, and which of Tables 2 to 4 do not."""
    lines = []
    for name in TABLES:
        found = list(cells(name).values())
        made = [cell for cell in found if cell.n]
        others = [cell for cell in made if cell.verdict != "agrees"]
        line = f"- Table {name[-1]}: {len(made)} of {len(found)} cells have runs, {len(made) - len(others)} agree."
        if not built_in_study(name).python and others:
            said = ", ".join(f"{method_title(c.row)} in {c.column} ({against_published(c)})" for c in others)
            line += f" Not: {said}."
        lines.append(line)
    return "\n".join(lines) + "\n"


def common() -> str:
    """The copied rows of Table 2 in the protocol of the others, and in their own."""
    rows = [
        [
            method_title(row),
            *(
                f"{our_text(shared)}<br>(own: {our_text(own)})"
                for shared, own in zip(cells_of_row("table2", row, "common"), cells_of_row("table2", row), strict=True)
            ),
        ]
        for row in COPIED
    ]
    return table(["method", *built_in_study("table2").columns], rows)


def published_column(study: Study, column: str) -> list[str]:
    return [f"{row.published[column][0]:.2f}" for row in study.rows.values()]


def optimisers(name: str) -> str:
    """The penalties' columns of Table 5 or 6 with a new optimiser for each task, and with one for all."""
    study = built_in_study(name)
    columns = [column for column in study.columns if "/" in column]
    words: dict[Protocol, str] = {"own": OPTIMISERS[True], "common": OPTIMISERS[False]}
    rows = []
    for column in columns:
        method, _, which = column.partition("/")
        for protocol, said in words.items():
            found = cells_of_column(name, column, protocol)
            rows.append([f"{method_title(method)}, {which}: {said}", *map(our_text, found)])
        rows.append([f"{method_title(method)}, {which}: published", *published_column(study, column)])
    return table(["", *(f"after {n}" for n in study.rows)], rows) + "\n" + nearness(name, columns)


def nearness(name: str, columns: Sequence[str]) -> str:
    """How many cells lie within the band around the published numbers in each protocol."""
    protocols: tuple[Protocol, Protocol] = ("own", "common")
    found = [[c for column in columns for c in cells_of_column(name, column, p) if c.n] for p in protocols]
    new, one = (f"{sum(cell.verdict == 'agrees' for cell in made)} of {len(made)}" for made in found)
    return (
        f"Within 5 points of the published numbers: {new} cells with {OPTIMISERS[True]}, {one} with "
        f"{OPTIMISERS[False]}.\n"
    )


@cache
def queue_results(name: str) -> QueueResults:
    found = results_of(built_in_study(name), read())
    assert isinstance(found, QueueResults)
    return found


def coefficients(name: str, method: str, heads: str = "random") -> str:
    """Every coefficient of a penalty along the queue that was run, with a new optimiser for each task and with one for
    all, above the published best and worst in Table 5 or 6."""
    study, results = built_in_study(name), queue_results(name)
    rows = []
    for protocol in get_args(Protocol):
        for setting in tried_settings(results.scenario_with_runs(method), method, results.net, heads, protocol):
            if made := results.finished(setting):
                values = [f"{mean_curve(made)[int(n) - 1]:.2f}" for n in study.rows]
                optimiser = OPTIMISERS[bool(setting.value("training.reset_optimizer"))]
                rows.append([f"coefficient {setting.value('method.coef'):g}, {optimiser}", *values])
    for which in ("best", "worst"):
        rows.append([f"published, {which}", *published_column(study, f"{method}/{which}")])
    return table([method_title(method), *(f"after {n}" for n in study.rows)], rows)


def along(name: str, column: str, *changed: str) -> str:
    """Runs of settings (`coef=0.01,xi=0.001`) above a column of Table 5 or 6, the mean over the seeds that all have."""
    method, _, which = column.partition("/")
    study = built_in_study(name)
    said = {f"reset_optimizer={value}": words for value, words in OPTIMISERS.items()}
    found = [runs_with(name, method, dict(part.split("=") for part in setting.split(","))) for setting in changed]
    seeds = sorted(set.intersection(*map(set, found)))
    rows = []
    for setting, runs in zip(changed, found, strict=True):
        values = mean_curve([runs[seed] for seed in seeds])
        words = ", ".join(said.get(part, part.replace("=", " ")) for part in setting.split(","))
        rows.append([words, *(f"{values[int(n) - 1]:.2f}" for n in study.rows)])
    rows.append([f"published, {which}" if which else "published", *published_column(study, column)])
    title = f"{method_title(method)}, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    return table([title, *(f"after {n}" for n in study.rows)], rows)


def runs_with(name: str, method: str, changed: dict[str, str]) -> dict[int, Record]:
    """Runs on the long queue, by seed, with fields of method, training or heads changed, all others as usual."""
    results = queue_results(name)
    scenario = results.scenario_with_runs(method)
    reset = changed.pop("reset_optimizer", "False") == "True"
    base = queue_setting(scenario, method, None, results.net, reset=reset)
    fields = METHODS.facts(method).defaults
    values: dict[str, Any] = {
        f"method.{field}": type(fields[field])(text) if isinstance(fields[field], float | int) else text
        for field, text in changed.items()
        if field != "heads"
    }
    values["net.heads"] = changed.get("heads", "random")
    found = groups().get(base.with_values(values))
    if found is None:
        raise ValueError(f"no record of {method} on the long queue with {changed}")
    return dict(found.done)


def sampled(maker: str) -> str:
    """GEM with a sample of its memory and with all of it: what gem-sampled.jsonl has, over common seeds."""

    def but_the_sample(record: Record) -> str:
        method = {**record.spec["method"][0], "memory_batch": 0}
        return json.dumps({**record.spec, "seed": 0, "method": [method]}, sort_keys=True)

    tried = [r for r in read_records(PAPER / "gem-sampled.jsonl") if r.scenario.startswith(f"{maker}-")]
    kinds = {but_the_sample(record): record.scenario for record in tried}
    made: dict[str, dict[int, dict[int, float]]] = {}  # scenario → images per step → seed → accuracy
    for record in read():
        if record.method == "gem" and record.average_accuracy is not None and but_the_sample(record) in kinds:
            runs = made.setdefault(record.scenario, {}).setdefault(record.spec["method"][0]["memory_batch"], {})
            runs[record.seed] = record.average_accuracy
    sizes = sorted({size for of in made.values() for size in of}, key=lambda size: size or math.inf)
    rows = []
    for size in sizes:
        row = [f"{size} images per step" if size else "all images"]
        for of in made.values():
            seeds = set.intersection(*map(set, of.values()))
            row.append(f"{statistics.fmean(of[size][seed] for seed in seeds):.2f}" if size in of else "–")
        rows.append(row)
    return table(["GEM uses", *(scenario.partition("/")[2] for scenario in made)], rows)


def times(name: str) -> str:
    """How long the runs of a table's cells took, as medians by method; those of a like time together. Table 4 has split
    and permuted scenarios, which are apart."""
    made: dict[str, dict[str, list[float]]] = {}
    whole = built_in_study(name).python  # all runs of a queue are tried for its cells
    for record in read_records(PAPER / f"{name}.jsonl"):
        if record.status == "done" and (whole or tables_with(setting_of_record(record))):
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


def against_published(cell: Cell) -> str:
    published = f"({published_text(cell)})"
    return published if cell.ours is None else f"{our_text(cell)} {published} {mark(cell)}"


def renew_readme() -> None:
    """`make readme`: writes the tables between their comments."""
    page = ROOT / "README.md"
    text = page.read_text(encoding="utf-8")
    for name, made in (("papers", papers("docs/")), ("study", study_output("logits"))):
        text = re.sub(
            rf"(<!-- {name} -->\n).*?(<!-- end -->)", lambda m, made=made: f"{m[1]}\n{made}\n{m[2]}", text, flags=re.S
        )
    page.write_text(text, encoding="utf-8")


def study_output(name: str) -> str:
    """What `engram study examples/NAME.toml --results results` prints."""
    study = find_study(str(ROOT / "examples" / f"{name}.toml"))
    records = read_records(RESULTS / name)
    if not records:
        return "(Its runs are not recorded yet.)\n"
    made = make_table(study, records)
    return f"```text\n{write_table('text', study, made.cells, made.variants, 'study').strip()}\n```\n"


def papers(folder: str = "") -> str:
    """Of every published table how many cells have runs and how many of those agree; links begin with the folder."""
    return table(
        ["table", "published cells", "cells with records", "agree", "higher or lower", "runs"],
        (
            [f"[{paper_of(name)}]({folder}{PAPER_PAGES[name.partition('/')[0]]})", *map(str, counts)]
            for name, counts in paper_counts().items()
        ),
    )


@cache
def paper_counts() -> dict[str, tuple[int, int, int, int, int]]:
    """table → published cells, those with records, those that agree, those that do not, and the runs behind them."""
    found = {}
    everything = read_records(*(RESULTS / paper for paper in dict.fromkeys(n.partition("/")[0] for n in study_names())))
    for name in study_names():
        made = [cell for cell in make_cells(results_of(built_in_study(name), everything)) if cell.paper is not None]
        verdicts = [cell.verdict for cell in made]
        agree, apart = verdicts.count("agrees"), sum(verdict in ("higher", "lower") for verdict in verdicts)
        found[name] = (len(made), sum(cell.n > 0 for cell in made), agree, apart, sum(cell.n for cell in made))
    return found


PAPER_PAGES = {"hsu2018": "hsu2018.md", "buzzega2020": "buzzega2020.md", "vandeven2022": "vandeven2022.md"}
PAPER_NAMES = {
    "hsu2018": "Hsu et al. 2018",
    "buzzega2020": "Buzzega et al. 2020",
    "vandeven2022": "van de Ven et al. 2022",
}


def paper_of(name: str) -> str:
    """`hsu2018/table2` → Hsu et al. 2018, Table 2."""
    paper, _, short = name.partition("/")
    return f"{PAPER_NAMES[paper]}, {short.replace('table', 'Table ').replace('mnist-360', 'MNIST-360')}"


def command(name: str) -> str:
    """What `engram NAME --help` prints."""
    said = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "96"
    try:
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            dispatch([name, "--help"])
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return f"```text\n{said.getvalue().strip()}\n```\n"


def command_list() -> str:
    return table(["command", "what it does"], ([f"[`{n}`](#engram-{n})", what] for n, (_, what) in COMMANDS.items()))


def form(name: str, *path: str) -> str:
    """The fields of a schema, or of a part of it: `form study rows`."""
    schema = {"record": record_schema, "study": study_schema}[name]()
    for part in path:
        inside = schema["properties"][part]
        schema = inside.get("additionalProperties") or inside.get("items") or inside
        schema = next((one for one in schema.get("anyOf", ()) if one.get("type") == "object"), schema)
    needed = schema.get("required", ())
    return table(
        ["key", "type", "meaning"],
        (
            [f"`{key}`" + (" (required)" if key in needed else ""), type_words(one), one.get("description", "")]
            for key, one in schema["properties"].items()
        ),
    )


def type_words(schema: dict[str, Any]) -> str:
    """A schema's type in words."""
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(type_words, schema["anyOf"])))
    if schema.get("type") == "array":
        return f"list of {type_words(schema['items'])}"
    return {"object": "table", "null": "nothing"}.get(schema.get("type", ""), schema.get("type", "any"))


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
    "coefficients": coefficients,
    "papers": papers,
    "command": command,
    "commands": command_list,
    "form": form,
    "study": study_output,
    **PAPER_ANSWERS,
}

if __name__ == "__main__":
    renew_readme()
