"""Arrays that are not pictures reach the network as they are."""

import re
import time

import numpy as np
import pytest
import torch

import engram as eg
from engram.data.arrays import looks_like_images
from engram.data.catalog import images as images_by_name
from engram.data.errors import DataError
from engram.runs.spec import Spec
from engram.scenarios.kinds import ScenarioError


def features(shape=(6,), classes=4, per_class=30, seed=0, dtype=np.float32) -> eg.Arrays:
    """Clusters: class k has its own centre."""
    rng = np.random.default_rng(seed)
    centres = 3 * rng.standard_normal((classes, *shape))

    def part(n: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.repeat(np.arange(classes), n)
        return (centres[y] + rng.standard_normal((len(y), *shape))).astype(dtype), y

    return eg.Arrays(*part(per_class), *part(10))


def inputs_of(tasks, part="train") -> torch.Tensor:
    return torch.cat([batch.x for task in tasks for batch in getattr(task, part).chunks()])


@pytest.mark.parametrize("shape", [(6,), (2, 5), (3, 4, 4)])
def test_the_network_sees_the_values_bit_for_bit(shape):
    data = features(shape)
    for part, x in (("train", data.x_train), ("test", data.x_test)):
        seen = inputs_of(eg.split(data).tasks(), part)
        assert torch.equal(seen, torch.from_numpy(x.reshape(len(x), -1)))  # classes are in order


def test_whole_numbers_arrive_as_they_are():
    x = np.arange(-10, 10, dtype=np.int64).reshape(10, 2)
    data = eg.Arrays(x, [0, 1] * 5, x, [0, 1] * 5)
    (batch,) = eg.permute(data, kind="domain", permutations=2).tasks()[0].train.chunks()
    assert batch.x.dtype == torch.float32
    assert batch.x.tolist() == x.tolist()


def test_features_are_normalised_by_the_training_part_if_asked():
    x = np.array([[0.0, 5.0], [2.0, 5.0], [4.0, 5.0], [6.0, 5.0]])
    data = eg.Arrays(x, [0, 1, 0, 1], x + 1, [0, 1, 0, 1])
    scenario = eg.permute(data, kind="domain", permutations=2, normalize="train")
    train, test = (inputs_of(scenario.tasks()[:1], part) for part in ("train", "test"))
    expected = (x[:, 0] - 3) / np.sqrt(5)  # mean 3, variance (9 + 1 + 1 + 9) / 4
    assert train[:, 0].numpy() == pytest.approx(expected)
    assert train[:, 1].tolist() == [0.0] * 4  # a constant feature is only centred
    assert test[:, 0].numpy() == pytest.approx(expected + 1 / np.sqrt(5))
    assert test[:, 1].tolist() == [1.0] * 4


def test_signals_are_normalised_per_channel():
    data = features((2, 50), per_class=20)
    train = inputs_of(eg.split(data, normalize="train").tasks()).view(-1, 2, 50).double()
    assert train.mean((0, 2)).abs().max() < 1e-6
    assert (train.std((0, 2), correction=0) - 1).abs().max() < 1e-6


def test_one_value_or_another_type_gives_another_fingerprint():
    data = features()
    moved = data.x_train.copy()
    moved[3, 2] = np.nextafter(moved[3, 2], np.float32(100))
    other = eg.Arrays(moved, data.y_train, data.x_test, data.y_test)
    assert data.fingerprint == features().fingerprint != other.fingerprint
    zeros = np.zeros((4, 2))
    same_bytes = [eg.Arrays(zeros.astype(t), [0, 1, 0, 1], zeros.astype(t), [0, 1, 0, 1]) for t in ("f4", "i4")]
    assert same_bytes[0].fingerprint != same_bytes[1].fingerprint
    assert Spec(eg.split(data), eg.Adam(), eg.MLP(5)).key != Spec(eg.split(other), eg.Adam(), eg.MLP(5)).key


def test_a_memory_map_is_not_copied(tmp_path):
    data = features((50,))
    np.save(tmp_path / "x.npy", data.x_train)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    same = eg.Arrays(mapped, data.y_train, data.x_test, data.y_test)
    assert same.fingerprint == data.fingerprint
    (leaf,) = eg.split(same).tasks()[0].train.leaves()
    assert np.shares_memory(leaf.x.numpy(), mapped)


@pytest.mark.parametrize(
    "method", [eg.Adam(), eg.L2(coef=1), eg.EWC(coef=1), eg.SI(coef=1), eg.MAS(coef=1), eg.LwF(), eg.Rehearsal(40)]
)
def test_methods_learn_features(method):
    record = eg.run(
        eg.split(features(), kind="task"), method, net=eg.MLP(20), training=eg.Training(epochs=20, batch=16)
    )
    assert record.average_accuracy > 90


def test_rehearsal_remembers_features_in_class_learning():
    scenario, training = eg.split(features(), kind="class"), eg.Training(epochs=20, batch=16)
    plain, replayed = (eg.run(scenario, m, net=eg.MLP(20), training=training) for m in (eg.Adam(), eg.Rehearsal(40)))
    assert plain.average_accuracy < 60 < 80 < replayed.average_accuracy


@pytest.mark.parametrize("method", [eg.RehearsalC(40), eg.DGR()])
def test_what_needs_pixels_is_refused_in_words(method):
    with pytest.raises(ScenarioError, match="not 8-bit"):
        eg.run(eg.split(features()), method, net=eg.MLP(20), training=eg.Training(epochs=1))


def test_what_arrays_cannot_do_is_refused_in_words():
    data = features()
    with pytest.raises(DataError, match="pad 2: only images"):
        eg.split(data, pad=2)
    with pytest.raises(ScenarioError, match="the arrays of a queue must have one shape"):
        eg.queue([data, eg.Arrays(np.zeros((4, 3)), [0, 1] * 2, np.zeros((4, 3)), [0, 1] * 2)])
    with pytest.raises(ValueError, match="net cnn takes images, and the data are arrays of 6"):
        eg.run(eg.split(data), eg.Adam(), net=eg.CNN(), training=eg.Training(epochs=1))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros(4), "x_train has shape (4,): expected (n, features)"),
        (np.array([[0.0], [np.nan], [0], [0]]), "NaN or infinite"),
        (np.array([[0.0], [1e39], [0], [0]]), "beyond the range"),
        (np.array([[0], [2**24 + 1], [0], [0]]), "the value 16777217, which 32-bit floats cannot hold"),
        (np.array([["a"]] * 4), "values of type <U1"),
    ],
)
def test_wrong_values_are_named(x, message):
    with pytest.raises(DataError, match=re.escape(message)):
        eg.Arrays(x, [0, 1, 0, 1], np.zeros((4, 1)), [0, 1, 0, 1])


