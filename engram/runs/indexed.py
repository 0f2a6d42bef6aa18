"""Records as an index holds them: by column, each value looked up when it is asked for."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from engram.runs.records import NOT_WRITTEN, Record

INDEXED_FIELDS = (
    *("key", "seed", "status"),
    *(f.name for f in fields(Record) if f.default is not MISSING and f.name not in NOT_WRITTEN),
)
"""Fields that an index has as they are: numbers and words."""
CHANGING = ("peak_mb", "resumed_after_task", "resumed_after_epoch")
"""Parts of the environment that differ from run to run; the rest is stored once for all records that share it."""


class Late:
    """A field of an indexed record that is looked up when it is asked for, unless the record has a value of its own."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, record: IndexedRecord | None, owner: type[IndexedRecord]) -> Any:
        return self if record is None else record.look_up(self.name)


class IndexedRecord(Record):
    """A record of which most is read when it is asked for: from the index, or accuracies and the like from the file."""

    def look_up(self, name: str) -> Any:
        """A field; what is made for it is kept."""
        at = self.__dict__
        chunk, row = at["_chunk"], at["_row"]
        if name in chunk.quick:
            return chunk.quick[name][row]
        if name in chunk.rest:
            return chunk.rest[name][row]
        shared = chunk.shared
        if name in ("scenario", "method"):
            at["scenario"], at["method"] = shared.value(chunk.quick["setting"][row])[:2]
        elif name == "spec":
            at["spec"] = {**shared.value(chunk.quick["setting"][row])[2], "seed": self.seed}
            if (given := chunk.quick["spec_seed"][row]) is not None:  # a spec without a seed, or with another
                del at["spec"]["seed"]
                at["spec"].update(given)
        elif name == "environment":
            at["environment"] = {**self.machine, **chunk.rest["own"][row]}
        elif name == "extra" and chunk.rest["bare"][row]:
            at["extra"] = {}
        else:
            whole = read_at(chunk.path, chunk.rest["at"][row], chunk.rest["length"][row], self.key)
            at.update({one: getattr(whole, one) for one in IN_THE_FILE})
        return at[name]


for _field in fields(Record):
    if _field.name not in NOT_WRITTEN:
        setattr(IndexedRecord, _field.name, Late(_field.name))
for _name in ("stated", "machine"):  # plain values of each record
    setattr(IndexedRecord, _name, Late(_name))


IN_THE_FILE = {f.name for f in fields(Record) if f.default_factory is not MISSING} - {"search", "memory", "environment"}
"""Fields that are read when they are asked for: accuracies, losses, curves."""


def read_at(path: Path, at: int, length: int, key: str) -> Record:
    """The record at a place of a file, which must still be there."""
    with path.open("rb") as file:
        file.seek(at)
        line = file.read(length).decode(errors="replace").removeprefix("\ufeff")
    try:
        found = Record.from_json(line)  # it was sound when it was indexed
        if found.key == key:
            return found
    except (ValueError, TypeError):
        pass
    raise RuntimeError(f"{path} was changed while it was read; start again")


class SharedTexts:
    """Texts that many records share, each parsed once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.numbers: dict[str, int] = {}
        self.values: dict[int, Any] = {}

    def number(self, text: str) -> int:
        if text not in self.numbers:
            self.numbers[text] = len(self.texts)
            self.texts.append(text)
        return self.numbers[text]

    def value(self, number: int) -> Any:
        if number not in self.values:
            self.values[number] = json.loads(self.texts[number])
        return self.values[number]


QUICK = (
    *("key", "seed", "status", "search", "average_accuracy", "seconds"),
    *("setting", "sizes", "computer", "spec_seed"),
)
"""Columns that nearly every command needs of every record; the others are parsed when they are asked for."""
SPARSE = ("status", "search", "sizes", "computer", "spec_seed")
"""Columns with the same value in nearly every row: that value, and the others by row."""
INDEX_COLUMNS = (
    *QUICK, *(name for name in INDEXED_FIELDS if name not in QUICK),
    "at", "length", "own", "bare",
)  # fmt: skip
INDEX_FORMAT = "engram index 2: " + " ".join(INDEX_COLUMNS)


class Chunk:
    """Some rows of an index, by column."""

    def __init__(self, path: Path, shared: SharedTexts, quick: str, rest: str) -> None:
        self.path, self.shared, self.text_of_rest = path, shared, rest
        self.quick: dict[str, Any] = json.loads(quick)
        self.rows = len(self.quick["key"])
        for name in SPARSE:
            usual, others = self.quick[name]
            self.quick[name] = [usual] * self.rows
            for row, value in others.items():
                self.quick[name][int(row)] = value

    @cached_property
    def rest(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = json.loads(self.text_of_rest)
        return found

    def records(self) -> list[Record]:
        """A record per row."""
        texts = self.shared.texts
        found: list[Record] = []
        names = ("key", "seed", "status", "search", "average_accuracy", "seconds", "setting", "sizes", "computer")
        parsed = {number: self.shared.value(number) for name in names[-2:] for number in set(self.quick[name])}
        columns = zip(*(self.quick[name] for name in names), strict=True)
        for row, (key, seed, status, search, average, seconds, setting, sizes, computer) in enumerate(columns):
            record = IndexedRecord.__new__(IndexedRecord)
            record.__dict__ = {
                "_chunk": self, "_row": row, "stated": texts[setting],
                "key": key, "seed": seed, "status": status, "search": search, "average_accuracy": average,
                "seconds": seconds, "memory": parsed[sizes], "machine": parsed[computer],
            }  # fmt: skip
            found.append(record)
        return found


def texts_of_rows(rows: list[list[Any]], **shared: Any) -> tuple[str, str]:
    """Rows as they are stored: the columns of QUICK, and the rest."""
    columns: dict[str, Any] = {
        name: list(column) for name, column in zip(INDEX_COLUMNS, zip(*rows, strict=True), strict=True)
    }
    for name in SPARSE:
        usual = columns[name][0]
        columns[name] = [usual, {row: value for row, value in enumerate(columns[name]) if value != usual}]
    quick = {name: columns.pop(name) for name in QUICK}
    return json.dumps({**shared, **quick}), json.dumps(columns)
