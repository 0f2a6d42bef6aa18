"""Arrays that stay in their file: rows are read when they are needed, and a file is never in memory as a whole."""

from __future__ import annotations

import mmap
import zipfile
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engram.data.errors import DataError

MAPPED_BYTES = 32 << 20
"""Arrays of a file that are at least so large stay in it; smaller ones are read at once."""


def read_npy(path: Path) -> NDArray[Any]:
    """An array of a .npy file: mapped if it is large."""
    if path.stat().st_size >= MAPPED_BYTES:
        with path.open("rb") as file:
            if (found := map_array(file, path)) is not None:
                return found
    array: NDArray[Any] = np.load(path, allow_pickle=False)
    return array


def map_member(file: IO[bytes], path: Path, member: zipfile.ZipInfo) -> NDArray[Any] | None:
    """An array of an .npz file where it lies; None if it is small or compressed."""
    if member.compress_type != zipfile.ZIP_STORED or member.file_size < MAPPED_BYTES:
        return None
    file.seek(member.header_offset + 26)
    name_length, extra_length = (int.from_bytes(file.read(2), "little") for _ in range(2))
    file.seek(name_length + extra_length, 1)
    return map_array(file, path)


def map_array(file: IO[bytes], path: Path) -> NDArray[Any] | None:
    """The array whose .npy form begins where the file is at; None if it cannot be mapped row by row."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(file)
    if version not in readers:
        return None
    shape, by_column, dtype = readers[version](file)
    if by_column or dtype.hasobject:
        return None
    return np.memmap(path, dtype, "r", file.tell(), shape)


class MappedArray(NamedTuple):
    """Where a mapped array lies, for another process on a machine that has the file."""

    path: Path
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    stamp: tuple[int, int]
    """Size and time of the file's last change."""

    def open(self) -> NDArray[Any]:
        """The same array, or an error if the file is gone or was changed."""
        if not self.path.is_file() or stamp_of(self.path) != self.stamp:
            raise DataError(
                f"{self.path} is not there any more, or was changed; runs read it in place: leave it as it is meanwhile"
            )
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape)


def stamp_of(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def is_mapped(x: NDArray[Any]) -> bool:
    """Whether an array, or what it is a view of, lies in a file."""
    base: Any = x
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return isinstance(base, mmap.mmap)


def file_of(x: NDArray[Any]) -> Path | None:
    """The file that an array, or what it is a view of, lies in; None if there is none, or its name is not known."""
    base: Any = x
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap) and base.filename is not None:
            return Path(base.filename)
        base = base.base
    return None


def of_its_own(x: NDArray[Any], given: Any) -> NDArray[Any]:
    """An array that nobody else can change: a copy if it shares memory with what was given, and read-only. An array in
    a file stays there."""
    if is_mapped(x):
        return x
    if isinstance(given, np.ndarray) and x is given and x.base is None and not x.flags.writeable:
        return x
    own = x.copy() if np.may_share_memory(x, np.asarray(given)) else x
    own.flags.writeable = False
    return own


def is_view(x: NDArray[Any]) -> bool:
    """Whether it is a part of another array."""
    return isinstance(x.base, np.ndarray)


def by_place(x: Any) -> Any:
    """A whole mapped array as the place where it lies; anything else as it is."""
    whole: Any = x if isinstance(x, np.memmap) else getattr(x, "base", None)
    if type(whole) is not np.memmap or not is_mapped(whole) or is_view(whole) or whole.mode != "r":
        return x
    if whole.filename is None or (x.shape, x.dtype, x.strides) != (whole.shape, whole.dtype, whole.strides):
        return x
    path = Path(whole.filename)
    return MappedArray(path, whole.offset, x.dtype, x.shape, stamp_of(path))
