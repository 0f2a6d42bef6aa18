"""Optimisers: any of torch.optim by name."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from engram.core.messages import unknown
from engram.core.validation import is_number
from engram.learning.fast import STATE, FusedStep

OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    name.lower(): cls
    for name, cls in vars(torch.optim).items()
    if inspect.isclass(cls)
    and issubclass(cls, torch.optim.Optimizer)
    and name not in ("Optimizer", "LBFGS", "SparseAdam", "Muon")  # need a closure, sparse gradients, matrices alone
}
FULL = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "sum", "momentum_buffer")
"""Of what any optimiser with a fused kernel keeps: what has its parameter's shape."""


class Optimizer:
    """A torch.optim optimiser for the parameters of one network; its fused kernels are used on the CPU."""

    def __init__(
        self,
        params: Sequence[Tensor],
        name: str,
        lr: float,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        betas: tuple[float, ...] = (),
        own: Sequence[str] = (),
    ) -> None:
        self.params = list(params)
        cls: Any = optimizer_class(name)
        options: dict[str, Any] = {"lr": lr, **accepted_options(name, momentum, weight_decay, nesterov, betas)}
        options |= dict(parse_option(name, text) for text in own)
        if "fused" in inspect.signature(cls).parameters and self.params[0].device.type == "cpu":
            options["fused"] = True
        self.torch = without_compiler(cls)(self.params, **options)
        self.fast = (
            FusedStep(self.torch, name) if options.get("fused") and name in STATE and not (momentum or own) else None
        )

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.torch.param_groups

    def zero_grad(self) -> None:
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        for p in self.params:
            if p.grad is not None and p.grad.stride() != p.stride():  # fused kernels would pair up wrong elements
                p.grad = torch.empty_like(p).copy_(p.grad)
        if self.fast is None or not self.fast.step():
            self.torch.step()

    def state_dict(self) -> dict[str, Any]:
        if self.fast is not None:
            self.fast.hand_back()
        return self.torch.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.torch.load_state_dict(state)
        for p, kept in self.torch.state.items():
            if self.fast is not None and not set(STATE[self.fast.name]) <= set(kept):
                raise ValueError(f"no state of {self.fast.name}: it has {', '.join(kept)}")
            odd = [key for key, value in kept.items() if key in FULL and value is not None and value.shape != p.shape]
            if odd:  # fused kernels do not look
                raise ValueError(f"{odd[0]} has another shape than its parameter")
        if self.fast is not None:
            self.fast = FusedStep(self.torch, self.fast.name)
            counts = {float(s["step"]) for s in self.torch.state.values() if "step" in s}
            # one count for all parameters would be wrong
            self.fast.on = len(counts) <= 1 and len(self.torch.state) in (0, len(self.params))


@cache
def without_compiler(cls: Any) -> type[torch.optim.Optimizer]:
    """The same optimiser, as a class of its own, without the decorators that import torch's compiler.

    That import takes as long as torch's own, in every process that computes. The decorators mark methods as not to be
    compiled, and nothing here is compiled.
    """
    plain = {
        name: inspect.unwrap(value)
        for base in reversed(cls.__mro__)
        for name, value in vars(base).items()
        if inspect.isfunction(value) and hasattr(value, "__wrapped__")
    }
    return type(cls.__name__, (cls,), {**plain, "step": torch.no_grad()(inspect.unwrap(cls.step))})


def accepted_options(
    name: str, momentum: float, weight_decay: float, nesterov: bool = False, betas: tuple[float, ...] = ()
) -> dict[str, Any]:
    """Those that the optimiser knows; one that it does not know must be 0, False or empty. Empty betas are its own."""
    accepted = inspect.signature(optimizer_class(name)).parameters
    options: dict[str, Any] = {"momentum": momentum, "weight_decay": weight_decay}
    options |= ({"nesterov": True} if nesterov else {}) | ({"betas": betas} if betas else {})
    for key, value in options.items():
        if key not in accepted and value:
            raise ValueError(f"{key} {value}: optimizer {name} has no {key}")
    if nesterov and not momentum:
        raise ValueError("nesterov True needs momentum; give a momentum above 0, such as 0.9")
    if betas and not (len(betas) == 2 and all(is_number(beta) and 0 <= beta < 1 for beta in betas)):
        raise ValueError(f"betas {betas} is out of range; give two numbers, 0 or more and below 1")
    return {key: value for key, value in options.items() if key in accepted}


