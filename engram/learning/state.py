"""A method's state: what it may hold, what is undone at a boundary, what a checkpoint takes along.

A run that is resumed after a task has what `start` makes and what the method names in `kept`, and nothing else. So an
uninterrupted run has nothing else either: undeclared attributes are refused, all others are undone at every boundary.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from torch import Tensor, nn

from engram.core.code import functions_of, is_outside, names_in
from engram.core.messages import tell
from engram.core.validation import is_number
from engram.learning.beside import NetBeside
from engram.learning.content import CHANGEABLE, fingerprint, is_own_object
from engram.learning.learner import Learner
from engram.learning.method import Method


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
        current = content_of_modules(self.classes())
        for name in [name for name, was in self.of_modules.items() if current.get(name, was) != was]:
            del self.of_modules[name]
            tell(f"{name} is shared by all runs and changed while this one ran: no result may depend on it")
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


def content_of_classes(classes: list[type]) -> dict[str, str]:
    """What classes hold that can change, by name."""
    return {
        f"{cls.__name__}.{name}": fingerprint(value)
        for cls in classes
        for name, value in vars(cls).items()
        if not name.startswith("__") and isinstance(value, CHANGEABLE)
    }


def content_of_modules(classes: list[type]) -> dict[str, str]:
    """The same of the variables outside classes that their code names, and numbers and objects that classes hold. Flags
    do not count: they mostly say that something was told or made once."""
    shared = {
        f"{function.__module__}.{word}": value
        for cls in classes
        for function in functions_of(cls)
        for word in names_in(function.__code__)
        if isinstance(value := function.__globals__.get(word), CHANGEABLE) or is_number(value)
    }
    of_classes = {
        f"{cls.__name__}.{name}": value
        for cls in classes
        for name, value in vars(cls).items()
        if not name.startswith("__") and (is_number(value) or is_own_object(value))
    }
    return {name: fingerprint(value) for name, value in (shared | of_classes).items()}


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
