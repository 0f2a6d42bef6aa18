"""iCaRL: herding on points with a known order, targets, quotas, and prediction by the nearest mean."""

import numpy as np
import pytest
import torch
from helpers import Run, blobs, learner_for
from torch.nn.functional import binary_cross_entropy_with_logits

import engram as eg
from engram.learning.train import train
from engram.methods.icarl import herd

NET = eg.MLP(7, 6)


def scenario(kind: str = "class"):
    return eg.split(blobs(6, train=20, size=5), kind=kind)


def test_herding_of_points_with_a_known_order():
    """The mean of −4, −1, 0, 2, 8 is 1: 0 and 2 are equally near, the first is taken; then 2, whose mean with 0 is 1.

    The third sum is to be near 3: with 2 so far, −1 gives 1 and 8 gives 10. The fourth near 4: 8 gives 9, −4 gives −3.
    """
    points = torch.tensor([[-4.0], [-1.0], [0.0], [2.0], [8.0]])
    assert herd(points, 5).tolist() == [2, 3, 1, 4, 0]
    assert herd(points, 2).tolist() == [2, 3]


def test_herding_is_the_greedy_choice():
    features = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    mean, chosen = features.mean(0), []
    for _ in range(10):
        means = [
            (features[[*chosen, i]].mean(0) - mean).norm() if i not in chosen else torch.tensor(9e9) for i in range(30)
        ]
        chosen.append(int(torch.stack(means).argmin()))
    assert herd(features, 10).tolist() == chosen


def test_quotas_are_equal_by_class_and_shrink():
    found = []

    class Watches(eg.ICaRL):
        def end_task(self, learner, task):
            super().end_task(learner, task)
            found.append(torch.bincount(self.buffer.columns["y"][: len(self.buffer)].long()).tolist())

    for exemplars in ("herding", "random"):
        found.clear()
        Run(scenario().tasks(0), lambda exemplars=exemplars: Watches(capacity=26, exemplars=exemplars), net=NET)
        assert found == [[13, 13], [6, 6, 6, 6], [4] * 6]


def test_targets_are_one_hot_for_new_and_the_teacher_s_for_old_classes():
    method = eg.ICaRL()
    learner = learner_for(scenario(), 7, 6)
    method.start(learner, learner.tasks)
    method.teacher = None
    batch = learner.tasks[0].train.batch(torch.arange(8))
    wanted = binary_cross_entropy_with_logits(learner.logits(batch.x)[:, :2], torch.eye(6)[batch.y][:, :2])
    torch.testing.assert_close(method.loss(learner, batch), wanted)
    learner.task = 1
    method.teacher = learner_for(scenario(), 7, 6, seed=3).frozen()
    batch = learner.tasks[1].train.batch(torch.arange(8))
    targets = torch.cat([method.teacher.logits(batch.x)[:, :2].sigmoid(), torch.eye(6)[batch.y][:, 2:4]], 1)
    wanted = binary_cross_entropy_with_logits(learner.logits(batch.x)[:, :4], targets)
    torch.testing.assert_close(method.loss(learner, batch), wanted)


def test_the_nearest_mean_is_predicted():
    method = eg.ICaRL()
    learner = learner_for(scenario(), 7, 6)
    method.start(learner, learner.tasks)
    x = torch.rand(5, 25)
    assert torch.equal(method.scores(learner, x, None), learner.logits(x))  # nothing stored
    held = learner.tasks[0].train.batch(torch.arange(20))
    method.buffer.add(held)
    means = [learner.features(held.x[held.y == label]).mean(0) for label in (0, 1)]
    scores = method.scores(learner, x, None)
    for label in (0, 1):
        torch.testing.assert_close(-scores[:, label], (learner.features(x) - means[label]).square().sum(1))
    assert torch.isinf(scores[:, 2:]).all()


@pytest.mark.parametrize("kind", ["task", "class", "class-known"])
def test_resumed_at_any_boundary_it_ends_with_the_same_bits(kind):
    whole = Run(scenario(kind).tasks(0), lambda: eg.ICaRL(capacity=30), net=NET)
    assert whole.outcome.memory["kept"] == {"buffer": 30 * (25 + 4)}
    for checkpoint in whole.checkpoints[:-1]:
        resumed = Run(scenario(kind).tasks(0), lambda: eg.ICaRL(capacity=30), net=NET, resume=checkpoint)
        assert resumed.bits() == whole.bits()


