"""`engram compare` and `engram reproduce`: formats, files, variants."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import Answer
from setting_records import run

from engram.runs.records import append_record
from engram.runs.setting import Setting
from engram.studies.catalog import results_of
from engram.studies.made import Made
from engram.studies.study import Study

Engram = Callable[..., Answer]


def add(row: str, column: str, *values: float) -> None:
    for seed, value in enumerate(values):
        append_record(Path("results/hsu2018/table2.jsonl"), run(row, column, seed, value))


@pytest.mark.parametrize(
    ("form", "holds"),
    [("latex", r"$19.80 \pm 0.10$"), ("markdown", "19.80 ± 0.10 (n = 2)"), ("text", "19.80 ± 0.10 n=2")],
)
def test_a_table_is_written_in_every_format_to_the_screen_and_to_a_file(
    engram: Engram, work: Path, form: str, holds: str
) -> None:
    add("adam", "class", 19.7, 19.9)
    shown = engram("compare", "table2", "--format", form)
    assert (shown.status, shown.err) == (0, "")
    assert holds in shown.out
    assert engram("compare", "table2", "--format", form, "--out", "tables/two.txt").out == ""
    assert Path("tables/two.txt").read_text() == shown.out


@pytest.mark.parametrize("form", ["text", "json"])
def test_table1_goes_to_a_file_too(engram: Engram, work: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    def described(name: str, _: object, seed: int) -> dict[str, object]:
        kind = name.partition("/")[2]
        row = {"learning scenario": kind}
        return {"scenario": name, "kind": kind, "declared": kind, "heads": "single", "evidence": {"row": row}}

    monkeypatch.setattr("engram.scenarios.create.scenario", lambda name: None)
    monkeypatch.setattr("engram.cli.describe.describe_scenario", described)
    shown = engram("compare", "table1", "--format", form)
    assert "permuted-mnist/task" in shown.out
    assert engram("compare", "table1", "--format", form, "--out", "one.txt").out == ""
    assert Path("one.txt").read_text() == shown.out


def test_json_has_45_cells_and_variants_only_where_asked_for(engram: Engram, work: Path) -> None:
    add("gem/one-slot", "class", 91.0)
    assert len(engram("compare", "table2", "--json").json) == 45
    assert engram("compare", "table2", "--format", "json").json == engram("compare", "table2", "--json").json
    assert {cell["verdict"] for cell in engram("compare", "table2", "--json").json} == {"missing"}
    both = engram("compare", "table2", "--variants", "--json").json
    assert len(both) == 60
    (variant,) = engram("compare", "table2", "--rows", "gem/one-slot", "--columns", "class", "--json").json
    assert (variant["row"], variant["ours"], variant["n"], variant["pairs"]) == ("gem/one-slot", 91.0, 1, 0)
    assert len(engram("compare", "table2", "--rows", "gem", "--twins", "--json").json) == 3 + 9  # the old flag


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (["compare", "table2", "--rows", "gem/oneslot"], "did you mean gem/one-slot?"),
        (["reproduce", "table2", "--rows", "gem/oneslot"], "did you mean gem/one-slot?"),
        (["reproduce", "table2", "--rows", "ewc/one-slot"], "choose from gem/textbook"),
        (
            ["compare"],
            "name a table first, then the options; choose from table1, table2, table3",
        ),
        (
            ["reproduce", "--seeds", "1"],
            "name a table first, then the options; choose from table2, table3",
        ),
        (["compare", "table1", "--format", "latex"], "choose from text, json"),
        (["compare", "claims", "--format", "latex"], "choose from text, markdown, json"),
        (["compare", "table2", "--out", "/dev/null/x.md"], "nothing can be written"),
        (["compare", "table2", "--out", "."], "is a folder"),
        (["compare", "table2", "--results", "nowhere"], "nowhere is not a folder"),
        (["compare", "claims", "--rows", "ewc"], "claims is shown whole"),
        (["compare", "claims", "--protocol", "common"], "claims is shown whole"),
        (["compare", "methods", "--precision", "bf16"], "only --rows goes with it"),
        (["compare", "table2", "--out", "/dev/full"], "/dev/full cannot be written: No space left"),
        (
            ["compare", "table3", "--rows", "ewc/per-sample", "--columns", "task"],
            "has no column task; choose from domain",
        ),
        (["reproduce", "table3", "--rows", "ewc/per-sample", "--columns", "task"], "choose from domain"),
        (["reproduce", "table2", "--rows", "adam", "--skip", "adam"], "nothing is left of table2 without adam"),
        (["compare", "table2", "--rows", "adagard"], "did you mean adagrad?"),
        (["compare", "claims", "--results", "nowhere"], "nowhere is not a folder"),
    ],
)
def test_what_is_not_there_is_refused_with_the_choices(engram: Engram, work: Path, call: list[str], says: str) -> None:
    answer = engram(*call)
    assert answer.status == 2
    assert says in answer.err
    assert list(work.iterdir()) == []


def test_reproduce_runs_the_variants_that_are_asked_for(
    engram: Engram, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would be run; the runs themselves are made elsewhere."""
    asked: list[Setting] = []

    def note(study: Study, *_: object, **wanted: Any) -> Made:
        asked[:] = results_of(study).settings_to_run(
            wanted["rows"], wanted["columns"], wanted["protocol"], wanted["variants"]
        )
        return Made()

    monkeypatch.setattr("engram.cli.study.make_runs", note)
    engram("reproduce", "table2", "--rows", "gem/one-slot", "--columns", "class", "task")
    assert {(s.scenario, s.method, s.value("method.slots_per_task")) for s in asked} == {
        ("split-mnist/task", "gem", 1),
        ("split-mnist/class", "gem", 1),
    }
    engram("reproduce", "table2", "--rows", "rehearsal", "--columns", "class", "--variants")
    assert [s.value("method.mixing") for s in asked] == ["shuffled", "balanced"]
    engram("reproduce", "table4", "--rows", "mas/searched", "--columns", "split/known")
    assert [s.value("method.coef") for s in asked] == [0.1, 10, 100]
    engram("reproduce", "table2", "--skip", "gem", "--variants", "--columns", "class")
    assert len(asked) == 14 + 2  # no gem, no variant of it


