"""Each reader on a file made by hand, on files that are wrong in a known way, and on damaged ones."""

import gzip
import io
import json
import os
import struct
import tarfile
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.io import savemat

from engram.data.errors import DataError
from engram.data.formats import read_cifar, read_idx, read_json_labels, read_npz, read_strip, read_svhn

RNG = np.random.default_rng(0)
X = RNG.integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
Y = np.array([7, 0, 9], np.uint8)


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def mat(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    savemat(file, arrays, do_compression=True)
    return file.getvalue()


SVHN = {"X": X.transpose(1, 2, 3, 0), "y": np.array([[7], [10], [9]], np.uint8)}


def tar(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


RECORDS = b"".join(bytes([3, y]) + x.transpose(2, 0, 1).tobytes() for x, y in zip(X, Y, strict=True))
CIFAR = {"c/train.bin": RECORDS, "c/test.bin": RECORDS[:3074], "c/names.txt": b"ant\nbee\n"}


def cifar(place):
    return read_cifar(place, ["c/train.bin"], ["c/test.bin"], "c/names.txt", label_bytes=2, n_classes=10)


def png(x: np.ndarray, **options) -> bytes:
    file = io.BytesIO()
    Image.fromarray(x).save(file, "PNG", **options)
    return file.getvalue()


def npz(**arrays) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


PARTS = {"x_train": X, "y_train": Y, "x_test": X[:1], "y_test": Y[:1]}


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx_plain_and_gzipped(pack, tmp_path):
    (tmp_path / "file").write_bytes(pack(idx(X[..., 0])))
    assert (read_idx(tmp_path / "file") == X[..., 0]).all()
    assert read_idx(pack(idx(Y))).tolist() == [7, 0, 9]


def test_arrays_of_a_reader_can_be_written():  # torch warns if they cannot
    x, y = read_svhn(mat(**SVHN))
    for array in (read_idx(idx(Y)), x, y, *cifar(tar(CIFAR))[:4], read_strip(png(X.reshape(3, 1024, 3)))):
        assert array.flags.writeable
        assert array.flags.c_contiguous


def test_svhn_is_turned_to_images_first_and_its_label_10_is_the_digit_0():
    x, y = read_svhn(mat(**SVHN))
    assert (x == X).all()
    assert y.tolist() == [7, 0, 9]


def test_cifar_records_are_planes_and_the_last_label_counts():
    found = cifar(tar(CIFAR))
    assert (found.x_train == X).all()
    assert found.y_train.tolist() == [7, 0, 9]
    assert (found.x_test == X[:1]).all()
    assert found.classes == ["ant", "bee"]
    assert cifar(tar({name: CIFAR[name] for name in ("c/test.bin", "c/train.bin")})).classes is None


def test_a_row_of_a_strip_is_a_flattened_image():
    assert (read_strip(png(X.reshape(3, 1024, 3))) == X).all()


def test_npz_with_and_without_class_names():
    plain = read_npz(npz(**PARTS))
    assert (plain.x_train == X).all()
    assert plain.classes is None
    assert read_npz(npz(**PARTS, classes=["ant", "bee"])).classes == ["ant", "bee"]


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (read_idx, b"", "starts with nothing"),
        (read_idx, b"\x89PNG....", "starts with 89504e47, not with 000008"),
        (read_idx, b"\0\0\x0d\x01" + bytes(8), "starts with 00000d01"),
        (read_idx, idx(Y)[:6], "is not an idx file: unpack requires"),
        (read_idx, idx(Y)[:-1], "claims 3 bytes, but it has only 2"),
        (read_idx, idx(Y) + b"x", "claims 3 bytes, but it has more"),
        (read_idx, struct.pack(">4B4I", 0, 0, 8, 4, *[60000] * 4), "claims 12960000000000000000 bytes"),
        (read_idx, gzip.compress(idx(X), mtime=0)[:-20], "ended before"),
        (read_idx, gzip.compress(idx(Y), mtime=0)[:-8] + bytes(8), "CRC check failed"),
        (read_idx, b"\x1f\x8b" + idx(Y), "cannot be read as an idx file"),
        (read_svhn, b"MATLAB 7.3 MAT-file", "does not start with 'MATLAB 5.0'"),
        (read_svhn, mat(X=SVHN["X"]), "lacks X or y"),
        (read_svhn, mat(X=SVHN["X"].astype(float), y=SVHN["y"]), "X is float64"),
        (read_svhn, mat(X=X, y=SVHN["y"]), r"X is uint8 \(3, 32, 32, 3\), not"),
        (read_svhn, mat(X=SVHN["X"], y=SVHN["y"][:2]), r"y is uint8 \(2, 1\), not numbers \(3, 1\)"),
        (read_svhn, mat(X=SVHN["X"], y=SVHN["y"] + 1), "other than 1 to 10"),
        (read_svhn, mat(**SVHN)[:-50], "is not a MATLAB 5 file"),
        (cifar, b"not gzip", "is not a CIFAR binary archive"),
        (cifar, tar(CIFAR | {"c/test.bin": b""}), "no c/test.bin, or an empty one"),
        (cifar, tar({"c/train.bin": RECORDS}), "no c/test.bin"),
        (cifar, tar(CIFAR | {"c/train.bin": RECORDS[:-1]}), "9221 bytes, not a multiple of 3074"),
        (cifar, tar(CIFAR | {"c/train.bin": b"\x03\x0a" + RECORDS[2:]}), "label 10, above 9"),
        (cifar, tar(CIFAR)[:3000], "is not a CIFAR binary archive|cannot be read"),
        (read_strip, b"GIF89a", "cannot be read as a PNG strip"),
        (read_strip, png(X[0]), "is 32×32 RGB, not 1024 wide"),
        (read_strip, png(np.zeros((2, 1024), np.uint8)), "is 1024×2 L"),
        (read_strip, png(np.zeros((10001, 1024, 3), np.uint8), compress_level=1), "is 1024×10001 RGB"),
        (read_strip, png(X.reshape(3, 1024, 3))[:-2000], "PNG strip"),
        (read_json_labels, b"[1, 2", "is not a JSON list of labels"),
        (read_json_labels, b'{"1": 2}', "not a list of integers"),
        (read_json_labels, b"[1, true]", "not a list of integers"),
        (read_json_labels, b"[" * 100_000, "JSON list of labels"),
        (read_npz, b"PK not really", "is not a prepared dataset"),
        (read_npz, npz(**PARTS)[:-100], "is not a prepared dataset"),
        (read_npz, npz(x_train=X, y_test=Y), "it has no y_train, x_test"),
        (read_npz, npz(**PARTS | {"y_test": np.array([{}, 1], object)}), "Object arrays cannot be loaded"),
    ],
)
def test_a_wrong_file_is_refused_by_name_and_fault(read, content, message, tmp_path):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DataError, match=message) as refused:
        read(tmp_path / "file")
    assert str(tmp_path / "file") in str(refused.value)


