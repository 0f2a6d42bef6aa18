"""Datasets by name: known values of the real ones, made-up ones in each published form, names, own files."""

import dataclasses
import gzip
import hashlib
import io
import json
import struct
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from engram.data.catalog import available, get, images
from engram.data.errors import DataError
from engram.data.files import Form
from engram.data.sets import CATALOG
from engram.data.sources import File, Host
from engram.scenarios.create import scenario


@pytest.mark.mnist
def test_mnist_has_the_published_number_of_images_of_each_digit(mnist):
    train = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    test = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert np.bincount(mnist.y_train).tolist() == train
    assert np.bincount(mnist.y_test).tolist() == test
    assert mnist.shape == (1, 28, 28)
    assert mnist.x_train[0, 5, 12:16].tolist() == [3, 18, 18, 18]  # the top of the first 5
    assert mnist.fingerprint == "sha256:53b4de002add035e"
    # The mean and standard deviation that everyone normalises with.
    share = np.bincount(mnist.x_train.ravel(), minlength=256) / mnist.x_train.size
    mean = share @ np.arange(256) / 255
    assert mean == pytest.approx(0.1307, abs=5e-5)
    assert np.sqrt(share @ (np.arange(256) / 255 - mean) ** 2) == pytest.approx(0.3081, abs=5e-5)


@pytest.mark.mnist
def test_mnist_is_loaded_from_the_cache_in_well_under_a_second(mnist):
    started = time.perf_counter()
    images("mnist")
    assert time.perf_counter() - started < 1


@pytest.mark.slow
def test_fashion_mnist_has_6000_and_1000_images_of_each_article(fashion_mnist):
    assert np.bincount(fashion_mnist.y_train).tolist() == [6000] * 10
    assert np.bincount(fashion_mnist.y_test).tolist() == [1000] * 10
    assert fashion_mnist.classes[fashion_mnist.y_train[0]] == "Ankle boot"
    assert fashion_mnist.x_train.mean() / 255 == pytest.approx(0.2860, abs=5e-5)


# Made-up sets in the published forms. Each function writes the files of `x`, `y` (train), `x[::-1]`, `y[::-1]` (test).


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def mnist_files(x, y):
    return [idx(x), idx(y), idx(x[::-1]), idx(y[::-1])]


def emnist_files(x, y):
    return [gzip.compress(content) for content in mnist_files(x.transpose(0, 2, 1), y + np.uint8(1))]


def svhn_files(x, y):
    def mat(x, y):
        file = io.BytesIO()
        savemat(file, {"X": x.transpose(1, 2, 3, 0), "y": np.where(y == 0, 10, y)[:, None].astype(np.uint8)})
        return file.getvalue()

    return [mat(x, y), mat(x[::-1], y[::-1])]


def archive(members: dict[str, bytes]) -> list[bytes]:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return [file.getvalue()]


def records(x, y, before: bytes = b"") -> bytes:
    planes = x.transpose(0, 3, 1, 2)
    return b"".join(before + bytes([label]) + image.tobytes() for image, label in zip(planes, y, strict=True))


def cifar10_files(x, y):
    parts = zip(np.array_split(x, 5), np.array_split(y, 5), strict=True)
    members = {f"data_batch_{i}.bin": records(*part) for i, part in enumerate(parts, 1)}
    members |= {"test_batch.bin": records(x[::-1], y[::-1]), "readme.html": b"<html>"}
    return archive({f"cifar-10-batches-bin/{name}": content for name, content in members.items()})


def cifar100_files(x, y):
    members = {"train.bin": records(x, y, b"\x05"), "test.bin": records(x[::-1], y[::-1], b"\x05")}
    members["fine_label_names.txt"] = "\n".join(CATALOG["cifar100"].classes).encode()
    return archive({f"cifar-100-binary/{name}": content for name, content in members.items()})


def strip_files(x, y):
    def strip(x):
        file = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(x).reshape(len(x), 1024, 3)).save(file, "PNG")
        return file.getvalue()

    labels = [json.dumps(part.tolist()).encode() for part in (y, y[::-1])]
    return [*(strip(part) for part in (*np.array_split(x, 5), x[::-1])), *labels]


