"""Optimisers: any of torch.optim by name."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
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
    ) -> None:
        self.params = list(params)
        cls: Any = optimizer_class(name)
        options: dict[str, Any] = {"lr": lr, **accepted_options(name, momentum, weight_decay, nesterov, betas)}
        if "fused" in inspect.signature(cls).parameters and self.params[0].device.type == "cpu":
            options["fused"] = True
        self.torch = without_compiler(cls)(self.params, **options)
        self.fast = FusedStep(self.torch, name) if options.get("fused") and name in STATE and not momentum else None

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


def optimizer_class(name: str) -> type[torch.optim.Optimizer]:
    """The torch.optim class of a (lower-case) name."""
    if not isinstance(name, str):
        raise ValueError(f"optimizer {name!r} is unknown; choose from {', '.join(sorted(OPTIMIZERS))}")
    if name not in OPTIMIZERS:
        raise ValueError(unknown("optimizer", name, sorted(OPTIMIZERS)))
    return OPTIMIZERS[name]
