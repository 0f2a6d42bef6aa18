"""What a method has put on the network, in bytes: there it survives a boundary as it would in `kept`."""

from __future__ import annotations

import dis
from collections import deque
from collections.abc import Iterable, Iterator, Set
from functools import cache
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from torch import Tensor, nn

from engram.core.code import codes_in, functions_of, is_outside
from engram.learning.buffer import Buffer
from engram.learning.content import fingerprint, is_own_object
from engram.learning.learner import Learner
from engram.learning.memory import NOTES, bytes_in_words, bytes_of
from engram.learning.method import Method
from engram.learning.reachable import OF_ALL_MODULES, Slot

CHANGES_IN_PLACE = frozenset(
    {"add", "append", "appendleft", "extend", "insert", "put", "setattr", "setdefault", "update"}
)
"""Names of calls that change something, beside those that end in an underscore."""


class Words(NamedTuple):
    """What code names: all of it; what it has in hand and does not merely call; what it may change."""

    named: frozenset[str]
    read: frozenset[str]
    changed: frozenset[str]


NOTHING = Words(frozenset(), frozenset(), frozenset())


class OnNetwork:
    """Measures what the network holds beyond what it held when training began, if the method may have put it there.

    Parameters that are or were trained are the network itself, and so is what its own code keeps: running statistics, a
    counter, what it computed last. An attribute of its own counts by what it has grown if the code of the method names
    it, and with all its bytes if that code changes it. The package's own methods put nothing there.
    """

    def __init__(self, learner: Learner, method: Method) -> None:
        self.learner, self.members = learner, method.members()
        classes = tuple(cls for member in self.members for cls in type(member).__mro__ if is_outside(cls))
        self.watched = bool(classes)
        self.words = words_of_method(classes, learner.net)
        self.trained: set[Slot] = set()
        self.first: dict[Slot, tuple[int, str]] = {}
        """Bytes at the start; and the content of what the method itself put there, or may change."""
        for place, value in self.held() if self.watched else ():
            networks = place in learner.network_places and not is_named(place[1], self.words.changed)
            self.first[place] = bytes_held(value), "" if networks else fingerprint(value)

    def measure(self) -> dict[str, int]:
        """Bytes by attribute, as in {"network.stash": 3136}; nothing if all of it together is small."""
        if not self.watched:
            return {}
        grown = {place: self.growth(place, value) for place, value in self.held()}
        found = {".".join(filter(None, ("network", *place))): size for place, size in grown.items() if size > 0}
        return found if sum(found.values()) > NOTES else {}

    def growth(self, place: Slot, value: Any) -> int:
        """Bytes since the start; all of them if it was there before, and the method changed it since."""
        size, (before, content) = bytes_held(value), self.first.get(place, (0, ""))
        return size if content and content != fingerprint(value) else size - before

    def held(self) -> Iterator[tuple[Slot, Any]]:
        """What is on the network and may count, without the parts that are the network's or the method's anyway."""
        net = self.learner.net
        kept = {id(part) for m in self.members for name in m.kept for part in parts_of(getattr(m, name, None))}
        own = kept | {id(part) for part in parts_of(net)}
        for name, module in net.named_modules():
            for attribute, p in module._parameters.items():
                if p is None:
                    continue
                if self.learner.was_trained(p):
                    self.trained.add((name, attribute))
                elif (name, attribute) not in self.trained:
                    yield (name, attribute), without(p, kept)
            beside = {a: value for a, value in vars(module).items() if a not in OF_ALL_MODULES}
            for attribute, value in (module._buffers | beside).items():
                its_words = words_of(type(module).__mro__).named
                of_network = (name, attribute) in self.learner.network_places or (
                    self.is_of_network(name, module) and is_named(attribute, its_words)
                )
                of_torch = not is_outside(type(module)) and is_named(attribute, its_words)  # running statistics
                if not of_network or (is_named(attribute, self.words.read) and not of_torch):
                    skipped = kept if attribute in module._buffers else own
                    yield (name, attribute), without(value, skipped, computed=of_network)

    def is_of_network(self, name: str, module: nn.Module) -> bool:
        """Whether a module is a part of the network. One that is new and never had anything to train is none."""
        return (name, "") in self.learner.network_places or any(map(self.learner.was_trained, module.parameters()))


