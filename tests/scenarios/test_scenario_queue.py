"""Queues: tasks, outputs and pixels of several datasets, checked by hand on small ones."""

import numpy as np
import pytest
import torch
from helpers import blobs, everything, learner_for
from PIL import Image

import engram as eg
from engram.data.errors import DataError
from engram.scenarios.create import scenario
from engram.scenarios.kinds import ScenarioError
from engram.scenarios.look import categorize_tasks
from engram.scenarios.names import is_name, parse_name, with_letters
from engram.scenarios.queue import crop, fit_pixels, resize, to_grey
from engram.scenarios.task import ClosedDataError


def two(**options):
    """Datasets of 4 and 6 classes, 40 and 20 training images per class, 6×6 grey and 8×8 coloured pixels."""
    first = blobs(4, name="first")
    second = blobs(6, train=20, test=5, size=8, channels=3, seed=1, name="second")
    return eg.queue([first, second], **{"size": 6, **options})


@pytest.mark.parametrize(
    ("kind", "heads", "outputs"),
    [
        ("task", [(0, 2), (2, 4), (4, 6), (6, 8), (8, 10)], 10),
        ("domain", [(0, 2)] * 5, 2),
        ("class", [(0, 2), (2, 4), (4, 6), (6, 8), (8, 10)], 10),
        ("class-known", [(0, 2), (2, 4), (4, 6), (6, 8), (8, 10)], 10),
        ("iid", [(0, 10)] * 5, 10),
    ],
)
def test_outputs_of_each_kind_are_numbered_along_the_queue(kind, heads, outputs):
    tasks = two(kind=kind).tasks(0)
    assert [(head.start, head.stop) for head in tasks.heads] == heads
    assert (tasks.outputs, tasks.shape, len(tasks)) == (outputs, (1, 6, 6), 5)
    if kind != "iid":
        assert [set(task.train.y.tolist()) for task in tasks] == [set(range(*head)) for head in heads]
        assert [len(task.train) for task in tasks] == [80, 80, 40, 40, 40]
        assert [len(task.test) for task in tasks] == [20, 20, 10, 10, 10]
        assert [task.classes for task in tasks][1:3] == [("2", "3"), ("0", "1")]
    else:
        assert [len(task.train) for task in tasks] == [56] * 5
        assert {task.classes for task in tasks} == {(*"0123", *"012345")}  # one name per output, though some are equal
        assert all(set(everything(task.train).y.tolist()) == set(range(10)) for task in tasks)
        assert all(torch.equal(everything(t.train).t, torch.full((56,), t.index)) for t in tasks)


def test_all_classes_per_task_give_heads_of_the_sizes_of_the_datasets():
    tasks = two(classes_per_task="all", kind="task").tasks(0)
    assert [(head.start, head.stop) for head in tasks.heads] == [(0, 4), (4, 10)]
    assert [len(task.train) for task in tasks] == [160, 120]
    assert tasks.floor == pytest.approx((25 + 100) / 2)
    mixed = tasks[0].train + tasks[1].train
    learner = learner_for(two(classes_per_task="all", kind="task"))
    apart = [learner.loss(everything(task.train)) * len(task.train) for task in tasks]
    assert learner.loss(everything(mixed)).item() == pytest.approx((sum(apart) / 280).item(), rel=1e-5)


