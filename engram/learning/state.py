"""A method's state: what it may hold, what is undone at a boundary, what a checkpoint takes along.

A run that is resumed after a task has what `start` makes and what the method names in `kept`, and nothing else. So an
uninterrupted run has nothing else either: undeclared attributes are refused, all others are undone at every boundary.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import random
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Set
from dataclasses import fields
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engram.core.code import functions_of, is_outside, names_in
from engram.core.messages import tell
from engram.learning.buffer import Buffer
from engram.learning.learner import Learner
from engram.learning.method import Method

CHANGEABLE = (list, dict, set, deque, np.ndarray, Tensor, bytearray)
"""What can be changed in place."""
GENERATORS = (torch.Generator, np.random.Generator, random.Random)
HOOKS_OF_LAYERS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
OF_ALL_MODULES = frozenset(vars(nn.Module()))


Place = tuple[str, str]
"""(module or parameter, attribute)"""


class UndeclaredStateError(ValueError):
    """A method has state that a resumed run would not have."""


class StateGuard:
    """Holds one method to what it declares, from before `start` to the end of a run."""

    def __init__(self, method: Method) -> None:
        self.members = method.members()
        self.fields = [{f.name: copy.deepcopy(getattr(m, f.name)) for f in fields(m)} for m in self.members]
        self.started: list[dict[str, tuple[Any, str]]] = []

    def after_start(self, learner: Learner) -> None:
        """Refuses scratch that is not a task's, and notes the `working` attributes that `start` has made, what the
        network holds beside its state, and what classes hold for all runs."""
        self.learner = learner
        self.beside = NetBeside(learner.net)
        self.of_classes = content_of_classes(self.classes())
        self.of_modules = content_of_modules(self.classes())
        self.of_hooks = content_of_hooks(learner.net)
        self.check()
        for member in self.members:
            scratch = next((name for name in vars(member) if name.startswith("_")), None)
            if scratch:
                raise UndeclaredStateError(
                    f"{type(member).__name__} has an attribute {scratch} before the first task; names with an "
                    "underscore are scratch of one task: make it in begin_task, or give it a name without underscore "
                    "and declare that in `working`"
                )
            made = {name: getattr(member, name) for name in working_of(member) if hasattr(member, name)}
            self.started.append({name: (value, fingerprint(value)) for name, value in made.items()})

    def classes(self) -> list[type]:
        """Of the user's own: the methods', and those of the network's modules."""
        found = [*map(type, self.members), *map(type, self.learner.net.modules())]
        return list(dict.fromkeys(owner for cls in found for owner in cls.__mro__ if is_outside(owner)))

    def check(self) -> None:
        """Refuses attributes that are not declared, hyper-parameters that are no longer as they were given, and state
        in other places, which a resumed run would not have."""
        check_parameters(self.learner)
        for name in set(vars(self.learner)) - self.learner.own_names:
            raise UndeclaredStateError(
                f"learner.{name} was made by the method, and a resumed run would lose it; make it an attribute of the "
                f"method, and name it in `kept` if later tasks need it, in `working` if begin_task makes it anew"
            )
        now = content_of_classes(self.classes())
        if changed := next((name for name, was in self.of_classes.items() if now.get(name, was) != was), None):
            raise UndeclaredStateError(
                f"{changed} is an attribute of the class, which all runs share, and it changed while this one ran; "
                "each object its own: a method makes it in start and names it in `kept`, a network in __init__"
            )
        for name in forget_changed(self.of_modules, content_of_modules(self.classes())):
            tell(f"{name} is shared by all runs and changed while this one ran: no result may depend on it")
        for name in forget_changed(self.of_hooks, content_of_hooks(self.learner.net)):
            tell(
                f"{name}, which a hook of the network's layers uses, changed while it was trained: a resumed run would "
                "begin without it, so no result may depend on what it held at a boundary"
            )
        for member, values in zip(self.members, self.fields, strict=True):
            check_attributes(member, values)
            check_kept({name: state_of(getattr(member, name, None)) for name in member.kept})
            check_fields_unchanged(member, values)

    def at_boundary(self) -> None:
        """Deletes scratch and gradients, and puts `working` attributes back to what `start` made of them."""
        self.learner.net.zero_grad()
        for member, made in zip(self.members, self.started, strict=True):
            for name in [name for name in vars(member) if name.startswith("_")] + working_of(member):
                if name in vars(member):
                    delattr(member, name)
            for name, (value, before) in made.items():
                if fingerprint(value) != before:
                    raise UndeclaredStateError(
                        f"{type(member).__name__}.{name} is working state that start has made and that changed since; "
                        f"a resumed run would have it as start makes it: name {name} in `kept` if later tasks need it, "
                        "or make it anew in begin_task"
                    )
                setattr(member, name, value)


