"""One registry for everything that has a name: methods, networks, scenarios, metrics, figures, trackers.

A file of the package that holds a subclass of the registry's base is an entry, under the file's name (`online_ewc.py`
holds `online-ewc`) or under the `name` that the class states. Names and facts are read from the source; a class is
imported when it is asked for. Files from outside the package add entries: `load_file`.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import sys
import traceback
from collections.abc import Iterator, MutableMapping
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, get_origin, get_type_hints

from engram.core.facts import COMPUTED, ROOT, Facts, add_facts, class_facts, inherits, parse_module
from engram.core.messages import unknown
from engram.core.userfile import UserFile, load_user_file, read_user_file, remember_file, user_place

T = TypeVar("T")


class Registry(MutableMapping[str, type[T]], Generic[T]):
    """Classes by name. Looking one up imports it; listing names does not."""

    def __init__(self, what: str, package: str, base: str) -> None:
        self.what, self.package = what, package
        module, _, name = base.partition(":")
        self.base = (module, name)
        self.added: dict[str, type[T]] = {}
        self.removed: set[str] = set()

    @cached_property
    def built_in(self) -> dict[str, tuple[str, str]]:
        """name → (module, class) of the package's own entries."""
        found: dict[str, tuple[str, str]] = {}
        place = ROOT.joinpath(*self.package.split(".")[1:])
        paths = sorted(place.glob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
        for path in paths:
            if path.stem.startswith("_"):  # what several entries share
                continue
            module = f"{self.package}.{path.stem}" if place.is_dir() else self.package
            classes = [name for name in parse_module(module).classes if inherits(module, name, self.base)]
            for class_name in classes:
                stated = class_facts(module, class_name).literals.get("name")
                if stated or class_name == classes[-1]:
                    found[str(stated or entry_name(path.stem))] = (module, class_name)
        return found

    def __iter__(self) -> Iterator[str]:
        names = [name for name in self.built_in if name not in self.removed]
        return iter([*names, *(name for name in self.added if name not in names)])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self.added or (name in self.built_in and name not in self.removed)

    def __getitem__(self, name: str) -> type[T]:
        if name in self.added:
            return self.added[name]
        if name not in self:
            raise KeyError(unknown(self.what, name, self, nearest=2))
        module, class_name = self.built_in[name]
        found: type[T] = getattr(importlib.import_module(module), class_name)
        return found

    def __setitem__(self, name: str, entry: type[T]) -> None:
        module, class_name = self.built_in.get(name, ("", ""))
        if getattr(sys.modules.get(module), class_name, None) is entry:  # the package's own, put back
            self.added.pop(name, None)
            self.removed.discard(name)
        else:
            self.added[name] = entry

    def __delitem__(self, name: str) -> None:
        if self.added.pop(name, None) is None:
            self.removed.add(name)

    def find(self, name: str) -> type[T]:
        """The entry of this name, or a ValueError with the nearest names and the choices."""
        if name not in self:
            raise ValueError(unknown(self.what, name, self, nearest=2))
        return self[name]

    def facts(self, name: str) -> Facts:
        """What an entry says of itself; of the package's own without importing it."""
        if name in self.added or name not in self.built_in:
            return facts_of(self[name])
        return class_facts(*self.built_in[name])

    def name_of(self, entry: Any) -> str:
        """The name of an instance or class; one that is not registered goes by its class."""
        cls = entry if isinstance(entry, type) else type(entry)
        for name, added in self.added.items():
            if added is cls:
                return name
        place = (cls.__module__, cls.__name__)
        stated = {where: name for name, where in self.built_in.items()}
        return stated.get(place) or cls.__name__.lower()

    def own_class(self, name: str) -> type[T] | None:
        """The class from outside the package that a name stands for; None if it is the package's own."""
        return self.added.get(name)

    def first_name(self, text: str) -> str:
        """The longest name that a text such as `split-mnist` begins with; empty if there is none."""
        return max((name for name in self if f"{text}-".startswith(f"{name}-")), key=len, default="")

    def base_class(self) -> type[T]:
        found: type[T] = getattr(importlib.import_module(self.base[0]), self.base[1])
        return found


class VariedRegistry(Registry[T]):
    """A registry in which most entries have a variant: `blurry-split` beside `split`.

    The variant of an entry is a class of this package, given as `module:class`, put in front of the entry's class. It
    states a `prefix` of its name, and what an entry has to state so that there is one: `requires`, a literal that is
    true. An entry with a field that the variant adds has none. The variant's method `variant_of` makes the class.
    """

    def __init__(self, what: str, package: str, base: str, variant: str) -> None:
        super().__init__(what, package, base)
        self.variant = variant.partition(":")[::2]

    @cached_property
    def variant_facts(self) -> Facts:
        return class_facts(*self.variant)

    @property
    def prefix(self) -> str:
        return str(self.variant_facts.literals["prefix"])

    def varied(self, name: object) -> str:
        """The entry that a name stands for a variant of; empty if it does not."""
        base = name.removeprefix(self.prefix) if isinstance(name, str) else name
        if base == name or not super().__contains__(base):
            return ""
        variant, facts = self.variant_facts, super().facts(str(base))
        fits = facts.literals[variant.literals["requires"]] and not set(variant.defaults) & set(facts.defaults)
        return str(base) if fits else ""

    def __iter__(self) -> Iterator[str]:
        names = list(super().__iter__())
        return iter([*names, *(f"{self.prefix}{name}" for name in names if self.varied(f"{self.prefix}{name}"))])

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or bool(self.varied(name))

    def __getitem__(self, name: str) -> type[T]:
        if super().__contains__(name) or not (base := self.varied(name)):
            return super().__getitem__(name)
        module, class_name = self.variant
        found: type[T] = getattr(importlib.import_module(module), class_name).variant_of(super().__getitem__(base))
        return found

    def facts(self, name: str) -> Facts:
        if super().__contains__(name) or not (base := self.varied(name)):
            return super().facts(name)
        return add_facts(super().facts(base), self.variant_facts, name)

    def name_of(self, entry: Any) -> str:
        cls = entry if isinstance(entry, type) else type(entry)
        base = vars(cls).get("varies")
        return f"{self.prefix}{self.name_of(base)}" if base else super().name_of(cls)

    def own_class(self, name: str) -> type[T] | None:
        return super().own_class(name) or super().own_class(self.varied(name))


METHODS: Registry[Any] = Registry("method", "engram.methods", "engram.learning.method:Method")
NETS: Registry[Any] = Registry("net", "engram.nets", "engram.nets.net:Net")
SCENARIOS: VariedRegistry[Any] = VariedRegistry(
    "scenario", "engram.scenarios", "engram.scenarios.scenario:Scenario", "engram.scenarios.blend:Blurred"
)
METRICS: Registry[Any] = Registry("metric", "engram.analysis.metrics", "engram.analysis.metrics:Metric")
AUGMENTATIONS: Registry[Any] = Registry(
    "augmentation", "engram.learning.augment", "engram.learning.augment:Augmentation"
)
FIGURES: Registry[Any] = Registry("figure", "engram.report", "engram.report.style:FigureRecipe")
TRACKERS: Registry[Any] = Registry("tracker", "engram.trackers", "engram.trackers.tracking:Tracker")
REGISTRIES = (METHODS, NETS, SCENARIOS, METRICS, AUGMENTATIONS, FIGURES, TRACKERS)
FROM_FILES = (METHODS, NETS, SCENARIOS, METRICS, AUGMENTATIONS)
"""What a file from outside the package can define."""


class Loaded(NamedTuple):
    """An entry that a file has added."""

    what: str
    name: str


def entry_name(stem: str) -> str:
    """`online_ewc` → `online-ewc`."""
    return stem.replace("_", "-")


def facts_of(cls: type) -> Facts:
    """The facts of a class that was imported already."""
    literals = {
        name: value
        for base in reversed(cls.__mro__)
        for name, value in vars(base).items()
        if isinstance(value, str | int | float | tuple | frozenset) and not name.startswith("__")
    }
    own = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    defaults = {f.name: f.default if f.default is not dataclasses.MISSING else COMPUTED for f in own}
    return Facts(cls.__module__, cls.__name__, doc_of(cls), literals, defaults)


def doc_of(cls: type) -> str:
    """The docstring of a class; empty if it has only the signature that `dataclass` writes in the place of one."""
    doc = inspect.getdoc(cls) or ""
    return "" if dataclasses.is_dataclass(cls) and doc.startswith(f"{cls.__name__}(") else doc


def load_file(path: Path | UserFile) -> list[Loaded]:
    """Adds all methods, networks, scenarios and metrics that a Python file defines.

    An entry is called by the `name` that its class states, else by the file's name if it is the last of its kind
    there, else by its class. A file that was loaded before is loaded anew: it may have been edited.
    """
    where = Path(path.path) if isinstance(path, UserFile) else path
    if where.suffix != ".py":
        raise ValueError(f"file {where} is not a Python file: its name does not end in .py")
    if not isinstance(path, UserFile) and not where.is_file():
        raise ValueError(f"file {where} does not exist")
    stem = entry_name(where.stem)
    if "+" in stem:
        raise ValueError(f"file {where}: + combines methods; give the file another name")
    try:
        file = path if isinstance(path, UserFile) else read_user_file(where)
        module = load_user_file(file)
    except (Exception, SystemExit) as error:
        place = "" if isinstance(error, SyntaxError) else user_place(traceback.format_exc())
        raise ValueError(f"file {where} cannot be loaded: {type(error).__name__}: {error}{place}") from error
    found = [loaded for registry in FROM_FILES for loaded in add_entries(registry, module, where)]
    if not found:
        bases = ", ".join(f"engram.{registry.base[1]}" for registry in FROM_FILES)
        raise ValueError(
            f"file {where} defines nothing that engram knows: no subclass of {bases}, and no nn.Module whose "
            "constructor takes (shape, outputs)"
        )
    remember_file(file)
    return found


def add_entries(registry: Registry[Any], module: ModuleType, path: Path) -> list[Loaded]:
    """Registers the classes of one kind that a module defines."""
    base = registry.base_class()
    own = [
        cls
        for cls in vars(module).values()
        if inspect.isclass(cls)
        and issubclass(cls, base)
        and cls.__module__ == module.__name__
        and not inspect.isabstract(cls)
    ]
    if not own and hasattr(base, "recipes_in"):  # what is no recipe, but can be made one
        try:
            own = base.recipes_in(module)
        except ValueError as error:
            raise ValueError(f"file {path}: {error}") from error
    found = []
    for cls in own:
        stated = vars(cls).get("name")
        name = stated if isinstance(stated, str) else entry_name(path.stem) if cls is own[-1] else cls.__name__.lower()
        if name in registry.built_in or (name in registry and name not in registry.added):
            raise ValueError(f"file {path}: there is a {registry.what} {name} already; give the file another name")
        try:
            check_fields(cls)
        except Exception as error:
            raise ValueError(
                f"file {path}: {cls.__name__} cannot be made of flags: {type(error).__name__}: {error}; give every "
                "field a type and a default: a number, a word, yes or no, or a tuple of them"
            ) from error
        registry[name] = cls
        found.append(Loaded(registry.what, name))
    return found


RESERVED = frozenset({"name", "make", "source"})
"""What specs state of every part beside its fields."""


def check_fields(cls: type) -> None:
    """Refuses a class whose fields cannot be flags, or cannot be written into a record."""
    hints = get_type_hints(cls)
    known = {f.name: f for f in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else {}
    for plain in set(inspect.get_annotations(cls)) - set(known):
        if get_origin(hints[plain]) is not ClassVar and hints[plain] is not ClassVar:
            raise ValueError(f"{plain} is annotated but not a field; put @dataclass above the class")
    for f in known.values():
        if f.name in RESERVED:
            raise ValueError(f"field {f.name} has the name of something else in a record; give it another name")
        if not f.init:
            raise ValueError(f"field {f.name} has init=False; what is not a hyper-parameter is not a field")
        if f.default_factory is not dataclasses.MISSING:
            value = f.default_factory()
        elif f.default is not dataclasses.MISSING:
            value = f.default
        else:
            raise ValueError(f"field {f.name} has no default")
        if f.name != "images":
            hash(value)
            json.dumps(value)
