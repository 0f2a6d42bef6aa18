"""Split by groups: own order, unequal sizes, and classes that come back."""

import numpy as np
import pytest
from helpers import blobs, numbered, numbers

import engram as eg
from engram.runs.spec import Spec, from_json
from engram.scenarios.kinds import ScenarioError

GROUPS = [[3, 5], [0, 4, 5]]


def labels(data, images: eg.Images) -> dict[int, int]:
    """output → label, by the numbers that the images carry."""
    known = images.y_train[numbers(data)]
    return {int(y): int(label) for y, label in zip(data.y.tolist(), known, strict=True)}


@pytest.mark.parametrize(
    ("kind", "outputs", "heads", "total"),
    [
        ("task", [{0: 3, 1: 5}, {2: 0, 3: 4, 4: 5}], [(0, 2), (2, 5)], 5),
        ("domain", [{0: 3, 1: 5}, {0: 0, 1: 4, 2: 5}], [(0, 2), (0, 3)], 3),
        ("class", [{0: 3, 1: 5}, {2: 0, 3: 4, 1: 5}], [(0, 2), (1, 4)], 4),
        ("class-known", [{0: 3, 1: 5}, {2: 0, 3: 4, 1: 5}], [(0, 2), (1, 4)], 4),
    ],
)
def test_outputs_of_classes_by_kind(kind, outputs, heads, total):
    images = numbered(6)
    tasks = eg.split(images, groups=GROUPS, kind=kind).tasks(0)
    assert [labels(task.train, images) for task in tasks] == outputs
    assert [(head.start, head.stop) for head in tasks.heads] == heads
    assert tasks.outputs == total
    assert [task.classes for task in tasks] == [("3", "5"), ("0", "4", "5")]


def test_a_class_that_returns_has_all_its_images_again_and_sizes_differ():
    scenario = eg.split(numbered(6, train=10), groups=GROUPS)
    tasks = scenario.tasks(0)
    assert [len(task.train) for task in tasks] == scenario.sizes() == [20, 30]
    fives = [{n for n in numbers(task.train) if n % 6 == 5} for task in tasks]
    assert fives[0] == fives[1]
    assert len(fives[0]) == 10


def test_outputs_seen_stay_active_in_a_task_of_old_classes_only():
    tasks = eg.split(blobs(4), groups=[[0, 1], [2, 3], [0]]).tasks(0)
    assert [tasks.active(i, i).stop for i in range(3)] == [2, 4, 4]


def test_the_floor_counts_classes_that_return_in_the_last_task():
    """The last task has one of two classes of the first, none of the second: (50 + 0 + 100) / 3."""
    assert eg.split(blobs(5), groups=[[0, 1], [2, 3], [0, 4]]).tasks(0).floor == pytest.approx(50)
    assert eg.split(blobs(4)).tasks(0).floor == 50


def test_a_shuffled_order_keeps_the_pattern_of_the_groups():
    for seed in range(5):
        first, second = (task.classes for task in eg.split(blobs(6), groups=GROUPS, order="shuffled").tasks(seed))
        assert first[1] == second[2]
        assert len({*first, *second}) == 4


def test_groups_that_spell_the_default_give_the_same_tasks():
    images = numbered(4)
    for kind in ("task", "domain", "class", "class-known", "iid"):
        plain, spelled = (eg.split(images, kind=kind, **more).tasks(3) for more in ({}, {"groups": [[0, 1], [2, 3]]}))
        assert plain.heads == spelled.heads
        for one, other in zip(plain, spelled, strict=True):
            assert [leaf.y.tolist() for leaf in one.train.leaves()] == [
                leaf.y.tolist() for leaf in other.train.leaves()
            ]
            assert one.classes == other.classes


def test_iid_deals_a_class_as_often_as_it_is_named():
    tasks = eg.split(blobs(6, train=12), groups=GROUPS, kind="iid").tasks(0)
    y = np.concatenate([leaf.y for task in tasks for leaf in task.train.leaves()])
    assert np.bincount(y).tolist() == [12, 24, 12, 12]  # the labels 3, 5, 0, 4


def test_groups_are_in_the_key_and_come_back_from_json():
    images = blobs(6)
    spec = Spec(eg.split(images, groups=GROUPS), eg.Adam())
    assert from_json(spec.to_json(), {images.fingerprint: images}).key == spec.key
    assert len({Spec(eg.split(images, groups=g), eg.Adam()).key for g in ((), GROUPS, GROUPS[::-1])}) == 3


@pytest.mark.parametrize("kind", ["task", "domain", "class", "class-known", "iid"])
@pytest.mark.parametrize("method", [eg.Adam(), eg.EWC(), eg.Rehearsal(capacity=20), eg.LwF()])
def test_methods_run_on_them(kind, method):
    scenario = eg.split(blobs(6, train=10), groups=[[3, 5], [0, 4, 5], [3]], kind=kind)
    record = eg.run(scenario, method, net=eg.MLP(8), training=eg.Training(epochs=1, batch=8))
    assert record.status == "done"


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([[0, 1]], "two or more tasks"),
        ([[0], []], "a list of labels for each task"),
        ([0, 1], "a list of labels for each task"),
        ([[0], [6]], "6 of task 2 is not a label of own; give 0 to 5"),
        ([[0], ["1"]], "'1' of task 2 is not a label"),
        ([[0], [1, 1]], "task 2 names a class twice: 1, 1"),
    ],
)
def test_wrong_groups_are_refused(groups, words):
    with pytest.raises(ScenarioError, match=words):
        eg.split(blobs(6), groups=groups)
