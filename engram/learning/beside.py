"""What a network holds beside its state: a checkpoint takes along what of it has changed, or is not written."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
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
    is_dense,
    is_own_object,
    set_generator_state,
)

OF_ALL_MODULES = frozenset(vars(nn.Module()))
HOOKS_OF_LAYERS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
HOOKS_OF_PARAMETERS = ("_backward_hooks", "_post_accumulate_grad_hooks")
Place = tuple[str, str]
"""(module or parameter, attribute)"""
Path = tuple[Any, ...]
"""A place, and the way on from there: names of attributes as (name,), keys and indices as they are."""
Change = tuple[Path, str, Any]
"""(path, what to do there, with what)"""
UNCHANGEABLE = (*PRIMITIVE, np.generic, Enum, torch.device, torch.dtype, type, FunctionType, BuiltinFunctionType)
OPENED = (list, tuple, dict, deque, OrderedDict, defaultdict, Counter)
"""Collections in which each value has a path of its own."""
COLLECTIONS: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "Size": torch.Size}
DEEPEST = 50
"""Collections inside one another that a file holds: those who copy and read them call themselves for each."""
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
        self.first, self.names = nodes_of(net), names_of_parts(net)
        self.first_of_hooks = {name: fingerprint(value, parts_of(net)) for name, value in held_by_hooks(net)}

    def changes(self, net: nn.Module) -> list[Change]:
        """What has changed since, in the order in which it is put back.

        Raises:
            UnsavableError: no file can hold it, or the fresh network of a resumed run would not have its place.
        """
        for name, part in names_of_parts(net).items():
            if self.names.get(name, part) != part:
                raise UnsavableError(f"the network has another part as {name} now")
        saver = Saver(net, self.first)
        found: list[Change] = []
        done: list[Path] = []
        for path, node in saver.nodes.items():  # what is inside another follows it
            before = self.first.get(path)
            if done and path[: len(done[-1])] == done[-1]:
                continue
            same = before is not None and before.value is node.value
            if before is not None and before.text == node.text and (same or node.whole):
                continue
            change = saver.change(path, node, before)
            if change is not None:
                found.append((path, *change))
                done.append(path)
        named, written = dict(named_parts(net)), set(done)
        gone = (path for path in self.first if path not in saver.nodes and not inside(path, written))
        if lost := next((path for path in gone if path[0] in named), None):
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

    def __init__(self, net: nn.Module, first: Mapping[Path, Node]) -> None:
        self.nodes, self.parts = nodes_of(net), parts_of(net)
        held = [one for node in self.nodes.values() for one in (held_in(node.value) if node.whole else [node.value])]
        self.places = Counter(id(one) for one in held if not isinstance(one, UNCHANGEABLE))
        self.memories = Counter(map(memory_of, held))
        staying = {path: node for path, node in self.nodes.items() if stays(node, first.get(path))}
        bases: list[tuple[Path, Any]] = [(split_name(name), part) for name, part in named_parts(net)]
        bases += [(path, node.value) for path, node in staying.items() if is_on_its_own(path, node)]
        self.bases = {memory: (path, value) for path, value in bases if (memory := memory_of(value))}
        """Where a resumed run has tensors in the same place, by their memory."""
        self.inner = {memory_of(node.value) for path, node in staying.items() if not is_on_its_own(path, node)}

    def change(self, path: Path, node: Node, before: Node | None) -> tuple[str, Any] | None:
        """What to do at a path, and with what; None if nothing is to be done there itself."""
        value: Any = node.value
        was: Any = None if before is None else before.value
        same = stays(node, before)
        if same and (is_own_object(value) or isinstance(value, nn.Module)):
            return None  # its attributes are nodes
        if isinstance(value, GENERATORS) and type(value) is type(was):
            return "state", self.in_words(generator_state(value), path, outer=True)
        if type(value) is Tensor and self.is_trained(value, same):
            raise UnsavableError(f"{told(path)} changed, and is a tensor with a gradient of its own")
        if same and isinstance(value, FILLED):
            return "fill", self.in_words(as_filled(value, path), path, outer=True)
        if len(path) > 2 and isinstance(self.nodes[path[:-1]].value, tuple):
            raise UnsavableError(f"{told(path)} is in a tuple and changed")
        if isinstance(value, Enum) and type(value) is type(was):
            return "enum", self.in_words(value.value, path)
        return "set", self.in_words(value, path)

    def in_words(self, value: Any, path: Path, outer: bool = False, depth: int = 0) -> Any:
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
            return value.detach().clone() if outer else self.tensor_in_words(value, path)
        if not outer and (self.places[id(value)] > 1 or self.is_view(value)):
            raise UnsavableError(f"{told(path)} changed, and is held in two places")
        if type(value) is np.ndarray and value.dtype.kind in "biufc":
            content = torch.from_numpy(np.ascontiguousarray(value).reshape(-1).view(np.uint8)).clone()
            return "array", (value.dtype.str, [*value.shape], content)
        if depth == DEEPEST:
            raise UnsavableError(f"{told(path)} changed, and has more than {DEEPEST} collections inside one another")

        def words(values: Iterable[Any]) -> list[Any]:
            return [self.in_words(one, path, depth=depth + 1) for one in values]

        if type(value) is dict:
            return "dict", [*zip(words(value), words(value.values()), strict=True)]
        if type(value) is deque:
            return "deque", [value.maxlen, *words(value)]
        if type(value) in COLLECTIONS.values():
            return type(value).__name__, words(value)
        raise UnsavableError(f"{told(path)} changed, and has a {type(value).__name__} in it")

    def is_trained(self, value: Tensor, same: bool) -> bool:
        """Whether a tensor has, or may get, a gradient that no file would hold."""
        if not value.is_leaf or not value.requires_grad:
            return False
        return value.grad is not None if same else memory_of(value) not in self.bases

    def is_view(self, value: Any) -> bool:
        """Whether it is an array whose memory others hold too."""
        memory = memory_of(value) if isinstance(value, np.ndarray) else None
        return memory is not None and (memory in self.bases or self.memories[memory] > 1)

    def tensor_in_words(self, value: Tensor, path: Path) -> Any:
        """What shares its memory with others goes on sharing it: a view of one that stays, or with them in the file."""
        memory = memory_of(value)
        if memory is None or (memory not in self.bases and self.memories[memory] == 1):
            return value.detach().clone()
        if memory in self.bases:
            of, base = self.bases[memory]
            return "view", (of, [*value.shape], [*value.stride()], value.storage_offset() - base.storage_offset())
        if memory in self.inner:
            raise UnsavableError(f"{told(path)} changed, and is held in two places")
        return value.detach()


def stays(node: Node, before: Node | None) -> bool:
    """Whether a resumed run has a value in the same place, to be given its content there."""
    return (
        before is not None
        and before.value is node.value
        and before.text.startswith("part ") == node.text.startswith("part ")
    )


def is_on_its_own(path: Path, node: Node) -> bool:
    """Whether it gets its content by itself: it is in no collection, and this is the first path to it."""
    return len(path) == 2 and not node.text.startswith("as ")


def memory_of(value: Any) -> tuple[int, str] | None:
    """(address, type of its numbers) of the memory that a tensor or array is a view of."""
    if isinstance(value, np.ndarray):
        while isinstance(value.base, np.ndarray):
            value = value.base
        return memory_of(value.base) if isinstance(value.base, Tensor) else (value.ctypes.data, "")
    if not isinstance(value, Tensor) or not is_dense(value) or not value.numel():
        return None
    return value.untyped_storage().data_ptr(), str(value.dtype)


def held_in(value: Any) -> Iterator[Any]:
    """A value and all in it that collections hold, each as often as it is held."""
    left, seen = [value], set()
    while left:
        one = left.pop()
        yield one
        collection = isinstance(one, list | tuple | set | frozenset | deque | dict)
        if collection and id(one) not in seen and not is_simple(one):
            seen.add(id(one))
            left += [*one.values()] if isinstance(one, dict) else [*one]


def as_filled(value: Any, path: Path) -> Any:
    """The content of a collection, as one of Python's own: what it was filled with is put into the same object."""
    if getattr(value, "__dict__", None):
        raise UnsavableError(f"{told(path)} changed, and is a {type(value).__name__} with attributes")
    if isinstance(value, Tensor):
        return value.detach().as_subclass(Tensor)
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    return dict(value) if isinstance(value, dict) else set(value) if isinstance(value, set) else list(value)


