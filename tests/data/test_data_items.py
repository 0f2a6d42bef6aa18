"""Datasets of other libraries: read item by item, as they are, or refused with the item that is wrong."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import engram as eg
from engram.data import items
from engram.data.errors import DataError

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (12, 5, 4, 3), np.uint8)
LABELS = np.arange(12) % 3


class Rows:
    """A dataset of Hugging Face, as far as it can be seen: rows by column, features, a name for its content."""

    def __init__(self, rows, features=None, fingerprint="one"):
        self.rows, self.features, self._fingerprint, self.reads = rows, features or {}, fingerprint, 0
        self.format = {"type": None, "columns": ["image", "label"], "format_kwargs": {}}

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        self.reads += 1
        return self.rows[i]


class ClassLabel:
    names = ["cat", "dog", "cow"]  # noqa: RUF012


class Folder:
    """torchvision's ImageFolder, as far as it can be seen."""

    def __init__(self, root: Path, transform=None):
        self.root, self.transform = str(root), transform
        self.classes = sorted(path.name for path in root.iterdir())
        self.samples = [(str(p), i) for i, name in enumerate(self.classes) for p in sorted((root / name).iterdir())]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        path, label = self.samples[i]
        OPENED.append(path)
        image = Image.open(path).convert("RGB")
        return (self.transform(image) if self.transform else image), label


OPENED: list[str] = []


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    OPENED.clear()


@pytest.fixture
def folder(tmp_path):
    for i, (pixels, label) in enumerate(zip(PIXELS, LABELS, strict=True)):
        place = tmp_path / "pictures" / "abc"[label]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(place / f"{i:02}.png")
    return tmp_path / "pictures"


def as_pairs(pixels=PIXELS, labels=LABELS, convert=lambda x: x):
    return [(convert(x), int(y)) for x, y in zip(pixels, labels, strict=True)]


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x,
        Image.fromarray,
        lambda x: torch.from_numpy(x).permute(2, 0, 1),  # channels first, as tensors have them
        lambda x: torch.from_numpy(x).permute(2, 0, 1) / 255,  # torchvision's ToTensor
        lambda x: x.astype(np.float64) / 255,
        lambda x: x.tolist(),
    ],
    ids=["array", "pillow", "tensor", "to-tensor", "floats", "lists"],
)
def test_the_same_images_in_any_form_have_the_same_content(convert):
    wanted = eg.Images(PIXELS, LABELS, PIXELS, LABELS)
    found = eg.Images.of(as_pairs(convert=convert), as_pairs(convert=convert))
    assert found.fingerprint == wanted.fingerprint


def test_grey_images_with_and_without_a_channel():
    grey = PIXELS[..., 0]
    wanted = eg.Images(grey, LABELS, grey, LABELS).fingerprint
    for convert in (lambda x: x, lambda x: x[None], lambda x: x[..., None], lambda x: torch.from_numpy(x)[None]):
        assert eg.Images.of(as_pairs(grey, convert=convert), as_pairs(grey)).fingerprint == wanted


def test_rows_with_columns_and_class_names():
    rows = [{"image": Image.fromarray(x), "label": int(y)} for x, y in zip(PIXELS, LABELS, strict=True)]
    found = eg.Images.of(
        {"train": Rows(rows, {"label": ClassLabel()}), "test": Rows(rows, fingerprint="two")}, name="h"
    )
    assert found.classes == ("cat", "dog", "cow")
    assert found.fingerprint == eg.Images(PIXELS, LABELS, PIXELS, LABELS).fingerprint
    odd = [{"img": x, "fine": int(y), "coarse": 0} for x, y in zip(PIXELS, LABELS, strict=True)]
    with pytest.raises(DataError, match=r"item 0 of train has the columns img, fine, coarse; say which .*columns="):
        eg.Images.of(odd, odd)
    assert eg.Images.of(odd, odd, columns=("img", "fine")).fingerprint == found.fingerprint
    with pytest.raises(DataError, match="has no column 'label'; its columns are img, fine, coarse"):
        eg.Images.of(odd, odd, columns=("img", "label"))


def test_arrays_keep_every_bit_and_run():
    x = RNG.standard_normal((12, 7)).astype(np.float32)
    found = eg.Arrays.of(as_pairs(x), as_pairs(x, convert=torch.from_numpy))
    assert isinstance(found, eg.Arrays)
    assert found.x_train.dtype == np.float32
    assert found.x_train.tobytes() == found.x_test.tobytes() == x.tobytes()
    record = eg.run(eg.split(found, classes_per_task=1), eg.Rehearsal(capacity=4), training=eg.Training(epochs=1))
    assert record.status == "done"
    mixed = [([1, 2], 0), ([0.5, 1], 1)]
    assert eg.Arrays.of(mixed, mixed).x_train.tolist() == [[1, 2], [0.5, 1]]


