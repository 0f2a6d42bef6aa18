"""What `Images` accepts, what it makes of it, and what it refuses."""

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

from engram.data.errors import DataError
from engram.data.images import Images


def arrays(**changes: Any) -> dict[str, Any]:
    """Six training and four test images of 2×3 pixels in two classes."""
    x = np.arange(60, dtype=np.uint8).reshape(10, 2, 3)
    good = {"x_train": x[:6], "y_train": [0, 1, 0, 1, 0, 1], "x_test": x[6:], "y_test": [0, 1, 1, 0]}
    return good | changes


def pixels(value: Any, dtype: str) -> np.ndarray:
    x = np.zeros((6, 2, 3), dtype)
    x[4, 1, 2] = value
    return x


def test_grey_and_colour_shapes_are_channels_height_width():
    colour = np.zeros((6, 2, 3, 3), np.uint8), np.zeros((4, 2, 3, 3), np.uint8)
    assert Images(**arrays()).shape == (1, 2, 3)
    assert Images(**arrays(x_train=colour[0], x_test=colour[1])).shape == (3, 2, 3)


def test_arrays_become_uint8_and_int64_and_classes_have_names():
    images = Images(**arrays())
    assert [a.dtype for a in (images.x_train, images.y_train, images.x_test, images.y_test)] == ["u1", "i8"] * 2
    assert (images.n_classes, images.classes, images.name) == (2, ("0", "1"), "own")
    assert repr(images) == "Images(own: 6/4 images of 1×2×3, 2 classes)"


def test_floats_from_0_to_1_are_rounded_to_8_bits():
    x = np.array([0.0, 0.001, 0.5, 0.998, 1.0] + [0.25] * 31).reshape(6, 2, 3)
    images = Images(**arrays(x_train=x))
    assert images.x_train.ravel()[:6].tolist() == [0, 0, 128, 254, 255, 64]  # 0.255 127.5 254.49 63.75


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_every_8_bit_value_survives_the_way_through_floats(dtype):
    x = np.arange(256, dtype=np.uint8).reshape(4, 8, 8)
    images = Images((x / 255).astype(dtype), [0, 1, 0, 1], x, [0, 1, 0, 1])
    assert (images.x_train == x).all()


def test_torch_tensors_are_read_as_they_are():
    torch = pytest.importorskip("torch")
    plain = Images(**arrays())
    tensors = {name: torch.tensor(np.asarray(value)) for name, value in arrays().items()}
    assert Images(**tensors).fingerprint == plain.fingerprint


def test_the_fingerprint_is_of_the_content_alone():
    plain = Images(**arrays())
    same = Images(**arrays(y_test=np.array([0, 1, 1, 0], np.uint8)), classes=["cat", "dog"], name="pets", note="x")
    reversed_view = Images(**arrays(x_train=arrays()["x_train"][::-1].copy()[::-1]))
    assert re.fullmatch("sha256:[0-9a-f]{16}", plain.fingerprint)
    assert plain.fingerprint == same.fingerprint == reversed_view.fingerprint


def test_the_fingerprint_changes_with_a_pixel_a_label_and_the_shape():
    x = arrays()["x_train"].copy()
    x[3, 1, 1] ^= 1
    variants = [
        arrays(),
        arrays(x_train=x),
        arrays(y_train=[1, 0, 0, 1, 0, 1]),
        arrays(x_train=np.swapaxes(arrays()["x_train"].reshape(6, 3, 2), 1, 2)),
        {name: a.reshape(-1, 3, 2) if name[0] == "x" else a for name, a in arrays().items()},
    ]
    assert len({Images(**variant).fingerprint for variant in variants}) == len(variants)