def inside(path: Path, done: Set[Path]) -> bool:
    return any(path[:length] in done for length in range(2, len(path)))


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
        elif steps := steps_into(value, parts):
            seen[id(value)] = path
            found[path] = Node(value, f"{type(value).__name__} {[step for step, _ in steps]}", whole=False)
            left += [((*path, step), one) for step, one in reversed(steps)]
        else:
            if not isinstance(value, UNCHANGEABLE):
                seen[id(value)] = path
            found[path] = Node(value, fingerprint(value, parts), whole=True)
    return found


def slots_of_network(net: nn.Module) -> Iterator[tuple[Path, Any]]:
    """(path, value) of all that a module, a parameter or a persistent buffer itself holds."""
    for name, module in net.named_modules():
        yield (name, "__class__"), type(module)
        for attribute, value in plain_attributes(module).items():
            yield (name, attribute), value
        for attribute in sorted(module._non_persistent_buffers_set):
            yield (name, attribute), getattr(module, attribute)
    for name, parameter in net.named_parameters():
        yield (name, "requires_grad"), parameter.requires_grad
    for name, part in named_parts(net):
        for attribute, value in vars(part).items() if isinstance(part, Tensor) else ():
            yield (name, attribute), value


def plain_attributes(module: nn.Module) -> dict[str, Any]:
    return {name: one for name, one in vars(module).items() if name == "training" or name not in OF_ALL_MODULES}


