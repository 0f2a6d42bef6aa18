"""Presets have the values of the authors' scripts, typed here once more."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from engram.studies.hsu2018.presets import DEFAULT, label, preset, spec_of
from helpers import blobs

import engram as eg
from engram.cli.resolve import all_flags
from engram.runs import records

RESULTS = Path(__file__).parents[2] / "results"


def small(name: str) -> eg.Images:
    return blobs(10, train=3, test=2, seed=len(name), name=name)


@pytest.fixture(autouse=True)
def _small_mnist(monkeypatch):
    """A made-up set in MNIST's place: presets are about values, not pixels."""
    monkeypatch.setattr("engram.scenarios.names.images", cache(small))


VALUES = [
    # scenario, method, optimiser, rate, hidden, epochs
    ("split-mnist/task", "adam", "adam", 0.001, 400, 4),
    ("split-mnist/domain", "adam", "adam", 0.001, 400, 4),
    ("split-mnist/class", "adam", "adam", 0.001, 400, 4),
    ("split-mnist/task", "sgd", "sgd", 0.01, 400, 4),
    ("split-mnist/domain", "sgd", "sgd", 0.01, 400, 4),
    ("split-mnist/class", "sgd", "sgd", 0.01, 400, 4),
    ("split-mnist/task", "adagrad", "adagrad", 0.01, 400, 4),
    ("split-mnist/domain", "adagrad", "adagrad", 0.01, 400, 4),
    ("split-mnist/class", "adagrad", "adagrad", 0.01, 400, 4),
    ("split-mnist/task", "offline", "adam", 0.001, 400, 4),
    ("split-mnist/domain", "offline", "adam", 0.001, 400, 4),
    ("split-mnist/class", "offline", "adam", 0.001, 400, 4),
    ("permuted-mnist/task", "adam", "adam", 0.0001, 1000, 10),
    ("permuted-mnist/domain", "adam", "adam", 0.0001, 1000, 10),
    ("permuted-mnist/class", "adam", "adam", 0.0001, 1000, 10),
    ("permuted-mnist/task", "sgd", "sgd", 0.01, 1000, 10),  # the script's; the paper's text says 0.001
    ("permuted-mnist/domain", "sgd", "sgd", 0.001, 1000, 10),
    ("permuted-mnist/class", "sgd", "sgd", 0.001, 1000, 10),
    ("permuted-mnist/task", "adagrad", "adagrad", 0.001, 1000, 10),
    ("permuted-mnist/domain", "adagrad", "adagrad", 0.001, 1000, 10),
    ("permuted-mnist/class", "adagrad", "adagrad", 0.001, 1000, 10),
    ("permuted-mnist/task", "offline", "adam", 0.0001, 1000, 10),
    ("permuted-mnist/domain", "offline", "adam", 0.0001, 1000, 10),
    ("permuted-mnist/class", "offline", "adam", 0.0001, 1000, 10),
    # Table 4, number of classes known in advance
    ("split-mnist/class-known", "adam", "adam", 0.001, 400, 4),
    ("permuted-mnist/class-known", "sgd", "sgd", 0.001, 1000, 10),
]


@pytest.mark.parametrize(("scenario", "method", "optimizer", "lr", "hidden", "epochs"), VALUES)
def test_values(scenario, method, optimizer, lr, hidden, epochs):
    spec = preset(scenario, method, seed=7)
    t = spec.training
    assert (t.optimizer, t.lr, t.epochs, t.steps, t.batch) == (optimizer, lr, epochs, 0, 128)
    assert (t.momentum, t.weight_decay, t.drop_last, t.reset_optimizer) == (0, 0, False, False)
    assert (spec.net.hidden, spec.net.heads) == ((hidden, hidden), "random")
    s = spec.scenario
    assert (s.kind, s.pad, s.normalize, s.held_out) == (scenario.split("/")[1], 2, (0.1000, 0.2752), 0)
    if scenario.startswith("split"):
        assert (s.classes_per_task, s.order, len(s.deal(0))) == (2, "fixed", 5)
    else:
        assert (s.permutations, s.identity_first) == (10, True)
    assert spec.evaluation == eg.Evaluation()
    assert (spec.seed, spec.threads, spec.device, spec.method_name) == (7, 1, "cpu", method)


@pytest.mark.parametrize(("scenario", "method"), [row[:2] for row in VALUES])
def test_a_preset_is_called_by_its_name_whatever_the_seed(scenario, method):
    assert label(preset(scenario, method)) == f"{scenario} {method}"
    assert label(preset(scenario, method, seed=12)) == f"{scenario} {method}"