@pytest.mark.parametrize(
    ("name", "form", "files"),
    [
        ("mnist", 0, mnist_files),
        ("fashion-mnist", 0, mnist_files),
        ("emnist-letters", 0, emnist_files),
        ("svhn", 0, svhn_files),
        ("cifar10", 0, cifar10_files),
        ("cifar10", 1, strip_files),
        ("cifar100", 0, cifar100_files),
    ],
)
def test_a_made_up_set_in_the_published_form_is_read_as_it_was_made(
    folders, monkeypatch, name: str, form: int, files: Callable[..., list[bytes]]
):
    known = CATALOG[name]
    channels, *size = known.shape
    y = np.arange(len(known.classes), dtype=np.uint8)
    x = np.random.default_rng(0).integers(0, 256, (len(y), *size, channels), dtype=np.uint8)
    x = x[..., 0] if channels == 1 else x
    put(folders[0], monkeypatch, name, form, files(x, y))
    found = images(name)
    assert (found.x_train == x).all()
    assert (found.y_train == y).all()
    assert (found.x_test == x[::-1]).all()
    assert (found.y_test == y[::-1]).all()
    assert (found.classes, found.shape, found.name, found.note) == (known.classes, known.shape, name, "")
    assert get(name) == available()[name] == folders[0] / name


def put(folder: Path, monkeypatch, name: str, form: int, contents: list[bytes]) -> None:
    """Write files of a known set and have the catalogue know their hashes, and no other form or source."""
    known = CATALOG[name]
    names = [file.name for file in known.forms[form].files]
    (folder / name).mkdir(parents=True)
    for file, content in zip(names, contents, strict=True):
        (folder / name / file).write_bytes(content)
    sums = (hashlib.sha256(content).hexdigest() for content in contents)
    made = Form(tuple(map(File, names, sums)), known.forms[form].read, ())
    monkeypatch.setitem(CATALOG, name, dataclasses.replace(known, forms=(made,)))


def test_a_set_whose_labels_are_wrong_is_refused_by_name(folders, monkeypatch):
    put(folders[0], monkeypatch, "mnist", 0, mnist_files(np.zeros((10, 28, 28), np.uint8), np.zeros(10, np.uint8)))
    with pytest.raises(DataError, match=r"^mnist: all images have the label 0"):
        images("mnist")


