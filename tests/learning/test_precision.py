"""bfloat16 products: the bits of autocast by both paths, fp32 everywhere else, refused where they would be emulated."""

import pytest
import torch
from helpers import Run, blobs

import engram as eg
from engram.bench import whole_runs
from engram.learning import fast, precision, train
from engram.learning.precision import PrecisionError, check_precision
from engram.runs.spec import Spec

BF16 = eg.Training(epochs=2, batch=16, lr=0.01, precision="bf16")


@pytest.fixture
def _products(monkeypatch):
    """As on a processor that has them; torch emulates them here, bit for bit alike by both paths."""
    monkeypatch.setattr(precision, "has_bf16_products", lambda device: True)


def go(method=eg.Adam, training=BF16, kind="class", net=None) -> Run:
    return Run(eg.split(blobs(6), kind=kind).tasks(0), method, training, net or eg.MLP(12, 10))


def fresh_learner(net):
    tasks = eg.split(blobs(6), kind="class").tasks(0)
    return train.new_learner(tasks, eg.Adam(), net, BF16, 0, torch.device("cpu"))


@pytest.mark.usefixtures("_products")
@pytest.mark.parametrize("kind", ["task", "class"])
@pytest.mark.parametrize(
    "method", [eg.Adam, eg.SI, lambda: eg.Rehearsal(capacity=60), lambda: eg.EWC(estimator="batch")]
)
def test_closed_forms_have_the_bits_of_autocast(method, kind, monkeypatch):
    quick = go(method, kind=kind).bits()
    monkeypatch.setattr(fast, "has_closed_form", lambda net: False)
    assert go(method, kind=kind).bits() == quick


@pytest.mark.usefixtures("_products")
def test_it_is_another_computation_with_nearly_the_same_outcome():
    half, full = go(), go(training=eg.Training(epochs=2, batch=16, lr=0.01))
    assert half.outcome.losses != full.outcome.losses
    assert half.outcome.losses == pytest.approx(full.outcome.losses, rel=0.05)


@pytest.mark.usefixtures("_products")
def test_weights_gradients_and_optimiser_state_are_32_bit_floats():
    learner = fresh_learner(eg.MLP(12, 10))
    batch = learner.tasks[0].train.batch(torch.arange(8))
    train.take_step(learner, eg.Adam(), batch)
    assert {p.dtype for p in learner.params} == {p.grad.dtype for p in learner.params} == {torch.float32}
    assert {v.dtype for state in learner.optimizer.state_dict()["state"].values() for v in state.values()} == {
        torch.float32
    }


@pytest.mark.usefixtures("_products")
def test_only_the_loss_of_a_step_is_rounded():
    """In a step every input and weight of a product has 8 significant bits; outside a step nothing is rounded."""
    learner = fresh_learner(eg.Linear())
    x = learner.tasks[0].train.batch(torch.arange(8)).x
    exact = learner.net(x)
    assert torch.equal(learner.logits(x), exact)
    with learner.step_precision():
        rounded = learner.logits(x)
        assert learner.features(x).dtype == torch.float32
    layer = next(m for m in learner.net.modules() if isinstance(m, torch.nn.Linear))
    by_hand = x.bfloat16().double() @ layer.weight.bfloat16().double().t() + layer.bias.bfloat16().double()
    assert rounded.dtype == torch.float32
    assert torch.equal(rounded, by_hand.float().bfloat16().float())
    assert not torch.equal(rounded, exact)
    assert torch.equal(learner.logits(x), exact)


@pytest.mark.usefixtures("_products")
def test_a_convolutional_network_with_batch_norm_trains():
    run = go(net=eg.ConvNet())
    assert run.outcome.status == "done"
    assert all(value.dtype != torch.bfloat16 for value in run.checkpoints[-1]["net"].values())


def test_it_is_part_of_the_key_and_the_default_is_not():
    scenario = eg.split(blobs(6), kind="class")
    plain, half = Spec(scenario, eg.Adam()), Spec(scenario, eg.Adam(), training=eg.Training(precision="bf16"))
    assert plain.key != half.key
    assert "precision" not in plain.to_json()["training"]
    assert half.to_json()["training"]["precision"] == "bf16"


def test_a_processor_without_bfloat16_products_is_refused_and_said_what_it_has(monkeypatch):
    monkeypatch.setattr(precision, "processor_flags", lambda: {"fpu", "avx", "avx2"})
    with pytest.raises(PrecisionError, match=r"this processor has avx, avx2, and none of avx512_bf16, amx_bf16"):
        go()
    check_precision("fp32", torch.device("cpu"))


@pytest.mark.parametrize("flag", ["avx512_bf16", "amx_bf16", "bf16"])
def test_any_of_the_instructions_will_do(flag, monkeypatch):
    monkeypatch.setattr(precision, "processor_flags", lambda: {"avx2", flag})
    check_precision("bf16", torch.device("cpu"))


def test_a_word_that_is_no_precision_is_refused():
    with pytest.raises(ValueError, match="precision"):
        eg.Training(precision="fp8")


@pytest.mark.usefixtures("_products")
def test_bench_times_whole_runs_in_both_precisions(monkeypatch):
    monkeypatch.setattr(whole_runs, "RUNS_EACH", 1)
    monkeypatch.setattr(whole_runs, "default_spec", lambda *_, **__: Spec(eg.split(blobs(6)), eg.Adam(), eg.MLP(12)))
    found = whole_runs.compare_precisions("split-blobs/class", ["adam"])
    (took,) = found["methods"].values()
    assert took["ratio"] == pytest.approx(took["fp32"] / took["bf16"])
