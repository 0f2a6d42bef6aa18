"""What is measured on test data: active outputs, masks, curves, transfer."""

import pytest
import torch
from helpers import Run, blobs, learner_for

import engram as eg
from engram.learning.evaluate import accuracy, score_task

SHORT = eg.Training(steps=2, batch=16, lr=1e-3)


@pytest.fixture(scope="module")
def images():
    return blobs(6)


def deal(images, kind):
    return eg.split(images, kind=kind).deal(0)


class Fixed(torch.nn.Module):
    """Answers with the same logits, whatever it sees."""

    def __init__(self, *logits: float) -> None:
        super().__init__()
        self.answer = torch.nn.Parameter(torch.tensor(logits))

    def forward(self, x):
        return self.answer.expand(len(x), -1)


@pytest.mark.parametrize(
    ("kind", "seen", "mask", "right"),
    [
        # the classes of task 1 have 4 and 6 test images, those of task 2 3 and 7, of task 3 1 and 9
        ("task", 2, True, [6, 7, 9]),  # the larger logit of each head is its second
        ("task", 0, False, [6, 7, 9]),  # a head is chosen by task identity, mask or not
        ("domain", 2, True, [6, 7, 9]),
        ("class", 0, True, [6]),  # 1 is the largest of 0 1
        ("class", 1, True, [0, 7]),  # 3 is the largest of 0 … 3
        ("class", 2, True, [0, 0, 9]),
        ("class", 0, False, [0]),  # 5 is the largest of all
        ("class", 2, False, [0, 0, 9]),
        ("class-known", 0, True, [0]),
    ],
)
def test_predictions_are_over_the_active_outputs(kind, seen, mask, right):
    learner = learner_for(eg.split(blobs(6, test=[4, 6, 3, 7, 1, 9]), kind=kind), task=seen)
    learner.net = Fixed(*[0.0, 1.0, 2.0, 3.0, 4.0, 5.0][: learner.tasks.outputs])
    counts = [score_task(learner, task, eg.Evaluation(mask=mask)) for task in learner.tasks[: len(right)]]
    assert [(one.right, one.n) for one in counts] == [(n, 10) for n in right]
    assert accuracy(learner, learner.tasks[0], eg.Evaluation(mask=mask)) == 10.0 * right[0]


def test_without_the_mask_only_intermediate_rows_of_class_learning_change(images):
    masked, free = (
        Run(deal(images, "class"), training=SHORT, evaluation=eg.Evaluation(mask=mask)).outcome
        for mask in (True, False)
    )
    assert masked.losses == free.losses
    assert masked.accuracy[-1] == free.accuracy[-1]
    assert masked.accuracy[0] != free.accuracy[0]
    assert masked.accuracy[0][0] > free.accuracy[0][0]


@pytest.mark.parametrize("kind", ["task", "domain", "class-known"])
def test_without_the_mask_the_other_kinds_stay_as_they_are(images, kind):
    masked, free = (
        Run(deal(images, kind), training=SHORT, evaluation=eg.Evaluation(mask=m)).bits() for m in (True, False)
    )
    assert masked == free


def test_the_curve_has_a_point_every_so_many_steps(images):
    run = Run(deal(images, "task"), evaluation=eg.Evaluation(evaluate_every=6))
    curve = run.outcome.curve  # 3 epochs of five batches: 15 steps a task
    assert [(p["step"], p["task"]) for p in curve] == [(6, 1), (12, 1), (18, 2), (24, 2), (30, 2), (36, 3), (42, 3)]
    assert all(p["current"] == p["first"] for p in curve[:2])
    after_second = run.outcome.accuracy[1]  # step 30 is the last of task 2
    assert (curve[4]["first"], curve[4]["current"]) == tuple(after_second)


def test_looking_more_often_changes_no_bit(images):
    plain = Run(deal(images, "class")).bits()
    for evaluation in (eg.Evaluation(evaluate_every=1), eg.Evaluation(forward_transfer=True)):
        looked = Run(deal(images, "class"), evaluation=evaluation).bits()
        for name in ("accuracy", "losses", "net", "optimizer", "steps"):
            assert looked[name] == plain[name]


@pytest.mark.parametrize("kind", ["task", "domain", "class"])
def test_the_last_point_of_an_offline_curve_is_the_pooled_accuracy(images, kind):
    """Its 45 steps end with a point; the pool is the current task."""
    outcome = Run(deal(images, kind), eg.Offline, evaluation=eg.Evaluation(evaluate_every=45)).outcome
    (point,) = outcome.curve
    assert point["step"] == 45
    assert point["current"] == pytest.approx(outcome.pooled_accuracy)
    assert point["first"] == outcome.accuracy[0][0]


def test_forward_transfer_is_measured_untrained_and_just_before_each_task(images):
    tasks = deal(images, "domain")
    run = Run(tasks, evaluation=eg.Evaluation(forward_transfer=True))
    learner = learner_for(eg.split(images, kind="domain"))
    assert run.outcome.untrained == [accuracy(learner, task) for task in tasks[1:]]
    before = []
    for task, checkpoint in zip(tasks[1:], run.checkpoints, strict=False):  # the network as the task before left it
        learner.net.load_state_dict(checkpoint["net"])
        before.append(accuracy(learner, task))
    assert run.outcome.before == before
    assert before != run.outcome.untrained


def test_transfer_by_hand_between_tasks_that_are_the_same():
    """Three tasks of one class each, in the domain kind: one output, so all is right before and after."""
    outcome = Run(
        eg.split(blobs(3), kind="domain", classes_per_task=1).deal(0), evaluation=eg.Evaluation(forward_transfer=True)
    ).outcome
    assert outcome.untrained == outcome.before == [100.0, 100.0]


def test_evaluation_leaves_the_mode_of_the_network_alone(images):
    learner = learner_for(eg.split(images))
    for training in (True, False):
        learner.net.train(training)
        accuracy(learner, learner.tasks[0])
        assert learner.net.training is training


def test_wrong_values_are_refused():
    with pytest.raises(ValueError, match="evaluate_every -1"):
        eg.Evaluation(evaluate_every=-1)
