"""Records with one value replaced by anything, read by every command: bad lines are named, and the rest is shown.

All mutations are lines of one file, each with a seed of its own, so that every command reads all of them at once.
"""

import copy
import http.client
import json
import re
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import mutations
import pytest
from cli_helpers import Answer

from engram.cli.report import PageOptions, all_files, page_data
from engram.core.registry import FIGURES
from engram.report.page.server import Latest, Server
from engram.runs.records import read_records
from engram.runs.spec import from_json
from engram.search.ledger import tuned

Engram = Callable[..., Answer]
MUTATIONS = 600
RESULTS = Path(__file__).parents[2] / "results"
GOOD, *VICTIMS = [
    json.loads((RESULTS / file).read_text().splitlines()[line])
    for file, line in (
        ("hsu2018/table2.jsonl", 2),
        ("hsu2018/table2.jsonl", 138),
        ("hsu2018/table5.jsonl", 1),
        ("search/split-mnist-domain/records.jsonl", 1),
    )
]
TINY = ["run", "split-tiny/class", "adam", "--epochs", "1", "--batch", "16", "--hidden", "4"]
STUDY = '[columns]\nclass = "split-mnist/class"\n[rows]\nadam = {}\n'


REFUSALS = (
    "no records of the long queue",  # with heads of both kinds, as some figures need
    "tasks; choose by --seeds",  # a whole record may have lost a task of its matrix: one picture cannot show both
)
"""What a figure may say of records that are whole, and drawn with anything in them."""


def put(record: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(record)
    at: Any = changed
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    return changed


def with_seed(record: dict[str, Any], seed: int, key: str) -> dict[str, Any]:
    """The record as it would be of another seed."""
    return {**record, "seed": seed, "spec": {**record["spec"], "seed": seed}, "key": key}


def mutate(victims: list[dict[str, Any]], key_of: Callable[[int], str], number: int) -> list[dict[str, Any]]:
    """Records of which one value each was replaced, as hypothesis draws them."""
    drawn = subprocess.run(
        [sys.executable, mutations.__file__], input=json.dumps([victims, number]), capture_output=True, text=True
    )
    assert drawn.returncode == 0, drawn.stderr
    found = [
        put(with_seed(victims[one], seed, key_of(seed)), tuple(path), value)
        for seed, (one, path, value) in enumerate(json.loads(drawn.stdout), 1000)
    ]
    assert len(found) >= number
    return found


def write(path: Path, records: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def serve(place: Path, capfd: pytest.CaptureFixture[str]) -> Answer:
    """The page's data as `engram serve` sends them."""
    options = PageOptions(records=(place,))
    with Server(Latest(partial(all_files, options), partial(page_data, options))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
        for path in ("/", "/data.json"):
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read().decode()
            assert answer.status == 200, body
        connection.close()
        server.shutdown()
        thread.join()
    return Answer(0, body, capfd.readouterr().err)


def named_lines(text: str, file: Path) -> set[int]:
    """The lines of a file that were said not to be records; a console may break its lines anywhere."""
    pattern = re.escape(file.name) + r",\s+line\s+(\d+):\s+not\s+a\s+whole\s+record"
    return {int(number) for number in re.findall(pattern, text)}


@pytest.fixture
def folder(engram: Engram, work: Path, data: Path) -> Path:
    """Files of records of a table, of a search and of a small set, each mutated, between two that are whole."""
    assert engram(*TINY, "--out", "made").status == 0
    tiny = json.loads(Path("made/records.jsonl").read_text())
    spec = from_json(tiny["spec"])
    for name, first, victims, key_of, share in (
        ("table2", GOOD, VICTIMS, "{:016x}".format, 2),
        ("tiny", tiny, [tiny], lambda seed: replace(spec, seed=seed).key, 1),
    ):
        mutated = mutate(victims, key_of, MUTATIONS * share // 3)
        write(work / "runs" / f"{name}.jsonl", [first, *mutated, with_seed(first, 900, key_of(900))])
    (work / "mine.toml").write_text(STUDY)
    return Path("runs")


def calls(place: Path) -> dict[str, list[Any]]:
    """A call of each command that reads records, in each of its forms."""
    table = str(place / "table2.jsonl")
    found = {
        "ls runs": ["ls", "runs", place],
        "ls runs json": ["ls", "runs", place, "--json"],
        "diff": ["diff", table, RESULTS / "hsu2018" / "table2.jsonl"],
        "diff json": ["diff", table, table, "--json"],
        "report": ["report", place, "--out", "report.html"],
        "doctor": ["doctor", place, "--no-data"],
        "verify": ["verify", "tiny", "--results", place, "--sample", "40", "--seed", "0", "--json"],
        "study": ["study", "mine.toml", "--dry-run", "--results", place],
        "resume": [*TINY, "--out", place],
        "table by lr": ["table", place, "--rows", "training.lr"],
        "claims": ["compare", "claims", "--results", place],
        "claims json": ["compare", "claims", "--results", place, "--json"],
    }
    for form in ("text", "markdown", "latex", "csv", "json"):
        found[f"compare {form}"] = ["compare", "table2", "--results", place, "--format", form, "--variants"]
        found[f"table {form}"] = ["table", place, "--format", form]
    for name in {*FIGURES} - {"drift", "scenario", "scaling", "figure1", "figure2"}:  # which show no records
        found[f"figure {name}"] = ["figure", name, "--results", place, "--out", f"{name}.svg"]
    return found


def test_every_command_reads_records_with_anything_in_them(
    engram: Engram, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    whole = read_records(folder, say=said.append)
    bad = {file: named_lines("\n".join(said), file) for file in sorted(folder.glob("*.jsonl"))}
    lines = {file: len(file.read_text().splitlines()) for file in bad}
    assert sum(lines.values()) - 4 >= MUTATIONS
    assert len(whole) + sum(map(len, bad.values())) == sum(lines.values())
    for file, numbers in bad.items():
        assert not numbers & {1, lines[file]}
        assert 0.2 * lines[file] < len(numbers) < 0.9 * lines[file]  # enough of both kinds
    tuned(whole)
    answers, broken = {}, {}
    for name, call in {**calls(folder), "serve": []}.items():
        try:
            answers[name] = engram(*call) if call else serve(folder, capfd)
        except Exception as error:  # all of them are told at once
            broken[name] = "".join(traceback.format_exception(error)[-3:])
    assert not broken, "\n".join(f"{name}:\n{text}" for name, text in broken.items())
    for name, answer in answers.items():
        damaged = name in ("doctor", "verify")  # which find values that were changed besides
        refused = name.startswith("figure") and any(words in answer.err for words in REFUSALS)
        assert answer.status == (2 if refused else int(damaged)), (name, answer.status, answer.err[-2000:])
        text = answer.out if name == "doctor" else answer.err
        for file, numbers in bad.items():
            unread = {"diff": "tiny", "verify": "table2"}.get(name.split()[0]) == file.stem
            assert named_lines(text, file) == (set() if unread else numbers), (name, file.name)
    for file, numbers in bad.items():  # the rest is shown: without the bad lines, everything is the same
        text = file.read_text().splitlines(keepends=True)
        file.write_text("".join(line for number, line in enumerate(text, 1) if number not in numbers))
    for name, call in calls(folder).items():
        if name in ("ls runs json", "compare json", "claims json", "table json", "diff json"):
            again = engram(*call)
            assert (again.out, "not a whole record" in again.err) == (answers[name].out, False), name
