"""Prediction is a hook without labels, and task identity is given only where it belongs."""

import pytest
import torch
from helpers import Run, blobs

import engram as eg
from engram.learning.combine import combine
from engram.learning.evaluate import Evaluation
from engram.runs.spec import Spec

TRAINING = eg.Training(steps=2, batch=16)


def go(kind, method, **options) -> Run:
    return Run(eg.split(blobs(4), kind=kind).deal(0), method, TRAINING, eg.MLP(12), **options)


@pytest.mark.parametrize(
    ("kind", "given", "tasks"),
    [
        ("task", False, {0, 1}),
        ("domain", False, {None}),
        ("class", False, {None}),
        ("class", True, {0, 1}),
    ],
)
def test_scores_get_images_and_the_task_if_it_may_be_known(kind, given, tasks):
    seen = []

    class Looks(eg.Method):
        def scores(self, learner, x, task):
            seen.append((type(x), x.shape, task))
            return super().scores(learner, x, task)

    go(kind, Looks, evaluation=Evaluation(give_task_identity=given))
    assert {task for _, _, task in seen} == tasks
    assert {(kind, shape) for kind, shape, _ in seen} == {(torch.Tensor, (20, 36))}


@pytest.mark.parametrize(("kind", "accuracy"), [("task", [[50.0], [50.0, 50.0]]), ("class", [[50.0], [0.0, 50.0]])])
def test_the_largest_active_score_is_predicted(kind, accuracy):
    """Output 3 is the largest of 0 … 3, and 1 of 0 and 1; classes have 10 test images each."""

    class Constant(eg.Method):
        def scores(self, learner, x, task):
            return torch.arange(4.0).expand(len(x), 4)

    assert go(kind, Constant).outcome.accuracy == accuracy


def test_scores_without_a_column_per_output_are_refused():
    class Short(eg.Method):
        def scores(self, learner, x, task):
            return learner.logits(x)[:, :2]

    with pytest.raises(ValueError, match=r"scores of Short are \(20, 2\); give one per output: \(20, 4\)"):
        go("class", Short)


def test_a_replaced_predict_is_refused():
    class Cheats(eg.Method):
        def begin_task(self, learner, task):
            learner.predict = lambda batch, mask=True: batch.y

    with pytest.raises(ValueError, match=r"learner\.predict was made by the method"):
        go("class", Cheats)


def test_one_member_of_a_combination_may_have_scores():
    class Constant(eg.Method):
        def scores(self, learner, x, task):
            return torch.arange(4.0).expand(len(x), 4)

    class Other(Constant):
        pass

    assert go("class", lambda: combine([eg.L2(), Constant()])).outcome.accuracy == [[50.0], [0.0, 50.0]]
    with pytest.raises(ValueError, match="Constant and Other cannot be combined: each decides on the scores"):
        combine([Constant(), Other()])


class Gated(eg.Method):
    needs = frozenset({"task identity"})


@pytest.mark.parametrize("kind", ["domain", "class", "class-known"])
def test_a_method_that_needs_task_identity_is_refused_before_anything_runs(kind):
    told = []
    with pytest.raises(
        ValueError, match=f"Gated needs task identity, which {kind} learning does not have.*--give-task"
    ):
        go(kind, Gated, watch=told.append)
    assert told == []
    with pytest.raises(ValueError, match="Gated needs task identity"):
        eg.run(eg.split(blobs(4), kind=kind), Gated())
    with pytest.raises(ValueError, match="Gated needs task identity"):
        go(kind, lambda: combine([eg.L2(), Gated()]))


def test_given_task_identity_runs_and_the_spec_shows_it():
    spec = Spec(eg.split(blobs(4), kind="domain"), Gated(), evaluation=Evaluation(give_task_identity=True))
    assert spec.to_json()["evaluation"]["give_task_identity"] is True
    assert "give_task_identity" not in Spec(eg.split(blobs(4)), eg.Adam()).to_json()["evaluation"], (
        "as in 0.1's records"
    )
    assert spec.key != Spec(eg.split(blobs(4), kind="task"), Gated()).key
    assert go("domain", Gated, evaluation=Evaluation(give_task_identity=True)).outcome.status == "done"
    assert go("task", Gated).outcome.status == "done"
