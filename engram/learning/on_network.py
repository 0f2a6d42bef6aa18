"""What a method has put on the network, in bytes: there it survives a boundary as it would in `kept`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Set
from functools import cache
from types import FunctionType
from typing import Any
from weakref import ref

from torch import Tensor, nn

from engram.core.code import codes_in, functions_of, is_outside
from engram.learning.buffer import Buffer
from engram.learning.learner import Learner
from engram.learning.memory import bytes_in_words, bytes_of
from engram.learning.method import Method
from engram.learning.state import OF_ALL_MODULES, fingerprint

Place = tuple[str, str]
"""(module, attribute)"""
SMALL = 1000
"""Bytes that may be put on the network without being counted: a step counter, the classes seen so far."""


class OnNetwork:
    """Measures what the network holds beyond what it held when training began, if the method may have put it there.

    Parameters that are or were trained are the network itself, and so is what its own code keeps: running statistics, a
    counter, what it computed last. An attribute of its own counts if it grows and the code of the method names it. The
    package's own methods put nothing there.
    """

    def __init__(self, learner: Learner, method: Method) -> None:
        self.learner, self.members = learner, method.members()
        classes = tuple(cls for member in self.members for cls in type(member).__mro__ if is_outside(cls))
        self.watched = bool(classes)
        self.words = words_of(classes)
        self.trained: set[Place] = set()
        self.parameters: dict[int, ref[nn.Parameter]] = {}
        """All that were trained, by their ids: a part of the network may have another place later."""
        self.first: dict[Place, tuple[int, str]] = {}
        """Bytes at the start; and the content of what the method itself put there."""
        for place, value in self.held() if self.watched else ():
            self.first[place] = bytes_held(value), "" if place in learner.network_places else fingerprint(value)

    def measure(self) -> dict[str, int]:
        """Bytes by attribute, as in {"network.stash": 3136}; nothing if all of it together is small."""
        if not self.watched:
            return {}
        grown = {place: self.growth(place, value) for place, value in self.held()}
        found = {".".join(filter(None, ("network", *place))): size for place, size in grown.items() if size > 0}
        return found if sum(found.values()) > SMALL else {}

    def growth(self, place: Place, value: Any) -> int:
        """Bytes since the start; all of them if the method put it there before, and changed it since."""
        size, (before, content) = bytes_held(value), self.first.get(place, (0, ""))
        return size if content and content != fingerprint(value) else size - before

    def held(self) -> Iterator[tuple[Place, Any]]:
        """What is on the network and may count, without the parts that are the network's or the method's anyway."""
        net = self.learner.net
        kept = {id(part) for m in self.members for name in m.kept for part in parts_of(getattr(m, name, None))}
        own = kept | {id(part) for part in parts_of(net)}
        trained = set(map(id, self.learner.params))
        for name, module in net.named_modules():
            for attribute, p in module._parameters.items():
                if p is None:
                    continue
                if id(p) in trained:
                    self.trained.add((name, attribute))
                    self.parameters[id(p)] = ref(p)
                elif (name, attribute) not in self.trained and not self.was_trained(p):
                    yield (name, attribute), without(p, kept)
            beside = {a: value for a, value in vars(module).items() if a not in OF_ALL_MODULES}
            for attribute, value in (module._buffers | beside).items():
                of_network = self.is_of_network(name, module) and is_named(attribute, words_of(type(module).__mro__))
                if not of_network or is_named(attribute, self.words):
                    skipped = kept if attribute in module._buffers else own
                    yield (name, attribute), without(value, skipped, computed=of_network)

    def was_trained(self, p: nn.Parameter) -> bool:
        return (found := self.parameters.get(id(p))) is not None and found() is p

    def is_of_network(self, name: str, module: nn.Module) -> bool:
        """Whether a module is a part of the network. One that is new and never had anything to train is none."""
        trained = set(map(id, self.learner.params))
        return (name, "") in self.learner.network_places or any(
            id(p) in trained or self.was_trained(p) for p in module.parameters()
        )


def places_on(net: nn.Module) -> frozenset[Place]:
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
    if isinstance(value, dict):
        return {key: without(one, skipped, computed) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset | deque):
        return [without(one, skipped, computed) for one in value]
    return value


@cache
def words_of(classes: tuple[type, ...]) -> Set[str]:
    """The names and the words in the code of classes, and of the functions outside the package that it names."""
    classes = tuple(cls for cls in classes if cls is not nn.Module)  # which has no state of its own
    words = {name for cls in classes for name in vars(cls)}
    functions: list[FunctionType] = [function for cls in classes for function in functions_of(cls)]
    for function in functions:  # grows meanwhile
        for code in codes_in(function.__code__):
            words |= {*code.co_names, *(word for word in code.co_consts if isinstance(word, str))}
            called = (function.__globals__.get(name) for name in code.co_names)
            functions += [f for f in called if isinstance(f, FunctionType) and is_outside(f) and f not in functions]
    return words


def is_named(attribute: str, words: Set[str]) -> bool:
    """Also by the word before its number, as in f"mask{i}"."""
    return attribute in words or attribute.rstrip("0123456789") in words
