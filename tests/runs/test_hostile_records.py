"""Records that anyone may have written: a bad line is named and left out, and everything else is shown."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from engram.report.written import write_table
from engram.runs.records import read_records
from engram.search.ledger import tuned
from engram.studies.catalog import built_in_study
from engram.workbench import make_table

RESULTS = Path(__file__).parents[2] / "results"
TABLE = (RESULTS / "hsu2018" / "table2.jsonl").read_text().splitlines()[:2]
SEARCH = (RESULTS / "search" / "split-mnist-domain" / "records.jsonl").read_text().splitlines()[:2]
GOOD = [json.loads(line) for line in (TABLE[0], SEARCH[0])]
STUDY = built_in_study("hsu2018/table2")
VICTIMS = [json.loads(line) for line in (TABLE[1], SEARCH[1])]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def write(folder: Path, *records: dict[str, Any]) -> Path:
    path = folder / "records.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def put(record: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(record)
    at: Any = changed
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    return changed


@pytest.mark.parametrize(
    "wrong",
    [
        (("steps",), int("9" * 400)),
        (("seed",), int("9" * 400)),
        (("average_accuracy",), 1e308),
        (("accuracy", 0, 0), int("9" * 400)),
        (("accuracy",), [[]]),
        (("losses",), [float("nan")]),
        (("spec", "scenario"), nested(450)),
        (("spec", "training", "lr"), int("9" * 400)),
        (("spec", "scenario"), "mnist"),
        (("spec", "scenario", "images"), ["mnist"]),
        (("spec", "net"), 7),
        (("environment", "data"), {"mnist": ["x"]}),
        (("search",), {"stage": "trial", "selected_on": "test", "point": []}),
        (("search",), {"stage": "trial", "selected_on": "test", "point": {"lr": [1]}}),
        (("curve",), [{"step": "1"}]),
        (("memory",), {"kept": {"buffer": int("9" * 400)}}),
        (("error",), 5),
        (("spec", "method"), [{"name": {}}]),
        (("spec", "net", "name"), []),
        (("method",), "m" * 100_001),
        (("environment", "cpu"), "c" * 100_001),
        (("environment", "data"), {"d" * 100_001: "x"}),
    ],
    ids=lambda wrong: ".".join(map(str, wrong[0])),
)
def test_a_bad_line_is_named_and_left_out(tmp_path: Path, wrong: tuple[tuple[Any, ...], Any]) -> None:
    path = write(tmp_path, GOOD[0], put(VICTIMS[0], *wrong), GOOD[1])
    said: list[str] = []
    assert [record.key for record in read_records(path, say=said.append)] == [record["key"] for record in GOOD]
    assert said == [f"{path}, line 2: not a whole record, skipped"]


def test_trials_of_another_grid_do_not_stop_the_ledger(tmp_path: Path) -> None:
    point = {"lr": "high", "depth": 3}
    trial = put(VICTIMS[1], ("search",), {"stage": "trial", "selected_on": "holdout", "point": point})
    path = write(tmp_path, *GOOD, {**trial, "average_accuracy": GOOD[1]["average_accuracy"]})
    assert sum(one.trials.runs for one in tuned(read_records(path))) == 2


def test_all_committed_records_are_sound() -> None:
    said: list[str] = []
    assert len(read_records(RESULTS, say=said.append)) >= 937
    assert said == []


def test_control_characters_do_not_reach_whoever_reads(tmp_path: Path) -> None:
    """Raw and escaped; a traceback keeps its lines."""
    hostile = "a\x1b]0;title\x07b\x9b2Jc\u202ed\ud800e\x7f"
    wrong = {"method": hostile, "error": "one\ntwo\x1b[2J", "environment": {"cpu": hostile, hostile: 1}}
    path = write(tmp_path, {**VICTIMS[0], **wrong})
    with path.open("ab") as file:
        file.write(json.dumps({**VICTIMS[0], **wrong}, ensure_ascii=False).replace("\ud800", "").encode() + b"\n")
    for record in read_records(path):
        assert (record.method, record.error) == ("a]0;titleb2Jcde", "one\ntwo[2J")
        assert record.environment == {"cpu": "a]0;titleb2Jcde", "a]0;titleb2Jcde": 1}


def test_markup_of_a_record_is_text_in_markdown_and_on_terminals(tmp_path: Path) -> None:
    cpu = "<script>alert(1)</script> [red]| `x`"
    path = write(tmp_path, put(VICTIMS[0], ("environment", "cpu"), cpu))
    cells = make_table(STUDY, read_records(path), rows=[VICTIMS[0]["method"]]).cells
    markdown = write_table("markdown", STUDY, cells)
    assert "<script" not in markdown
    assert r"&lt;script&gt;alert(1)&lt;/script&gt; \[red\]\| \`x\`" in markdown
    assert "<script>alert(1)</script> [red]| `x`" in write_table("text", STUDY, cells)
