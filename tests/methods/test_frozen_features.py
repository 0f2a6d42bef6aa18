"""NCM, SLDA and RanPAC: exact, incremental, independent of order; and how a run goes that takes no gradient."""

import numpy as np
import pytest
import torch
from helpers import Run, blobs, everything, learner_for

import engram as eg
from engram.learning.combine import combine
from engram.learning.train import train
from engram.search.trials import axes, grid

NET = eg.MLP(7, 6)
METHODS = {
    "ncm": eg.NCM,
    "slda": eg.SLDA,
    "slda streaming": lambda: eg.SLDA(covariance="streaming"),
    "ranpac": lambda: eg.RanPAC(units=40),
    "ncm on inputs": lambda: eg.NCM(on="inputs"),
    "slda on inputs": lambda: eg.SLDA(on="inputs"),
    "ranpac on inputs": lambda: eg.RanPAC(on="inputs", units=40),
}
ORDER_FREE = [name for name in METHODS if "streaming" not in name]


def scenario(kind: str = "class"):
    return eg.split(blobs(6, train=20, size=5, noise=60), kind=kind)


def collected(make, order, batch: int = 7):
    """(method, learner, features, labels) after the images of all tasks in this order."""
    learner, method = learner_for(scenario(), 7, 6), make()
    method.start(learner, learner.tasks)
    parts = [everything(task.train) for task in learner.tasks]
    x, y, t = (torch.cat([getattr(part, name) for part in parts]) for name in ("x", "y", "t"))
    for rows in torch.split(order(len(y)), batch):
        method.after_step(learner, eg.Batch(x[rows], y[rows], t[rows], (0, 1, 2)))
    rows = order(len(y))
    with torch.no_grad():
        features = (x if method.on == "inputs" else learner.features(x)).double()
    return method, learner, features[rows], y[rows]


def shuffled(seed: int):
    return lambda n: torch.randperm(n, generator=torch.Generator().manual_seed(seed))