def test_variants_alone_come_without_an_empty_table(engram: Engram) -> None:
    for form in ("text", "markdown", "latex"):
        shown = engram("compare", "table2", "--rows", "gem/one-slot", "--format", form)
        assert shown.status == 0
        assert "one-slot" in shown.out
        for false in ("0 agree", "telling", "Needs task", "Naive"):
            assert false not in shown.out
    assert len(engram("compare", "table2", "--rows", "gem/one-slot", "--variants", "--json").json) == 3


def test_claims_are_compared_in_every_format(engram: Engram, work: Path) -> None:
    add("adagrad", "domain", 58.0, 58.1, 58.2)
    add("si", "domain", 66.0, 66.2, 66.1)
    found = engram("compare", "claims", "--json").json
    assert [claim["claim"] for claim in found] == list(range(1, 11))
    (part,) = [p for p in found[0]["parts"] if p["text"] == "table2 domain: adagrad − si above −2"]
    assert part["ours"]["difference"] == pytest.approx(-8.0)
    assert (part["ours"]["outcome"], found[0]["ours"], found[0]["print"]) == ("fails", "fails", "fails")
    shown = engram("compare", "claims").out
    assert "table2 domain: adagrad − si above −2: published fails, −6.68" in shown
    assert "ours fails, −8.00" in shown
    engram("compare", "claims", "--format", "markdown", "--out", "claims.md")
    page = Path("claims.md").read_text()
    assert page.count("### ") == 10
    assert "| table2 domain: adagrad − si above −2 | fails, −6.68 (" in page
