"""Heads that predict values or labels: losses, scores and Fisher information by hand, and a queue of all three."""

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import Run, blobs
from sklearn.metrics import average_precision_score, r2_score
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

import engram as eg
from engram.core.registry import METHODS
from engram.data.errors import DataError
from engram.learning.fisher import fisher
from engram.learning.targets import check_targets, score_numbers
from engram.learning.train import new_learner
from engram.scenarios.kinds import ScenarioError
from engram.scenarios.look import categorize_tasks

FEATURES = 6
SHORT = eg.Training(epochs=8, batch=16, lr=0.01)


def dataset(targets: str, columns: int = 3, n: int = 120, seed: int = 0, **options) -> eg.Arrays:
    """Features whose linear functions are the class, the values or the labels."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(FEATURES, columns))

    def part(size: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.normal(size=(size, FEATURES)).astype(np.float32)
        y = x @ weights
        return x, {"classes": y.argmax(1), "values": y, "labels": (y > 0.5).astype(np.int64)}[targets]

    return eg.Arrays(*part(n), *part(n // 2), targets=targets, name=targets, **options)


def mixed() -> eg.queue:
    sets = [dataset("classes", 5, 200), dataset("values", 1, seed=1), dataset("labels", 3, seed=2)]
    return eg.queue(sets, kind="task", classes_per_task="all")


def learner(task: int = 0, method: eg.Method | None = None, net: eg.Net | None = None):
    tasks = mixed().tasks(0)
    found = new_learner(tasks, method or eg.Adam(), net or eg.Linear(), SHORT, 0, torch.device("cpu"))
    found.task = task
    return found


def test_scores_are_those_of_sklearn():
    rng = np.random.default_rng(3)
    y, guess = rng.normal(size=(50, 3)), rng.normal(size=(50, 3))
    expected = r2_score(y, guess)
    assert expected < 0
    assert score_numbers("values", torch.tensor(guess), torch.tensor(y)) == pytest.approx(100 * expected)
    labels = rng.integers(0, 2, (50, 4))
    scores = rng.integers(0, 8, (50, 4)).astype(float)  # many ties
    expected = average_precision_score(labels, scores, average="macro")
    assert score_numbers("labels", torch.tensor(scores), torch.tensor(labels)) == pytest.approx(100 * expected)


def test_a_batch_of_all_tasks_has_the_mean_of_their_losses():
    it = learner(2)
    tasks = it.tasks
    batches = [task.train.batch(torch.arange(4)) for task in tasks]
    assert [tuple(b.y.shape) for b in batches] == [(4, 3)] * 3
    heads = [it.logits(b.x)[:, head] for b, head in zip(batches, tasks.heads, strict=True)]
    by_hand = [
        cross_entropy(heads[0], batches[0].y[:, 0].long()),
        (heads[1] - batches[1].y[:, :1]).square().mean(),
        binary_cross_entropy_with_logits(heads[2], batches[2].y),
    ]
    for batch, loss in zip(batches, by_hand, strict=True):
        assert torch.allclose(it.loss(batch), loss)
    joined = (tasks[0].train + tasks[1].train + tasks[2].train).batch(torch.tensor([0, 1, 200, 320, 321, 322]))
    assert joined.t.tolist() == [0, 0, 1, 2, 2, 2]
    some = [it.loss(task.train.batch(torch.arange(n))) * n for task, n in zip(tasks, (2, 1, 3), strict=True)]
    assert torch.allclose(it.loss(joined), sum(some) / 6)


def test_closed_form_gradients_are_those_of_autograd():
    it = learner(2, net=eg.MLP(8))
    joined = (it.tasks[0].train + it.tasks[1].train + it.tasks[2].train).batch(torch.arange(150, 400))
    fast = it.gradients(joined)
    loss = it.loss_of(it.net(joined.x), joined)
    for a, b in zip(fast, torch.autograd.grad(loss, it.params), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("label", ["exact", "predicted"])
def test_fisher_of_linear_values_is_the_mean_square_of_the_inputs(label):
    it = learner(1)
    weight, bias = fisher(it, it.tasks[1].train, label)
    x = it.tasks[1].train.batch(torch.arange(120)).x
    expected = torch.zeros_like(weight)
    expected[5] = x.square().mean(0)  # the one output of the second head: a normal variable with variance 1
    assert torch.allclose(weight, expected, atol=1e-6)
    assert torch.allclose(bias, torch.eye(9)[5])


def test_fisher_of_linear_labels_has_the_variance_of_bernoulli():
    it = learner(2)
    weight, bias = fisher(it, it.tasks[2].train, "exact")
    x = it.tasks[2].train.batch(torch.arange(120)).x
    p = it.logits(x)[:, 6:9].detach().sigmoid()
    variance = p * (1 - p)
    assert torch.allclose(bias[6:], variance.mean(0), atol=1e-6)
    assert torch.allclose(weight[6:], variance.t() @ x.square() / 120, atol=1e-6)
    assert not weight[:6].any()
    drawn = sum(fisher_of_draw(it, seed)[6:] for seed in range(200)) / 200
    assert torch.allclose(drawn, weight[6:], rtol=0.15)


def fisher_of_draw(it, seed):
    it.seed = seed
    return fisher(it, it.tasks[2].train, "sampled")[0]


def test_fisher_of_true_targets_squares_the_residuals():
    it = learner(1)
    weight, _ = fisher(it, it.tasks[1].train, "true")
    batch = it.tasks[1].train.batch(torch.arange(120))
    residual = it.logits(batch.x)[:, 5].detach() - batch.y[:, 0]
    assert torch.allclose(weight[5], (residual[:, None] * batch.x).square().mean(0), rtol=1e-4)
    with pytest.raises(ValueError, match="label 'predicted' has no gradient if values are predicted"):
        fisher(it, it.tasks[1].train, "predicted", "batch")
    one = fisher(it, it.tasks[1].train, "true", "batch", batch=1)[0]  # of one sample each: the same
    assert torch.allclose(one, weight, rtol=1e-4)


@pytest.mark.parametrize(
    "method",
    [eg.Adam(), eg.L2(coef=0.01), eg.EWC(coef=1), eg.SI(coef=0.1), eg.Rehearsal(capacity=60),
     eg.ER(capacity=60, store="float"), eg.GEM(capacity=60), eg.Offline()],
    ids=lambda m: type(m).__name__,
)  # fmt: skip
def test_a_queue_of_classes_a_value_and_labels(method):
    record = eg.run(mixed(), method, net=eg.MLP(32), training=SHORT, keep=("logits",))
    assert record.status == "done"
    assert record.scores == ["accuracy", "R²", "mean average precision"]
    accuracy, r2, precision = record.accuracy[-1]
    assert accuracy > 55  # guessing: 20
    assert r2 > 50  # guessing: 0
    assert precision > 65  # guessing: a third
    assert record.average_accuracy == pytest.approx((accuracy + r2 + precision) / 3)
    assert record.pooled_accuracy is None
    logits, (right, value, labels) = record.logits[-1], record.targets
    assert 100 * float((record.predictions[-1][0] == right).double().mean()) == accuracy
    assert 100 * r2_score(value, logits[1][:, 5:6]) == pytest.approx(r2)
    assert 100 * average_precision_score(labels, logits[2][:, 6:9]) == pytest.approx(precision)
    assert eg.runs.records.Record.from_json(record.to_json()) == record


def test_penalties_without_a_coefficient_are_plain_training_bit_for_bit():
    tasks = mixed().tasks(0)
    plain = Run(tasks, training=SHORT).outcome
    for method in (eg.L2(coef=0), eg.EWC(coef=0), eg.SI(coef=0)):
        assert Run(tasks, lambda method=method: method, training=SHORT).outcome.losses == plain.losses


def test_describe_calls_it_incremental_task_learning():
    tasks = mixed().tasks(0)
    found = categorize_tasks(tasks)
    assert found.kind == "task"
    assert found.row["learning scenario"] == "incremental task"
    assert tasks.floor == pytest.approx((100 + 20 + 0) / 3)
    assert [task.targets for task in tasks] == ["classes", "values", "labels"]


def test_tuning_holds_out_a_share_of_values_and_labels():
    held = mixed().holdout(0.25)
    assert [len(task.test) for task in held.tasks(0)][1:] == [30, 30]
    assert held.sizes() == [len(task.train) for task in held.tasks(0)]


def test_float_targets_are_refused_unless_somebody_says_what_they_are():
    x, y = np.zeros((4, 2), np.float32), np.array([0.0, 1.0, 0.0, 1.0])
    for given in (y, y[:, None], np.eye(4, dtype=int)):
        with pytest.raises(DataError, match=r'targets="values" .*targets="labels".*for classes'):
            eg.Arrays(x, given, x, given)
    assert eg.Arrays(x, y, x, y, targets="values").y_train.shape == (4, 1)
    keys = {eg.Arrays(x, given, x, given, targets=t).fingerprint
            for given, t in ((y, "values"), (y[:, None], "labels"), (y.astype(int), "classes"))}  # fmt: skip
    assert len(keys) == 3
    with pytest.raises(DataError, match="targets 'value' is unknown; did you mean values"):
        eg.Arrays(x, y, x, y, targets="value")
    with pytest.raises(DataError, match="other labels than 0 and 1"):
        eg.Arrays(x, 2 * y[:, None], x, y[:, None], targets="labels")
    with pytest.raises(DataError, match="R² is not defined"):
        eg.Arrays(x, y, x, 0 * y, targets="values")
    with pytest.raises(DataError, match="its average precision is not defined"):
        eg.Arrays(x, y[:, None], x, 0 * y[:, None], targets="labels")


def test_other_scenarios_and_kinds_refuse_values():
    values = dataset("values")
    with pytest.raises(ScenarioError, match=r"values as targets, which need a head of their own: give engram.queue"):
        eg.split(values)
    with pytest.raises(ScenarioError, match="not queue of kind domain"):
        eg.queue([values, dataset("labels")], kind="domain")
    with pytest.raises(ScenarioError, match="either images or other arrays"):
        eg.queue([values, blobs(4)], kind="task")


def test_methods_for_classes_alone_refuse_values_in_words():
    tasks = mixed().tasks(0)
    fit = {"adam", "sgd", "adagrad", "l2", "ewc", "online-ewc", "si", "mas", "rehearsal", "rehearsal-c", "er", "a-gem",
           "gem", "gem-textbook", "offline"}  # fmt: skip
    for name in METHODS:
        if name in fit:
            check_targets(METHODS[name](), tasks)
        else:
            with pytest.raises(ValueError, match="is for classes, and task 2 has values as targets; choose a method"):
                check_targets(METHODS[name](), tasks)
    with pytest.raises(ValueError, match="LwF is for classes, and task 2 has values"):
        eg.run(mixed(), [eg.SI(), eg.LwF()], net=eg.MLP(8), training=SHORT)


def test_metrics_of_classes_are_measured_on_tasks_with_classes():
    record = eg.run(mixed(), eg.Adam(), net=eg.MLP(8), training=SHORT, metrics=["ece", "per-class-accuracy"])
    assert record.extra["ece"][2][1:] == [None, None]
    assert len(record.extra["per-class-accuracy"][2][0]) == 5


def test_an_npz_file_says_what_its_targets_are(tmp_path: Path):
    given = dataset("values")
    arrays = {name: getattr(given, name) for name in ("x_train", "y_train", "x_test", "y_test")}
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match='targets="values"'):
        eg.images(str(tmp_path / "a.npz"))
    np.savez(tmp_path / "b.npz", targets="values", **arrays)
    assert eg.images(str(tmp_path / "b.npz")).fingerprint == given.fingerprint