def steps_into(value: Any, parts: Mapping[int, str]) -> list[tuple[Any, Any]]:
    """(step, value) of an object, a module beside the network, the owner of a method, and of a collection that holds
    more than numbers and text."""
    if is_own_object(value):
        return [((name,), one) for name, one in attributes_of(value).items()]
    if isinstance(value, nn.Module):
        held = plain_attributes(value) | value._parameters | value._buffers | value._modules
        return [((name,), one) for name, one in held.items()]
    if isinstance(value, MethodType | BuiltinFunctionType):
        owner = value.__self__
        plain = owner is None or isinstance(owner, type | ModuleType) or id(owner) in parts
        return [] if plain else [(("__self__",), owner)]
    if type(value) not in OPENED or is_simple(value):
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


def split_name(name: str) -> Place:
    module, _, attribute = name.rpartition(".")
    return module, attribute


def names_of_parts(net: nn.Module) -> dict[str, str]:
    """The first name of each part by all names that it has: weights may be tied, and a head be the current one too."""
    parts = parts_of(net)
    every = (net.named_modules, net.named_parameters, net.named_buffers)
    return {name: parts.get(id(part), "") for named in every for name, part in named(remove_duplicate=False)}


def told(path: Path) -> str:
    """As a reader would write it: tally.rows[3]."""
    name, attribute, *steps = path
    on = "".join(f".{step[0]}" if isinstance(step, tuple) else f"[{step!r}]" for step in steps)
    return f"the network's attribute {'.'.join(filter(None, (name, attribute)))}{on}"


def held_by_hooks(net: nn.Module) -> Iterator[tuple[str, Any]]:
    """What hooks of a network's layers hold beside the layers: variables of the functions around them, objects."""
    owners: list[tuple[str, Any, tuple[str, ...]]] = [(*one, HOOKS_OF_LAYERS) for one in net.named_modules()]
    owners += [(*one, HOOKS_OF_PARAMETERS) for one in net.named_parameters()]
    for name, hooked, kinds in owners:
        for kind in kinds:
            for number, hook in enumerate((getattr(hooked, kind) or {}).values()):
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
    for path, change, payload in changes:
        owner, step = place_of(path, parts)
        value = from_words(payload, parts)
        if change == "state":
            set_generator_state(value_at(owner, step), value)
        elif change == "enum":
            place_at(owner, step, type(value_at(owner, step))(value))
        elif change == "fill" and fits(now := value_at(owner, step), value):
            fill(now, value)
        else:
            place_at(owner, step, value)


def place_of(path: Path, parts: Mapping[str, Any]) -> tuple[Any, Any]:
    """(what holds the value at the end of a path, the last step to it)."""
    name, attribute, *steps = path
    owner, step = parts[name], (attribute,)
    for following in steps:
        owner, step = value_at(owner, step), following
    return owner, step


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
        return inner[2].numpy().view(inner[0]).reshape(inner[1])
    if kind == "view":
        base = value_at(*place_of(inner[0], parts)).detach()
        return base.as_strided(*inner[1:3], base.storage_offset() + inner[3])
    if kind == "scalar":
        return np.dtype(inner[0]).type(inner[1])
    if kind == "dict":
        return {from_words(key, parts): from_words(one, parts) for key, one in inner}
    if kind == "deque":
        return deque((from_words(one, parts) for one in inner[1:]), inner[0])
    return COLLECTIONS[kind](from_words(one, parts) for one in inner)


def fits(now: Any, value: Any) -> bool:
    return not isinstance(now, np.ndarray) or (now.shape == value.shape and now.dtype == value.dtype)


def fill(now: Any, value: Any) -> None:
    """Gives a value new content in place: others may hold it too."""
    if isinstance(now, np.ndarray):
        now[...] = value
        return
    if isinstance(now, Tensor):
        if now.shape == value.shape:
            now.copy_(value)
        else:
            now.data = value
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