def test_held_out_arrays_replace_the_test_part():
    scenario = eg.split(features()).holdout(0.1)
    assert [len(task.test) for task in scenario.tasks()] == [6, 6]
    assert scenario.images[0].shape == (6,)


def test_a_file_of_features_is_read_as_arrays_and_one_of_pictures_as_images(tmp_path):
    data = features()
    np.savez(tmp_path / "f.npz", x_train=data.x_train, y_train=data.y_train, x_test=data.x_test, y_test=data.y_test)
    found = images_by_name(str(tmp_path / "f.npz"))
    assert isinstance(found, eg.Arrays)
    assert found.fingerprint == data.fingerprint
    record = eg.run(eg.scenario(f"split-{tmp_path / 'f.npz'}/class"), eg.Adam(), training=eg.Training(epochs=1))
    assert record.status == "done"


def write(path, x, **more):
    n = len(x)
    np.savez(path, x_train=x, y_train=np.arange(n) % 2, x_test=x[: n // 2], y_test=np.arange(n // 2) % 2, **more)
    return images_by_name(str(path))


def test_floats_in_the_shape_of_pictures_are_not_rounded_unless_the_file_says_images(tmp_path, capsys):
    x = np.random.default_rng(0).random((12, 4, 4), np.float32)
    kept = write(tmp_path / "kept.npz", x)
    assert isinstance(kept, eg.Arrays)
    assert kept.x_train.tobytes() == x.tobytes()
    assert (
        "kept.npz: floats are kept as they are, as arrays of 4×4; if they are images, say so" in capsys.readouterr().err
    )
    rounded = write(tmp_path / "rounded.npz", x, inputs="images")
    assert rounded.shape == (1, 4, 4)
    assert rounded.x_train.tolist() == np.rint(255 * x).tolist()
    assert rounded.note.startswith("floats rounded to 8 bits, by up to 0.00")
    assert rounded.note in capsys.readouterr().err


def test_whole_numbers_in_the_shape_of_pictures_are_images_unless_the_file_says_arrays(tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (12, 4, 4))
    assert type(write(tmp_path / "a.npz", x.astype(np.uint8))) is eg.Images
    assert type(write(tmp_path / "b.npz", x)) is eg.Images
    arrays = write(tmp_path / "c.npz", x.astype(np.uint8), inputs="arrays")
    assert arrays.shape == (4, 4)
    (task, *_) = eg.permute(arrays, kind="domain", permutations=2, identity_first=True).tasks()
    assert next(task.train.chunks()).x.tolist() == x.reshape(12, 16).tolist()
    with pytest.raises(DataError, match="inputs 'pictures' is unknown; choose from images, arrays"):
        write(tmp_path / "d.npz", x, inputs="pictures")


def test_what_is_nobodys_picture_is_an_array():
    assert looks_like_images(np.zeros((2, 4, 4), np.uint8))
    assert not looks_like_images(np.full((2, 4, 4), 0.5))
    assert not looks_like_images(np.zeros((2, 4, 4), bool))
    assert not looks_like_images(np.zeros((2, 4), np.uint8))


def test_a_sequence_of_floats_is_not_rounded_either(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.random((3, 8, 4, 4), np.float32), np.arange(8) % 2
    tasks = [(one, y, one, y) for one in x]
    assert inputs_of(eg.sequence(tasks).tasks()).numpy().tobytes() == x.tobytes()
    (images,) = eg.sequence(tasks, inputs="images").images
    assert images.x_train.tolist() == np.rint(255 * x).reshape(24, 4, 4).tolist()
    names = ("x_train", "y_train", "x_test", "y_test")
    numbered = {f"{n}_{i}": a for i, task in enumerate(tasks) for n, a in zip(names, task, strict=True)}
    np.savez(tmp_path / "s.npz", **numbered)
    from_file = eg.scenario(f"sequence-{tmp_path / 's.npz'}/domain", normalize=None)
    assert inputs_of(from_file.tasks()).numpy().tobytes() == x.tobytes()


def test_images_say_that_they_round_floats_which_are_no_8_bit_pixels(capsys):
    y, x = [0, 1] * 6, np.random.default_rng(0).integers(0, 256, (12, 3, 3))
    for dtype in (np.float16, np.float32, np.float64):
        assert eg.Images((x / 255).astype(dtype), y, 255 - x, y).note == ""
    train, test = ([(one / 255, k) for one, k in zip(part, y, strict=True)] for part in (x, 255 - x))
    assert eg.Images.of(train, test).note == ""
    assert capsys.readouterr().err == ""
    assert eg.Images.of([(np.full((3, 3), 0.501), k) for k in y], [(x[0] / 255, k) for k in y]).note == (
        "floats rounded to 8 bits, by up to 0.0010"  # 128 / 255 = 0.50196
    )
    assert "engram.Arrays keeps floats as they are" in capsys.readouterr().err


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_what_is_written_into_the_given_arrays_later_changes_nothing(make):
    """Else an edited array would have the key of the old one, and the record of it."""
    x, y = np.arange(24, dtype=np.float32).reshape(8, 3), np.arange(8) % 2
    arrays = eg.Arrays(make(x), make(y), make(x), make(y))
    before = arrays.x_train.copy(), arrays.y_train.copy()
    x[:], y[:] = np.nan, 7
    assert np.array_equal(arrays.x_train, before[0])
    assert np.array_equal(arrays.y_train, before[1])
    with pytest.raises(ValueError, match="read-only"):
        arrays.x_train[0] = 0


def test_an_array_in_a_file_that_was_changed_is_refused(tmp_path):
    x, y = np.arange(24, dtype=np.float32).reshape(8, 3), np.arange(8) % 2
    np.save(tmp_path / "x.npy", x)
    arrays = eg.Arrays(np.load(tmp_path / "x.npy", mmap_mode="r"), y, x, y)
    assert arrays.fingerprint == eg.Arrays(x, y, x, y).fingerprint
    time.sleep(0.01)
    written = np.load(tmp_path / "x.npy", mmap_mode="r+")
    written[:] = -x
    written.flush()
    with pytest.raises(DataError, match=r"x\.npy is not there any more, or was changed since own was made of it"):
        _ = arrays.fingerprint


def test_masked_values_are_refused():
    x, y = np.ones((8, 3), np.float32), np.arange(8) % 2
    with pytest.raises(DataError, match="x_train has masked values: fill them in"):
        eg.Arrays(np.ma.masked_array(x, mask=x > 0), y, x, y)


def test_parts_in_different_units_are_refused():
    whole, y = np.arange(24).reshape(8, 3), np.arange(8) % 2
    with pytest.raises(DataError, match="x_train has whole numbers, x_test floats: give both in the same units"):
        eg.Arrays(whole, y, whole / 255, y)
    pictures = np.zeros((8, 2, 2), np.uint8)
    pictures[0] = 1
    with pytest.raises(DataError, match="x_train has 8-bit pixels from 0 to 1, the other part up to 255"):
        eg.Images(pictures, y, pictures / 1.0, y)
