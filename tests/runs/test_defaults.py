"""Defaults of named scenarios: the values of the authors' scripts, typed here once more, and that flags beat them."""

from dataclasses import fields, replace
from functools import cache

import pytest
from helpers import blobs

import engram as eg
from engram.cli.resolve import all_flags
from engram.runs.defaults import CLASS_DEFAULT, choose_values, default_setting, plain_setting
from engram.runs.spec import TRAINING_OF_01, default_spec, spec_of_setting
from engram.studies.catalog import built_in_study, tables_with


def small(name: str) -> eg.Images:
    return blobs(10, train=3, test=2, seed=len(name), name=name)


@pytest.fixture(autouse=True)
def _small_mnist(monkeypatch):
    """A made-up set in MNIST's place: defaults are about values, not pixels."""
    monkeypatch.setattr("engram.scenarios.create.images", cache(small))


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
    spec = default_spec(scenario, method, seed=7)
    t = spec.training
    assert (t.optimizer, t.lr, t.epochs, t.steps, t.batch) == (optimizer, lr, epochs, 0, 128)
    assert (t.momentum, t.weight_decay, t.drop_last, t.reset_optimizer) == (0, 0, False, False)
    assert (spec.net.hidden, spec.net.heads) == ((hidden, hidden), "random")
    s = spec.scenario
    assert (s.kind, s.pad, s.normalize, s.held_out) == (scenario.split("/")[1], 2, (0.1000, 0.2752), 0)
    if scenario.startswith("split"):
        assert (s.classes_per_task, s.order, len(s.tasks(0))) == (2, "fixed", 5)
    else:
        assert (s.permutations, s.identity_first) == (10, True)
    assert spec.evaluation == eg.Evaluation()
    assert (spec.seed, spec.threads, spec.device, spec.method_name) == (7, 1, "cpu", method)


@pytest.mark.parametrize("seed", [0, 12])
def test_a_spec_of_defaults_fills_a_cell_whatever_the_seed(seed):
    spec = default_spec("split-mnist/class", "adam", seed)
    assert spec.setting == default_setting("split-mnist/class", "adam")
    assert tables_with(spec.setting) == ["hsu2018/table2 adam class", "hsu2018/table4 adam split/unknown"]


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
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("scenario", ["split-mnist/class", "permuted-mnist/task"])
def test_any_other_value_fills_no_cell(scenario, what):
    assert tables_with(default_spec(scenario, "adam").setting)
    assert not tables_with(CHANGES[what](default_spec(scenario, "adam")).setting)


@pytest.mark.parametrize("change", [{"classes_per_task": 5}, {"classes_per_task": (2, 2, 2, 4)}, {"order": "shuffled"}])
def test_another_split_fills_no_cell(change):
    spec = default_spec("split-mnist/class", "adam")
    assert not tables_with(replace(spec, scenario=replace(spec.scenario, **change)).setting)


def test_what_is_only_measured_does_not_matter_for_the_setting():
    spec = default_spec("split-mnist/class", "adam")
    looked = replace(spec, evaluation=eg.Evaluation(evaluate_every=5, forward_transfer=True), threads=2)
    assert looked.setting == spec.setting
    assert looked.key != spec.key


def test_another_kind_is_another_cell():
    spec = default_spec("split-mnist/class", "adam")
    other = replace(spec, scenario=replace(spec.scenario, kind="domain"))
    assert tables_with(other.setting) == ["hsu2018/table2 adam domain"]


def test_the_other_way_to_write_the_same_values_is_the_same_setting():
    spec = default_spec("split-mnist/class", "sgd")
    by_hand = replace(
        spec,
        scenario=eg.split(*spec.scenario.images, kind="class", classes_per_task=2, pad=2, normalize=[0.1, 0.2752]),
        net=eg.MLP(400, 400),
        method=eg.SGD(),
        training=eg.Training(epochs=4, batch=128, optimizer="sgd", lr=1e-2),
    )
    assert by_hand.setting == default_setting("split-mnist/class", "sgd")


def test_own_images_and_own_methods_fill_no_cell():
    spec = default_spec("split-mnist/class", "adam")
    assert not tables_with(replace(spec, method=type("Mine", (eg.Method,), {})()).setting)
    images = blobs(10, name="my pictures")
    assert not tables_with(replace(spec, scenario=replace(spec.scenario, images=(images,))).setting)


