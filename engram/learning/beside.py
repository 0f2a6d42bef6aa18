"""What a network holds beside its state: a checkpoint takes along what of it has changed, or is not written."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engram.core.code import is_outside
from engram.learning.content import (
    GENERATORS,
    PRIMITIVE,
    attributes_of,
    fingerprint,
    generator_state,
    held_around,
    is_own_object,
    set_generator_state,
)

OF_ALL_MODULES = frozenset(vars(nn.Module()))
HOOKS_OF_LAYERS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
Place = tuple[str, str]
"""(module or parameter, attribute)"""
Path = tuple[Any, ...]
"""A place, and the way on from there: names of attributes as (name,), keys and indices as they are."""
Change = tuple[Path, str, Any]
"""(path, what to do there, with what)"""
UNCHANGEABLE = (*PRIMITIVE, np.generic, Enum, torch.device, torch.dtype, type, FunctionType, BuiltinFunctionType)
OF_PYTHON: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
FILLED = (Tensor, np.ndarray, list, dict, set, deque)
"""What is given new content in place, since others may hold it too."""


class UnsavableError(ValueError):
    """Something changed that no checkpoint can hold."""


@dataclass
class Node:
    """A value that can be reached from a network."""

    value: Any
    text: str
    """Its own content; without that of the nodes inside it, if there are any."""
    whole: bool
    """Whether there are none."""


class NetBeside:
    """Plain attributes of a network and what they hold, buffers that are not persistent, which modules are in training,
    which parameters are trained, and what hooks hold: as it was when training began."""

    def __init__(self, net: nn.Module) -> None:
        self.first = nodes_of(net)
        self.first_of_hooks = {name: fingerprint(value, parts_of(net)) for name, value in held_by_hooks(net)}

    def changes(self, net: nn.Module) -> list[Change]:
        """What has changed since, in the order in which it is put back.

        Raises:
            UnsavableError: no file can hold it, or the fresh network of a resumed run would not have its place.
        """
        saver = Saver(nodes_of(net), parts_of(net))
        found: list[Change] = []
        done: set[Path] = set()
        for path, node in saver.nodes.items():
            before = self.first.get(path)
            if inside(path, done):
                continue
            same = before is not None and before.value is node.value
            if before is not None and before.text == node.text and (same or node.whole):
                continue
            change = saver.change(path, node, before)
            if change is not None:
                found.append((path, *change))
                done.add(path)
        gone = [path for path in self.first if path not in saver.nodes and not inside(path, done)]
        if lost := next((path for path in gone if is_there(net, path)), None):
            raise UnsavableError(f"{told(lost)} is gone")
        return found

    def unsaved(self, net: nn.Module) -> list[str]:
        """Names of what hooks hold that was computed last: a resumed run has it after its first step.

        Raises:
            UnsavableError: a hook holds something else that changed.
        """
        parts = parts_of(net)
        changed = {
            name: value
            for name, value in held_by_hooks(net)
            if self.first_of_hooks.get(name) != fingerprint(value, parts)
        }
        if lost := next((name for name, value in changed.items() if not is_computed(value)), None):
            raise UnsavableError(f"{lost}, which a hook of its layers uses, changed")
        return [*changed]


class Saver:
    """Puts what has changed into words that a file can hold."""

    def __init__(self, nodes: dict[Path, Node], parts: Mapping[int, str]) -> None:
        self.nodes, self.parts = nodes, parts
        self.places = Counter(id(node.value) for node in nodes.values() if not isinstance(node.value, UNCHANGEABLE))

    def change(self, path: Path, node: Node, before: Node | None) -> tuple[str, Any] | None:
        """What to do at a path, and with what; None if nothing is to be done there itself."""
        value: Any = node.value
        was: Any = None if before is None else before.value
        same = before is not None and value is was
        if same and is_own_object(value):
            return None  # its attributes are nodes
        if isinstance(value, GENERATORS) and type(value) is type(was):
            return "state", generator_state(value)
        if same and isinstance(value, nn.Module) and id(value) not in self.parts:
            return "load", dict(value.state_dict())
        if same and isinstance(value, FILLED) and not node.text.startswith("part "):
            return "fill", self.in_words(as_filled(value, path), path, outer=True)
        if len(path) > 2 and isinstance(self.nodes[path[:-1]].value, tuple):
            raise UnsavableError(f"{told(path)} is in a tuple and changed")
        if isinstance(value, Enum) and type(value) is type(was):
            return "enum", str(value.name)
        return "set", self.in_words(value, path)

    def in_words(self, value: Any, path: Path, outer: bool = False) -> Any:
        """As a file can hold it: the kind of all that is not a number, text or tensor is noted."""
        if id(value) in self.parts:
            return "part", self.parts[id(value)]
        if type(value) in PRIMITIVE:
            return value
        if isinstance(value, torch.device | torch.dtype):
            return "torch", str(value).removeprefix("torch.")
        if isinstance(value, np.generic):
            return "scalar", (value.dtype.str, value.item())
        if type(value) is Tensor:
            return value.detach().clone()
        if not outer and self.places[id(value)] > 1:
            raise UnsavableError(f"{told(path)} changed, and is held in two places")
        if type(value) is np.ndarray and value.dtype.kind in "biufc":
            return "array", torch.from_numpy(np.ascontiguousarray(value)).clone()
        if type(value) is dict:
            return "dict", [(self.in_words(key, path), self.in_words(one, path)) for key, one in value.items()]
        if type(value) is deque:
            return "deque", [value.maxlen, *(self.in_words(one, path) for one in value)]
        if type(value) in OF_PYTHON.values():
            return type(value).__name__, [self.in_words(one, path) for one in value]
        raise UnsavableError(f"{told(path)} changed, and has a {type(value).__name__} in it")


def as_filled(value: Any, path: Path) -> Any:
    """The content of a collection, as one of Python's own: what it was filled with is put into the same object."""
    if not isinstance(value, Tensor) and getattr(value, "__dict__", None):
        raise UnsavableError(f"{told(path)} changed, and is a {type(value).__name__} with attributes")
    if isinstance(value, Tensor):
        return value.detach().as_subclass(Tensor)
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    return dict(value) if isinstance(value, dict) else set(value) if isinstance(value, set) else list(value)