def forget_changed(before: dict[str, str], now: Mapping[str, str]) -> list[str]:
    """The names of what has changed, each once."""
    changed = [name for name, was in before.items() if now.get(name, was) != was]
    for name in changed:
        del before[name]
    return changed


def content_of_classes(classes: list[type]) -> dict[str, str]:
    """What classes hold that can change, by name."""
    return {
        f"{cls.__name__}.{name}": fingerprint(value)
        for cls in classes
        for name, value in vars(cls).items()
        if not name.startswith("__") and isinstance(value, CHANGEABLE)
    }


def content_of_modules(classes: list[type]) -> dict[str, str]:
    """The same of the variables outside classes that their code names; numbers are set anew and not changed."""
    return {
        f"{function.__module__}.{word}": fingerprint(value)
        for cls in classes
        for function in functions_of(cls)
        for word in names_in(function.__code__)
        if isinstance(value := function.__globals__.get(word), CHANGEABLE)
    }


def content_of_hooks(net: nn.Module) -> dict[str, str]:
    """What hooks of a network's layers hold beside the layers: variables of the functions around them, objects."""
    found: dict[str, Any] = {}
    for module in net.modules():
        for hook in (hook for kind in HOOKS_OF_LAYERS for hook in getattr(module, kind).values()):
            at = getattr(hook, "__qualname__", type(hook).__name__)
            owner = getattr(hook, "__self__", hook)
            if is_own_object(owner):
                found[type(owner).__name__] = owner
            if isinstance(hook, FunctionType):
                around = inspect.getclosurevars(hook).nonlocals
                found |= {f"{name} of {at}": value for name, value in around.items()}
    parts = parts_of_network(net)
    return {
        name: fingerprint(value, parts)
        for name, value in found.items()
        if isinstance(value, CHANGEABLE) or is_own_object(value)
    }


def check_parameters(learner: Learner) -> None:
    """Refuses a network with parameters that the optimiser does not have, or has though they are gone."""
    named = dict(learner.net.named_parameters())
    trained = set(map(id, learner.params))
    missing = [name for name, p in named.items() if p.requires_grad and id(p) not in trained]
    gone = trained - set(map(id, named.values()))
    if missing or gone:
        what = f"its parameter {missing[0]} is not trained" if missing else "some of those trained are not in it"
        raise UndeclaredStateError(
            f"the network was changed, and {what}: the optimiser has the parameters of the beginning. Make all layers "
            "in the hook network, or set learner.params and call learner.new_optimizer()"
        )


def modes(net: nn.Module) -> list[bool]:
    """Of each of its modules, whether it is in training."""
    return [module.training for module in net.modules()]


class NetBeside:
    """What a network holds beside its state: plain attributes, buffers that are not persistent, which modules are in
    training, and which parameters are trained. A checkpoint takes along what of it has changed since the start."""

    def __init__(self, net: nn.Module) -> None:
        self.first = {place: content for place, _, content in self.contents(net)}

    def contents(self, net: nn.Module) -> Iterator[tuple[Place, Any, str]]:
        """((module or parameter, attribute), value, fingerprint)."""
        parts = parts_of_network(net)
        for place, value in beside(net, parts):
            yield place, value, fingerprint(value, parts - {id(value)})

    def changes(self, net: nn.Module) -> list[tuple[str, str, Any]]:
        """(module or parameter, attribute, value)."""
        parts = parts_of_network(net)
        found = []
        for place, value, content in self.contents(net):
            if self.first.get(place) == content:
                continue
            if is_own_object(value) and place not in self.first:
                raise unknown_to_resumed(value, place)  # nothing would make the object anew
            state = own_state(value, parts) if is_own_object(value) else value
            found.append((*place, portable(state, place)))
        return found


