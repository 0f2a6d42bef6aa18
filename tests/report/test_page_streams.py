"""Drift along streams on the page: from files that `engram describe --json` wrote, and from files that it did not."""

import copy
import json

import pytest
from page_helpers import HOSTILE, record

from engram.cli.report import PageOptions, page_data
from engram.report.page.assemble import assemble
from engram.report.page.html import html
from engram.report.page.streams import read_streams, stream_data
from engram.runs.records import append_record

PAIR = {"energy": 0.5, "total_variation": 1.0, "x_differs": True, "y_differs": True}
DESCRIBED = {
    "scenario": "split-mine/class",
    "kind": "class",
    "tasks": [
        {"classes": ["cat", HOSTILE], "train": 20},
        {"classes": ["bird"], "train": 10},
        {"classes": ["cat"], "train": 9},
    ],
    "evidence": {
        "reasons": {"P(X)": "differs in 2 of 2 pairs"},
        "pairs": [PAIR, {**PAIR, "energy": 0.25, "total_variation": 0.75, "y_differs": False}],
        "drift": {"x": [0.0, 0.5, -0.01], "y": [0.0, 1.0, 0.5]},
    },
}


def changed(path, value):
    """The description with one value replaced."""
    found = copy.deepcopy(DESCRIBED)
    *place, last = path
    at = found
    for name in place:
        at = at[name]
    at[last] = value
    return found


def test_a_description_becomes_distances_by_task():
    found = stream_data(DESCRIBED)
    assert (found["x"], found["x_before"]) == ([0.0, 0.5, -0.01], [0.5, 0.25])
    assert (found["y_before"], found["y_differs"]) == ([1.0, 0.75], [True, False])
    assert [task["train"] for task in found["tasks"]] == [20, 10, 9]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["scenario"], 3), (["evidence", "drift", "x"], [0.0, "1", 2.0]), (["evidence", "drift", "y"], [0.0]),
        (["evidence", "pairs"], []), (["evidence", "pairs", 0, "energy"], float("nan")), (["tasks", 0, "classes"], [1]),
        (["tasks", 0, "train"], -1), (["evidence", "reasons"], None), (["evidence", "drift", "x", 0], 1e300),
    ],
)  # fmt: skip
def test_something_else_is_left_out(path, value, tmp_path):
    assert stream_data(changed(path, value)) is None
    (tmp_path / "other.json").write_text(json.dumps(changed(path, value)))
    (tmp_path / "torn.json").write_text(json.dumps(DESCRIBED)[:200])
    (tmp_path / "deep.json").write_text('{"evidence":' + "[" * 100_000)
    assert read_streams(sorted(tmp_path.glob("*.json"))) == []


def test_descriptions_are_found_beside_records(tmp_path):
    append_record(tmp_path / "runs.jsonl", record())
    (tmp_path / "streams").mkdir()
    (tmp_path / "streams" / "mine.json").write_text(json.dumps(DESCRIBED))
    (tmp_path / "package.json").write_text('{"name": "not a description"}')
    data = page_data(PageOptions(records=(tmp_path,)))
    assert [stream["scenario"] for stream in data["streams"]] == ["split-mine/class"]
    assert data["records"] == 1
    named = page_data(PageOptions(records=(tmp_path / "runs.jsonl", tmp_path / "streams" / "mine.json")))
    assert (named["records"], len(named["streams"])) == (1, 1)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_draws_the_stream(page, tmp_path, width):
    path = tmp_path / "report.html"
    path.write_text(html({**assemble([record()], streams=[stream_data(DESCRIBED)]), "sources": ""}), encoding="utf-8")
    page.open(path, width=width)
    page.wait("document.querySelectorAll('#streams .canvas svg').length === 3")
    labels = page.js("return [...document.querySelectorAll('#streams .canvas svg')].map(s => s.ariaLabel)")
    assert labels[0] == (
        "P(X): energy distance, input units. From the first task to the last: -0.01. 2 of 2 neighbours differ."
    )
    page.js("document.querySelectorAll('#streams details').forEach(d => { d.open = true; })")
    page.wait("document.querySelectorAll('#streams details table').length === 3")
    assert page.texts("#streams figure:nth-of-type(2) tbody tr:last-child > *") == ["3", "0.5", "0.75", "no"]
    assert HOSTILE in page.find("#streams").text
    assert page.js("return document.documentElement.scrollWidth") == width
    assert page.driver.get_log("browser") == []
