"""The one stream of batches: by epochs and by steps, every pass a permutation."""

import pytest
import torch

import engram as eg
from engram.core.streams import stream
from engram.learning.learner import batches
from engram.scenarios.task import Pixels, Scaling


def data(n: int) -> Pixels:
    """n images whose label is their number."""
    one = torch.ones(1)
    return Pixels(torch.zeros(n, 1, dtype=torch.uint8), torch.arange(n), 0, Scaling(one, one))


def drawn(n: int, skip: int = 0, seed: int = 0, **training) -> list[list[int]]:
    stream_ = batches(data(n), eg.Training(**training), stream(seed, "shuffle"), skip)
    return [batch.y.tolist() for batch in stream_]


def flat(passes: list[list[int]]) -> list[int]:
    return [i for batch in passes for i in batch]


def test_epochs():
    found = drawn(10, epochs=3, batch=4)
    assert [len(batch) for batch in found] == [4, 4, 2, 4, 4, 2, 4, 4, 2]
    passes = [flat(found[i : i + 3]) for i in (0, 3, 6)]
    assert all(sorted(one) == list(range(10)) for one in passes)
    assert len(set(map(tuple, passes))) == 3


def test_the_last_batch_can_be_dropped():
    found = drawn(10, epochs=3, batch=4, drop_last=True)
    assert [len(batch) for batch in found] == [4] * 6
    assert all(len(set(flat(found[i : i + 2]))) == 8 for i in (0, 2, 4))
    whole = drawn(8, epochs=2, batch=4, drop_last=True)
    assert [len(batch) for batch in whole] == [4] * 4


def test_less_than_a_batch_is_not_dropped():
    assert [len(batch) for batch in drawn(3, epochs=2, batch=4, drop_last=True)] == [3, 3]


@pytest.mark.parametrize(("drop_last", "lengths"), [(False, [4, 4, 2, 4, 4, 2, 4]), (True, [4, 4, 4, 4, 4, 4, 4])])
def test_steps_reshuffle_when_the_images_are_used_up(drop_last, lengths):
    found = drawn(10, steps=7, batch=4, drop_last=drop_last)
    assert [len(batch) for batch in found] == lengths
    each = 2 if drop_last else 3
    passes = [flat(found[i : i + each]) for i in range(0, 7, each)]
    assert all(len(set(one)) == len(one) for one in passes)
    assert len(set(map(tuple, passes))) == len(passes)


def test_fewer_steps_than_one_pass():
    assert drawn(10, steps=2, batch=4) == drawn(10, steps=7, batch=4)[:2]


def test_steps_and_epochs_draw_the_same_stream():
    assert drawn(10, steps=6, batch=4) == drawn(10, epochs=2, batch=4)


@pytest.mark.parametrize("training", [{"epochs": 4}, {"steps": 11}, {"epochs": 4, "drop_last": True}])
@pytest.mark.parametrize("skip", [0, 1, 2, 3])
def test_skipped_passes_leave_the_others_as_they_were(training, skip):
    whole = drawn(10, batch=4, **training)
    each = 2 if "drop_last" in training else 3
    assert drawn(10, skip, batch=4, **training) == whole[each * skip :]


def test_all_passes_skipped_leave_nothing():
    assert drawn(10, 4, epochs=4, batch=4) == []


def test_seeds_shuffle_differently():
    assert drawn(10, seed=0, epochs=1) != drawn(10, seed=1, epochs=1)
    assert drawn(10, seed=1, epochs=1) == drawn(10, seed=1, epochs=1)


@pytest.mark.parametrize(
    ("images", "training", "steps"),
    [
        (12665, {"epochs": 4}, 396),  # 98 full batches and one of 121
        (60000, {"epochs": 10}, 4690),
        (12800, {"epochs": 4}, 400),
        (12665, {"epochs": 4, "drop_last": True}, 392),
        (12665, {"steps": 2000}, 2000),
        (100, {"epochs": 2}, 2),
    ],
)
def test_steps_for_a_task(images, training, steps):
    assert eg.Training(**training).steps_for(images) == steps


@pytest.mark.parametrize(
    "wrong", [{"epochs": 0}, {"steps": -1}, {"batch": 0}, {"lr": 0}, {"lr": float("nan")}, {"lr": float("inf")}]
)
def test_wrong_values_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"^{name} .*out of range"):
        eg.Training(**wrong)
