"""Metrics of three tasks, worked out by hand."""

import pytest

from engram.learning import metrics

A = [[90.0], [96.0, 95.0], [60.0, 85.0, 99.0]]


def test_average_accuracy():
    assert metrics.average_accuracy(A) == pytest.approx(244 / 3)


def test_average_incremental_accuracy():
    assert metrics.average_incremental_accuracy(A) == pytest.approx((90 + 95.5 + 244 / 3) / 3)


def test_forgetting_starts_from_the_best_that_was_ever_reached():
    """Task 1 was best after task 2: 96 − 60. Task 2: 95 − 85."""
    assert metrics.forgetting(A) == pytest.approx((36 + 10) / 2)


def test_forgetting_does_not_count_the_last_row_as_a_best():
    """Task 1 rose from 90 over 91 to 95: forgetting is −4, not 0."""
    assert metrics.forgetting([[90.0], [91.0, 80.0], [95.0, 80.0, 99.0]]) == pytest.approx((-4 + 0) / 2)


def test_backward_transfer():
    assert metrics.backward_transfer(A) == pytest.approx(((60 - 90) + (85 - 95)) / 2)


def test_forward_transfer():
    assert metrics.forward_transfer([55.0, 40.0], [50.0, 44.0]) == pytest.approx(((55 - 50) + (40 - 44)) / 2)


def test_intransigence():
    assert metrics.intransigence(A, [98.0, 97.0, 96.0]) == pytest.approx((8 + 2 - 3) / 3)


def test_one_row():
    """A single task, and offline's one row of all tasks: nothing was forgotten, for nothing came after."""
    for a, average in (([[97.0]], 97.0), ([[90.0, 94.0]], 92.0)):
        assert metrics.average_accuracy(a) == metrics.average_incremental_accuracy(a) == average
        assert metrics.forgetting(a) is None
        assert metrics.backward_transfer(a) is None


def test_a_full_matrix_is_cut_to_its_lower_triangle():
    """With what is measured before a task is learned, average incremental accuracy would be 49.2."""
    lower = [[100.0], [80.0, 90.0], [60.0, 70.0, 95.0]]
    full = [[100.0, 0.0, 0.0], [80.0, 90.0, 0.0], [60.0, 70.0, 95.0]]
    expected = (100 + 85 + 75) / 3
    assert metrics.average_incremental_accuracy(lower) == pytest.approx(expected)
    assert metrics.average_incremental_accuracy(full) == pytest.approx(expected)
    for metric in (metrics.average_accuracy, metrics.forgetting, metrics.backward_transfer):
        assert metric(full) == metric(lower)
    assert metrics.intransigence(full, [99.0, 98.0, 97.0]) == metrics.intransigence(lower, [99.0, 98.0, 97.0])


def test_the_one_row_of_offline_training_is_not_cut():
    assert metrics.average_incremental_accuracy([[90.0, 80.0, 70.0]]) == 80.0
