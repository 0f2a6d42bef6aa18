"""Views on pixels: sums, multiples and pools hold what a slow loop over images finds, and can be closed."""

import pytest
import torch
from helpers import blobs, everything, numbered, numbers

import engram as eg
from engram.scenarios.task import Batch, ClosedDataError, Data, pool


@pytest.fixture
def tasks():
    return eg.permute(blobs(4, train=12), permutations=3, kind="class", pad=1, normalize=(0.3, 0.2)).tasks(0)


def rows(batch: Batch) -> list[tuple]:
    assert len(batch.x) == len(batch.y) == len(batch.t)
    return [(tuple(x.tolist()), int(y), int(t)) for x, y, t in zip(batch.x, batch.y, batch.t, strict=True)]


def one_by_one(data: Data) -> list[tuple]:
    return [row for i in range(len(data)) for row in rows(data.batch(torch.tensor([i])))]


def test_a_batch_is_its_images_padded_permuted_and_scaled_one_by_one(tasks):
    images = blobs(4, train=12)
    order = torch.randperm(144 // 3, generator=torch.Generator().manual_seed(0))
    batch = tasks[2].train.batch(order)
    permutation = tasks[2].train.permutation.tolist()
    for x, y, t, i in zip(batch.x, batch.y, batch.t, order.tolist(), strict=True):
        canvas = torch.zeros(8, 8)
        canvas[1:7, 1:7] = torch.from_numpy(images.x_train[i] / 255)
        expected = [(canvas.flatten()[p].item() - 0.3) / 0.2 for p in permutation]
        assert x.tolist() == pytest.approx(expected, abs=1e-5)
        assert (int(y), int(t)) == (images.y_train[i] + 8, 2)


def test_a_sum_is_one_after_the_other(tasks):
    a, b = tasks[0].train, tasks[2].train
    both = a + b
    assert len(both) == 96
    assert both.tasks == (0, 2)
    assert one_by_one(both) == one_by_one(a) + one_by_one(b)


def test_a_multiple_is_the_same_again(tasks):
    data = 3 * tasks[1].train
    assert len(data) == 144
    assert one_by_one(data) == 3 * one_by_one(tasks[1].train)


@pytest.mark.parametrize("seed", range(3))
def test_a_shuffled_batch_of_a_nested_view_is_what_single_images_are(tasks, seed):
    data = (tasks[0].train + 2 * (tasks[1].train + tasks[2].test)) + tasks[2].train
    slow = one_by_one(data)
    assert len(slow) == len(data) == 48 + 2 * (48 + 40) + 48
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
    for indices in order.split(64):
        assert rows(data.batch(indices)) == [slow[i] for i in indices.tolist()]


def test_a_batch_may_be_larger_than_the_data_that_are_repeated():
    """Rehearsal's case: a small buffer, many times over, beside the task's own images."""
    few, more = (task.train for task in eg.split(numbered(4, train=3), kind="task").tasks(0))
    assert rows(everything(5 * few)) == 5 * one_by_one(few)
    mixed = more + 5 * few
    batch = everything(mixed)
    assert numbers(mixed) == numbers(more) + 5 * numbers(few)
    assert batch.t.tolist() == 6 * [1] + 30 * [0]


def test_the_same_image_may_be_drawn_more_often_than_there_are_images():
    data = eg.split(numbered(4, train=3)).tasks(0)[1].train
    assert data.batch(torch.zeros(10, dtype=torch.long)).t.tolist() == 10 * [1]


def test_a_pool_is_all_tasks(tasks):
    joined = pool(tasks)
    assert (joined.index, len(joined.train), len(joined.test)) == (2, 144, 120)
    assert joined.train.tasks == (0, 1, 2)
    assert rows(everything(joined.train)) == [row for task in tasks for row in one_by_one(task.train)]
    assert rows(everything(joined.test)) == [row for task in tasks for row in one_by_one(task.test)]


def test_chunks_are_all_of_it_in_order(tasks):
    chunks = list(pool(tasks).train.chunks(50))
    assert [len(chunk.y) for chunk in chunks] == [50, 50, 44]
    assert torch.equal(torch.cat([chunk.x for chunk in chunks]), everything(pool(tasks).train).x)


@pytest.mark.parametrize("kind", ["class", "iid"])
def test_floats_that_are_kept_give_the_bits_of_floats_made_batch_by_batch(kind):
    tasks = eg.permute(blobs(4, channels=3, train=1100), permutations=2, kind=kind, normalize="train").tasks(0)
    data = tasks[1].train + tasks[0].test  # 4400 training images: more than one piece of 4096
    indices = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    lazy = data.batch(indices)
    with data.opened(load=True):
        assert all(leaf.loaded is not None for leaf in data.leaves())
        kept = data.batch(indices)
    assert all(leaf.loaded is None for leaf in data.leaves())
    for one, other in zip(lazy[:3], kept[:3], strict=True):
        assert torch.equal(one, other)


def test_what_does_not_fit_is_made_batch_by_batch(tasks, monkeypatch):
    data = tasks[0].train
    monkeypatch.setattr("engram.scenarios.task.LOADED_BYTES", 4 * 48 * 64 - 1)
    with data.opened(load=True):
        assert data.loaded is None
    monkeypatch.setattr("engram.scenarios.task.LOADED_BYTES", 4 * 48 * 64)
    with data.opened(load=True):
        assert data.loaded.shape == (48, 64)


@pytest.mark.parametrize("kind", ["class", "iid"])
@pytest.mark.parametrize("part", ["train", "test"])
def test_guarded_data_raise_until_the_end_of_the_block(kind, part):
    tasks = eg.split(blobs(4), kind=kind).tasks(0)
    data = getattr(tasks[1], part)
    with tasks.guarded():
        for view in (data, 2 * data, tasks[0].train + data, getattr(pool(tasks), part)):
            with pytest.raises(ClosedDataError, match="task 2" if view is data else "may not be read"):
                everything(view)
        with data.opened():
            everything(data)
        with pytest.raises(ClosedDataError):
            everything(data)
    everything(data)


def test_data_are_open_again_after_an_error(tasks):
    with pytest.raises(ZeroDivisionError), tasks.guarded(), tasks[0].train.opened(load=True):
        _ = 1 / 0
    everything(tasks[0].test)
    assert tasks[0].train.loaded is None


def test_opening_data_inside_their_own_block_does_not_drop_the_floats(tasks):
    """A method that opens the task's data for itself must not slow down the rest of the task."""
    data = tasks[0].train
    with data.opened(load=True):
        with data.opened():
            everything(data)
        assert data.loaded is not None


def test_opening_one_task_leaves_its_neighbours_on_the_same_pixels_closed():
    """Split tasks are rows of one tensor."""
    first, second = eg.split(blobs(4)).tasks(0)
    assert first.train.x is second.train.x
    first.train.open = False
    with second.train.opened(load=True):
        everything(second.train)
        with pytest.raises(ClosedDataError, match="training data of task 1"):
            everything(first.train)


def test_tasks_of_one_dataset_share_its_padded_pictures_whatever_the_seed():
    images = blobs(4)
    first, second = (eg.split(images, pad=1, order="shuffled").tasks(seed) for seed in (0, 1))
    assert first[0].train.x.data_ptr() == second[1].train.x.data_ptr()
    assert first[0].test.x.data_ptr() == second[1].test.x.data_ptr()
    wider = eg.split(images, pad=2).tasks(0)[0].train
    assert wider.x.shape[1] == 100
    assert torch.equal(first[0].train.x, eg.split(blobs(4), pad=1).tasks(0)[0].train.x)
