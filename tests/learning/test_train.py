"""The loop learns, forgets, repeats itself to the bit, and says so when it diverges."""

from math import log

import pytest
import torch
from helpers import QUICK, Run, blobs, learner_for

import engram as eg
from engram.learning.train import new_learner

LONG = eg.Training(epochs=15, batch=16, lr=0.01)


@pytest.fixture(scope="module")
def images():
    return blobs(6)


def deal(images, kind, seed=0, **options):
    return eg.split(images, kind=kind, **options).deal(seed)


@pytest.mark.parametrize("kind", ["task", "domain", "class", "class-known", "iid"])
def test_each_task_is_learned_in_its_turn(images, kind):
    outcome = Run(deal(images, kind), training=LONG).outcome
    assert outcome.status == "done"
    assert [len(row) for row in outcome.accuracy] == [1, 2, 3]
    assert all(row[-1] > 90 for row in outcome.accuracy)  # a guess is 50, or 100/6
    assert outcome.steps == 3 * 15 * 5  # 80 images are five batches of 16
    assert len(outcome.losses) == 3


def test_plain_training_forgets_to_the_floor_in_class_learning(images):
    tasks = deal(images, "class")
    outcome = Run(tasks, training=LONG).outcome
    assert outcome.accuracy[-1] == [0.0, 0.0, 100.0]
    assert sum(outcome.accuracy[-1]) / 3 == pytest.approx(tasks.floor) == pytest.approx(100 / 3)


def test_nothing_is_forgotten_where_nothing_changes(images):
    assert min(Run(deal(images, "iid"), training=LONG).outcome.accuracy[-1]) > 90


@pytest.mark.parametrize("kind", ["task", "class"])
def test_the_same_seed_gives_the_same_bits_and_another_does_not(images, kind):
    first, again, other = (Run(deal(images, kind, seed), seed=seed) for seed in (0, 0, 1))
    assert first.bits() == again.bits()
    assert first.outcome.losses != other.outcome.losses
    assert first.bits()["net"] != other.bits()["net"]


def test_a_run_does_not_depend_on_the_global_generator(images):
    runs = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        expected = torch.rand(1).item()
        torch.manual_seed(seed)
        runs.append(Run(deal(images, "class")).bits())
        assert torch.rand(1).item() == expected  # nor disturbs it
    assert runs[0] == runs[1]


def test_a_loss_of_one_s_own_that_is_the_plain_one_gives_the_same_bits(images):
    """The plain loss goes by its closed form, any other by autograd."""

    class Own(eg.Method):
        def loss(self, learner, batch):
            return learner.loss(batch)

    for kind in ("task", "class"):
        assert Run(deal(images, kind)).bits() == Run(deal(images, kind), Own).bits()


def test_zero_heads_start_with_uniform_predictions(images):
    """One step a task: the first loss of the first task is log 2 to the bit of a float."""
    outcome = Run(deal(images, "class"), net=eg.MLP(12, heads="zero"), training=eg.Training(steps=1)).outcome
    assert outcome.losses[0] == pytest.approx(log(2), rel=1e-6)
    tasks = deal(images, "class-known")
    learner = new_learner(tasks, eg.Adam(), eg.MLP(12, heads="zero"), QUICK, 0, torch.device("cpu"))
    assert learner.loss(tasks[0].train.batch(torch.arange(9))).item() == pytest.approx(log(6), rel=1e-6)
    assert not learner.params[-1].any()
    assert not learner.params[-2].any()
    assert learner.params[0].any()


def test_a_step_budget(images):
    outcome = Run(deal(images, "class"), training=eg.Training(steps=7, batch=16)).outcome
    assert outcome.steps == 21


def test_losses_are_the_mean_over_a_task_s_steps(images):
    """With a rate that moves nothing, each task's mean loss is the loss of the initial network."""
    still = eg.Training(epochs=2, batch=80, lr=1e-30, optimizer="sgd")
    outcome = Run(deal(images, "task"), training=still).outcome
    learner = learner_for(eg.split(images, kind="task"))
    for task, loss in zip(learner.tasks, outcome.losses, strict=True):
        assert loss == pytest.approx(learner.loss(task.train.batch(torch.arange(80))).item(), rel=1e-6)


def unequal() -> eg.Images:
    return blobs(6, test=[5, 6, 7, 8, 20, 30], noise=120)


@pytest.mark.parametrize("kind", ["task", "domain", "class"])
def test_offline_has_one_row_of_all_tasks(kind):
    outcome = Run(deal(unequal(), kind), eg.Offline).outcome
    ((a, b, c),) = outcome.accuracy
    assert outcome.pooled_accuracy == pytest.approx((11 * a + 15 * b + 50 * c) / 76)
    assert outcome.pooled_accuracy != pytest.approx((a + b + c) / 3)
    assert outcome.steps == 3 * 15  # 240 images are 15 batches of 16
    assert len(outcome.losses) == 1


def test_pooled_accuracy_of_a_sequence_is_that_of_the_last_row():
    outcome = Run(deal(unequal(), "task")).outcome
    a, b, c = outcome.accuracy[-1]
    assert outcome.pooled_accuracy == pytest.approx((11 * a + 15 * b + 50 * c) / 76)


@pytest.mark.parametrize("kind", ["task", "class"])
def test_offline_learns_all_tasks(images, kind):
    assert min(Run(deal(images, kind), eg.Offline, LONG).outcome.accuracy[0]) > 90


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_loss_that_is_not_finite_ends_the_run_as_diverged(images, optimizer):
    outcome = Run(deal(images, "class"), training=eg.Training(batch=16, lr=1e30, optimizer=optimizer)).outcome
    assert outcome.status == "diverged"
    assert outcome.accuracy == []


def test_what_diverges_in_a_later_task_keeps_the_rows_before(images):
    class BlowsUp(eg.Method):
        def adjust_gradients(self, learner, batch):
            if learner.task == 2:
                for p in learner.params:
                    p.grad.fill_(1e38)

    outcome = Run(deal(images, "class"), BlowsUp, eg.Training(epochs=3, batch=16, lr=1.0, optimizer="sgd")).outcome
    assert outcome.status == "diverged"
    assert [len(row) for row in outcome.accuracy] == [1, 2]


def test_progress_is_told_every_fifty_steps_and_after_each_task(images):
    told = []
    Run(deal(images, "class"), training=eg.Training(steps=120, batch=16), watch=told.append)
    assert [(p.task, p.step, p.accuracy is not None) for p in told] == [
        (1, 50, False), (1, 100, False), (1, 120, True),
        (2, 170, False), (2, 220, False), (2, 240, True),
        (3, 290, False), (3, 340, False), (3, 360, True),
    ]  # fmt: skip
    assert {(p.tasks, p.steps) for p in told} == {(3, 360)}


def test_memory_is_the_bytes_of_what_is_kept_and_worked_with(images):
    class Keeps(eg.Method):
        kept = ("buffer", "anchors")
        working = ("teacher",)

        def start(self, learner, tasks):
            self.buffer = torch.zeros(5, 36, dtype=torch.uint8)  # 180 bytes
            self.anchors = {"now": [torch.zeros(3), torch.zeros(2, dtype=torch.double)]}  # 12 + 16 bytes
            self.teacher = torch.nn.Linear(4, 2)  # 8 + 2 floats

    outcome = Run(deal(images, "class"), Keeps).outcome
    assert outcome.memory == {"kept": {"buffer": 180, "anchors": 28}, "working": {"teacher": 40}}
