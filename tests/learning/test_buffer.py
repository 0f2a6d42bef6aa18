"""The buffer: which images stay by each rule, what comes back, its bytes, and its state."""

import copy
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from helpers import Run, blobs, learner_for, numbered
from scipy.stats import chisquare

import engram as eg
from engram.learning.buffer import image_bytes
from engram.learning.memory import bytes_of

RULES = ("reservoir", "balanced", "ring", "per-task", "per-class")


def learner_of(seed: int = 0, kind: str = "class", **options):
    return learner_for(eg.split(numbered(4, train=40), kind=kind, **options), 4, seed=seed)


def stream(learner, task: int, rows: list[int]) -> eg.Batch:
    learner.task = task
    return learner.tasks[task].train.batch(torch.tensor(rows))


def numbers_in(buffer: eg.Buffer) -> list[int]:
    pixels = buffer.columns["x"][: len(buffer)].long()
    return (256 * pixels[:, 0] + pixels[:, 1]).tolist()


def made_up(labels: list[int], first: int = 0, task: int = 0) -> eg.Batch:
    """Images of 2 × 3 pixels that count from `first`."""
    x = torch.zeros(len(labels), 6)
    x[:, 1] = torch.arange(first, first + len(labels)) / 255
    y = torch.tensor(labels)
    return eg.Batch(x, y, torch.full_like(y, task), (task,))


# rules ----------------------------------------------------------------------------------------------------------------


