"""Sequences of one's own: classes may be missing from a task, sizes may differ, the content is in the key."""

import numpy as np
import pytest
from helpers import Run, everything

import engram as eg
from engram.data.catalog import images
from engram.data.errors import DataError
from engram.data.tasked import PARTS, TaskedArrays, TaskedImages
from engram.runs.spec import Spec, SpecError, from_json
from engram.scenarios.kinds import ScenarioError

GROUPS = ([0, 1], [1, 2], [0, 3])
SIZES = (24, 36, 30)


def vectors(seed=0):
    """Three tasks with labels of GROUPS and SIZES; each row begins with its own number, 1000 times its task."""
    rng, tasks = np.random.default_rng(seed), []
    for number, (labels, size) in enumerate(zip(GROUPS, SIZES, strict=True)):
        parts = []
        for n in (size, size // 3):
            y = np.resize(labels, n)
            x = (rng.normal(size=(n, 6)) + y[:, None]).astype(np.float32)
            x[:, 0] = 1000 * number + np.arange(n)
            parts += [x, y]
        tasks.append(tuple(parts))
    return tasks


def pictures(seed=0):
    """The same labels with 8-bit images of 6 × 6 pixels."""
    rng = np.random.default_rng(seed)

    def draw(y):
        return (rng.integers(0, 60, (len(y), 6, 6)) + 40 * y[:, None, None]).astype(np.uint8)

    return [(draw(y), y, draw(y_test), y_test) for _, y, _, y_test in vectors()]


@pytest.mark.parametrize(
    ("kind", "outputs", "heads", "total"),
    [
        ("task", [[0, 1], [2, 3], [4, 5]], [(0, 2), (2, 4), (4, 6)], 6),
        ("domain", GROUPS, [(0, 4)] * 3, 4),
        ("class", GROUPS, [(0, 2), (1, 3), (0, 4)], 4),
        ("class-known", GROUPS, [(0, 2), (1, 3), (0, 4)], 4),
    ],
)
def test_outputs_by_kind_and_every_row_in_its_task(kind, outputs, heads, total):
    scenario = eg.sequence(vectors(), kind=kind)
    tasks = scenario.tasks(0)
    assert [(head.start, head.stop) for head in tasks.heads] == heads
    assert tasks.outputs == total
    assert [len(task.train) for task in tasks] == scenario.sizes() == list(SIZES)
    for number, (task, given) in enumerate(zip(tasks, vectors(), strict=True)):
        for data, x, y in ((task.train, *given[:2]), (task.test, *given[2:])):
            batch = everything(data)
            assert np.array_equal(batch.x.numpy(), x)  # bit for bit, in order
            expected = [outputs[number][GROUPS[number].index(label)] for label in y]
            assert batch.y.tolist() == expected


def test_iid_deals_all_tasks_anew_with_the_labels_as_outputs():
    scenario = eg.sequence(vectors(), kind="iid")
    tasks = scenario.tasks(3)
    dealt = np.concatenate([everything(task.train).x.numpy()[:, 0] for task in tasks])
    assert sorted(dealt) == sorted(np.concatenate([task[0][:, 0] for task in vectors()]))
    assert [abs(len(task.train) - 30) <= 2 for task in tasks] == [True] * 3
    assert scenario.sizes() == [30] * 3


@pytest.mark.parametrize("kind", ["task", "domain", "class"])
def test_images_are_held_out_of_each_class_of_each_task(kind):
    scenario = eg.sequence(vectors(), kind=kind).holdout(0.25)
    tasks = scenario.tasks(0)
    assert [(len(task.train), len(task.test)) for task in tasks] == [(18, 6), (28, 8), (22, 8)]
    assert scenario.sizes() == [18, 28, 22]
    for number, task in enumerate(tasks):
        train, held = (everything(data).x[:, 0].long().tolist() for data in (task.train, task.test))
        assert not {*train} & {*held}
        assert {*train, *held} == set(range(1000 * number, 1000 * number + SIZES[number]))


def test_a_single_image_of_a_class_stays_in_training():
    (x, y, *test), *others = vectors()
    y = np.array([1] + [0] * (len(y) - 1))
    first, *_ = eg.sequence([(x, y, *test), *others], kind="domain").holdout(0.5).tasks(0)
    assert 1 in everything(first.train).y.tolist()
    assert 1 not in everything(first.test).y.tolist()


def test_8_bit_images_are_images_and_floats_beyond_0_to_1_stay_floats():
    scenario = eg.sequence(pictures(), pad=1, normalize="train")
    assert type(scenario.images[0]) is TaskedImages
    assert scenario.tasks(0).shape == (1, 8, 8)
    assert type(eg.sequence(vectors()).images[0]) is TaskedArrays


def test_the_content_of_every_array_and_the_boundaries_are_in_the_key():
    def key(tasks):
        return Spec(eg.sequence(tasks), eg.Adam()).key

    keys = {key(vectors())}
    assert key(vectors()) in keys
    for task in range(3):
        for part in range(4):
            changed = [[array.copy() for array in one] for one in vectors()]
            changed[task][part].flat[-1] = 0 if part % 2 else 0.5
            if part % 2 and vectors()[task][part][-1] == 0:
                continue
            keys.add(key(changed))
    assert len(keys) == 13
    (a, b, *test), (c, d, *other), last = vectors()
    moved = [(np.concatenate([a, c[:1]]), np.concatenate([b, d[:1]]), *test), (c[1:], d[1:], *other), last]
    assert key(moved) not in keys  # the same rows, another boundary


@pytest.mark.parametrize("method", [eg.Adam, lambda: eg.Rehearsal(capacity=20), eg.EWC, eg.LwF])
@pytest.mark.parametrize("kind", ["task", "domain", "class", "iid"])
def test_same_seed_same_bits_and_resumed_equals_uninterrupted(kind, method):
    scenario = eg.sequence(pictures(), kind=kind)
    whole, again = (Run(scenario.tasks(1), method) for _ in range(2))
    resumed = Run(scenario.tasks(1), method, resume=whole.checkpoints[1])
    assert whole.bits() == again.bits() == resumed.bits()


def test_a_spec_comes_back_from_json_and_another_content_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGRAM_DATA", str(tmp_path))
    save(tmp_path / "wards.npz", vectors())
    spec = Spec(eg.scenario("sequence-wards/domain"), eg.Adam())
    assert spec.scenario_name == "sequence-wards/domain"
    assert from_json(spec.to_json()).key == spec.key
    save(tmp_path / "wards.npz", vectors(1))
    with pytest.raises(SpecError, match="wards here has"):
        from_json(spec.to_json())


def save(path, tasks, **more):
    np.savez(path, **{f"{n}_{i}": a for i, task in enumerate(tasks) for n, a in zip(PARTS, task, strict=True)}, **more)


def test_a_file_a_folder_and_several_files_give_the_tasks_of_python(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGRAM_DATA", str(tmp_path))
    save(tmp_path / "wards.npz", vectors(), classes=list("abcd"))
    (tmp_path / "years").mkdir()
    for year, task in zip((9, 10, 100), vectors(), strict=True):  # not in the order of letters
        np.savez(tmp_path / "years" / f"y{year}.npz", **dict(zip(PARTS, task, strict=True)))
    expected = eg.sequence(vectors()).images[0].fingerprint
    for name in ("wards", str(tmp_path / "wards.npz"), "years", str(tmp_path / "years")):
        scenario = eg.scenario(f"sequence-{name}/domain")
        assert scenario.images[0].fingerprint == expected
    assert images("wards").classes == ("a", "b", "c", "d")
    np.savez(tmp_path / "one.npz", **dict(zip(PARTS, vectors()[0], strict=True)))
    several = eg.scenario("sequence-one+wards/domain", normalize=None).tasks(0)
    assert [len(task.train) for task in several] == [24, *SIZES]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["x_train_0", "y_train_0", "x_test_0", "y_test_0"], "two or more tasks"),
        (["x_train_1", "y_train_1", "x_test_1", "y_test_1"], "it has no x_test_0, x_train_0, y_test_0, y_train_0"),
        (["x_train_0", "y_train_0", "x_test_0", "y_test_0", "x_train_1"], "it has no x_test_1, y_test_1, y_train_1"),
        (["x_train_0", "y_train_0", "x_test_0", "y_test_0", "x_train"], "it has x_train beside the arrays of tasks"),
    ],
)
def test_files_that_lack_arrays_are_refused(tmp_path, names, words):
    np.savez(tmp_path / "bad.npz", **dict.fromkeys(names, np.arange(3)))
    with pytest.raises(DataError, match=words):
        images(str(tmp_path / "bad.npz"))


