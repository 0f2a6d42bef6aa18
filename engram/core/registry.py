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
from collections.abc import Iterator, MutableMapping
from functools import cached_property
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, get_origin, get_type_hints

from engram.core.code import file_text
from engram.core.facts import COMPUTED, ROOT, Facts, add_facts, class_facts, inherits, parse_module
from engram.core.messages import unknown
from engram.core.userfile import UserFile, claim_names, load_user_file, read_user_file, remember_file, told_fault

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

    An entry is called by the `name` that its class states, else by its class. The file's name belongs to the class
    that is called so, else to the last of its kind. A file that was loaded before is loaded anew: it may have been
    edited. A file is refused as a whole, before it adds anything.
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
        keep_texts(module, file)
    except (Exception, SystemExit) as error:
        raise ValueError(f"file {where} cannot be loaded: {told_fault(error)}{remedy_for(error)}") from error
    entries = [(registry, name, cls) for registry in FROM_FILES for name, cls in entries_of(registry, module, where)]
    if not entries:
        bases = ", ".join(f"engram.{registry.base[1]}" for registry in FROM_FILES)
        raise ValueError(
            f"file {where} defines nothing that engram knows: no subclass of {bases}, and no nn.Module whose "
            "constructor takes (shape, outputs)"
        )
    found = [Loaded(registry.what, name) for registry, name, _ in entries]
    try:
        claim_names(file.path, found)
    except ValueError as error:
        raise ValueError(f"file {where}: {error}") from error
    for registry, name, cls in entries:
        registry[name] = cls
    remember_file(file)
    return found


def keep_texts(module: ModuleType, file: UserFile) -> None:
    """Looks up the texts behind all that a file defines, which are in the keys of runs, while its modules are those of
    their names: modules of files in another folder may take their places."""
    own = {module.__name__, *(name for name, *_ in file.beside)}
    for thing in definitions(module):
        for part in getattr(thing, "__mro__", (thing,)):
            if part.__module__ in own:
                file_text(part)


def remedy_for(error: BaseException) -> str:
    """What to do about an error of Python's that does not say so."""
    if "cannot inherit non-frozen dataclass from a frozen one" in str(error):
        return "; write @dataclass(frozen=True) above the class"
    if "cannot inherit frozen dataclass from a non-frozen one" in str(error):
        return "; write @dataclass above the class, without frozen=True"
    return ""


def definitions(module: ModuleType) -> list[Any]:
    """The classes and functions that a module defines itself, each once, in their order."""
    own = [value for value in vars(module).values() if inspect.isclass(value) or isinstance(value, FunctionType)]
    return list(dict.fromkeys(value for value in own if value.__module__ == module.__name__))


def functions_with(module: ModuleType, parameters: list[str]) -> list[FunctionType]:
    """The functions of a module that take just these parameters; one with an underscore in front is a helper's."""
    own = [f for f in definitions(module) if isinstance(f, FunctionType) and not f.__name__.startswith("_")]
    return [f for f in own if list(inspect.signature(f).parameters) == parameters]


def classes_in(module: ModuleType, base: type) -> list[type]:
    """The classes that a module defines on a base and that can have instances."""
    own = [value for value in definitions(module) if isinstance(value, type) and issubclass(value, base)]
    return [cls for cls in own if not inspect.isabstract(cls)]


def entries_of(registry: Registry[Any], module: ModuleType, path: Path) -> list[tuple[str, type]]:
    """The classes of one kind that a module defines, with their names; nothing is registered yet."""
    base = registry.base_class()
    own = classes_in(module, base)
    if hasattr(base, "recipes_in"):  # what is no recipe, but can be made one
        try:
            own = [*base.recipes_in(module), *own]
        except ValueError as error:
            raise ValueError(f"file {path}: {error}") from error
    stem, named = entry_name(path.stem), class_of_file(own, entry_name(path.stem))
    found: dict[str, type] = {}
    for cls in own:
        name = stated_name(cls) or (stem if cls is named else cls.__name__.lower())
        if name in found:
            raise ValueError(
                f"file {path}: {found[name].__name__} and {cls.__name__} are both the {registry.what} {name}; give one "
                "of them another name"
            )
        if name in registry.built_in or (name in registry and name not in registry.added):
            what = "file" if cls is named else f"class {cls.__name__}"
            raise ValueError(f"file {path}: there is a {registry.what} {name} already; give the {what} another name")
        try:
            check_fields(cls)
        except Exception as error:
            raise ValueError(
                f"file {path}: {cls.__name__} cannot be made of flags: {type(error).__name__}: {error}; give every "
                "field a type and a default: a number, a word, yes or no, or a tuple of them"
            ) from error
        found[name] = cls
    return list(found.items())


def stated_name(cls: type) -> str:
    """The `name` that a class states itself; empty if it states none."""
    stated = vars(cls).get("name")
    return stated if isinstance(stated, str) else ""


def class_of_file(own: list[type], stem: str) -> type | None:
    """The class that goes by the file's name: the one that is called so, hyphens and capitals aside; else the last,
    unless it states a name."""
    free = [cls for cls in own if not stated_name(cls)]
    ranks = (
        [cls for cls in own if stated_name(cls) == stem],
        [cls for cls in free if entry_name(cls.__name__).lower() == stem.lower()],
        [cls for cls in free if cls.__name__.lower().replace("_", "") == stem.lower().replace("-", "")],
        [cls for cls in own[-1:] if cls in free],
    )
    return next((cls for rank in ranks for cls in rank), None)


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
