"""The panel that shows what comes when along a stream."""

import numpy as np
import pytest
from helpers import blobs

import engram as eg
from engram.report.shares import SHARE_BINS, labelled_bins, shares_along


def test_shares_of_tasks_that_overlap_add_up_and_follow_each_other():
    tasks = eg.blend(eg.split(blobs(6, train=400)), width=0.5).tasks(0)
    found = shares_along(tasks)
    assert found is not None
    assert (found.parts, found.values.shape) == ("task", (SHARE_BINS, 3))
    assert found.values.sum(1) == pytest.approx(np.ones(SHARE_BINS))
    assert found.values.mean(0) == pytest.approx(np.full(3, 1 / 3), abs=0.01)
    assert (found.values[:20, 0] == 1).all()  # the overlap begins three quarters into the first task
    assert 0 < found.values[SHARE_BINS // 3, 1] < 1


def test_a_stream_of_few_images_has_no_empty_bin():
    found = shares_along(eg.blend(eg.split(blobs(4, train=10))).tasks(0))
    assert found is not None
    assert found.values.shape == (40, 2)
    assert found.values.sum(1) == pytest.approx(np.ones(40))


def test_classes_that_come_back_are_shown_by_output_and_blocks_are_not_shown():
    repeating = shares_along(eg.repeat(blobs(4), order="cyclic").tasks(0))
    assert repeating is not None
    assert repeating.parts == "output"
    assert repeating.values.tolist() == [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]] * 2
    assert shares_along(eg.split(blobs(4)).tasks(0)) is None
    assert shares_along(eg.rotate(blobs(4), tasks=3).tasks(0)) is None


def test_numbers_stand_where_a_band_is_widest():
    assert labelled_bins(np.array([0.5, 0.0, 0.05, 0.2])) == [0, 3]
    many = np.zeros(50)
    many[10:13], many[30:35] = [0.2, 0.6, 0.3], 1.0
    assert labelled_bins(many) == [11, 32]
