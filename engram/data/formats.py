"""Readers of the file formats of published datasets; a file with wrong content raises DataError."""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engram.data.errors import DataError
from engram.data.mapped import map_member, read_npy

Bytes = NDArray[np.uint8]
PathOrBytes = str | Path | bytes

MAX_FILE_BYTES = 8 << 30
"""Largest unpacked size of a file. What is unpacked is held in memory, so a larger file is a mistake or an attack."""


class LabelledArrays(NamedTuple):
    """The content of a dataset's files: the arguments of `Images`."""

    x_train: NDArray[Any]
    y_train: NDArray[Any]
    x_test: NDArray[Any]
    y_test: NDArray[Any]
    classes: Sequence[str] | None = None
    targets: str = "classes"
    inputs: str = ""
    """What the file says that x are: `images` or `arrays`."""


class TaskArrays(NamedTuple):
    """The content of a file of several tasks: (x_train, y_train, x_test, y_test) of each."""

    tasks: list[list[NDArray[Any]]]
    classes: Sequence[str] | None = None
    inputs: str = ""


TASK_PART = re.compile(r"([xy]_(?:train|test))_(0|[1-9][0-9]{0,5})")


@contextmanager
def _open(source: PathOrBytes, what: str) -> Iterator[IO[bytes]]:
    """Open a file, and turn any error while it is read into a DataError that names it."""
    name = "the given data" if isinstance(source, bytes) else str(source)
    try:
        if not isinstance(source, bytes) and Path(source).exists() and not Path(source).is_file():
            raise OSError("it is not a regular file")  # a pipe would be waited for
        with io.BytesIO(source) if isinstance(source, bytes) else Path(source).open("rb") as file:
            yield file
    except OSError as error:
        reason = error.strerror or str(error)  # gzip and Pillow raise OSError without an errno
        raise DataError(f"{name} cannot be read as {what}: {reason}") from error
    except Exception as error:  # parsers raise many types on corrupt files
        raise DataError(f"{name} is not {what}: {error or type(error).__name__}") from error


def read_idx(source: PathOrBytes) -> Bytes:
    """Unsigned bytes in the idx format of MNIST, plain or gzipped: (n,) labels or (n, h, w) images."""
    with _open(source, "an idx file") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        stream = gzip.GzipFile(fileobj=file) if packed else file
        magic = stream.read(4)
        if len(magic) < 4 or magic[:3] != b"\0\0\x08" or not 1 <= magic[3] <= 4:
            raise ValueError(f"it starts with {magic.hex() or 'nothing'}, not with 000008 and 1 to 4 dimensions")
        shape = struct.unpack(f">{magic[3]}I", stream.read(4 * magic[3]))
        size = math.prod(shape)
        if size > MAX_FILE_BYTES:
            raise ValueError(f"its header claims {size} bytes")
        data = bytearray(stream.read(size + 1))  # one more byte: shows trailing data, and gzip checks its sum
        if len(data) != size:
            more = "more" if len(data) > size else f"only {len(data)}"
            raise ValueError(f"its header claims {size} bytes, but it has {more}")
        return np.frombuffer(data, np.uint8).reshape(shape)


def read_svhn(source: PathOrBytes) -> tuple[Bytes, Bytes]:
    """SVHN's cropped digits in a MATLAB 5 file: images (n, 32, 32, 3) and labels; the label 10 becomes 0."""
    from scipy.io import loadmat  # slow to import, and only needed here

    with _open(source, "a MATLAB 5 file of SVHN digits") as file:
        if not file.read(10).startswith(b"MATLAB 5.0"):
            raise ValueError("it does not start with 'MATLAB 5.0'")
        file.seek(0)
        arrays = loadmat(file, variable_names=["X", "y"])
        if not {"X", "y"} <= arrays.keys():
            raise ValueError("it lacks X or y")
        x, y = arrays["X"], arrays["y"]
        if x.dtype != np.uint8 or x.ndim != 4 or x.shape[:3] != (32, 32, 3):
            raise ValueError(f"X is {x.dtype} {x.shape}, not uint8 (32, 32, 3, n)")
        if y.dtype.kind not in "iuf" or y.shape != (x.shape[3], 1):
            raise ValueError(f"y is {y.dtype} {y.shape}, not numbers ({x.shape[3]}, 1)")
        if not np.isin(y, range(1, 11)).all():
            raise ValueError("y has labels other than 1 to 10")
        return np.ascontiguousarray(x.transpose(3, 0, 1, 2)), (y[:, 0] % 10).astype(np.uint8)