CHANGES = {
    "lr": lambda s: replace(s, training=replace(s.training, lr=0.002)),
    "epochs": lambda s: replace(s, training=replace(s.training, epochs=5)),
    "steps": lambda s: replace(s, training=replace(s.training, steps=5)),
    "batch": lambda s: replace(s, training=replace(s.training, batch=64)),
    "optimizer": lambda s: replace(s, training=replace(s.training, optimizer="adamw")),
    "reset": lambda s: replace(s, training=replace(s.training, reset_optimizer=True)),
    "drop_last": lambda s: replace(s, training=replace(s.training, drop_last=True)),
    "hidden": lambda s: replace(s, net=eg.MLP(300, 300)),
    "heads": lambda s: replace(s, net=eg.MLP(*s.net.hidden, heads="zero")),
    "pad": lambda s: replace(s, scenario=replace(s.scenario, pad=0)),
    "normalize": lambda s: replace(s, scenario=replace(s.scenario, normalize="train")),
    "held_out": lambda s: replace(s, scenario=s.scenario.holdout(0.1)),
    "images": lambda s: replace(s, scenario=replace(s.scenario, images=(blobs(10, seed=5, name="mnist"),))),
    "device": lambda s: replace(s, device="cuda"),
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("scenario", ["split-mnist/class", "permuted-mnist/task"])
def test_any_other_value_is_no_preset(scenario, what):
    assert label(CHANGES[what](preset(scenario, "adam"))) is None


@pytest.mark.parametrize("change", [{"classes_per_task": 5}, {"classes_per_task": (2, 2, 2, 4)}, {"order": "shuffled"}])
def test_another_split_is_no_preset(change):
    spec = preset("split-mnist/class", "adam")
    assert label(replace(spec, scenario=replace(spec.scenario, **change))) is None


def test_what_is_looked_at_does_not_matter_for_the_name():
    spec = preset("split-mnist/class", "adam")
    looked = replace(spec, evaluation=eg.Evaluation(evaluate_every=5, forward_transfer=True), threads=2)
    assert label(looked) == "split-mnist/class adam"


def test_another_kind_is_another_preset():
    spec = preset("split-mnist/class", "adam")
    other = replace(spec, scenario=replace(spec.scenario, kind="domain"))
    assert label(other) == "split-mnist/domain adam"


def test_the_other_way_to_write_the_same_values_is_the_preset():
    spec = preset("split-mnist/class", "sgd")
    by_hand = replace(
        spec,
        scenario=eg.split(*spec.scenario.images, kind="class", classes_per_task=2, pad=2, normalize=[0.1, 0.2752]),
        net=eg.MLP(400, 400),
        method=eg.SGD(),
        training=eg.Training(epochs=4, batch=128, optimizer="sgd", lr=1e-2),
    )
    assert label(by_hand) == "split-mnist/class sgd"


def test_own_images_and_own_methods_have_no_preset():
    spec = preset("split-mnist/class", "adam")
    assert label(replace(spec, method=type("Mine", (eg.Method,), {})())) is None
    images = blobs(10, name="my pictures")
    assert label(replace(spec, scenario=replace(spec.scenario, images=(images,)))) is None


def test_a_method_of_one_s_own_called_adam_is_not_the_paper_s():
    own = type("Adam", (eg.Method,), {"after_step": lambda self, learner, batch: None})
    assert label(replace(preset("split-mnist/class", "adam"), method=own())) is None


@pytest.mark.parametrize("method", ["ewc", "online-ewc", "si", "mas", "l2", "rehearsal", "rehearsal-c", "gem", "lwf",
                                    "dgr", "rtf", "sgd", "offline"])  # fmt: skip
@pytest.mark.parametrize("scenario", ["split-mnist/task", "permuted-mnist/domain"])
def test_every_value_of_a_published_setting_has_a_source(scenario, method):
    """But what says how long to train (epochs or steps) and what is looked at, which are ours."""
    flags = all_flags(preset(scenario, method), scenario, method)
    ours = {flag.label for flag in flags if flag.source == DEFAULT}
    assert ours <= {"held_out", "steps", "forward_transfer", "evaluate_every", "give_task_identity"}
    own = {flag.label: flag.source for flag in flags}
    copied = method in ("lwf", "dgr", "rtf")
    assert own["lr"].startswith("van de Ven" if copied else "the authors' scripts")
    assert own["reset_optimizer"].startswith("van de Ven" if copied else "the paper's text")


@pytest.mark.parametrize("file", sorted(RESULTS.glob("*.jsonl")), ids=lambda file: file.stem)
def test_a_committed_record_was_made_with_the_values_that_its_label_names(file):
    """Else a preset could change and its cell keep the old runs."""
    labelled = [record for record in records.read(file) if record.preset]
    for record in labelled:
        now = spec_of(record.preset, record.seed).to_json()
        then = {group: values for group, values in record.spec.items() if group != "scenario"}
        assert {group: now[group] for group in then} == then, record.preset
        scenario = {field: value for field, value in record.spec["scenario"].items() if field != "images"}
        assert {field: now["scenario"][field] for field in scenario} == scenario, record.preset
    assert labelled or file.stem in ("memory", "long-queue", "gem-sampled")
