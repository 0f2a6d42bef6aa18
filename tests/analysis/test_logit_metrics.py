"""Metrics on logits: numbers by hand, in records, in tables; two versions of a metric's code are never mixed."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers import blobs
from torch import Tensor

import engram as eg
from engram.analysis.metrics import (
    CalibrationError,
    ClassWeightedIncrementalAccuracy,
    Confusion,
    Metric,
    PerClassAccuracy,
    metric_class,
)
from engram.core.registry import METRICS
from engram.runs.records import Record

SHORT = eg.Training(epochs=1, batch=16, lr=0.01)
NET = eg.MLP(8)


def logits_of(probabilities: list[list[float]]) -> Tensor:
    return torch.tensor(probabilities).log()


def mean_confidence(logits: Tensor, targets: Tensor, active: slice) -> float:
    return float(logits[:, active].softmax(1).amax(1).mean())


def in_words(logits, targets, active):
    return "high"


def go(metrics, seed=0, **options) -> Record:
    return eg.run(eg.split(blobs(4)), eg.Adam(), net=NET, training=SHORT, metrics=metrics, seed=seed, **options)


def test_the_calibration_error_of_six_samples_by_hand():
    # Output 0 is not active. Bins of 1/15: (0.6, 0.667] holds 0.62 and 0.64, one right: |0.62 + 0.64 − 1| = 0.26.
    # (0.667, 0.733] holds 0.7, wrong: 0.7. (0.933, 1] holds 0.95 twice and 0.97, all right: |2.87 − 3| = 0.13.
    pairs = [(0.62, True), (0.64, False), (0.7, False), (0.95, True), (0.95, True), (0.97, True)]
    logits = logits_of([[0.9, 1 - p, p] for p, _ in pairs])
    targets = torch.tensor([2 if right else 1 for _, right in pairs])
    found = CalibrationError().measure(logits, targets, slice(1, 3))
    assert found == pytest.approx(100 * (0.26 + 0.7 + 0.13) / 6, abs=1e-4)


def test_per_class_accuracy_and_confusion_by_hand():
    logits = torch.eye(4)[torch.tensor([2, 2, 3, 3, 3, 0])] * 5
    targets = torch.tensor([2, 3, 3, 3, 3, 2])  # the last one's best active output is 2, since 0 is not active
    assert PerClassAccuracy().measure(logits, targets, slice(2, 4)) == [100.0, 75.0]
    assert Confusion().measure(logits, targets, slice(2, 4)) == [[2, 2, 2], [3, 2, 1], [3, 3, 3]]


def record(extra: dict, **others) -> Record:
    return Record("k", "split-own/class", "adam", 0, {}, "done", extra=extra, **others)


def test_class_weighted_incremental_accuracy_weighs_test_samples():
    name = "class-weighted-incremental-accuracy"
    rows = [[[8, 10]], [[4, 10], [27, 30]]]  # 80 %, then 31 of 40
    assert ClassWeightedIncrementalAccuracy().of(record({name: rows})) == pytest.approx((80 + 77.5) / 2)
    assert ClassWeightedIncrementalAccuracy().of(record({})) is None


def test_what_is_measured_is_in_the_record_in_the_shape_of_the_accuracies():
    found = go(["ece", "per-class-accuracy", "class-weighted-incremental-accuracy", mean_confidence])
    assert [len(row) for row in found.extra["ece"]] == [1, 2]
    assert found.extra["per-class-accuracy"][1][0] == pytest.approx(found.extra["per-class-accuracy"][1][0])
    for i, row in enumerate(found.accuracy):
        for j, value in enumerate(row):  # classes have equal test data
            assert sum(found.extra["per-class-accuracy"][i][j]) / 2 == pytest.approx(value)
    assert 0 < found.extra["mean-confidence"][1][1] <= 1
    assert ClassWeightedIncrementalAccuracy().of(found) == pytest.approx(found.average_incremental_accuracy)
    assert Record.from_json(found.to_json()) == found


def test_a_metric_changes_no_other_bit_of_a_run():
    plain, measured = go([]), go(["ece", mean_confidence])
    same = ("accuracy", "losses", "average_accuracy", "pooled_accuracy", "memory")
    assert all(getattr(plain, name) == getattr(measured, name) for name in same)
    assert plain.key != measured.key
    assert plain.extra == {}


def test_the_key_has_the_code_of_an_own_metric_and_not_the_order():
    def other(logits, targets, active):
        return 1.0

    scale = 2.0

    def scaled(logits, targets, active):
        return scale * float(targets.sum())

    def key(*metrics):
        return eg.run.__globals__["Spec"](
            eg.split(blobs(4)), eg.Adam(), metrics=eg.run.__globals__["check_metrics_argument"](metrics)
        ).key

    assert key("ece", other) == key(other, "ece") != key("ece") != key()
    first = key(scaled)
    scale = 3.0
    assert key(scaled) != first


def test_a_run_without_the_metric_is_run_again_and_one_with_it_is_not(tmp_path: Path):
    assert not go([], out=tmp_path).reused
    assert not go(["ece"], out=tmp_path).reused
    assert go(["ece"], out=tmp_path).reused


def test_a_table_of_a_metric_and_the_refusal_if_no_run_has_it(tmp_path: Path):
    records = [go(["ece"], seed) for seed in (0, 1)]
    made = eg.table(records, metric="ece")
    (cell,) = made.cells
    values = [CalibrationError().of(one) for one in records]
    assert cell.ours == pytest.approx(sum(values) / 2)
    assert "Expected calibration error in percent" in str(made)
    with pytest.raises(ValueError, match=r"none of these runs has metric ece .* --metric ece"):
        eg.table([go([])], metric="ece")


def test_two_versions_of_a_metric_are_not_mixed():
    def version(value):
        def steadiness(logits, targets, active):
            return value

        return steadiness

    old, new = metric_class(version(1.0)), metric_class(version(2.0))
    records = [go([old()], 0), go([new()], 1)]
    METRICS["steadiness"] = new
    try:
        (cell,) = eg.table(records, metric="steadiness").cells
    finally:
        del METRICS["steadiness"]
    assert (cell.ours, cell.n) == (2.0, 1)
    assert "1 of 2 runs were not measured by steadiness as it is defined here" in cell.note


def test_mistakes_are_refused_in_words():
    with pytest.raises(ValueError, match="metric 'ecee' is unknown; did you mean ece"):
        go(["ecee"])
    with pytest.raises(ValueError, match="forgetting is computed from every record"):
        go(["forgetting"])
    with pytest.raises(ValueError, match=r"write def my_metric\(logits, targets, active\)"):
        go([lambda logits: 0.0])
    with pytest.raises(TypeError, match="give an instance: CalibrationError"):
        go([CalibrationError])
    with pytest.raises(TypeError, match="give a list"):
        go(mean_confidence)
    with pytest.raises(ValueError, match="ece is given twice"):
        go(["ece", CalibrationError()])
    with pytest.raises(TypeError, match="metric in-words returned a str"):
        go([in_words])
    with pytest.raises(TypeError, match="Empty has no method"):
        type("Empty", (Metric,), {})


def test_calibration_is_refused_for_a_method_that_predicts_by_other_scores():
    with pytest.raises(ValueError, match="ece takes the softmax of logits, and ICaRL predicts by other scores"):
        eg.run(eg.split(blobs(4)), eg.ICaRL(), net=NET, training=SHORT, metrics=["ece"])


def test_not_a_number_is_nothing():
    def undefined(logits, targets, active):
        return [float("nan"), 1.0]

    found = go([undefined])
    assert found.extra["undefined"] == [[[None, 1.0]], [[None, 1.0], [None, 1.0]]]
    assert metric_class(undefined)().of(found) == 1.0


def test_watch_gets_the_learner_and_may_draw_without_changing_the_run():
    norms = []

    def watch(progress):
        norms.append(float(sum(p.grad.square().sum() for p in progress.learner.params) ** 0.5))
        torch.rand(3)  # from the global generator

    def dropping(shape, outputs) -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(0.3), torch.nn.Linear(36, outputs))

    longer = replace(SHORT, epochs=12)
    runs = [eg.run(eg.split(blobs(4)), eg.Adam(), net=dropping, training=longer, **w) for w in ({}, {"watch": watch})]
    assert len(norms) >= 4
    assert min(norms) > 0
    assert runs[0].losses == runs[1].losses


def writes_zeros(logits, targets, active):
    logits.zero_()
    targets.zero_()
    return 1.0


def share_right(logits, targets, active):
    return float((logits[:, active].argmax(1) + active.start == targets).float().mean())


def test_a_metric_that_writes_into_what_it_is_given_changes_no_other():
    alone, beside = go([share_right], keep=("logits",)), go([writes_zeros, share_right], keep=("logits",))
    assert beside.extra["share-right"] == alone.extra["share-right"]
    assert torch.equal(beside.logits[-1][0], alone.logits[-1][0])
