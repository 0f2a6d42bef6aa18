"""Defaults of methods on the first paper's scenarios, typed from the authors' scripts: coefficients, memory, GEM."""

import pytest
from helpers import blobs

import engram as eg
from engram.runs.spec import default_spec


@pytest.fixture(autouse=True)
def _small_mnist(monkeypatch):
    """A made-up set in MNIST's place: defaults are about values, not pixels."""
    small = blobs(10, train=3, test=2, name="mnist")
    monkeypatch.setattr("engram.scenarios.create.images", lambda name: small)


COLUMNS = tuple(f"{maker}-mnist/{kind}" for maker in ("split", "permuted") for kind in ("task", "domain", "class"))
COEFS = {
    #             A      B      C    D      E     F
    "online-ewc": (400, 700, 100, 500, 250, 50),
    "ewc": (100, 100, 600, 500, 150, 10),
    "si": (300, 3000, 600, 1, 10, 0.3),
    "l2": (0.01, 0.5, 100, 0.001, 0.02, 0),
    "mas": (1, 10000, 1, 0.01, 0.1, 0.003),
}


@pytest.mark.parametrize("method", COEFS)
@pytest.mark.parametrize("column", range(6))
def test_coefficients_of_the_scripts(method, column):
    spec = default_spec(COLUMNS[column], method)
    assert spec.method.coef == COEFS[method][column]
    assert (spec.training.optimizer, spec.training.lr) == ("adam", 0.001 if column < 3 else 0.0001)


@pytest.mark.parametrize("method", ["ewc", "online-ewc"])
@pytest.mark.parametrize("column", range(6))
def test_mini_batch_fisher_in_permuted_domain_only(method, column):
    found = default_spec(COLUMNS[column], method).method
    assert found.estimator == ("batch" if COLUMNS[column] == "permuted-mnist/domain" else "sample")
    assert found.label == "predicted"


@pytest.mark.parametrize("column", range(6))
def test_what_the_scripts_leave_alone(column):
    assert default_spec(COLUMNS[column], "online-ewc").method.decay == 1.0
    si = default_spec(COLUMNS[column], "si").method
    assert (si.xi, si.clamp) == (0.1, False)
    assert default_spec(COLUMNS[column], "mas").method.form == "batch-mean"
    assert default_spec(COLUMNS[column], "rehearsal").method.mixing == "shuffled"


@pytest.mark.parametrize(
    ("method", "split", "permuted"),
    [
        ("rehearsal", 1100, 4000),
        ("rehearsal-c", 4400, 16000),
        ("gem", 1100, 4000),
        ("gem-textbook", 1100, 4000),
    ],
)
@pytest.mark.parametrize("column", range(6))
def test_capacities(method, split, permuted, column):
    assert default_spec(COLUMNS[column], method).method.capacity == (split if column < 3 else permuted)


@pytest.mark.parametrize("method", ["rehearsal", "rehearsal-c"])
@pytest.mark.parametrize("column", range(6))
def test_rehearsal_goes_with_adam(method, column):
    training = default_spec(COLUMNS[column], method).training
    assert (training.optimizer, training.lr) == ("adam", 0.001 if column < 3 else 0.0001)


@pytest.mark.parametrize("method", ["gem", "gem-textbook"])
@pytest.mark.parametrize("column", range(6))
def test_gem_goes_with_sgd_at_a_rate_of_its_own(method, column):
    spec = default_spec(COLUMNS[column], method)
    assert (spec.training.optimizer, spec.training.lr) == ("sgd", 0.01 if column < 3 else 0.1)
    assert spec.method.margin == 0.5
    assert spec.method.slots_per_task == (2 if method == "gem" else 1)
    assert (spec.method.memory_batch > 0) == (column >= 3)  # sub-sampled: a visible departure


@pytest.mark.parametrize("method", [*COEFS, "rehearsal", "gem"])
@pytest.mark.parametrize("column", range(6))
def test_network_and_budget(method, column):
    spec = default_spec(COLUMNS[column], method)
    hidden, epochs = (400, 4) if column < 3 else (1000, 10)
    assert spec.net.hidden == (hidden, hidden)
    assert (spec.training.epochs, spec.training.batch, spec.training.steps) == (epochs, 128, 0)
    assert not spec.training.reset_optimizer


@pytest.mark.parametrize("method", COEFS)
@pytest.mark.parametrize(("maker", "column"), [("split", 2), ("permuted", 5)])
def test_known_number_of_classes_takes_the_class_column_s(method, maker, column):
    found = default_spec(f"{maker}-mnist/class-known", method).method
    assert found.coef == COEFS[method][column]
    assert getattr(found, "estimator", "sample") == "sample"


def test_defaults_are_split_mnist_s():
    assert (eg.Rehearsal().capacity, eg.RehearsalC().capacity, eg.GEM().capacity) == (1100, 4400, 1100)
    assert (eg.EWC().label, eg.OnlineEWC().label, eg.OnlineEWC().decay) == ("predicted", "predicted", 1.0)
    assert (eg.SI().xi, eg.SI().clamp, eg.MAS().form) == (0.1, False, "batch-mean")
