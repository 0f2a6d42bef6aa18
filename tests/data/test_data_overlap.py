"""Test inputs that are training inputs too are noticed."""

import numpy as np
import pytest

import engram as eg
from engram.data import overlap

RNG = np.random.default_rng(5)


def pixels(n):
    return RNG.integers(0, 256, (n, 4, 4), np.uint8)


def labels(n):
    return np.arange(n) % 2


def test_test_images_that_are_training_images_are_counted(capsys):
    train, test = pixels(20), pixels(10)
    eg.Images(train, labels(20), test, labels(10))
    assert capsys.readouterr().err == ""
    test[[2, 5, 7]] = train[[0, 0, 19]]
    dataset = eg.Images(train, labels(20), test, labels(10), name="scans")
    assert capsys.readouterr().err == (
        "scans: 3 of 10 test inputs are training inputs too, so that accuracy on them is not accuracy on new data\n"
    )
    dataset.rename("others")
    eg.Images(train, labels(20), test, labels(10), name="scans")
    assert capsys.readouterr().err == ""  # it was said


def test_images_that_differ_in_one_pixel_are_others(capsys):
    train = pixels(20)
    test = train.copy()
    test[:, 3, 3] ^= 1
    eg.Images(train, labels(20), test, labels(20))
    assert capsys.readouterr().err == ""


def test_floats_and_whole_tasks_are_compared(capsys):
    rows = RNG.normal(size=(2, 2, 12, 3)).astype(np.float32)  # (tasks, parts, …)
    y = labels(12)
    eg.sequence([(train, y, test, y) for train, test in rows], kind="domain")
    assert capsys.readouterr().err == ""
    rows[1, 1, :4] = rows[0, 0, :4]  # a test row of task 2 is a training row of task 1
    eg.sequence([(train, y, test, y) for train, test in rows], kind="domain")
    assert "4 of 24 test inputs are training inputs too" in capsys.readouterr().err


@pytest.mark.parametrize(("limit", "found"), [(20, 1), (19, 0)])
def test_what_is_too_large_is_not_compared(limit, found, monkeypatch):
    monkeypatch.setattr(overlap, "MOST_COMPARED", limit)
    train, test = pixels(20), pixels(10)
    test[0] = train[0]
    assert len(overlap.shared_rows(train, test)) == found


@pytest.mark.parametrize(
    ("train", "test"), [(np.int32, np.int64), (np.uint8, np.float32), (np.float32, np.float64), (">f4", "<f4")]
)
def test_equal_numbers_of_different_types_are_equal(train, test):
    rows = RNG.integers(0, 256, (40, 5))
    assert len(overlap.shared_rows(rows.astype(train), rows[:10].astype(test))) == 10


def test_zero_and_minus_zero_are_equal():
    rows = np.zeros((8, 3), np.float32)
    rows[:, 0] = np.arange(8)
    others = np.where(rows == 0, np.float32(-0.0), rows)
    assert len(overlap.shared_rows(rows, others)) == 8


def test_small_tables_in_which_rows_recur_anyway_are_not_said_to_leak(capsys):
    eg.Arrays(RNG.integers(0, 2, (200, 3)), labels(200), RNG.integers(0, 2, (80, 3)), labels(80))
    assert capsys.readouterr().err == ""