def inside(path: Path, done: Set[Path]) -> bool:
    return any(path[:length] in done for length in range(2, len(path)))


def is_there(net: nn.Module, path: Path) -> bool:
    """Whether the network still has the module or parameter that a path begins with."""
    named = net.named_parameters() if path[1] == "requires_grad" else net.named_modules()
    return path[0] in dict(named)


def nodes_of(net: nn.Module) -> dict[Path, Node]:
    """All that a network holds beside its state, by the first path to it; what is met again is told by that path."""
    parts = parts_of(net)
    found: dict[Path, Node] = {}
    seen: dict[int, Path] = {}
    left = [*slots_of_network(net)][::-1]
    while left:
        path, value = left.pop()
        if id(value) in parts:
            found[path] = Node(value, f"part {parts[id(value)]}", whole=True)
        elif id(value) in seen:
            found[path] = Node(value, f"as {seen[id(value)]}", whole=False)
        elif steps := steps_into(value):
            seen[id(value)] = path
            found[path] = Node(value, f"{type(value).__name__} {[step for step, _ in steps]}", whole=False)
            left += [((*path, step), one) for step, one in reversed(steps)]
        else:
            if not isinstance(value, UNCHANGEABLE):
                seen[id(value)] = path
            found[path] = Node(value, fingerprint(value, parts), whole=True)
    return found


def slots_of_network(net: nn.Module) -> Iterator[tuple[Path, Any]]:
    """(path, value) of all that a module or parameter itself holds."""
    for name, module in net.named_modules():
        for attribute, value in vars(module).items():
            if attribute == "training" or attribute not in OF_ALL_MODULES:
                yield (name, attribute), value
        for attribute in sorted(module._non_persistent_buffers_set):
            yield (name, attribute), getattr(module, attribute)
    for name, parameter in net.named_parameters():
        yield (name, "requires_grad"), parameter.requires_grad


def steps_into(value: Any) -> list[tuple[Any, Any]]:
    """(step, value) of an object, and of a collection that holds more than numbers and text."""
    if is_own_object(value):
        return [((name,), one) for name, one in attributes_of(value).items()]
    if type(value) not in (list, tuple, dict) or is_simple(value):
        return []
    steps = [*value.items()] if isinstance(value, dict) else [*enumerate(value)]
    return steps if all(isinstance(step, int | float | str) for step, _ in steps) else []


def is_simple(value: Any) -> bool:
    """Whether it holds numbers and text alone."""
    left = [*(value.values() if isinstance(value, dict) else value)]
    return all(isinstance(one, (*PRIMITIVE, np.generic)) for one in left)


def parts_of(net: nn.Module) -> dict[int, str]:
    """Names by id of a network's modules, parameters and persistent buffers, which a checkpoint has anyway."""
    return {id(part): name for name, part in reversed([*named_parts(net)])}


