"""What can be reached from a network beside its state, by the path to it."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator, Mapping
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
    PRIMITIVE,
    attributes_of,
    fingerprint,
    held_around,
    is_own_object,
)

OF_ALL_MODULES = frozenset(vars(nn.Module()))
HOOKS_OF_LAYERS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
HOOKS_OF_PARAMETERS = ("_backward_hooks", "_post_accumulate_grad_hooks")
Slot = tuple[str, str]
"""(module or parameter, attribute)"""
Path = tuple[Any, ...]
"""A place, and the way on from there: names of attributes as (name,), keys and indices as they are."""
UNCHANGEABLE = (*PRIMITIVE, np.generic, Enum, torch.device, torch.dtype, type, FunctionType, BuiltinFunctionType)
OPENED = (list, tuple, dict, deque, OrderedDict, defaultdict, Counter)
"""Collections in which each value has a path of its own."""


@dataclass
class Node:
    """A value that can be reached from a network."""

    value: Any
    text: str
    """Its own content; without that of the nodes inside it, if there are any."""
    whole: bool
    """Whether there are none."""


def nodes_of(net: nn.Module) -> dict[Path, Node]:
    """All that a network holds beside its state, by the first path to it; what is met again is told by that path."""
    parts = part_names(net)
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


def part_names(net: nn.Module) -> dict[int, str]:
    """Names by id of a network's modules, parameters and persistent buffers, which a checkpoint has anyway."""
    return {id(part): name for name, part in reversed([*named_parts(net)])}


def named_parts(net: nn.Module) -> Iterator[tuple[str, Any]]:
    yield from net.named_modules()
    yield from net.named_parameters()
    for name, module in net.named_modules():
        for own, buffer in module.named_buffers(recurse=False):
            if own not in module._non_persistent_buffers_set:
                yield f"{name}.{own}".lstrip("."), buffer


def split_name(name: str) -> Slot:
    module, _, attribute = name.rpartition(".")
    return module, attribute


def names_of_parts(net: nn.Module) -> dict[str, str]:
    """The first name of each part by all names that it has: weights may be tied, and a head be the current one too."""
    parts = part_names(net)
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