def test_classes_of_the_past_are_kept():
    """Three tasks with two new classes each: plain training scores a third."""
    tasks = eg.split(blobs(6, train=60, test=50, size=6, noise=60), kind="class").tasks(0)
    outcome = train(tasks, eg.ICaRL(capacity=60), eg.MLP(60), eg.Training(steps=150, batch=32, lr=0.005))
    assert np.mean(outcome.accuracy[-1]) > 80


def test_it_is_refused_without_new_classes_and_with_too_few_images():
    with pytest.raises(ValueError, match="needs new classes in every task, and domain learning has none"):
        Run(scenario("domain").tasks(0), eg.ICaRL, net=NET)
    with pytest.raises(ValueError, match="capacity 5 is below the 6 classes"):
        Run(scenario().tasks(0), lambda: eg.ICaRL(capacity=5), net=NET)


# the form of van de Ven et al. (2022) ---------------------------------------------------------------------------------


def test_the_form_of_2022():
    """Sum over outputs, targets of old classes at T = 2, predictions at T = 1."""
    method = eg.ICaRL(reduction="sum", temperature=2.0)
    learner = learner_for(scenario(), 7, 6, task=1)
    learner.steps = 1
    method.start(learner, learner.tasks)
    method.begin_task(learner, learner.tasks[1])
    with torch.no_grad():
        for p in learner.params:
            p += 0.1
    batch = learner.tasks[1].train.batch(torch.arange(8))
    targets = torch.nn.functional.one_hot(batch.y, 6).float()
    targets[:, :2] = torch.sigmoid(method.teacher.logits(batch.x)[:, :2] / 2)
    each = binary_cross_entropy_with_logits(learner.logits(batch.x)[:, :4], targets[:, :4], reduction="none")
    torch.testing.assert_close(method.loss(learner, batch), each.sum(1).mean())


def test_an_equal_quota_of_all_classes_never_shrinks():
    method = eg.ICaRL(capacity=18, quota="all", exemplars="random")
    counts = []

    class Watches(eg.ICaRL):
        def end_task(self, learner, task):
            super().end_task(learner, task)
            counts.append(torch.bincount(self.buffer.columns["y"][: len(self.buffer)].long()).tolist())

    Run(scenario().tasks(0), lambda: Watches(**{name: getattr(method, name) for name in vars(method)}), net=NET)
    assert counts == [[3] * 2, [3] * 4, [3] * 6]


def test_features_of_length_one_are_compared_with_means_of_length_one():
    method = eg.ICaRL(capacity=12, unit_features=True)
    run = Run(scenario().tasks(0), lambda: method, net=NET)
    assert run.outcome.status == "done"
    learner = learner_for(scenario(), 7, 6, task=2)
    learner.net.load_state_dict(run.checkpoints[-1]["net"])
    held = method.buffer.everything()
    x = learner.tasks[0].train.batch(torch.arange(5)).x
    with torch.no_grad():
        features, known = (torch.nn.functional.normalize(learner.features(part)) for part in (x, held.x))
        means = torch.stack([torch.nn.functional.normalize(known[held.y == c].mean(0), dim=0) for c in range(6)])
    torch.testing.assert_close(
        method.scores(learner, x, None), -torch.cdist(features, means).square(), atol=1e-5, rtol=0
    )


def test_a_temperature_that_means_nothing_is_refused():
    with pytest.raises(ValueError, match=r"temperature 0.0.*above 0"):
        eg.ICaRL(temperature=0.0)


@pytest.mark.parametrize(("groups", "task"), [(((0, 1), (2, 0), (3,)), 2), (((0, 1), (2, 3), (0, 1)), 3)])
def test_classes_that_return_are_refused(groups, task):
    """Their own labels would be replaced by what the old network says of them."""
    with pytest.raises(ValueError, match=f"in task {task} classes return or are missing"):
        eg.run(eg.split(blobs(4), groups=groups, kind="class"), eg.ICaRL(capacity=20), net=eg.MLP(8))