def named_parts(net: nn.Module) -> Iterator[tuple[str, Any]]:
    yield from net.named_modules()
    yield from net.named_parameters()
    for name, module in net.named_modules():
        for own, buffer in module.named_buffers(recurse=False):
            if own not in module._non_persistent_buffers_set:
                yield f"{name}.{own}".lstrip("."), buffer


def told(path: Path) -> str:
    """As a reader would write it: tally.rows[3]."""
    name, attribute, *steps = path
    on = "".join(f".{step[0]}" if isinstance(step, tuple) else f"[{step!r}]" for step in steps)
    return f"the network's attribute {'.'.join(filter(None, (name, attribute)))}{on}"


def held_by_hooks(net: nn.Module) -> Iterator[tuple[str, Any]]:
    """What hooks of a network's layers hold beside the layers: variables of the functions around them, objects."""
    for name, module in net.named_modules():
        for kind in HOOKS_OF_LAYERS:
            for number, hook in enumerate(getattr(module, kind).values()):
                at = f"{getattr(hook, '__qualname__', type(hook).__name__)}" + f" at {name}" * bool(name)
                at += f" ({number})" * bool(number)
                if isinstance(hook, FunctionType):
                    held = held_around(hook) if is_outside(hook) else ()
                    yield from ((f"{variable} of {at}", value) for variable, value in held)
                elif is_own_object(owner := getattr(hook, "__self__", hook)) or isinstance(hook, partial):
                    yield at, owner


def is_computed(value: Any) -> bool:
    """Whether it holds tensors alone, by name, as what a layer computed last: a list may grow, a number may count."""
    if isinstance(value, dict):
        return all(map(is_computed, value.values()))
    if isinstance(value, list | tuple) and len(value) == 1:
        return is_computed(value[0])
    if is_own_object(value):
        return is_computed(attributes_of(value))
    return value is None or isinstance(value, Tensor)


@torch.no_grad()
def put_beside(net: nn.Module, changes: list[Change]) -> None:
    """Does what `NetBeside.changes` found."""
    parts = dict(named_parts(net))
    for (name, attribute, *steps), change, payload in changes:
        owner: Any = net.get_parameter(name) if attribute == "requires_grad" else net.get_submodule(name)
        step: Any = (attribute,)
        for following in steps:
            owner, step = value_at(owner, step), following
        if change == "state":
            set_generator_state(value_at(owner, step), payload)
        elif change == "load":
            value_at(owner, step).load_state_dict(payload)
        elif change == "enum":
            place_at(owner, step, type(value_at(owner, step))[payload])
        elif change == "fill" and fits(now := value_at(owner, step), value := from_words(payload, parts)):
            fill(now, value)
        else:
            place_at(owner, step, from_words(payload, parts))


def from_words(value: Any, parts: Mapping[str, Any]) -> Any:
    """What `Saver.in_words` has put so."""
    if not isinstance(value, tuple):
        return value
    kind, inner = value
    if kind == "part":
        return parts[inner]
    if kind == "torch":
        found = getattr(torch, inner, None)
        return found if isinstance(found, torch.dtype) else torch.device(inner)
    if kind == "array":
        return inner.numpy()
    if kind == "scalar":
        return np.dtype(inner[0]).type(inner[1])
    if kind == "dict":
        return {from_words(key, parts): from_words(one, parts) for key, one in inner}
    if kind == "deque":
        return deque((from_words(one, parts) for one in inner[1:]), inner[0])
    return OF_PYTHON[kind](from_words(one, parts) for one in inner)


def fits(now: Any, value: Any) -> bool:
    return not isinstance(now, Tensor | np.ndarray) or (now.shape == value.shape and now.dtype == value.dtype)


def fill(now: Any, value: Any) -> None:
    """Gives a value new content in place: others may hold it too."""
    if isinstance(now, Tensor | np.ndarray):
        now[...] = value
        return
    now.clear()
    if isinstance(now, list | deque):
        now.extend(value)
    else:
        now.update(value)


def value_at(owner: Any, step: Any) -> Any:
    return getattr(owner, step[0]) if isinstance(step, tuple) else owner[step]


def place_at(owner: Any, step: Any, value: Any) -> None:
    if not isinstance(step, tuple):
        owner[step] = value
    elif isinstance(owner, nn.Module | Tensor):
        setattr(owner, step[0], value)
    else:
        object.__setattr__(owner, step[0], value)  # also of an object that checks or refuses what is set