def test_reservoir_keeps_every_image_with_the_same_probability():
    """10 of 60 images in batches of 7, over 600 seeds: each 100 times, by a chi-square test."""
    counts = np.zeros(60)
    for seed in range(600):
        buffer = eg.Buffer(learner_of(seed), 10)
        for start in range(0, 60, 7):
            buffer.add(stream(buffer.learner, 0, list(range(start, min(start + 7, 60)))))
        held = numbers_in(buffer)
        assert len(set(held)) == 10
        places = [2 * (number // 4) + number % 4 % 2 for number in held]  # task 1 has the classes 0 and 1
        np.add.at(counts, places, 1)
    assert counts.sum() == 6000
    # draws without replacement spread less than the test thinks, by 50/59: it errs on the safe side
    assert chisquare(counts).pvalue > 1e-4


def test_reservoir_stores_the_first_images_in_order():
    buffer = eg.Buffer(learner_of(), 10)
    buffer.add(made_up([0] * 8))
    assert numbers_in(buffer) == list(range(8))
    assert (len(buffer), buffer.offered) == (8, 8)


def test_reservoir_does_not_depend_on_the_cut_into_batches():
    found = []
    for size in (1, 7, 50):
        buffer = eg.Buffer(learner_of(), 5)
        for start in range(0, 50, size):
            buffer.add(made_up([0] * min(size, 50 - start), start))
        found.append(numbers_in(buffer))
    assert found[0] == found[1] == found[2]


def test_balanced_gives_classes_equal_shares_however_unequal_the_stream():
    buffer = eg.Buffer(learner_of(), 12, rule="balanced")
    buffer.add(made_up([0] * 100))
    assert buffer.columns["y"].tolist() == [0] * 12
    buffer.add(made_up([1] * 20 + [2] * 4 + [0] * 50))
    assert sorted(buffer.columns["y"].tolist()) == [0] * 4 + [1] * 4 + [2] * 4


def test_balanced_keeps_every_image_of_a_class_with_the_same_probability():
    counts = np.zeros(20)
    for seed in range(500):
        buffer = eg.Buffer(learner_of(seed), 4, rule="balanced")
        buffer.add(made_up([0] * 20))
        np.add.at(counts, numbers_in(buffer), 1)
    assert chisquare(counts).pvalue > 1e-4


def test_ring_holds_the_newest():
    buffer = eg.Buffer(learner_of(), 5, rule="ring")
    buffer.add(made_up([0] * 3))
    assert numbers_in(buffer) == [0, 1, 2]
    buffer.add(made_up([0] * 4, 3))
    assert numbers_in(buffer) == [5, 6, 2, 3, 4]
    buffer.add(made_up([0] * 12, 7))
    assert sorted(numbers_in(buffer)) == [14, 15, 16, 17, 18]


def test_a_ring_per_task_holds_the_newest_of_each():
    buffer = eg.Buffer(learner_of(), 7, rule="task-ring")  # 3 for each of 2 tasks
    buffer.add(made_up([0] * 2))
    buffer.add(made_up([0] * 2, 2))
    assert numbers_in(buffer) == [3, 1, 2]
    buffer.add(made_up([0] * 7, 10))
    assert numbers_in(buffer) == [15, 16, 14]  # the images so far are 0 to 3 and 10 to 16, the newest in slot 10 % 3
    buffer.add(made_up([0], 20, task=1))
    assert numbers_in(buffer) == [15, 16, 14, 20]
    buffer.add(made_up([0] * 4, 21, task=1))
    assert numbers_in(buffer) == [15, 16, 14, 23, 24, 22]
    assert buffer.columns["t"][:6].tolist() == [0] * 3 + [1] * 3


def test_a_ring_per_task_needs_an_image_for_each():
    with pytest.raises(ValueError, match="capacity 1 has no image for each of 2 tasks"):
        eg.Buffer(learner_of(), 1, rule="task-ring")


def test_each_task_has_its_quota_and_older_ones_give_up_their_last():
    buffer = eg.Buffer(learner_of(), 7, rule="per-task")
    buffer.add(made_up([0] * 9))
    assert numbers_in(buffer) == list(range(7))
    buffer.add(made_up([0] * 2, 20, task=1))
    buffer.add(made_up([0] * 5, 22, task=1))
    assert numbers_in(buffer) == [0, 1, 2, 20, 21, 22]
    buffer.learner.task = 1
    assert buffer.columns["t"][:6].tolist() == [0] * 3 + [1] * 3


def test_each_class_has_its_quota():
    buffer = eg.Buffer(learner_of(), 6, rule="per-class")
    buffer.add(made_up([1, 0, 0, 1, 1, 1, 0, 0]))
    assert buffer.columns["y"].tolist() == [1, 0, 0, 1, 1, 0]
    buffer.add(made_up([2, 2, 2], 30))
    assert numbers_in(buffer) == [0, 1, 2, 3, 30, 31]


# what comes back ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", ["uint8", "float"])
@pytest.mark.parametrize("channels", [1, 3])
def test_images_come_back_with_equal_bits(store, channels):
    """Each task is normalised by its own statistics; 8 bits lose nothing of an 8-bit source."""
    scenario = eg.split(blobs(4, size=5, channels=channels), kind="domain", normalize="train")
    learner = learner_for(scenario, 4)
    buffer = eg.Buffer(learner, 100, store=store)
    sent = [stream(learner, task, list(range(30))) for task in (0, 1)]
    for batch in sent:
        buffer.add(batch)
    held = buffer.everything()
    assert torch.equal(held.x, torch.cat([batch.x for batch in sent]))
    assert torch.equal(held.y, torch.cat([batch.y for batch in sent]))
    assert held.t.tolist() == [0] * 30 + [1] * 30
    data = buffer.data()
    assert torch.equal(data.batch(torch.arange(60)).x, held.x)
    assert data.tasks == (0, 1)


def test_draws_are_without_replacement_and_as_many_as_there_are():
    buffer = eg.Buffer(learner_of(), 20)
    assert buffer.draw(5) is None
    buffer.add(made_up(list(range(4)) * 3))
    drawn = [(buffer.draw(5).x[:, 1] * 255).round().long().tolist() for _ in range(50)]
    assert all(len(set(batch)) == 5 for batch in drawn)
    assert len({tuple(batch) for batch in drawn}) > 40
    assert len(buffer.draw(100).y) == 12


def test_draws_of_the_past_leave_out_the_task_at_hand():
    learner = learner_of()
    buffer = eg.Buffer(learner, 20)
    buffer.add(stream(learner, 0, [0, 1, 2]))
    assert buffer.draw(5, past=True) is None
    buffer.add(stream(learner, 1, [0, 1, 2, 3]))
    assert buffer.draw(9, past=True).t.tolist() == [0, 0, 0]
    assert len(buffer.draw(9).y) == 7


def test_extra_columns_stay_with_their_images():
    buffer = eg.Buffer(learner_of(), 5, store="float", extra={"logits": 2})
    for start in range(0, 40, 8):
        batch = made_up([0] * 8, start)
        buffer.add(batch, logits=torch.stack([batch.x[:, 1], -batch.x[:, 1]], 1))
    drawn = buffer.draw(4)
    assert torch.equal(drawn.extra["logits"], torch.stack([drawn.x[:, 1], -drawn.x[:, 1]], 1))
    with pytest.raises(ValueError, match=r"extra columns \['logits'\] and was given \[\]"):
        buffer.add(made_up([0]))


def test_a_buffer_without_slots_is_refused():
    with pytest.raises(ValueError, match="capacity 0 is out of range"):
        eg.Buffer(learner_of(), 0)


# memory and state -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("store", "image"), [("uint8", 6 + 4 + 12), ("float", 24 + 4 + 12)])
def test_its_bytes_are_exact(store, image):
    """6 pixels, a label and a task of 2 bytes each, 3 logits of 4."""
    buffer = eg.Buffer(learner_of(), 50, store=store, extra={"logits": 3})
    assert bytes_of(buffer) == 0
    buffer.add(made_up([0, 1]), logits=torch.zeros(2, 3))
    assert bytes_of(buffer) == 50 * image == 50 * image_bytes(6, store, 3)


@pytest.mark.parametrize("rule", RULES)
def test_its_state_comes_back(rule):
    buffer = eg.Buffer(learner_of(), 9, rule=rule, extra={"logits": 1})
    for start in range(0, 40, 8):
        buffer.add(made_up([0, 1, 2, 3] * 2, start), logits=torch.full((8, 1), float(start)))
    again = eg.Buffer(learner_of(), 9, rule=rule, extra={"logits": 1})
    again.load_state_dict(copy.deepcopy(buffer.state_dict()))
    again.learner.rng("buffer").set_state(buffer.learner.rng("buffer").get_state())
    for one in (buffer, again):
        one.add(made_up([0, 1, 2, 3] * 2, 50), logits=torch.zeros(8, 1))
    assert again.offered == buffer.offered == 48
    for name, column in buffer.columns.items():
        assert torch.equal(again.columns[name], column)


@dataclass
class Replays(eg.Method):
    rule: str = "reservoir"
    kept = ("buffer",)

    def start(self, learner, tasks):
        self.buffer = eg.Buffer(learner, 12, rule=self.rule)

    def loss(self, learner, batch):
        old = self.buffer.draw(4)
        return learner.loss(batch) + (0 if old is None else learner.loss(old))

    def after_step(self, learner, batch):
        self.buffer.add(batch)

    def kept_bytes(self, net, pixels):
        return 12 * image_bytes(pixels)


@pytest.mark.parametrize("kind", ["task", "class"])
@pytest.mark.parametrize("rule", RULES)
def test_a_resumed_run_equals_an_uninterrupted_one(rule, kind):
    tasks = eg.split(blobs(6, train=20, size=5), kind=kind).tasks(0)
    whole = Run(tasks, lambda: Replays(rule))
    for checkpoint in whole.checkpoints[:-1]:
        resumed = Run(tasks, lambda: Replays(rule), resume=checkpoint)
        assert resumed.bits() == whole.bits()
    assert whole.outcome.memory["kept"] == {"buffer": 12 * (25 + 4)}
