"""The schemas are the code's own: every committed record and study validates, and wrong ones are refused by both."""

import json
import tomllib
from pathlib import Path

import fastjsonschema
import pytest
from jsonschema import Draft202012Validator

from engram.cli import main
from engram.cli.schema import record_schema, study_schema
from engram.studies.catalog import FOLDER, study_names
from engram.studies.reading import read_study
from engram.studies.study import StudyError

ROOT = Path(__file__).parents[2]
RECORDS = sorted((ROOT / "results").rglob("*.jsonl"))
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))


def packaged_study(name):
    """The values of a table with those that all tables of its paper share."""
    paper, _, table = name.partition("/")
    files = [FOLDER / paper / f"{file}.toml" for file in ("paper", table)]
    shared, own = (tomllib.loads(file.read_text(encoding="utf-8")) for file in files)
    return {**shared, **own}


@pytest.fixture(scope="module")
def record_validator():
    schema = record_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.fixture(scope="module")
def study_validator():
    schema = study_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_every_committed_record_validates():
    validate = fastjsonschema.compile(record_schema())
    for file in RECORDS:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            try:
                validate(json.loads(line))
            except fastjsonschema.JsonSchemaException as error:
                pytest.fail(f"{file.name}, line {number}: {error.message}")


@pytest.mark.parametrize("name", study_names())
def test_every_packaged_study_validates(name, study_validator):
    wrong = next(study_validator.iter_errors(packaged_study(name)), None)
    assert wrong is None, f"{wrong.json_path}: {wrong.message}"


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_every_example_study_validates(file, study_validator):
    study_validator.validate(tomllib.loads(file.read_text(encoding="utf-8")))


def test_a_record_without_a_key_or_with_text_for_a_number_is_refused(record_validator):
    record = json.loads(RECORDS[0].read_text(encoding="utf-8").splitlines()[0])
    assert record_validator.is_valid(record)
    for wrong in (
        {name: value for name, value in record.items() if name != "key"},
        {**record, "average_accuracy": "95.6"},
        {**record, "accuracy": [95.6]},
        {**record, "status": "finished"},
        {**record, "spec": {**record["spec"], "method": []}},
        {**record, "spec": {**record["spec"], "training": {"epochs": "four"}}},
    ):
        assert not record_validator.is_valid(wrong)


@pytest.mark.parametrize(
    "change", [{"sedes": 3}, {"spread": {"kind": "variance"}}, {"rows": {}, "columns": None}, {"search": {"trial": 3}}]
)
def test_what_the_schema_refuses_the_reader_refuses(change, study_validator):
    study = {"columns": {"class": "split-mnist/class"}, "rows": {"adam": {}}}
    study_validator.validate(study)
    read_study(study, "mine")
    assert not study_validator.is_valid({**study, **change})
    with pytest.raises(StudyError):
        read_study({**study, **change}, "mine")


@pytest.mark.parametrize("form", ["record", "study"])
def test_the_command_prints_it_and_every_key_is_described(form, capsys):
    with pytest.raises(SystemExit) as end:
        main(["schema", form])
    assert not end.value.code
    schema = json.loads(capsys.readouterr().out)
    assert schema == {"record": record_schema, "study": study_schema}[form]()
    if form == "study":
        assert all(value["description"] for value in schema["properties"].values())
        rows = schema["properties"]["rows"]["additionalProperties"]
        assert rows["properties"]["published"]["description"].startswith("column = mean")