HERE = ("params", "lr", "momentum", "weight_decay", "nesterov", "betas")
"""Fields of optimisers that are flags of their own."""
INTERNAL = ("fused", "foreach", "capturable", "differentiable", "maximize")


def own_fields(name: str) -> dict[str, Any]:
    """The fields that an optimiser has beside the common ones, with their defaults."""
    parameters = inspect.signature(optimizer_class(name)).parameters
    return {field: p.default for field, p in parameters.items() if field not in (*HERE, *INTERNAL)}


def parse_option(name: str, text: str) -> tuple[str, Any]:
    """(`eps`, 1e-7) from `eps=1e-7`; refused if the optimiser has no such field, or its value is of another type."""
    field, equals, value = str(text).partition("=")
    known = own_fields(name)
    if field in HERE:
        raise ValueError(f"optimizer_options {text}: {field} is a value of its own; give --{field.replace('_', '-')}")
    if field not in known:
        raise ValueError(f"{unknown('optimizer option', field, known)} (optimizer {name})")
    try:
        if not equals:
            raise ValueError
        found = json.loads(value.lower()) if value.lower() in ("true", "false") else parse_numbers(value)
    except ValueError:
        raise ValueError(f"optimizer_options {text}: give a number, true or false, as in eps=1e-7") from None
    default = known[field]
    kinds = {bool: bool, tuple: tuple, float: (int, float), int: (int, float)}.get(type(default), object)
    if isinstance(found, bool) != isinstance(default, bool) or not isinstance(found, kinds):  # type: ignore[arg-type]
        raise ValueError(f"optimizer_options {text}: {field} of {name} is of another type, such as {default}")
    return field, found


def parse_numbers(text: str) -> Any:
    """A number, or several with commas between them."""
    values = [float(word) for word in text.split(",")]
    return values[0] if len(values) == 1 else tuple(values)


def check_own_options(name: str, given: Any) -> tuple[str, ...]:
    """The options in one form: sorted, each once, without those that have their default. A mapping is taken too."""
    texts = [f"{k}={show_option(v)}" for k, v in given.items()] if isinstance(given, Mapping) else list(given)
    parsed = [parse_option(name, text) for text in texts]
    if len({field for field, _ in parsed}) < len(parsed):
        raise ValueError(f"optimizer_options {' '.join(map(str, texts))}: a field is given twice")
    chosen = {field: value for field, value in parsed if value != own_fields(name)[field]}
    if chosen:
        try:
            optimizer_class(name)([torch.zeros(1, requires_grad=True)], **chosen)
        except (ValueError, TypeError, RuntimeError) as error:
            raise ValueError(f"optimizer_options {' '.join(map(str, texts))}: {error}") from error
    return tuple(f"{field}={show_option(value)}" for field, value in sorted(chosen.items()))


def show_option(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ",".join(map(show_option, value))
    return str(value).lower() if isinstance(value, bool) else repr(float(value)) if is_number(value) else str(value)


def optimizer_class(name: str) -> type[torch.optim.Optimizer]:
    """The torch.optim class of a (lower-case) name."""
    if not isinstance(name, str):
        raise ValueError(f"optimizer {name!r} is unknown; choose from {', '.join(sorted(OPTIMIZERS))}")
    if name not in OPTIMIZERS:
        raise ValueError(unknown("optimizer", name, sorted(OPTIMIZERS)))
    return OPTIMIZERS[name]
