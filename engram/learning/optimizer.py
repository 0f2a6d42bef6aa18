"""Optimisers: any of torch.optim by name, with fused kernels on the CPU."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    name.lower(): cls
    for name, cls in vars(torch.optim).items()
    if inspect.isclass(cls)
    and issubclass(cls, torch.optim.Optimizer)
    and name not in ("Optimizer", "LBFGS", "SparseAdam", "Muon")  # need a closure, sparse gradients, matrices alone
}
STATE = {"adam": ("exp_avg", "exp_avg_sq"), "adagrad": ("sum",), "sgd": ()}
"""What the fused kernels keep for each parameter, besides the step count."""
FULL = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "sum", "momentum_buffer")
"""Of what any optimiser with a fused kernel keeps: what has its parameter's shape."""


def leave_out_compiler() -> None:
    """Spares the import of torch's compiler, as long as that of torch itself: an optimiser's first call asks for it.

    It is there to mark these methods as not to be compiled, and nothing here is compiled.
    """
    for method in vars(torch.optim.Optimizer).values():
        plain = getattr(method, "__wrapped__", None)
        if plain is not None and "torch._dynamo" not in sys.modules:
            plain.__dynamo_disable = plain  # where torch keeps the marked method


leave_out_compiler()


class Optimizer:
    """A torch.optim optimiser whose per-step bookkeeping is skipped where a fused kernel does all the work.

    With sgd, adagrad and adam, `Optimizer.step` of torch spends as long in Python as half a kernel call; from
    the second step on, the same kernels are called on the same state directly. The bits are the same.
    """

    def __init__(
        self, params: Sequence[Tensor], name: str, lr: float, momentum: float = 0.0, weight_decay: float = 0.0
    ) -> None:
        self.params = list(params)
        cls = optimizer_class(name)
        options: dict[str, Any] = {"lr": lr, **accepted_options(name, momentum, weight_decay)}
        if "fused" in inspect.signature(cls).parameters and self.params[0].device.type == "cpu":
            options["fused"] = True
        self.torch = cls(self.params, **options)
        self.direct = name if options.get("fused") and name in ("adam", "adagrad", "sgd") and not momentum else ""
        self._state: list[list[Tensor]] | None = None
        self._count: Tensor | None = None

    def zero_grad(self) -> None:
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        for p in self.params:
            if p.grad is not None and p.grad.stride() != p.stride():  # fused kernels would pair up wrong elements
                p.grad = torch.empty_like(p).copy_(p.grad)
        grads = [p.grad for p in self.params if p.grad is not None]
        if len(grads) < len(self.params):  # from now on step counts differ, and torch keeps them
            self._hand_back()
            self.direct = ""
        if not self.direct:
            self.torch.step()
        elif self._state is None:
            inspect.unwrap(type(self.torch).step)(self.torch)  # what is wrapped around it imports the compiler too
            self._state = [[self.torch.state[p][key] for p in self.params] for key in STATE[self.direct]]
            self._count = self.torch.state[self.params[0]]["step"].clone() if self._state else None
        else:
            self._direct_step(grads, self._state)

    def _direct_step(self, grads: list[Tensor], state: list[list[Tensor]]) -> None:
        group = self.torch.param_groups[0]
        shared = {"lr": group["lr"], "weight_decay": group["weight_decay"], "maximize": False}
        counts = []
        if self._count is not None:
            self._count += 1
            counts = [self._count] * len(self.params)
        if self.direct == "adam":
            beta1, beta2 = group["betas"]
            torch._fused_adam_(
                self.params, grads, state[0], state[1], [], counts,
                beta1=beta1, beta2=beta2, eps=group["eps"], amsgrad=False, **shared,
            )  # fmt: skip
        elif self.direct == "adagrad":
            torch._fused_adagrad_(
                self.params, grads, state[0], counts, lr_decay=group["lr_decay"], eps=group["eps"], **shared
            )
        else:
            torch._fused_sgd_(
                self.params, grads, [], momentum=0.0, dampening=0.0, nesterov=False, is_first_step=False, **shared
            )

    def _hand_back(self) -> None:
        """Gives torch's own state the step count, which is kept once for all parameters meanwhile."""
        if self._count is not None:
            for p in self.params:
                self.torch.state[p]["step"].copy_(self._count)
        self._state = self._count = None

    def state_dict(self) -> dict[str, Any]:
        self._hand_back()
        return self.torch.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.torch.load_state_dict(state)
        for p, kept in self.torch.state.items():
            if self.direct and not set(STATE[self.direct]) <= set(kept):
                raise ValueError(f"no state of {self.direct}: it has {', '.join(kept)}")
            odd = [key for key, value in kept.items() if key in FULL and value is not None and value.shape != p.shape]
            if odd:  # fused kernels do not look
                raise ValueError(f"{odd[0]} has another shape than its parameter")
        self._state = self._count = None
        counts = {float(s["step"]) for s in self.torch.state.values() if "step" in s}
        if len(counts) > 1 or 0 < len(self.torch.state) < len(self.params):  # one count for all would be wrong
            self.direct = ""


def accepted_options(name: str, momentum: float, weight_decay: float) -> dict[str, float]:
    """Those of the two that the optimiser knows; one that it does not know must be 0."""
    accepted = inspect.signature(optimizer_class(name)).parameters
    options = {}
    for key, value in (("momentum", momentum), ("weight_decay", weight_decay)):
        if key in accepted:
            options[key] = value
        elif value:
            raise ValueError(f"{key} {value}: optimizer {name} has no {key}")
    return options


def optimizer_class(name: str) -> type[torch.optim.Optimizer]:
    """The torch.optim class of a (lower-case) name."""
    if not isinstance(name, str) or name not in OPTIMIZERS:
        near = difflib.get_close_matches(str(name).lower(), OPTIMIZERS, n=1)
        raise ValueError(
            f"optimizer {name!r} is unknown; "
            + (f"did you mean {near[0]}? " if near else "")
            + f"choose from {', '.join(sorted(OPTIMIZERS))}"
        )
    return OPTIMIZERS[name]
