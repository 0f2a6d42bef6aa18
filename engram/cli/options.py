"""Flags from dataclasses: a field declared once is a flag, with its docstring, default and source as help."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, get_type_hints, is_typeddict

import tyro

from engram.cli import WrongCallError

Options = TypeVar("Options")


@dataclasses.dataclass(kw_only=True)
class EngineOptions:
    """Where runs are computed."""

    engine: Literal["local", "ray"] = "local"
    """Processes of this machine, or a Ray cluster (the extra ray: see docs/cluster.md)."""
    workers: int | None = None
    """Number of runs at the same time; by default as many as there are cores for."""
    address: str | None = None
    """Address of the Ray cluster, such as 10.0.0.1:6379; by default the one that runs here, or a new one."""
    gpu_share: float = 0.25
    """Share of a GPU that a run takes on Ray, if its device is cuda."""
    stall_timeout: float | None = None
    """Seconds without a report after which a worker is replaced, and its run continues from its checkpoint; by default
    a worker that is silent for ten minutes is only named."""


def parse_options(cls: type[Options], arguments: Sequence[str], prog: str) -> Options:
    """The dataclass from the command line; help and wrong flags end the program as they do everywhere."""
    return tyro.cli(cls, args=list(arguments), prog=prog, config=(tyro.conf.FlagCreatePairsOff,))


def field_docs(cls: type[Any]) -> dict[str, str]:
    """The docstring under each field of a dataclass or typed dictionary, its bases included."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not dataclasses.is_dataclass(base) and not is_typeddict(base):
            continue
        try:
            body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        except OSError:  # a recipe that was made of a module class or a function
            continue
        assert isinstance(body, ast.ClassDef)
        for field, doc in zip(body.body, body.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(doc, ast.Expr)
                and isinstance(doc.value, ast.Constant)
            ):
                docs[field.target.id] = " ".join(str(doc.value.value).split())
    return docs


@dataclasses.dataclass(frozen=True, eq=False)
class Flag:
    """One field of one of the run's dataclasses, as a flag."""

    group: str
    member: str
    """The method of several that the field belongs to; else empty."""
    name: str
    type: Any
    default: Any
    doc: str
    source: str

    @property
    def label(self) -> str:
        return f"{self.member}.{self.name}" if self.member else self.name

    @property
    def attribute(self) -> str:
        return self.label.replace("-", "_").replace(".", "__")


def flags_of(
    group: str, instance: Any, sources: Mapping[str, str], default_source: str, member: str = ""
) -> list[Flag]:
    """The fields of a dataclass instance, whose values are the defaults; `sources` by flat name."""
    hints = get_type_hints(type(instance), include_extras=True)
    docs = field_docs(type(instance))
    flags = []
    for f in dataclasses.fields(instance):
        if f.name not in ("images", "kind"):
            flag = Flag(group, member, f.name, hints[f.name], getattr(instance, f.name), docs.get(f.name, ""), "")
            source = sources.get(f"{group}.{flag.label}", default_source)
            flags.append(dataclasses.replace(flag, source=source))
    return flags


def class_words(value: Any) -> tuple[str, ...]:
    """`all`, one number, or one per task."""
    return tuple(map(str, value)) if isinstance(value, tuple) else (str(value),)


def class_numbers(words: tuple[str, ...]) -> Any:
    if words == ("all",):
        return "all"
    if not words or not all(word.isdecimal() for word in words):
        raise WrongCallError(
            f"classes_per_task {' '.join(words)}: give a number, a list of numbers, or (for a queue) all"
        )
    return int(words[0]) if len(words) == 1 else tuple(map(int, words))


def normalize_words(value: Any) -> tuple[str, ...]:
    """`none`, `train`, or all means followed by all standard deviations."""
    if value is None or value == "train":
        return (value or "none",)
    return tuple(str(v) for part in value for v in (part if isinstance(part, tuple) else (part,)))


