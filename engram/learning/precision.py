"""bfloat16 matrix products: which processors have them, and where a training step uses them."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import torch

Precision = Literal["fp32", "bf16"]
WITH_PRODUCTS = ("avx512_bf16", "amx_bf16", "bf16")
"""What /proc/cpuinfo calls the instructions of x86 and ARM processors that multiply bfloat16 matrices."""
WORTH_NAMING = ("avx", "avx2", "avx512f", "avx512_vnni", "asimd", "sve", *WITH_PRODUCTS)


class PrecisionError(ValueError):
    """The device has no instructions for the precision that is asked for."""


def check_precision(precision: Precision, device: torch.device) -> None:
    """Refuses bf16 on a device without bfloat16 products, which would emulate them more slowly than fp32."""
    if precision == "fp32" or has_bf16_products(device):
        return
    if device.type == "cpu":
        known = ", ".join(name for name in WORTH_NAMING if name in processor_flags()) or "no vector instructions"
        what = f"this processor has {known}, and none of {', '.join(WITH_PRODUCTS)}"
    else:
        what = f"{device} has none"
    raise PrecisionError(f"precision bf16 needs bfloat16 products, but {what}; use --precision fp32")


def has_bf16_products(device: torch.device) -> bool:
    """Whether a device multiplies bfloat16 matrices in hardware."""
    if device.type == "cuda":
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    if platform.system() == "Darwin":
        return False  # Apple's library for products has no bfloat16 that torch uses on the processor
    return bool(processor_flags() & set(WITH_PRODUCTS))


def processor_flags() -> set[str]:
    """The instruction sets of this processor, as Linux names them; nothing if that is not known."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    listed = (line.partition(":")[2] for line in lines if line.lower().startswith(("flags", "features")))
    return set(next(listed, "").split())


@contextmanager
def products(precision: Precision, device: torch.device) -> Iterator[None]:
    """Inside the block, linear layers and convolutions multiply in this precision; parameters stay 32-bit floats."""
    if precision == "fp32":
        yield
    else:
        with torch.autocast(device.type, torch.bfloat16, cache_enabled=False):
            yield