def test_a_folder_of_files_is_cached_by_what_is_in_the_files(folder):
    first = eg.Images.of(Folder(folder), Folder(folder))
    assert first.classes == ("a", "b", "c")
    read_once = len(OPENED)
    assert read_once == 12 + items.READ_TWICE  # the test part was the same content, and came from the cache
    again = eg.Images.of(Folder(folder), Folder(folder))
    assert len(OPENED) == read_once
    assert again.fingerprint == first.fingerprint
    changed = PIXELS[0].copy()
    changed[0, 0] ^= 255
    Image.fromarray(changed).save(folder / "a" / "00.png")
    third = eg.Images.of(Folder(folder), Folder(folder))
    assert len(OPENED) == 2 * read_once
    assert third.fingerprint != first.fingerprint
    dark = eg.Images.of(*[Folder(folder, lambda image: image.point(lambda v: v // 2))] * 2)
    bright = eg.Images.of(*[Folder(folder, lambda image: image.point(lambda v: v))] * 2)
    assert len({dark.fingerprint, bright.fingerprint}) == 2
    assert bright.fingerprint == third.fingerprint


def test_a_damaged_cache_is_read_anew_and_lists_are_never_cached(folder, tmp_path):
    first = eg.Images.of(Folder(folder), Folder(folder))
    (cached,) = (tmp_path / "cache").rglob("*.npz")
    cached.write_bytes(cached.read_bytes()[:100])
    assert eg.Images.of(Folder(folder), Folder(folder)).fingerprint == first.fingerprint
    pairs = as_pairs()
    one = eg.Images.of(pairs, pairs).fingerprint
    pairs[3] = (255 - pairs[3][0], pairs[3][1])
    assert eg.Images.of(pairs, pairs).fingerprint != one


def test_rows_of_the_same_name_but_another_format_are_read_anew():
    rows = Rows([{"image": x, "label": int(y)} for x, y in zip(PIXELS, LABELS, strict=True)])
    eg.Images.of(rows, rows)
    reads = rows.reads
    eg.Images.of(rows, rows)
    assert rows.reads == reads
    rows.format = {**rows.format, "type": "custom", "format_kwargs": {"transform": lambda row: row}}
    eg.Images.of(rows, rows)
    assert rows.reads == 2 * reads


@pytest.mark.parametrize(
    ("number", "item", "message"),
    [
        (5, (PIXELS[0][:4], 0), r"item 5 of train has shape \(4, 4, 3\), item 0 has \(5, 4, 3\)"),
        (6, (PIXELS[0], 0.5), "item 6 of train has the label 0.5; give whole numbers"),
        (7, (PIXELS[0], [1, 0]), r"item 7 of train has the label \[1, 0\]"),
        (2, (PIXELS[0] - 300.0, 0), "item 2 of train has float64 pixels from -\\d"),
        (4, (PIXELS[0] / 255, 0), "item 4 of train has values of type float64, item 0 of type uint8"),
        (9, (np.full((5, 4), np.nan), 0), "item 9 of train has values that are NaN or infinite"),
        (3, (Image.new("RGBA", (4, 5)), 0), "item 3 of train is an image of mode RGBA; convert"),
        (1, PIXELS[0], "item 1 of train has type ndarray; expected a pair"),
        (8, (PIXELS[0], 0, 0), r"item 8 of train has 3 parts; give the places .*columns=\(0, 1\)"),
        (8, (PIXELS, 0), "item 8 of train has shape"),
        (8, ("cat.png", 0), "item 8 of train is 'cat.png'; give an array of numbers"),
    ],
)
def test_an_error_names_the_item(number, item, message):
    pairs = as_pairs()
    pairs[number] = item
    with pytest.raises(DataError, match=message):
        eg.Images.of(pairs, as_pairs())


def test_what_is_no_dataset_is_refused():
    class Broken(list):
        def __getitem__(self, i):
            raise OSError("disk on fire")

    for wrong, message in [
        ((as_pairs(), None), r"give two datasets: .*Images.of\(train, test\)"),
        (({"train": [], "valid": []}, None), "the dataset has the parts train, valid"),
        ((iter(as_pairs()), as_pairs()), "train has type list_iterator, which has no length"),
        ((as_pairs(), []), "test has no items"),
        ((PIXELS, as_pairs()), "train has type ndarray; give a dataset of"),
        ((Broken(as_pairs()), as_pairs()), "item 0 of train cannot be read: OSError: disk on fire"),
    ]:
        with pytest.raises(DataError, match=message):
            eg.Images.of(*wrong)


def test_random_transforms_are_noticed():
    class Random(list):
        def __getitem__(self, i):
            return RNG.integers(0, 256, (5, 4), np.uint8), int(LABELS[i])

    with pytest.raises(DataError, match="another one when it is read again: leave random transforms out"):
        eg.Images.of(Random(as_pairs()), as_pairs())


def test_reading_that_takes_long_says_where_it_is(monkeypatch):
    now = iter(range(1000))
    monkeypatch.setattr(items.time, "monotonic", lambda: next(now))
    said = []
    eg.Images.of(as_pairs(), as_pairs(), say=said.append)
    assert said
    assert all(line.endswith("of 12 items read") for line in said)