def test_a_set_is_not_changed_by_assignment_and_can_be_replaced():
    images = Images(**arrays(), name="pets")
    with pytest.raises(dataclasses.FrozenInstanceError):
        images.name = "others"  # type: ignore[misc]
    assert dataclasses.replace(images, note="grey").name == "pets"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_train": np.zeros(6, np.uint8)}, r"x_train has shape \(6,\): expected \(n, height, width\)"),
        ({"x_train": np.zeros((6, 3, 8, 8), np.uint8)}, r"channels come last: np.moveaxis"),
        ({"x_train": np.zeros((6, 1, 8, 8), np.uint8)}, r"give x\[:, 0\]"),
        ({"x_test": np.zeros((4, 8, 8, 1), np.uint8)}, r"x_test .* give x\[\.\.\., 0\]"),
        ({"x_train": [[1, 2], [3]]}, "x_train cannot be read as an array"),
        ({"x_train": np.zeros((0, 2, 3), np.uint8)}, r"x_train is empty: its shape is \(0, 2, 3\)"),
        ({"x_train": np.zeros((6, 0, 3), np.uint8)}, "x_train is empty"),
        ({"x_train": pixels(np.nan, "f4")}, "x_train has pixels that are NaN or infinite"),
        ({"x_train": pixels(np.inf, "f4")}, "NaN or infinite"),
        ({"x_train": pixels(17.5, "f4")}, "from 0.0 to 17.5, not 0 to 1: give uint8 0–255 or floats 0–1"),
        ({"x_train": pixels(-0.1, "f8")}, "from -0.1 to 0.0"),
        ({"x_train": pixels(256, "i4")}, "int32 pixels from 0 to 256, not 0 to 255"),
        ({"x_train": pixels(-1, "i2")}, "from -1 to 0"),
        ({"x_train": pixels(True, "?")}, "pixels of type bool"),
        ({"x_train": pixels("a", "U1")}, "pixels of type <U1"),
        ({"y_train": [0, 1, 0, 1, 0]}, "x_train has 6 images, but y_train has 5 labels"),
        ({"y_test": [0, 1, 1, 0, 0]}, "x_test has 4 images, but y_test has 5 labels"),
        ({"y_train": [[0], [1], [0], [1], [0], [1]]}, r"y_train has shape \(6, 1\)"),
        ({"y_test": np.zeros(0, int)}, "y_test is empty"),
        ({"y_train": [0.0, 1, 0, 1, 0, 1]}, "y_train has labels of type float64; say what they are"),
        ({"y_train": ["a", "b"] * 3}, "labels of type <U1"),
        ({"y_train": [0, 1, -3, 1, 0, 1]}, "y_train has the label -3"),
        ({"y_train": np.array([0, 1, 0, 1, 0, 2**63], np.uint64)}, "has the label 9223372036854775808"),
        ({"x_test": np.zeros((4, 3, 3), np.uint8)}, r"images are \(2, 3\), test images are \(3, 3\)"),
        ({"y_train": [1, 3] * 3, "y_test": [1, 3] * 2}, "up to 3, but 0, 2 never occur.*return_inverse=True"),
        ({"y_train": [0, 10**15] * 3}, "up to 1000000000000000, but 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … never"),
        ({"y_train": [0] * 6, "y_test": [0] * 4}, "at least two classes"),
        ({"y_test": [0] * 4}, "no test images of class 1:"),
        ({"y_test": [0] * 4, "classes": ["cat", "dog"]}, r"no test images of class 1 \(dog\)"),
        ({"y_train": [1] * 6, "classes": ["cat", "dog"]}, r"no training images of class 0 \(cat\)"),
        ({"classes": ["cat", "dog", "cow"]}, r"3 class names for 2 classes \(labels 0 to 1\)"),
    ],
)
def test_wrong_arrays_are_refused_with_the_value_that_is_wrong(changes, message):
    with pytest.raises(DataError, match=message):
        Images(**arrays(**changes))


def test_a_tensor_that_numpy_cannot_read_is_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(DataError, match="x_train cannot be read as an array"):
        Images(**arrays(x_train=torch.zeros(6, 2, 3, requires_grad=True)))