def parts_of_network(net: nn.Module) -> frozenset[int]:
    """The ids of its modules, parameters and buffers, which a checkpoint has anyway."""
    return frozenset(map(id, (*net.modules(), *net.parameters(), *net.buffers())))


def beside(net: nn.Module, parts: Set[int]) -> Iterator[tuple[Place, Any]]:
    """((module or parameter, attribute), value)."""
    for name, module in net.named_modules():
        for attribute, value in vars(module).items():
            if attribute == "training" or (attribute not in OF_ALL_MODULES and not holds_part(value, parts)):
                yield (name, attribute), value
        for attribute in module._non_persistent_buffers_set:
            yield (name, attribute), getattr(module, attribute)
    for name, parameter in net.named_parameters():
        yield (name, "requires_grad"), parameter.requires_grad


def holds_part(value: Any, parts: Set[int]) -> bool:
    """Whether it is, or has in it, a part of the network: a module, or what a parameter or buffer is."""
    if isinstance(value, dict):
        return any(holds_part(one, parts) for one in value.values())
    if isinstance(value, list | tuple):
        return any(holds_part(one, parts) for one in value)
    return isinstance(value, nn.Module) or id(value) in parts


def portable(value: Any, place: tuple[str, str]) -> Any:
    """As a file can hold it."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, GENERATORS):
        return generator_state(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if type(value) in (set, frozenset, deque):
        return [portable(one, place) for one in value]
    if type(value) in (list, tuple):
        return type(value)(portable(one, place) for one in value)
    if type(value) is dict:
        return {portable(k, place): portable(v, place) for k, v in value.items()}
    raise unknown_to_resumed(value, place)


def unknown_to_resumed(value: Any, place: tuple[str, str]) -> UndeclaredStateError:
    return UndeclaredStateError(
        f"the network's attribute {'.'.join(filter(None, place))} is a {type(value).__name__} and changed while it was "
        "trained, which a resumed run would not know; hold it in a buffer (register_buffer), or in numbers or tensors"
    )


def is_own_object(value: Any) -> bool:
    """Whether it is a plain object of a class from outside the package, with attributes that can change."""
    known = (type, FunctionType, MethodType, nn.Module, Tensor, Mapping, Method, torch.optim.Optimizer)
    return hasattr(value, "__dict__") and not isinstance(value, known) and is_outside(type(value))


def own_state(value: Any, parts: Set[int]) -> dict[str, Any]:
    """The attributes of an object, and of the objects in them, without what is a part of the network."""
    return {
        name: own_state(one, parts | {id(value)}) if is_own_object(one) else one
        for name, one in vars(value).items()
        if not holds_part(one, parts | {id(value)})
    }


def put_beside(net: nn.Module, changes: list[tuple[str, str, Any]]) -> None:
    """Puts back what `NetBeside.changes` found."""
    for name, attribute, value in changes:
        owner = net.get_parameter(name) if attribute == "requires_grad" else net.get_submodule(name)
        put_back(owner, attribute, value)


def put_back(owner: Any, attribute: str, value: Any) -> None:
    now = getattr(owner, attribute, None)
    if isinstance(now, GENERATORS):
        set_generator_state(now, value)
    elif isinstance(now, set | frozenset | deque):
        setattr(owner, attribute, type(now)(value))
    elif is_own_object(now):
        for name, one in value.items():
            put_back(now, name, one)
    else:
        setattr(owner, attribute, value)


def generator_state(rng: Any) -> Any:
    if isinstance(rng, torch.Generator):
        return rng.get_state()
    return rng.bit_generator.state if isinstance(rng, np.random.Generator) else list(rng.getstate())


def set_generator_state(rng: Any, state: Any) -> None:
    if isinstance(rng, torch.Generator):
        rng.set_state(state)
    elif isinstance(rng, np.random.Generator):
        rng.bit_generator.state = state
    else:
        version, numbers, gauss = state
        rng.setstate((version, tuple(numbers), gauss))


def working_of(member: Method) -> list[str]:
    return [name for name in member.working if name not in member.kept]


def check_attributes(member: Method, values: dict[str, Any]) -> None:
    declared = {*values, *member.kept, *member.working, "needs"}  # a field may decide on what is needed
    for name in vars(member):
        if name not in declared and not name.startswith("_"):
            raise UndeclaredStateError(
                f"{type(member).__name__} has an attribute {name} that it does not declare, so a resumed run would "
                f"lose it; name it in `kept` if later tasks need it, in `working` if begin_task makes it anew, or call "
                f"it _{name} if it is scratch; if it is a hyper-parameter, make it a field of the dataclass"
            )


def check_fields_unchanged(member: Method, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if name not in member.kept and fingerprint(getattr(member, name)) != fingerprint(value):
            raise UndeclaredStateError(
                f"{type(member).__name__} changed its hyper-parameter {name} from {value!r} to "
                f"{getattr(member, name)!r}, which a resumed run would not know; hold what changes in another "
                "attribute, and name that in `kept`"
            )


def fingerprint(value: Any, inside: Set[int] = frozenset()) -> str:
    """Equal for equal content: numbers, text, tensors, networks, generators, objects, and collections of them.

    Args:
        value: Anything.
        inside: The ids of what is told elsewhere: a network of its parts, an object of itself.
    """
    if id(value) in inside:
        return "told elsewhere"
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, Learner):  # a teacher
        return fingerprint(value.net)
    if isinstance(value, nn.Module | Buffer | torch.optim.Optimizer):
        return fingerprint(value.state_dict())
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {fingerprint(v, inside)}' for key, v in value.items())}}}"
    if isinstance(value, list | tuple | deque):
        return f"{type(value).__name__}({', '.join(fingerprint(v, inside) for v in value)})"
    if isinstance(value, set | frozenset):
        return f"set({sorted(fingerprint(v, inside) for v in value)})"
    if isinstance(value, GENERATORS):
        return f"{type(value).__name__} {fingerprint(generator_state(value))}"
    if isinstance(value, np.generic):
        return repr(value.item())
    if is_own_object(value):
        return f"{type(value).__name__} {fingerprint(vars(value), inside | {id(value)})}"
    return repr(value) if isinstance(value, bool | int | float | str | None) else type(value).__name__


def state_of(value: Any) -> Any:
    """As it goes into a checkpoint: networks, optimisers and buffers as their state."""
    return value.state_dict() if hasattr(value, "state_dict") else value


def check_kept(kept: Mapping[str, Any]) -> None:
    """Refuses what a method keeps, by name, where it could not be read back."""
    for name, value in kept.items():
        if odd := unreadable(value):
            raise ValueError(
                f"{name} is kept and holds a {odd}; keep tensors, numbers, text, or lists, tuples and dicts of them; a "
                "network is an attribute of its own, several are an nn.ModuleList"
            )


def unreadable(value: Any) -> str | None:
    """The name of a type inside a value that is not read from files, since reading it could run code."""
    if value is None or isinstance(value, Tensor | bool | int | float | str):
        return None
    if type(value) in (list, tuple, dict, OrderedDict):
        inside = [*value, *value.values()] if isinstance(value, dict) else value
        return next((odd for one in inside if (odd := unreadable(one))), None)
    return type(value).__name__


def kept_state(method: Method) -> list[dict[str, Any]]:
    """What each member keeps, for a checkpoint."""
    return [{name: state_of(getattr(member, name)) for name in member.kept} for member in method.members()]


def restore_kept_state(method: Method, states: list[dict[str, Any]]) -> None:
    """Puts back what `kept_state` took."""
    for member, kept in zip(method.members(), states, strict=True):
        for name in member.kept:
            now: Any = getattr(member, name, None)
            value = kept.pop(name)
            if hasattr(now, "load_state_dict"):
                now.load_state_dict(value)
            else:
                setattr(member, name, value)
        if kept:
            raise ValueError(f"{', '.join(kept)} is kept by no method")