def test_sets_with_the_same_labels_are_domains():
    """The same four patterns, bright and dark: one head, an image's output is its label in both."""
    images = blobs(4, train=100, name="bright")
    dark = eg.Images(images.x_train // 3, images.y_train, images.x_test // 3, images.y_test, name="dark")
    tasks = eg.queue([images, dark], classes_per_task="all", kind="domain", size=6).tasks(0)
    assert (tasks.outputs, tasks.heads) == (4, (slice(0, 4), slice(0, 4)))
    for task, source in zip(tasks, (images, dark), strict=True):
        assert task.train.y.tolist() == source.y_train.tolist()
    assert categorize_tasks(tasks).kind == "domain"
    record = eg.run(
        eg.queue([images, dark], classes_per_task="all", kind="domain", size=6, normalize="train"),
        eg.Adam(), net=eg.MLP(20), training=eg.Training(epochs=5, lr=0.01),
    )  # fmt: skip
    assert record.average_accuracy == 100  # each set is normalised by itself, so the domains coincide


def test_every_dataset_is_normalised_by_its_own_training_images():
    tasks = two(normalize="train", classes_per_task="all").tasks(0)
    for task in tasks:
        x = everything(task.train).x
        assert x.mean().item() == pytest.approx(0, abs=1e-5)
        assert x.std(correction=0).item() == pytest.approx(1, abs=1e-5)
    assert two(normalize=(0.5, 2.0)).tasks(0)[0].train.scaling == two(normalize=(0.5, 2.0)).deal(0)[4].train.scaling


def test_a_shuffled_queue_has_the_same_tasks_in_an_order_of_the_seed():
    tasks = {seed: two(order="shuffled", kind="class").tasks(seed) for seed in (0, 1)}
    orders = {seed: [(task.classes, len(task.train)) for task in tasks[seed]] for seed in tasks}
    fixed = [(task.classes, len(task.train)) for task in two(kind="class").tasks(0)]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(fixed)
    for drawn in tasks.values():  # outputs go with the order, so that `class` can grow
        assert [set(task.train.y.tolist()) for task in drawn] == [{2 * i, 2 * i + 1} for i in range(5)]
    assert two(order="shuffled").sizes() == [56] * 5


def test_padding_comes_after_the_size():
    tasks = two(pad=2).tasks(0)
    assert tasks.shape == (1, 10, 10)
    x = everything(tasks[4].train).x.view(-1, 10, 10)
    assert not x[:, :2].any()
    assert x[:, 2:8, 2:8].any()


def test_held_out_images_come_from_each_class_of_each_set_and_test_images_are_sealed():
    held = two(kind="task").holdout(0.1)
    tasks = held.tasks(0)
    assert [len(task.test) for task in tasks] == [8, 8, 4, 4, 4]
    assert [len(task.train) for task in tasks] == held.sizes() == [72, 72, 36, 36, 36]
    with pytest.raises(ClosedDataError):
        _ = held.images[1].x_test


def test_a_queue_gives_each_dataset_its_own_name_and_refuses_the_same_one_twice():
    one, other = blobs(4), blobs(4, seed=1)
    assert [images.name for images in eg.queue([one, other]).images] == ["own", "own-2"]
    assert one.name == other.name == "own"
    with pytest.raises(ScenarioError, match="dataset own is in the queue twice"):
        eg.queue([one, blobs(4)])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"classes_per_task": 3},
            "the 4 classes of first cannot be split .* give all, or a number .*: 1, 2$",
        ),
        ({"classes_per_task": 4}, "the 6 classes of second"),
        ({"classes_per_task": 0}, "classes_per_task 0"),
        ({"classes_per_task": "some"}, "classes_per_task some"),
        ({"order": "reversed"}, "order 'reversed' is unknown; choose from fixed, shuffled"),
        ({"fit": "stretch"}, "fit 'stretch' is unknown; choose from resize, crop"),
        ({"size": 0}, "size 0 is out of range"),
        ({"kind": "tasks"}, "kind 'tasks' is unknown"),
        ({"normalize": ((0.1, 0.2, 0.3), (1.0, 1.0, 1.0))}, "normalize"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, message):
    with pytest.raises(ScenarioError, match=message):
        two(**wrong)
    with pytest.raises(ScenarioError, match="one or more"):
        eg.queue([])
    with pytest.raises(ScenarioError, match="two or more tasks"):
        eg.queue([blobs(4)], classes_per_task="all")


# pixels


def test_luma_is_the_weighted_sum_of_the_channels_rounded():
    x = torch.tensor([[[[255, 255, 255], [255, 0, 0], [0, 255, 0], [0, 0, 255], [10, 20, 30]]]], dtype=torch.uint8)
    assert to_grey(x).tolist() == [[[255, 76, 150, 29, 18]]]  # 76.245, 149.685, 29.07, 18.15
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
    theirs = np.array(Image.fromarray(picture).convert("L")).astype(int)
    ours = to_grey(torch.from_numpy(picture[None]))[0].numpy()
    assert np.abs(ours - theirs).max() <= 1  # Pillow works in fixed point


@pytest.mark.parametrize(("old", "new"), [(32, 28), (28, 32), (8, 6), (30, 10)])
def test_resizing_is_antialiased_bilinear(old, new):
    """Pillow's bilinear filter is the same one, in fixed point; PyTorch's the same in floats."""
    x = np.random.default_rng(0).integers(0, 256, (20, old, old), dtype=np.uint8)
    ours = resize(torch.from_numpy(x), new)
    floats = torch.nn.functional.interpolate(
        torch.from_numpy(x)[:, None].double(), (new, new), mode="bilinear", antialias=True, align_corners=False
    )[:, 0]
    assert ((ours - floats).abs() <= 0.5005).all()
    theirs = np.stack([np.array(Image.fromarray(one).resize((new, new), Image.Resampling.BILINEAR)) for one in x])
    assert np.abs(ours.numpy().astype(int) - theirs).max() <= 1