@pytest.mark.parametrize("read", [read_idx, read_svhn, cifar, read_strip, read_json_labels, read_npz])
def test_a_file_that_is_not_there_is_refused(read, tmp_path):
    with pytest.raises(DataError, match=r"none cannot be read as .*: No such file"):
        read(tmp_path / "none")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match=r"pipe cannot be read as .*: it is not a regular file"):
        read_npz(tmp_path / "pipe")


def test_archives_that_claim_too_much_are_not_unpacked(monkeypatch):
    monkeypatch.setattr("engram.data.formats.MAX_FILE_BYTES", 9000)
    for read, content in ((cifar, tar(CIFAR)), (read_npz, npz(**PARTS)), (read_idx, idx(X))):
        with pytest.raises(DataError, match=r"unpacks to|claims"):
            read(content)


VALID: list[tuple[Callable, bytes]] = [
    (read_idx, idx(X)),
    (read_idx, gzip.compress(idx(X[..., 0]), mtime=0)),
    (read_svhn, mat(**SVHN)),
    (cifar, tar(CIFAR)),
    (read_strip, png(X.reshape(3, 1024, 3))),
    (read_json_labels, json.dumps([1, 2, 30]).encode()),
    (read_npz, npz(**PARTS, classes=["ant"])),
]


@pytest.mark.parametrize(("read", "valid"), VALID, ids=lambda value: getattr(value, "__name__", ""))
@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_never_worse(read, valid, data):
    damage = data.draw(st.sampled_from(["noise", "cut", "flips", "header"]))
    if damage == "noise":
        content = valid[: data.draw(st.integers(0, 16))] + data.draw(st.binary(max_size=300))
    elif damage == "cut":
        content = valid[: data.draw(st.integers(0, len(valid) - 1))]
    else:
        end = len(valid) if damage == "flips" else min(len(valid), 300)
        damaged = bytearray(valid)
        for at in data.draw(st.lists(st.integers(0, end - 1), min_size=1, max_size=5)):
            damaged[at] ^= 1 << data.draw(st.integers(0, 7))
        content = bytes(damaged)
    assert refusal(read, content).startswith("the given data ")


def refusal(read: Callable, content: bytes) -> str:
    try:
        read(content)
    except DataError as error:
        return str(error)
    return "the given data are still readable"