def _replace(task, part, array):
    tasks = [list(one) for one in vectors()]
    tasks[task][part] = array
    return tasks


@pytest.mark.parametrize(
    ("tasks", "kind", "words"),
    [
        (vectors()[:1], "domain", "two or more tasks"),
        ([*vectors(), 3], "domain", "task 4 is not"),
        (_replace(1, 0, np.zeros((36, 5))), "domain", r"task 2: training inputs are \(5,\), test inputs \(6,\)"),
        (_replace(1, 1, np.zeros(35, int)), "domain", "task 2: x_train has 36 rows, but y_train has shape"),
        (_replace(2, 1, np.zeros(30)), "domain", "y_train of task 3 has labels of type float64"),
        (_replace(1, 3, np.resize([1, 2, 3], 12)), "class", "task 2 has test images of class 3"),
        (_replace(2, 3, np.resize([0, 1, 3, 2], 10)), "task", "task 3 has test images of class 1, 2"),
        (_replace(0, 0, np.full((24, 6), np.nan)), "domain", "NaN"),
    ],
)
def test_wrong_sequences_are_refused(tasks, kind, words):
    with pytest.raises((DataError, ScenarioError), match=words):
        eg.sequence(tasks, kind=kind)


def test_a_dataset_without_tasks_is_refused_with_what_to_give():
    (x, y, xt, yt), *_ = vectors()
    plain = eg.Arrays(x, y, xt, yt)
    with pytest.raises(ScenarioError, match="own has no tasks; give a file with x_train_0"):
        eg.sequence(vectors()).__class__(images=(plain,))