def places_on(net: nn.Module) -> frozenset[Slot]:
    """Of all that a network holds: parameters, buffers, plain attributes. Each module has a place of its own."""
    places = {(name, "") for name, _ in net.named_modules()}
    for name, module in net.named_modules():
        places |= {(name, attribute) for attribute in {*module._parameters, *module._buffers, *vars(module)}}
    return frozenset(places)


def bytes_held(value: Any) -> int:
    return bytes_of(value) + bytes_in_words(value)


def parts_of(value: Any) -> Iterator[Any]:
    """A value and all collections, networks and tensors inside it."""
    if isinstance(value, Tensor | nn.Module | list | tuple | set | deque | dict):
        yield value
    if isinstance(value, nn.Module):
        for part in (value.modules(), value.parameters(), value.buffers()):
            yield from part
    elif isinstance(value, Buffer):
        yield from value.columns.values()
    elif isinstance(value, dict | list | tuple | set | deque):
        for one in value.values() if isinstance(value, dict) else value:
            yield from parts_of(one)


def without(value: Any, skipped: Set[int], computed: bool = False) -> Any:
    """A value without the parts that have one of these ids; and without what was computed last, with its graph."""
    if id(value) in skipped or (computed and isinstance(value, Tensor) and value.grad_fn is not None):
        return None
    if is_own_object(value):
        return without(vars(value), skipped | {id(value)}, computed)  # it may name itself
    if isinstance(value, dict):
        return {key: without(one, skipped, computed) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset | deque):
        return [without(one, skipped, computed) for one in value]
    return value


@cache
def words_of(classes: tuple[type, ...]) -> Words:
    """The names and the words in the code of classes, and of the functions outside the package that it names."""
    classes = tuple(cls for cls in classes if cls is not nn.Module)  # which has no state of its own
    names, read, changed = words_in(function for cls in classes for function in functions_of(cls))
    return Words(names | {name for cls in classes for name in vars(cls)}, read, changed)


def words_of_method(classes: tuple[type, ...], net: nn.Module) -> Words:
    """The same of a method, and of what its network does on demand: functions there that only the method calls."""
    own = words_of(classes)
    beside = []
    for cls in {type(module) for module in net.modules() if is_outside(type(module))}:
        functions = {f.__name__: f for owner in reversed(cls.__mro__) if is_outside(owner) for f in functions_of(owner)}
        by_itself = {"__init__", "forward"} & set(functions)
        while more := {n for f in by_itself for n in words_in([functions[f]]).named} & set(functions) - by_itself:
            by_itself |= more
        beside += [f for name, f in functions.items() if name in own.named and name not in by_itself]
    return Words(*(a | b for a, b in zip(own, words_in(beside), strict=True)))


def words_in(functions: Iterable[FunctionType]) -> Words:
    """The words in the code of functions, and of the functions outside the package that it names."""
    listed = list(functions)
    found: list[Words] = []
    for function in listed:  # grows meanwhile
        for code in codes_in(function.__code__):
            found.append(words_in_code(code))
            called = (function.__globals__.get(name) for name in code.co_names)
            listed += [f for f in called if isinstance(f, FunctionType) and is_outside(f) and f not in listed]
    return (
        Words(*(frozenset().union(*each) for each in zip(*found, strict=True))) if found else Words(*3 * (frozenset(),))
    )


def words_in_code(code: CodeType) -> Words:
    """Code that changes something in place may do that to all that it has in hand."""
    texts = frozenset(word for word in code.co_consts if isinstance(word, str))
    steps = list(dis.get_instructions(code))
    calls = {
        step.argval
        for step in steps
        if step.opname == "LOAD_METHOD" or (step.opname == "LOAD_ATTR" and "NULL|self" in step.argrepr)
    }
    read = frozenset(step.argval for step in steps if step.opname in ("LOAD_ATTR", "LOAD_GLOBAL", "LOAD_NAME")) - calls
    stored = frozenset(step.argval for step in steps if step.opname == "STORE_ATTR")
    called = calls | (set(code.co_names) & {"setattr"})
    in_place = any(step.opname in ("STORE_SUBSCR", "STORE_SLICE") for step in steps) or any(
        word in CHANGES_IN_PLACE or (word.endswith("_") and not word.endswith("__")) for word in called
    )
    read |= stored | texts
    return Words(frozenset(code.co_names) | texts, read, read if in_place or "data" in stored else stored)


def is_named(attribute: str, words: Set[str]) -> bool:
    """Also by the word before its number, as in f"mask{i}"."""
    return attribute in words or attribute.rstrip("0123456789") in words
