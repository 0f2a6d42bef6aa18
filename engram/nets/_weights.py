"""Weights from a file: safetensors, or a state dict that `torch.save` wrote. Neither can run code."""

from __future__ import annotations

import hashlib
import json
import math
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip
LENGTH = 8
"""Bytes of a safetensors file that give the length of its header, little-endian."""


def weights_hash(path: str) -> str:
    """Names the content of a file."""
    try:
        stat = check_regular(path).stat()
        return content_of_file(path, stat.st_mtime_ns, stat.st_size)
    except OSError as error:
        raise ValueError(f"weights {path} cannot be read: {error.strerror}") from error


def check_regular(path: str) -> Path:
    """Refuses a pipe or a device, which would be waited for, or read, without end."""
    if Path(path).exists() and not Path(path).is_file():
        raise OSError(0, "it is not a regular file")
    return Path(path)


@cache
def content_of_file(path: str, changed: int, size: int) -> str:
    """Read once for each state of the file."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def read_weights(path: str) -> dict[str, Tensor]:
    """The tensors of a file by name."""
    try:
        if check_regular(path).suffix == ".safetensors":
            return parse_safetensors(Path(path).read_bytes())
        found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ValueError(f"weights {path} cannot be read: {error.strerror}") from error
    except Exception as error:  # torch.load raises many types on corrupt files
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ValueError(f"weights {path} cannot be read: {why:.200}") from error
    if isinstance(found, dict) and isinstance(found.get("state_dict"), dict):
        found = found["state_dict"]
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise ValueError(f"weights {path} is not a state dict: tensors by name, as torch.save(net.state_dict()) writes")
    return found


def parse_safetensors(content: bytes) -> dict[str, Tensor]:
    """The tensors of a safetensors file: a header in JSON, then their bytes."""
    length = int.from_bytes(content[:LENGTH], "little")
    if len(content) < LENGTH or length > len(content) - LENGTH:
        raise ValueError("not a safetensors file: its header is longer than the file")
    header, body = json.loads(content[LENGTH : LENGTH + length]), bytearray(content[LENGTH + length :])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype, shape, (begin, end) = DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        whole = all(isinstance(n, int) and n >= 0 for n in (begin, end, *shape))
        if not whole or not begin <= end <= len(body) or end - begin != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"not a safetensors file: {name} has shape {shape} and bytes {begin} to {end}")
        flat = torch.frombuffer(body[begin:end], dtype=dtype) if end > begin else torch.empty(0, dtype=dtype)
        tensors[name] = flat.clone().reshape(shape)
    return tensors