X = torch.rand(9, 25, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("name", ORDER_FREE)
def test_the_order_of_the_images_and_the_size_of_batches_do_not_matter(name):
    one, learner, *_ = collected(METHODS[name], torch.arange)
    two, *_ = collected(METHODS[name], shuffled(1), batch=64)
    close = {"rtol": 1e-9, "atol": 1e-9} if "inputs" in name else {"rtol": 1e-3, "atol": 1e-3}  # float32 features
    torch.testing.assert_close(one.scores(learner, X, None), two.scores(learner, X, None), **close)


def test_ncm_is_the_distance_to_the_mean_of_each_class():
    method, learner, features, y = collected(eg.NCM, shuffled(2))
    means = torch.stack([features[y == label].mean(0) for label in range(6)])
    wanted = -(learner.features(X).double()[:, None] - means).square().sum(2)
    torch.testing.assert_close(method.scores(learner, X, None), wanted)


def test_slda_has_the_pooled_covariance_of_all_images_at_once():
    method, _, features, y = collected(lambda: eg.SLDA(on="inputs"), shuffled(3))
    means = torch.stack([features[y == label].mean(0) for label in range(6)])
    away = features - means[y]
    torch.testing.assert_close(method.means, means)
    torch.testing.assert_close(method.scatter / len(y), away.t() @ away / len(y), rtol=1e-10, atol=1e-12)


def test_slda_scores_are_gaussian_log_likelihoods_up_to_a_constant():
    method, learner, features, y = collected(lambda: eg.SLDA(shrinkage=0.1), torch.arange)
    means = torch.stack([features[y == label].mean(0) for label in range(6)])
    away = features - means[y]
    covariance = 0.9 * away.t() @ away / len(y) + 0.1 * torch.eye(6, dtype=torch.float64)
    z = learner.features(X).double()
    wanted = torch.stack([torch.distributions.MultivariateNormal(m, covariance).log_prob(z) for m in means], 1)
    found = method.scores(learner, X, None)
    torch.testing.assert_close(found - found[:, :1], wanted - wanted[:, :1])


def test_the_published_update_is_as_printed_and_departs_from_the_pooled_covariance():
    method, _, features, y = collected(lambda: eg.SLDA(covariance="streaming"), shuffled(4))
    sigma, means, counts = torch.zeros(6, 6, dtype=torch.float64), torch.zeros(6, 6, dtype=torch.float64), [0] * 6
    for n, (z, label) in enumerate(zip(features, y.tolist(), strict=True)):
        away = z - means[label]
        sigma = (n * sigma + n / (n + 1) * torch.outer(away, away)) / (n + 1)
        counts[label] += 1
        means[label] += away / counts[label]
    torch.testing.assert_close(method.scatter / len(y), sigma)
    pooled, *_ = collected(eg.SLDA, shuffled(4))
    assert float((method.scatter - pooled.scatter).norm() / pooled.scatter.norm()) > 0.05


def test_ranpac_is_ridge_regression():
    method, learner, features, y = collected(lambda: eg.RanPAC(on="inputs", units=40, ridge=0.05), shuffled(6))
    h = torch.relu(features @ method.projection)
    coefficient = 0.05 * h.square().sum(0).mean()
    stacked = torch.cat([h, coefficient.sqrt() * torch.eye(40, dtype=torch.float64)])  # least squares, λ‖W‖² as rows
    targets = torch.cat([torch.eye(6, dtype=torch.float64)[y], torch.zeros(40, 6, dtype=torch.float64)])
    wanted = torch.linalg.lstsq(stacked, targets).solution
    torch.testing.assert_close(method.solve()[0], wanted, rtol=1e-8, atol=1e-10)
    z = torch.relu(X.double() @ method.projection)
    torch.testing.assert_close(method.scores(learner, X, None), z @ wanted, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kind", ["task", "domain", "class", "class-known"])
@pytest.mark.parametrize("name", METHODS)
def test_it_resumes_to_the_same_bits_leaves_the_network_alone_and_declares_its_memory(name, kind):
    whole = Run(scenario(kind).tasks(0), METHODS[name], net=NET)
    for checkpoint in whole.checkpoints[:-1]:
        resumed = Run(scenario(kind).tasks(0), METHODS[name], net=NET, resume=checkpoint)
        assert resumed.outcome.accuracy == whole.outcome.accuracy
        assert digest(resumed) == digest(whole)
    first, last = (whole.checkpoints[i]["net"] for i in (0, -1))
    assert all(torch.equal(first[n], last[n]) for n in first)
    net = NET.build((1, 5, 5), 2 if kind == "domain" else 6)
    assert sum(whole.outcome.memory["kept"].values()) == METHODS[name]().kept_bytes(net, 25)


def digest(run: Run) -> list[object]:
    return [value.tolist() for value in run.checkpoints[-1]["method"][0].values()]


def test_each_image_is_seen_once_whatever_the_training_says():
    """3 tasks of 40 images in batches of 16, the last one of 8 included."""
    method = eg.NCM()
    training = eg.Training(steps=50, batch=16, drop_last=True)
    run = Run(scenario().tasks(0), lambda: method, training, NET)
    assert run.outcome.steps == 3 * 3
    assert method.counts.tolist() == [20] * 6
    assert run.outcome.losses == [0.0] * 3


def test_the_final_accuracy_does_not_depend_on_the_tasks():
    """NCM on six classes: two by two, three by three, or all at once."""
    images = blobs(6, train=20, size=5, noise=90)
    splits = [eg.split(images, kind="class", classes_per_task=n) for n in (2, 3)]
    (two, three) = (Run(s.tasks(0), lambda: eg.NCM(on="inputs"), net=NET).outcome for s in splits)
    whole = Run(splits[0].tasks(0), lambda: combine([eg.NCM(on="inputs")]), net=NET).outcome
    assert two.pooled_accuracy == three.pooled_accuracy == whole.pooled_accuracy


@pytest.mark.parametrize("name", ["ncm on inputs", "slda", "ranpac", "slda streaming"])
def test_classes_of_the_past_are_kept(name):
    """Three tasks with two new classes each: plain training scores a third."""
    tasks = eg.split(blobs(6, train=60, test=50, size=6, noise=60), kind="class").tasks(0)
    outcome = train(tasks, METHODS[name](), eg.MLP(60), eg.Training(epochs=1, batch=32))
    assert np.mean(outcome.accuracy[-1]) > 90


@pytest.mark.parametrize("name", METHODS)
def test_it_works_on_a_convolutional_network(name):
    tasks = eg.split(blobs(4, train=12, test=6, size=20), kind="class").tasks(0)
    outcome = train(tasks, METHODS[name](), eg.CNN(), eg.Training(batch=8))
    assert np.mean(outcome.accuracy[-1]) > 60


def test_a_network_without_an_output_layer_is_refused():
    with pytest.raises(ValueError, match="has no output layer to take features from"):
        eg.run(scenario(), eg.NCM(), net=lambda shape, outputs: torch.nn.Sequential(torch.nn.Flatten(), Odd(outputs)))


class Odd(torch.nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.layer = torch.nn.Linear(25, outputs)

    def forward(self, x):
        return self.layer(x) * 2


def test_wrong_values_and_combinations_are_refused():
    with pytest.raises(ValueError, match=r"shrinkage 0 is out of range"):
        eg.SLDA(shrinkage=0)
    with pytest.raises(ValueError, match=r"ridge -1.0 is out of range"):
        eg.RanPAC(ridge=-1.0)
    with pytest.raises(ValueError, match=r"units 0 is out of range"):
        eg.RanPAC(units=0)
    with pytest.raises(ValueError, match="NCM does not train the network and cannot be combined"):
        combine([eg.EWC(), eg.NCM()])


def test_what_does_not_train_is_not_searched_over_the_learning_rate():
    from engram.runs.spec import Spec

    specs = [Spec(scenario(), method, NET) for method in (eg.NCM(), eg.SLDA(), eg.RanPAC())]
    assert [[axis.name for axis in axes(spec)] for spec in specs] == [[], ["shrinkage"], ["ridge"]]
    assert grid(axes(specs[0]), 6) == [{}]
