"""What version 0.1 printed of its 935 records is what they give today: numbers, verdicts, outcomes."""

import json
from functools import cache
from pathlib import Path

import pytest

from engram.runs.records import Record, read_records
from engram.studies.catalog import built_in_study, results_of
from engram.studies.outcomes import examine_claims
from engram.studies.table import make_cells, make_variant_cells

HERE = Path(__file__).parent
THEN = json.loads((HERE / "version01.json").read_text(encoding="utf-8"))
"""`compare … --twins --json`, `compare … --protocol common --json` and `compare claims --json` of version 0.1."""
TABLES = list(THEN["tables"])


@cache
def records() -> list[Record]:
    """The records that existed then; those that were added since do not count."""
    keys = set(THEN["keys"].split())
    return [record for record in read_records(HERE.parents[1] / "results") if record.key in keys]


def test_no_record_is_lost():
    """Ten runs of the search are runs of Table 2 as well: 935 records have 925 keys."""
    assert len(records()) == 935
    assert sorted({record.key for record in records()}) == THEN["keys"].split()
    assert len(THEN["keys"].split()) == 925


def cells_then(table: str, part: str) -> list[dict[str, object]]:
    names = THEN["variant_fields" if part == "variants" else "fields"]
    return [dict(zip(names, values, strict=True)) for values in THEN["tables"][table][part]]


@pytest.mark.parametrize("protocol", ["own", "common"])
@pytest.mark.parametrize("table", TABLES)
def test_every_cell_is_as_it_was(table, protocol):
    results = results_of(built_in_study(table), records())
    found = [cell.to_json() for cell in make_cells(results, protocol=protocol)]
    then = cells_then(table, protocol)
    assert [{name: cell[name] for name in THEN["fields"]} for cell in found] == then


@pytest.mark.parametrize("table", ["table2", "table3", "table4"])
def test_every_variant_is_as_it_was(table):
    study = built_in_study(table)
    found = [cell.to_json() for cell in make_variant_cells(results_of(study, records()), list(study.variants.values()))]
    then = {(cell["row"], cell["column"]): cell for cell in cells_then(table, "variants")}
    now = {(cell["row"], cell["column"]): {name: cell[name] for name in THEN["variant_fields"]} for cell in found}
    assert now == then


def test_every_claim_and_all_its_comparisons_are_as_they_were():
    found = [result.to_json() for result in examine_claims("hsu2018", records())]
    assert [(c["claim"], c["print"], c["ours"]) for c in found] == [
        (c["claim"], c["print"], c["ours"]) for c in THEN["claims"]
    ]
    for then, now in zip(THEN["claims"], found, strict=True):
        parts = {
            part["text"]: [[part[side][name] for name in THEN["part_fields"]] for side in ("print", "ours")]
            for part in json.loads(json.dumps(now["parts"]))
        }
        assert len(parts) == len(now["parts"])
        assert parts == {text: sides for text, *sides in then["parts"]}, f"claim {then['claim']}"