def normalize_value(words: tuple[str, ...]) -> Any:
    if words in (("none",), ("train",)):
        return None if words == ("none",) else "train"
    try:
        values = [float(word) for word in words]
    except ValueError:
        values = []
    if not values or len(values) % 2:
        raise WrongCallError(
            f"normalize {' '.join(words)}: give train, none, or a mean and a standard deviation (per channel)"
        )
    half = len(values) // 2
    means, deviations = tuple(values[:half]), tuple(values[half:])
    return (means[0], deviations[0]) if half == 1 else (means, deviations)


def epoch_numbers(words: tuple[int, ...]) -> Any:
    if len(words) not in (1, 2):
        raise WrongCallError(f"epochs {' '.join(map(str, words))}: give one number, or two: first task, other tasks")
    return words[0] if len(words) == 1 else words


def function_words(value: Any) -> tuple[str, ...]:
    return tuple(one if isinstance(one, str) else one.__name__ for one in value)


def group_words(value: Any) -> tuple[str, ...]:
    """`3,5`: the labels of a task."""
    return tuple(",".join(map(str, group)) for group in value)


def group_labels(words: tuple[str, ...]) -> Any:
    if not all(label.isdecimal() for word in words for label in word.split(",")):
        raise WrongCallError(f"groups {' '.join(words)}: give the labels of each task, as in --groups 3,5 0,9,5")
    return tuple(tuple(map(int, word.split(","))) for word in words)


def kept_parts(words: tuple[str, ...]) -> Any:
    """`net,logits` and `net logits` are the same."""
    return tuple(part for word in words for part in word.split(",") if part)


WORDS: dict[str, tuple[Any, Callable[[Any], Any], Callable[[tuple[Any, ...]], Any]]] = {
    "classes_per_task": (tuple[str, ...], class_words, class_numbers),
    "normalize": (tuple[str, ...], normalize_words, normalize_value),
    "epochs": (tuple[int, ...], lambda value: value if isinstance(value, tuple) else (value,), epoch_numbers),
    "groups": (tuple[str, ...], group_words, group_labels),
    "keep": (tuple[str, ...], tuple, kept_parts),
    "functions": (tuple[str, ...], function_words, tuple),
}
"""Fields whose type a command line cannot say: the type to parse, value → words, words → value."""


def parse_flags(flags: Sequence[Flag], extra: type[Any], arguments: Sequence[str], prog: str, about: str) -> Any:
    """Parses flags and the fields of `extra` together; an object with all of them as attributes."""
    fields: list[tuple[str, Any, Any]] = []

    def add(name: str, kind: Any, default: Any, help_: str, flag: str | None = None) -> None:
        about_it = tyro.conf.arg(help=help_, name=flag)
        annotated: Any = Annotated.__class_getitem__((kind, about_it))  # type: ignore[attr-defined]
        fields.append((name, annotated, dataclasses.field(default=default)))

    docs, hints = field_docs(extra), get_type_hints(extra, include_extras=True)
    common = {f.name for f in dataclasses.fields(extra)} | {f.attribute for f in flags if f.group != "method"}
    for flag in flags:
        if flag.group == "method" and flag.attribute in common:
            raise WrongCallError(f"the method's field {flag.name} is a flag of every run; give it another name")
        kind, words, _ = WORDS.get(flag.name, (flag.type, lambda value: value, None))
        help_ = f"{flag.doc} ({flag.source})" if flag.source else flag.doc
        add(flag.attribute, kind, words(flag.default), help_, flag.label.replace("_", "-"))
    for f in dataclasses.fields(extra):
        add(f.name, hints[f.name], f.default, docs.get(f.name, ""))
    cls = dataclasses.make_dataclass("Options", fields)
    cls.__doc__ = about
    return parse_options(cls, arguments, prog)


def given(flags: Sequence[Flag], parsed: Any, group: str, member: str = "") -> dict[str, Any]:
    """The values of a group's fields after parsing."""
    values = {}
    for f in flags:
        if (f.group, f.member) == (group, member):
            value = getattr(parsed, f.attribute)
            values[f.name] = WORDS[f.name][2](value) if f.name in WORDS else value
    return values