def test_resizing_keeps_flat_images_flat_and_rounds_halves_up():
    for value in (0, 1, 127, 128, 255):
        flat = torch.full((1, 32, 32), value, dtype=torch.uint8)
        assert (resize(flat, 28) == value).all()
    assert resize(torch.tensor([[[1, 2], [1, 2]]], dtype=torch.uint8), 1).tolist() == [[[2]]]  # 1.5


def test_cropping_takes_the_centre_and_borders_are_black():
    x = torch.arange(36, dtype=torch.uint8).view(1, 6, 6)
    assert crop(x, 2).tolist() == [[[14, 15], [20, 21]]]
    wide = crop(x[:, 2:4, 2:4], 5)
    assert wide.tolist()[0] == [[0] * 5, [0, 14, 15, 0, 0], [0, 20, 21, 0, 0], [0] * 5, [0] * 5]
    assert torch.equal(crop(x, 6), x)


def test_images_beyond_one_piece_are_brought_to_size_alike():
    x = np.random.default_rng(0).integers(0, 256, (2003, 5, 5), dtype=np.uint8)
    assert (fit_pixels(x, 4, "resize")[1990:] == fit_pixels(x[1990:], 4, "resize")).all()


# names


def test_names():
    assert str(parse_name("long-queue/task")) == "long-queue/task"
    assert parse_name("long-queue/task").images == "mnist+fashion-mnist+emnist-letters+svhn+cifar100"
    name = "long-queue-with-cyrillic-letters/class"
    assert str(parse_name(name)) == with_letters("long-queue/class", "cyrillic-letters") == name
    assert with_letters(name, "emnist-letters") == "long-queue/class"
    assert parse_name("queue-mnist+svhn/domain")[:2] == ("queue", "mnist+svhn")
    assert str(parse_name("queue-mnist+svhn/domain")) == "queue-mnist+svhn/domain"
    assert is_name("long-queue/task")
    assert is_name("queue-a+b/domain")
    assert not is_name("data/mine.npz")
    with pytest.raises(ScenarioError, match="split-mnist/task has no letters to replace"):
        with_letters("split-mnist/task", "cyrillic-letters")
    for wrong in ("long-queues/task", "queue-/task", "queue-a++b/task", "long-queue-with-/task"):
        with pytest.raises(ScenarioError, match="is unknown"):
            parse_name(wrong)


def test_if_emnist_letters_cannot_be_downloaded_the_replacement_is_named(monkeypatch):
    def nowhere(name):
        if name == "emnist-letters":
            raise DataError("no place has it")
        return blobs(10, train=3, test=2, seed=len(name), name=name)

    monkeypatch.setattr("engram.scenarios.create.images", nowhere)
    with pytest.raises(DataError, match=r"no place has it\n.*--letters cyrillic-letters"):
        scenario("long-queue/task")
    assert len(scenario("long-queue-with-cyrillic-letters/task").images) == 5


def test_many_classes_are_all_counted():
    """A sample of 500 images misses some of 300 classes; labels cost nothing, so all are looked at."""
    images = blobs(300, train=10, test=1, size=3)
    tasks = eg.permute(images, kind="domain", permutations=21).tasks(0)
    read = categorize_tasks(tasks)
    assert {pair.total_variation for pair in read.pairs} == {0.0}
    assert read.kind == "domain"
    assert read.evidence["rules"]["images"] == 500


@pytest.mark.parametrize("method", [eg.RehearsalC(capacity=20), eg.DGR(), eg.RtF()])
def test_if_a_task_mixes_datasets_of_different_scalings_8_bit_images_have_no_scaling(method):
    """In kind iid every task has images of all sets, and their inputs cannot be turned back into intensities."""
    options = {"net": eg.MLP(8), "training": eg.Training(epochs=1)}
    with pytest.raises(ScenarioError, match="normalised by different statistics"):
        eg.run(two(kind="iid", normalize="train"), method, **options)
    for other in (two(kind="iid"), two(kind="task", normalize="train")):
        assert eg.run(other, method, **options).status == "done"
    assert eg.run(two(kind="iid", normalize="train"), eg.Rehearsal(capacity=20), **options).status == "done"