def read_cifar(
    source: PathOrBytes, train: Sequence[str], test: Sequence[str], names: str, label_bytes: int, n_classes: int
) -> LabelledArrays:
    """CIFAR's binary archive (tar.gz): its members `train`, `test` and `names`, without unpacking them to disk.

    A record has `label_bytes` labels, of which the last is used, and 3×32×32 pixels.
    """
    size = label_bytes + 3072
    wanted = {*train, *test, names}
    members: dict[str, bytes] = {}

    def part(which: Sequence[str]) -> tuple[Bytes, Bytes]:
        records = np.frombuffer(b"".join(members[name] for name in which), np.uint8).reshape(-1, size)
        x = records[:, label_bytes:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        y = records[:, label_bytes - 1]
        if len(y) and y.max() >= n_classes:
            raise ValueError(f"it has the label {y.max()}, above {n_classes - 1}")
        return np.ascontiguousarray(x), y.copy()

    with _open(source, "a CIFAR binary archive") as file, tarfile.open(fileobj=file, mode="r|gz") as archive:
        unpacked = 0
        for member in archive:
            unpacked += member.size
            if unpacked > MAX_FILE_BYTES:
                raise ValueError(f"it unpacks to more than {MAX_FILE_BYTES} bytes")
            if member.name in wanted and (content := archive.extractfile(member)):
                members[member.name] = content.read()
        for name in (*train, *test):
            if not (data := members.get(name)):
                raise ValueError(f"it has no {name}, or an empty one")
            if len(data) % size:
                raise ValueError(f"{name} has {len(data)} bytes, not a multiple of {size}")
        classes = members.get(names, b"").decode().split() or None
        return LabelledArrays(*part(train), *part(test), classes)


def read_strip(source: PathOrBytes) -> Bytes:
    """A PNG whose rows are 32×32 images, each flattened row by row, as (n, 32, 32, 3); at most 10,000 images."""
    from PIL import Image  # slow to import, and only needed here

    with _open(source, "a PNG strip of 32×32 images") as file, Image.open(file, formats=["PNG"]) as image:
        width, height = image.size
        if width != 1024 or height > 10_000 or image.mode != "RGB":  # before any pixel is unpacked
            raise ValueError(f"it is {width}×{height} {image.mode}, not 1024 wide, up to 10000 high, and RGB")
        return np.array(image).reshape(-1, 32, 32, 3)


def read_json_labels(source: PathOrBytes) -> NDArray[np.int64]:
    """A JSON list of labels."""
    with _open(source, "a JSON list of labels") as file:
        labels = json.load(file)
        if not isinstance(labels, list) or not all(type(label) is int for label in labels):
            raise ValueError("it is not a list of integers")
        return np.array(labels, dtype=np.int64)


def read_npz(source: PathOrBytes) -> LabelledArrays | TaskArrays:
    """A prepared dataset: x_train, y_train, x_test, y_test, or these four of each task: x_train_0, …, x_train_1, …;
    optionally `classes`, the class names, `inputs`, which says if x are images or arrays, and (without tasks)
    `targets`, which says if y are values or labels. Large arrays that are not compressed stay in the file."""
    with _open(source, "a prepared dataset (.npz)") as file:
        mapped: dict[str, NDArray[Any]] = {}
        unpacked = 0
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                found = None if isinstance(source, bytes) else map_member(file, Path(source), member)
                if found is None:
                    unpacked += member.file_size
                else:
                    mapped[member.filename.removesuffix(".npy")] = found
        if unpacked > MAX_FILE_BYTES:
            raise ValueError(f"it unpacks to {unpacked} bytes, more than {MAX_FILE_BYTES}")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return name_parts(arrays.files, lambda name: mapped[name] if name in mapped else arrays[name])


def read_npy_folder(folder: Path) -> LabelledArrays | TaskArrays:
    """The same, as files of a folder: x_train.npy, and so on. Large arrays stay in their files."""
    paths = {path.stem: path for path in sorted(folder.glob("*.npy"))}

    def read(name: str) -> NDArray[Any]:
        with _open(paths[name], "an array (.npy)"):
            return read_npy(paths[name])

    try:
        return name_parts(list(paths), read)
    except ValueError as error:  # a part is missing
        raise DataError(f"{folder} is not a dataset of .npy files: {error}") from error


def name_parts(names: Sequence[str], read: Callable[[str], NDArray[Any]]) -> LabelledArrays | TaskArrays:
    """A dataset of arrays with these names."""
    parts = ("x_train", "y_train", "x_test", "y_test")
    classes = [str(name) for name in np.atleast_1d(read("classes"))] if "classes" in names else None
    inputs = str(read("inputs")) if "inputs" in names else ""
    if tasks := numbered_tasks(names):
        return TaskArrays([[read(f"{part}_{task}") for part in parts] for task in tasks], classes, inputs)
    if missing := [name for name in parts if name not in names]:
        raise ValueError(f"it has no {', '.join(missing)}")
    x_train, y_train, x_test, y_test = (read(name) for name in parts)
    targets = str(read("targets")) if "targets" in names else "classes"
    return LabelledArrays(x_train, y_train, x_test, y_test, classes, targets, inputs)


def numbered_tasks(names: Sequence[str]) -> list[int]:
    """The tasks of names such as x_train_0, from 0 without gaps, with all four parts each; none if there are none."""
    found = {int(match[2]): set[str]() for name in names if (match := TASK_PART.fullmatch(name))}
    for name in names:
        if match := TASK_PART.fullmatch(name):
            found[int(match[2])].add(match[1])
        elif found and name not in ("classes", "inputs"):
            raise ValueError(f"it has {name} beside the arrays of tasks, such as x_train_0")
    for task in range(max(found, default=-1) + 1):
        if missing := {"x_train", "y_train", "x_test", "y_test"} - found.get(task, set()):
            raise ValueError(f"it has no {', '.join(f'{part}_{task}' for part in sorted(missing))}")
    return sorted(found)
