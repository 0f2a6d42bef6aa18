"""Settings: everything but the seed. Records of one setting are grouped; what is superseded or other data is not."""

import pytest
from record_helpers import record_of, records_of

from engram.runs.defaults import default_setting, describe_setting
from engram.runs.setting import Setting, group_by_setting, setting_of_record

SGD = default_setting("split-mnist/domain", "sgd")


def test_a_setting_is_its_values_and_not_how_they_are_written():
    one = Setting("split-mnist/class", "si", {"method.coef": 3, "net.hidden": (10, 20)})
    other = Setting("split-mnist/class", "si", {"net.hidden": [10, 20], "method.coef": 3.0}, {"method.coef": "a guess"})
    assert one == other
    assert hash(one) == hash(other)
    assert one != Setting("split-mnist/task", "si", one.values)
    assert one != Setting("split-mnist/class", "mas", one.values)


def test_a_setting_is_described_by_what_differs_from_the_default_of_its_names():
    usual = default_setting("split-mnist/class", "si")
    assert describe_setting(usual) == "split-mnist/class si"
    assert describe_setting(usual.with_values({"training.epochs": 5})) == "split-mnist/class si (epochs 5)"
    assert describe_setting(usual.with_values({"scenario.pad": 0})) == "split-mnist/class si (pad 0)"


def test_a_value_that_is_the_default_is_left_out():
    plain = Setting("split-mnist/class", "si")
    assert plain.value("training.epochs") == 4
    assert plain.with_values({"training.epochs": 4, "net.name": "mlp", "net.hidden": (400, 400)}) == plain
    changed = plain.with_values({"training.epochs": 5})
    assert changed.values == {"training.epochs": 5}
    assert changed.with_values({"training.epochs": 4}) == plain


def test_another_network_has_other_fields():
    wide = Setting("split-mnist/class", "si").with_values({"net.hidden": (10,)})
    assert wide.with_values({"net.name": "cnn"}).values == {"net.name": "cnn"}


def test_members_of_a_combination_have_their_own_values():
    both = default_setting("split-mnist/class", "rehearsal+si")
    assert (both.value("method.si.coef"), both.value("method.rehearsal.capacity")) == (600.0, 1100)
    assert both.value("method.si.xi") == 0.1
    assert setting_of_record(record_of(both, 50.0)) == both


@pytest.mark.parametrize(
    "setting",
    [SGD, default_setting("permuted-mnist/task", "gem"), default_setting("long-queue/task", "si", net="cnn")],
    ids=str,
)
def test_a_record_leads_back_to_its_setting(setting):
    assert setting_of_record(record_of(setting, 50.0, seed=3)) == setting


def test_records_are_grouped_by_setting_and_seed():
    other = SGD.with_values({"training.lr": 0.5})
    groups = group_by_setting([*records_of(SGD, 60.0, 62.0), *records_of(other, 10.0), *records_of(SGD, None, start=2)])
    assert list(groups) == [SGD, other]
    assert groups[SGD].accuracies == {0: 60.0, 1: 62.0}
    assert (groups[SGD].failed, groups[other].failed) == (1, 0)
    assert [record.seed for record in groups[SGD].records] == [0, 1, 2]


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ([("a", 60.0), ("b", 61.0)], 61.0),  # other code made it: the later one
        ([("a", 60.0), ("a", 61.0)], 60.0),  # the same run once more: the first one
        ([("a", None), ("a", 61.0)], 61.0),
        ([("a", 60.0), ("b", None)], 60.0),  # a failure undoes nothing
        ([("a", None), ("b", None)], None),
        ([("a", 60.0), ("b", 61.0), ("a", 62.0)], 62.0),
    ],
)
def test_a_seed_counts_once(values, counts):
    (runs,) = group_by_setting([record_of(SGD, value, key=key) for key, value in values]).values()
    assert len(runs.by_seed) == 1
    assert runs.accuracies.get(0) == counts


def on_data(content: str, *values: float, start: int = 0):
    found = records_of(SGD, *values, start=start)
    for record in found:
        record.spec["scenario"]["images"] = {"mnist": content}
    return found


def test_runs_on_data_of_another_content_are_left_out_and_counted():
    """The latest run says which content counts."""
    (runs,) = group_by_setting([*on_data("old", 10.0, 11.0), *on_data("new", 60.0, 61.0, 62.0, start=1)]).values()
    assert runs.accuracies == {1: 60.0, 2: 61.0, 3: 62.0}
    assert runs.other_data == 2


def test_trials_of_a_search_are_apart():
    trial = record_of(SGD, 99.0, seed=1000, search={"stage": "trial", "selected_on": "holdout", "point": {}})
    final = record_of(SGD, 60.0, search={"stage": "final", "selected_on": "holdout", "point": {}})
    assert group_by_setting([trial, final])[SGD].accuracies == {0: 60.0}
    assert group_by_setting([trial, final], trials=True)[SGD].accuracies == {1000: 99.0}


def test_what_a_method_keeps_is_read_from_a_finished_run():
    done = record_of(SGD, 60.0, seed=1, memory={"kept": {"buffer": 700, "labels": 7}, "working": {"x": 1}})
    assert group_by_setting([record_of(SGD, None), done])[SGD].kept == 707
    assert group_by_setting([record_of(SGD, None)])[SGD].kept is None


def test_a_hash_of_own_code_is_part_of_the_setting():
    a, b = (Setting("split-mnist/class", "mine", {"method.own code": text}) for text in ("aa", "bb"))
    groups = group_by_setting([record_of(a, 1.0), record_of(b, 2.0)])
    assert [runs.accuracies for runs in groups.values()] == [{0: 1.0}, {0: 2.0}]
