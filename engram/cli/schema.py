"""`engram schema`: the forms of record lines and study files as JSON schemas, read off the code's own types."""

from __future__ import annotations

import collections.abc
import dataclasses
import json
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import tyro

from engram.cli.options import field_docs, parse_options
from engram.cli.output import put_text
from engram.studies.form import OPEN_FORMS, StudyForm

DRAFT = "https://json-schema.org/draft/2020-12/schema"
NAMES: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


@dataclass
class SchemaOptions:
    """The form of a record line or of a study file as a JSON schema (draft 2020-12), for editors and validators."""

    form: tyro.conf.Positional[Literal["record", "study"]]
    """record: a line of records.jsonl; study: a TOML file of `engram study`."""
    out: Path | None = None
    """File to write to, instead of the screen."""


def schema_command(arguments: list[str]) -> int:
    """The command."""
    options = parse_options(SchemaOptions, arguments, "engram schema")
    schema = record_schema() if options.form == "record" else study_schema()
    put_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n", options.out)
    return 0


def record_schema() -> dict[str, Any]:
    """The schema of a line of records. Other versions may write further fields, which are left alone."""
    from engram.learning.evaluate import Evaluation
    from engram.learning.learner import Training
    from engram.runs.records import NOT_WRITTEN, Record

    schema = object_schema(Record, leave=NOT_WRITTEN)
    named = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    made = {"make": {"type": "string"}, "images": {"type": "object", "additionalProperties": {"type": "string"}}}
    schema["properties"]["spec"] |= {
        "properties": {
            "scenario": {"type": "object", "properties": made, "required": list(made)},
            "method": {"type": "array", "items": named, "minItems": 1},
            "net": named,
            "training": object_schema(Training),
            "evaluation": object_schema(Evaluation),
            "seed": {"type": "integer"},
            "threads": {"type": "integer"},
            "device": {"type": "string"},
        },
        "required": ["scenario", "method", "net", "training", "evaluation", "seed"],
    }
    schema["properties"]["status"]["enum"] = ["done", "diverged", "failed"]
    return {"$schema": DRAFT, "title": "A record of engram: one run", **schema}


def study_schema() -> dict[str, Any]:
    """The schema of a study file. Rows and columns also take the fields of their methods and scenarios."""
    schema = object_schema(StudyForm) | {"required": ["columns", "rows"]}
    return {"$schema": DRAFT, "title": "A study of engram: a table", **schema}


def object_schema(cls: type[Any], leave: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The schema of a dataclass or a typed dictionary; the docstring under a field describes it."""
    docs = field_docs(cls)
    hints = {name: hint for name, hint in get_type_hints(cls).items() if name not in leave}
    if dataclasses.is_dataclass(cls):
        own = {f.name: f for f in dataclasses.fields(cls)}
        hints = {name: hint for name, hint in hints.items() if name in own}
    schema: dict[str, Any] = {"type": "object", "description": cls.__doc__}
    schema["properties"] = {
        name: type_schema(hint) | ({"description": docs[name]} if name in docs else {}) for name, hint in hints.items()
    }
    if is_typeddict(cls) and cls not in OPEN_FORMS:
        schema["additionalProperties"] = False
    if dataclasses.is_dataclass(cls):
        empty = dataclasses.MISSING
        needed = [name for name in hints if own[name].default is empty and own[name].default_factory is empty]
        schema |= {"required": needed} if needed else {}
    return schema


def type_schema(hint: Any) -> dict[str, Any]:
    """The schema of a type as JSON and TOML write its values: tuples are lists, and whole numbers are numbers."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if origin is Annotated:
        return type_schema(inner[0])
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [type_schema(one) for one in inner]}
    if is_typeddict(hint) or dataclasses.is_dataclass(hint):
        return object_schema(hint)
    if origin in (list, tuple):
        items = type_schema(inner[0])
        fixed = origin is tuple and len(inner) > 1 and inner[1] is not Ellipsis
        return {"type": "array", "items": items} | ({"minItems": len(inner), "maxItems": len(inner)} if fixed else {})
    if origin in (dict, collections.abc.Mapping):
        values = type_schema(inner[1])
        return {"type": "object"} | ({"additionalProperties": values} if values else {})
    return {"type": NAMES[hint]}