def test_a_method_of_one_s_own_called_adam_is_not_the_paper_s():
    own = type("Adam", (eg.Method,), {"after_step": lambda self, learner, batch: None})
    assert not tables_with(replace(default_spec("split-mnist/class", "adam"), method=own()).setting)


@pytest.mark.parametrize("method", ["ewc", "online-ewc", "si", "mas", "l2", "rehearsal", "rehearsal-c", "gem", "lwf",
                                    "dgr", "rtf", "sgd", "offline"])  # fmt: skip
@pytest.mark.parametrize("scenario", ["split-mnist/task", "permuted-mnist/domain"])
def test_every_value_of_a_published_setting_has_a_source(scenario, method):
    """But what says how long to train (epochs or steps) and what is looked at, which are ours; and what is off."""
    setting = default_setting(scenario, method)
    flags = all_flags(spec_of_setting(setting), setting)
    ours = {flag.label for flag in flags if flag.source == CLASS_DEFAULT}
    off = {f.name for f in fields(eg.Training)} - TRAINING_OF_01
    assert ours <= {"held_out", "steps", "forward_transfer", "evaluate_every", "give_task_identity", "keep"} | off
    own = {flag.label: flag.source for flag in flags}
    copied = method in ("lwf", "dgr", "rtf")
    assert own["lr"].startswith("van de Ven" if copied else "the authors' scripts")
    assert own["reset_optimizer"].startswith("van de Ven" if copied else "the paper's text")


@pytest.mark.parametrize("table", ["table2", "table3", "table4"])
def test_the_cells_of_the_tables_run_the_defaults(table):
    study = built_in_study(table)
    for row in study.rows:
        for column in study.columns.values():
            assert study.setting(row, column.name) == default_setting(column.scenario, row)


# What somebody chooses beats a default


def test_chosen_epochs_beat_the_steps_of_a_default():
    """LwF's default is 2000 steps per task; with `epochs=1` a task has 1 epoch."""
    setting = default_setting("split-mnist/class", "lwf")
    assert setting.value("training.steps") == 2000
    chosen = choose_values(setting, {"training.epochs": 1})
    assert (chosen.value("training.epochs"), chosen.value("training.steps")) == (1, 0)
    training = spec_of_setting(chosen).training
    assert (training.epochs, training.steps, training.drop_last) == (1, 0, True)


def test_chosen_epochs_beat_the_steps_even_if_they_are_the_default_number():
    chosen = choose_values(default_setting("split-mnist/class", "lwf"), {"training.epochs": 4})
    assert (chosen.value("training.epochs"), chosen.value("training.steps")) == (4, 0)


def test_chosen_steps_stay_beside_a_default_s_epochs():
    chosen = choose_values(default_setting("split-mnist/class", "adam"), {"training.steps": 7})
    assert spec_of_setting(chosen).training.steps == 7


def test_epochs_and_steps_that_are_both_chosen_are_refused():
    setting = default_setting("split-mnist/class", "adam")
    with pytest.raises(ValueError, match="epochs 1 and steps 100 contradict each other: give one"):
        choose_values(setting, {"training.epochs": 1, "training.steps": 100})
    assert choose_values(setting, {"training.epochs": 1, "training.steps": 0}).value("training.epochs") == 1


def test_a_chosen_value_is_taken_whatever_the_default_says():
    for scenario, method, name, value in (
        ("permuted-mnist/task", "sgd", "training.lr", 0.5),
        ("split-mnist/class", "rtf", "scenario.pad", 1),
        ("split-mnist/class", "gem", "method.capacity", 7),
        ("permuted-mnist/domain", "ewc", "method.estimator", "sample"),
        ("long-queue/task", "si", "training.reset_optimizer", False),
    ):
        setting = default_setting(scenario, method)
        assert setting.value(name) != value
        assert choose_values(setting, {name: value}).value(name) == value


def test_plain_defaults_are_those_of_the_classes():
    setting = plain_setting("split-mnist/class", "gem")
    spec = spec_of_setting(setting)
    assert spec.training == eg.Training(optimizer=eg.GEM().optimizer)
    assert (spec.method, spec.net, spec.scenario.pad) == (eg.GEM(), eg.MLP(), 0)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("ewcc", "method 'ewcc' is unknown; did you mean ewc"),
        ("si+", "write a name on both sides of the"),
        ("si+si", "a method is named twice"),
    ],
)
def test_what_is_no_method_is_refused(method, words):
    with pytest.raises(ValueError, match=words):
        default_setting("split-mnist/class", method)
