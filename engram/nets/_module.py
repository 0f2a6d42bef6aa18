"""Recipes of networks that are plain PyTorch: a module class, or a function that returns a module."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, make_dataclass
from types import ModuleType
from typing import Any, NamedTuple, get_type_hints

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from engram.core.code import MADE_OF, captured_values
from engram.core.registry import definitions
from engram.nets.net import Net, Shape

Maker = Callable[..., nn.Module]
FIRST_PARAMETERS = ["shape", "outputs"]
"""The first two parameters of a class or function in a file that counts as a network."""


class InputShape(NamedTuple):
    """A hook before `forward`: the module gets (n, channels, height, width), whatever shape batches have."""

    shape: tuple[int, ...]

    def __call__(self, module: nn.Module, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x, *others = arguments
        return (x.reshape(len(x), *self.shape), *others)


@dataclass(frozen=True)
class ModuleRecipe(Net):
    """A network from a class or function `(shape, outputs, …)`; its further parameters are the fields."""

    def build(self, shape: Shape, outputs: int) -> nn.Module:
        maker: Maker = getattr(type(self), MADE_OF)[0]
        module = maker(shape, outputs, **{f.name: getattr(self, f.name) for f in fields(self)})
        if not isinstance(module, nn.Module):
            raise ValueError(f"net {type(self).__name__} returns {module!r:.60}; it must return an nn.Module")
        module.register_forward_pre_hook(InputShape(tuple(shape)))  # type: ignore[arg-type]
        settle_lazy_layers(module, shape)
        return module


def settle_lazy_layers(module: nn.Module, shape: Shape) -> None:
    """Gives lazy layers their sizes and initial weights, by one image; they belong to the network's initial weights."""
    if not any(map(is_lazy, (*module.parameters(), *module.buffers()))):
        return
    module.eval()
    try:
        with torch.no_grad():
            module(torch.zeros(1, *shape))
    except Exception as error:
        raise ValueError(
            f"net {type(module).__name__} has lazy layers, and one image does not give them their sizes "
            f"({type(error).__name__}: {error}); give the sizes, or call the layers in __init__"
        ) from error
    module.train()


def recipe_class(maker: Maker) -> type[ModuleRecipe]:
    """The recipe of a module class or a function; refused if its parameters, or values that it uses, are out of the
    reach of a spec."""
    name = maker.__name__ if maker.__name__.isidentifier() else "own"  # of a lambda
    _, _, *further = list(positional(maker).values()) if takes_two(maker) else refuse_net(maker)
    hints = get_type_hints(vars(maker).get("__init__", maker) if isinstance(maker, type) else maker)
    own: list[tuple[str, Any, Any]] = []
    for parameter in further:
        if parameter.default is parameter.empty:
            raise ValueError(f"net {name}: give {parameter.name} a default; only shape and outputs are passed")
        own.append((parameter.name, hints.get(parameter.name, type(parameter.default)), parameter.default))
    cls = make_dataclass(name, own, bases=(ModuleRecipe,), frozen=True)
    cls.__module__, cls.__doc__ = __name__, maker.__doc__ or f"{name}, a network of one's own."
    setattr(cls, MADE_OF, (maker, captured_values(maker)))
    return cls


def positional(maker: Maker) -> dict[str, inspect.Parameter]:
    """The parameters that can be given by position, or by keyword alone."""
    stars = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name: p for name, p in inspect.signature(maker).parameters.items() if p.kind not in stars}


def takes_two(maker: Maker) -> bool:
    try:
        inspect.signature(maker).bind((1, 1, 1), 1)
    except TypeError:
        return len(positional(maker)) > 2  # the others lack defaults, which gets a message of its own
    return len(positional(maker)) >= 2


def refuse_net(maker: Maker) -> list[Any]:
    raise ValueError(
        f"net {maker.__name__}{inspect.signature(maker)} cannot be built: it is called with the shape of an image, "
        "(channels, height, width), and the number of outputs; write def __init__(self, shape, outputs)"
    )


def recipes_in(module: ModuleType) -> list[type[Net]]:
    """Recipes of the module classes and functions of a file whose parameters begin with `shape, outputs`.

    A function counts if its return annotation is a module.
    """
    found: list[type[Net]] = []
    for value in definitions(module):
        if isinstance(value, type):
            is_net = issubclass(value, nn.Module)
        else:
            returned = get_type_hints(value).get("return")
            is_net = isinstance(returned, type) and issubclass(returned, nn.Module)
        if is_net and list(positional(value))[:2] == FIRST_PARAMETERS:
            found.append(recipe_class(value))
    return found
