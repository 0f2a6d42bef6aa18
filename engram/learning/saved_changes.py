"""What has changed beside a network's state, in words that a file can hold, and back."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engram.learning.content import (
    GENERATORS,
    PRIMITIVE,
    generator_state,
    is_dense,
    is_own_object,
    set_generator_state,
)
from engram.learning.reachable import (
    UNCHANGEABLE,
    Node,
    Path,
    is_simple,
    named_parts,
    nodes_of,
    part_names,
    split_name,
    told,
)

SavedChange = tuple[Path, str, Any]
"""(path, what to do there, with what)"""
COLLECTIONS: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "Size": torch.Size}
NESTED = 50
"""Most collections inside one another: reading and copying a file calls itself for each."""
FILLED = (Tensor, np.ndarray, list, dict, set, deque)
"""What is given new content in place, since others may hold it too."""


class UnsavableError(ValueError):
    """Something changed that no checkpoint can hold."""


class Saver:
    """Puts what has changed into words that a file can hold."""

    def __init__(self, net: nn.Module, first: Mapping[Path, Node]) -> None:
        self.nodes, self.parts = nodes_of(net), part_names(net)
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
        """A value as a file can hold it: numbers, text and tensors as they are, anything else as (kind, content)."""
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
        if depth == NESTED:
            raise UnsavableError(f"{told(path)} changed, and has more than {NESTED} collections inside one another")

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


@torch.no_grad()
def put_beside(net: nn.Module, changes: list[SavedChange]) -> None:
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
            fill_in_place(now, value)
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


def fill_in_place(now: Any, value: Any) -> None:
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