def prepared(folder: Path, name: str, n_classes: int, **more: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    x, y = np.full((n_classes, 4, 4), 9, np.uint8), np.arange(n_classes, dtype=np.uint8)
    np.savez(folder / f"{name}.npz", x_train=x, y_train=y, x_test=x, y_test=y, **more)
    return folder / f"{name}.npz"


@pytest.mark.parametrize(
    ("name", "file", "note"),
    [
        ("mnist", "mnist", "prepared copy"),
        ("svhn", "svhn-gray", "prepared grey copy, re-cropped from the photographs: not the official pixels"),
        ("cifar100", "cifar100-gray", "prepared grey copy, images in another order"),
        ("cyrillic-letters", "cyrillic-letters", ""),
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_a_prepared_file_is_used_as_it_is(folders, place, name, file, note):
    path = prepared(folders[place], file, len(CATALOG[name].classes))
    found = images(name)
    assert (found.shape, found.name, found.note, found.classes) == ((1, 4, 4), name, note, CATALOG[name].classes)
    assert available() == dict.fromkeys(CATALOG) | {name: path}
    assert get(name) == folders[place]


def test_a_full_prepared_copy_comes_before_a_grey_one_and_the_named_folder_before_the_cache(folders):
    prepared(folders[0], "svhn-gray", 10)
    prepared(folders[1], "svhn", 10)
    assert images("svhn").note == "prepared copy"
    path = prepared(folders[0], "svhn", 10)
    assert available()["svhn"] == path


def test_own_sets_are_known_by_name_and_by_path(folders, tmp_path):
    path = prepared(folders[0], "pets", 2, classes=["cat", "dog"])
    elsewhere = prepared(tmp_path / "elsewhere", "birds", 3)
    assert (images("pets").name, images("pets").classes) == ("pets", ("cat", "dog"))
    assert (images(str(elsewhere)).name, images(str(elsewhere)).n_classes) == (str(elsewhere), 3)
    assert available()["pets"] == path
    assert get("pets") == folders[0]


def test_a_wrong_prepared_file_is_refused_by_its_path(folders):
    path = prepared(folders[0], "mnist", 5)
    with pytest.raises(DataError, match=r"mnist\.npz: 10 class names for 5 classes"):
        images("mnist")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"mnist\.npz is not a prepared dataset"):
        images("mnist")
    for call in (images, get):
        with pytest.raises(DataError, match=r"file none\.npz does not exist"):
            call("none.npz")


def test_an_unknown_name_is_refused_with_the_nearest_and_all(folders):
    prepared(folders[0], "pets", 2)
    with pytest.raises(DataError, match=r"dataset 'fashion-mnits' is unknown; did you mean fashion-mnist") as refused:
        images("fashion-mnits")
    assert all(name in str(refused.value) for name in [*CATALOG, "pets"])
    for call in (images, get):
        with pytest.raises(DataError, match=r"dataset '\.\./mnist' is unknown"):
            call("../mnist")


def test_a_dataset_that_nobody_publishes_says_which_file_to_put_into_which_folder(folders):
    with pytest.raises(DataError, match=r"put the prepared file cyrillic-letters\.npz in") as refused:
        images("cyrillic-letters")
    assert all(str(folder) in str(refused.value) for folder in folders)


@pytest.mark.parametrize("call", [images, get])
def test_if_no_source_works_the_error_names_the_prepared_files_that_can_be_used(folders, monkeypatch, dead, call):
    known = CATALOG["svhn"]
    forms = tuple(dataclasses.replace(form, sources=(Host(dead),)) for form in known.forms)
    monkeypatch.setitem(CATALOG, "svhn", dataclasses.replace(known, forms=forms))
    with pytest.raises(DataError, match=r"\(or a prepared file svhn\.npz or svhn-gray\.npz in ") as refused:
        call("svhn", say=lambda line: None)
    assert "train_32x32.mat, test_32x32.mat" in str(refused.value)


def test_every_set_has_as_many_class_names_as_classes_and_each_file_a_hash():
    assert [len(known.classes) for known in CATALOG.values()] == [10, 10, 26, 10, 10, 100, 26]
    for known in CATALOG.values():
        assert len(set(known.classes)) == len(known.classes)
        for form in known.forms:
            assert all(len(bytes.fromhex(file.sha256)) == 32 for file in form.files)
            assert form.sources


def test_the_long_queue_is_made_from_the_published_files(folders, monkeypatch):
    """All five datasets in their published forms, two of them in colour, become 78 tasks of 28×28 pixels."""
    forms = {
        "mnist": mnist_files, "fashion-mnist": mnist_files, "emnist-letters": emnist_files, "svhn": svhn_files,
        "cifar100": cifar100_files,
    }  # fmt: skip
    for seed, (name, files) in enumerate(forms.items()):
        channels, *size = CATALOG[name].shape
        y = np.arange(len(CATALOG[name].classes), dtype=np.uint8)
        x = np.random.default_rng(seed).integers(0, 256, (len(y), *size, channels), dtype=np.uint8)
        put(folders[0], monkeypatch, name, 0, files(x[..., 0] if channels == 1 else x, y))
    found = scenario("long-queue/task")
    tasks = found.tasks(0)
    assert [images.name for images in found.images] == list(forms)
    assert (len(tasks), tasks.outputs, tasks.shape) == (78, 156, (1, 28, 28))
    assert [task.classes for task in tasks][10:24:13] == [("A", "B"), ("0", "1")]
    assert tasks[-1].classes == ("woman", "worm")
    assert {(len(task.train), len(task.test)) for task in tasks} == {(2, 2)}
