"""Records that anyone may have written: a bad line is named and left out, and everything else is shown."""

import copy
import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.cli import dispatch
from engram.report.page.assemble import assemble
from engram.report.page.html import html
from engram.report.written import Format, write_table
from engram.runs.records import read_records
from engram.runs.spec import SpecError, from_json
from engram.runs.store import Store
from engram.search.ledger import tuned
from engram.studies.catalog import built_in_study
from engram.workbench import make_table

RESULTS = Path(__file__).parents[2] / "results"
TABLE = (RESULTS / "hsu2018" / "table2.jsonl").read_text().splitlines()[:2]
SEARCH = (RESULTS / "search" / "split-mnist-domain" / "records.jsonl").read_text().splitlines()[:2]
GOOD = [json.loads(line) for line in (TABLE[0], SEARCH[0])]
STUDY = built_in_study("hsu2018/table2")
FORMS: tuple[Format, ...] = ("text", "markdown", "latex", "csv", "json")
VICTIMS = [json.loads(line) for line in (TABLE[1], SEARCH[1])]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


HOSTILE = [
    int("9" * 400), -int("9" * 400), 1e308, -1e308, 1e16, float("nan"), float("inf"), -1, True, None, "", "text",
    "\ud800", "\x1b[2J", "a\x00b",
    [], {}, [[]], [None], {"x": []}, {"": {"": ""}}, [{"point": []}], nested(30), nested(450),
]  # fmt: skip


def write(folder: Path, *records: dict[str, Any]) -> Path:
    path = folder / "records.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def read_by_all(path: Path) -> list[str]:
    """Everything that reads records, on a file of them; what was said of its lines."""
    said: list[str] = []
    records = read_records(path, say=said.append)
    finished = Store(path.parent, said.append).finished()
    assert {record.key for record in records if record.status != "failed"} == finished.keys()
    if len(records) == len(GOOD):  # the bad line is out: the rest is as ever
        return said
    html(assemble(records, studies=[])).encode()
    cells = make_table(STUDY, records, rows=[VICTIMS[0]["method"]]).cells
    for form in FORMS:
        write_table(form, STUDY, cells).encode()
    tuned(records)
    for record in records:
        try:
            from_json(record.spec)
        except (SpecError, ValueError):
            continue
    place, file = str(path.parent), str(path)
    for command in (
        ["diff", file, file],
        ["ls", "runs", place],
        ["table", place],
    ):
        page = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with redirect_stdout(page), redirect_stderr(page):
            assert dispatch(command) in (0, 2), command
            page.flush()
    return said


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything inside a value; of long lists the first two entries."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    return [path] * bool(path) + [found for name, one in inside for found in places(one, (*path, name))]


def put(record: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(record)
    at: Any = changed
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    return changed


JSON = st.recursive(
    st.sampled_from(HOSTILE)
    | st.integers(-9, 10**20)
    | st.floats(allow_subnormal=False)
    | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_no_mutation_of_a_record_stops_a_reader(data: st.DataObject) -> None:
    victim = data.draw(st.sampled_from(VICTIMS))
    mutated = put(victim, data.draw(st.sampled_from(places(victim))), data.draw(JSON))
    with TemporaryDirectory() as folder:
        path = write(Path(folder), GOOD[0], mutated, GOOD[1])
        said = read_by_all(path)
        keys = [record.key for record in read_records(path, say=lambda _: None)]
        assert {record["key"] for record in GOOD} <= set(keys)
        assert said == [f"{path}, line 2: not a whole record, skipped"] * (2 * (len(keys) == 2))


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
