"""Tables 5 and 6: which runs they need, and their cells, by hand."""

import json
from dataclasses import replace

import pytest
from engram.studies.hsu2018.cells import cells, published
from engram.studies.hsu2018.long_queue import HEADS, SCENARIOS, Setting, runs_of, settings, variants
from engram.studies.hsu2018.presets import label, preset, spec_of
from engram.studies.hsu2018.presets import settings as preset_values
from helpers import blobs

import engram as eg
from engram.runs.records import Record
from engram.scenarios.names import parse_name, with_letters

QUEUE, STAND_IN = SCENARIOS.values()
COLUMNS = ["adam", "si/best", "si/worst", "online-ewc/best", "online-ewc/worst", "adagrad"]


@pytest.fixture(autouse=True)
def _small_sets(monkeypatch):
    """Made-up sets in the place of the five: presets are about values, not pixels."""
    classes = {"emnist-letters": 26, "cyrillic-letters": 26, "cifar100": 100}
    made = {}

    def small(name):
        if name not in made:
            made[name] = blobs(classes.get(name, 10), train=2, test=2, seed=len(made), name=name)
        return made[name]

    monkeypatch.setattr("engram.scenarios.names.images", small)


def run(method: str, value: float | list[float], weight: float | None = None, seed: int = 0, **other) -> Record:
    """A finished run whose average after task i is `value`, or value[i]."""
    scenario = other.pop("scenario", QUEUE)
    values = value if isinstance(value, list) else [value] * 78
    accuracy = [[v] * (i + 1) for i, v in enumerate(values)]
    differing = {k: other.pop(k) for k in ("net", "heads", "reset") if k in other}
    name = Setting(method, weight, **{"reset": weight is not None, **differing}).label(scenario)
    return Record(f"{name} {seed}", scenario, method, seed, {}, **{"status": "done", "accuracy": accuracy, **other},
                  average_accuracy=values[-1], preset=name)  # fmt: skip


def cell(records, row, column, table="table5"):
    (found,) = cells(table, records, [row], [column])
    return found


def test_the_queue_has_78_tasks_of_two_classes_and_the_paper_s_protocol():
    spec = preset(QUEUE, "adam")
    tasks = spec.scenario.deal(0)
    assert (len(tasks), tasks.outputs, tasks.kind, tasks.shape) == (78, 156, "task", (1, 28, 28))
    assert tasks.floor == pytest.approx((100 + 77 * 50) / 78)
    t = spec.training
    assert (t.epochs, t.batch, t.optimizer, t.lr, t.reset_optimizer) == (10, 128, "adam", 0.001, False)
    assert spec.net == eg.MLP(256, 256)
    assert (preset(QUEUE, "adagrad").training.optimizer, preset(QUEUE, "adagrad").training.lr) == ("adagrad", 0.001)
    si = preset(QUEUE, "si", net="cnn")
    assert (si.method.xi, si.method.clamp, si.training.optimizer, si.net) == (0.1, False, "adam", eg.CNN())
    ewc = preset(QUEUE, "online-ewc").method
    assert (ewc.decay, ewc.estimator, ewc.label) == (1.0, "sample", "predicted")
    assert (si.method.coef, ewc.coef) == (50.0, 100.0)  # the best that Table 5 has


def test_a_table_needs_14_runs_a_seed_and_the_figures_12_more():
    for net in ("mlp", "cnn"):
        assert len(settings(net, COLUMNS)) == 14
        assert len(settings(net, COLUMNS, HEADS)) == 26
        assert len(settings(net, ["si/best", "si/worst"])) == 6
    assert len(variants()) == 2 * 2 * (2 + 2 * 24)  # penalties in both protocols
    assert [s.weight for s in settings("mlp", ["si/best"])] == [0.01, 0.1, 1, 10, 50, 100]


def test_labels_and_specs_are_each_other_s():
    keys = set()
    for i, name in enumerate(variants()):
        spec = spec_of(name, seed=2)
        keys.add(spec.key)
        assert spec.scenario_name == name.split()[0]
        if i % 9 == 0:
            assert label(spec) == name
    assert len(keys) == len(variants())
    odd = spec_of(f"{QUEUE} si coef=0.1 net=cnn heads=zero")
    assert (odd.method.coef, odd.net, odd.training.reset_optimizer) == (0.1, eg.CNN(heads="zero"), False)
    assert label(replace(odd, method=eg.SI(coef=0.2))) is None
    reset = replace(odd, training=replace(odd.training, reset_optimizer=True))
    assert label(reset) == f"{QUEUE} si coef=0.1 reset net=cnn heads=zero"
    assert spec_of(label(reset)).key == reset.key
    adam = spec_of(f"{QUEUE} adam")
    assert label(adam) == f"{QUEUE} adam"
    assert label(replace(adam, training=replace(adam.training, reset_optimizer=True))) is None
    assert preset(QUEUE, "si").training.reset_optimizer  # `engram run` takes what the tables take
    assert not preset(QUEUE, "si", protocol="common").training.reset_optimizer
    assert not preset("queue-mnist+svhn/task", "si").training.reset_optimizer


@pytest.mark.parametrize(
    ("scenario", "method", "source"),
    [
        (QUEUE, "si", "the best weight of Table 5 (MLP, a new optimiser for each task), by test accuracy"),
        (STAND_IN, "online-ewc", "the best weight of Table 5 (MLP, a new optimiser for each task), by test accuracy"),
        ("long-queue/domain", "si", "engram's choice, after the paper's long queue"),
        ("queue-mnist+svhn/task", "online-ewc", "engram's choice, after the paper's long queue"),
        (QUEUE, "mas", "engram's choice, after Split MNIST"),
    ],
)
def test_weights_on_a_queue_say_where_they_come_from(scenario, method, source):
    assert preset_values(parse_name(scenario), method)["method"]["coef"].source == source


def test_scenarios_are_named_as_elsewhere():
    for letters, scenario in SCENARIOS.items():
        assert str(parse_name(scenario)) == scenario == with_letters("long-queue/task", letters)


def test_rows_are_averages_after_so_many_tasks_over_seeds():
    falling = [100 - i / 2 for i in range(78)]
    other = [value - 1 for value in falling]
    found = cells("table5", [run("adam", falling), run("adam", other, seed=1)], None, ["adam"])
    assert [c.row for c in found] == ["1", "11", "21", "31", "41", "51", "61", "71", "78"]
    assert [c.ours for c in found] == [99.5, 94.5, 89.5, 84.5, 79.5, 74.5, 69.5, 64.5, 61.0]
    assert {(c.n, c.std, c.paper_std, c.failed, c.note) for c in found} == {(2, 0.5, None, 0, "")}
    assert [c.paper for c in found] == [published()["table5"][c.row]["adam"] for c in found]


def test_verdicts_are_within_five_points_and_telling_cells_differ_from_adam_by_more():
    assert cell([run("adam", 63.05)], "78", "adam").verdict == "agrees"  # print: 58.05
    assert cell([run("adam", 63.06)], "78", "adam").verdict == "higher"
    assert cell([run("adam", 53.04)], "78", "adam").verdict == "lower"
    assert cell([], "78", "adam").verdict == "missing"
    assert not cell([], "78", "adam").telling
    assert cell([], "78", "adagrad").telling  # 77.85 against 58.05
    assert not cell([], "1", "adagrad").telling
    assert not cell([], "78", "online-ewc/worst").telling  # 61.06 against 58.05


def test_best_and_worst_are_chosen_by_the_final_average_over_seeds():
    late = [50.0] * 77 + [80.0]
    given = [
        run("si", 70.0, 0.01), run("si", 60.0, 0.01, seed=1),  # 65 on average
        run("si", late, 0.1), run("si", late, 0.1, seed=1),
        run("si", 90.0, 1.0, seed=1), run("si", 64.0, 1.0),  # 77
        run("si", 66.0, 10.0), run("si", 66.0, 50.0), run("si", 66.0, 100.0),
    ]  # fmt: skip
    best = cell(given, "71", "si/best")
    assert (best.ours, best.n, best.note) == (50.0, 2, "a new optimiser for each task; weight 0.1")
    worst = cell(given, "71", "si/worst")
    assert (worst.ours, worst.std, worst.note) == (65.0, 5.0, "a new optimiser for each task; weight 0.01")
    assert "not tried yet: 0.1, 1, 10, 50, 100" in cell(given[:2], "1", "si/best").note


def test_records_of_another_network_other_heads_or_another_method_do_not_count():
    given = [run("si", 70.0, 1.0, net="cnn"), run("si", 71.0, 1.0, heads="zero"), run("online-ewc", 72.0, 1.0)]
    assert cell(given, "78", "si/best").verdict == "missing"
    assert cell(given, "78", "si/best", "table6").ours == 70.0


def test_a_stand_in_is_taken_where_the_real_letters_have_no_records_and_says_so():
    given = [run("adam", 50.0, scenario=STAND_IN), run("adagrad", 60.0, scenario=STAND_IN)]
    found = cell(given, "78", "adam")
    assert (found.ours, found.note) == (50.0, "Cyrillic letters stand in for EMNIST letters")
    found = cell([*given, run("adam", 55.0)], "78", "adam")
    assert (found.ours, found.note) == (55.0, "")
    found = cell([*given, run("adam", 55.0, status="failed")], "78", "adam")
    assert found.ours == 50.0  # a run that failed hides none that finished
    si = cell([run("si", 70.0, w, scenario=STAND_IN) for w in (0.01, 0.1, 1, 10, 50, 100)], "1", "si/best")
    assert si.note == "Cyrillic letters stand in for EMNIST letters; a new optimiser for each task; weight 0.01"


def test_penalties_have_a_new_optimiser_for_each_task_but_in_the_common_protocol():
    given = [run("si", 80.0, 1.0), run("si", 85.0, 1.0, reset=False), run("adam", 60.0)]
    own, common = (cells("table5", given, ["78"], ["adam", "si/best"], protocol) for protocol in ("own", "common"))
    assert [c.ours for c in own] == [60.0, 80.0]
    assert [c.ours for c in common] == [60.0, 85.0]
    assert common[1].note.startswith("one optimiser for all tasks; weight 1")
    assert [r.average_accuracy for r in runs_of("table5", given, ["si/best"], "common")] == [85.0]


def test_failed_runs_are_counted_and_leave_the_others():
    given = [run("si", 70.0, 1.0), run("si", [60.0] * 10, 100.0, status="diverged")]
    found = cell(given, "78", "si/worst")
    assert (found.ours, found.failed, found.n) == (70.0, 1, 1)
    again = cell([run("adam", 10.0, status="failed"), run("adam", 60.0), run("adam", 61.0)], "78", "adam")
    assert (again.ours, again.failed) == (60.0, 0)  # a seed counts once: its first success


def test_cells_are_json_with_the_keys_of_print():
    for table in ("table5", "table6"):
        found = [json.loads(json.dumps(c.to_json())) for c in cells(table, [])]
        assert [(c["row"], c["column"]) for c in found] == [
            (row, column) for row, values in published()[table].items() for column in values
        ]
        assert len(found) == 54
    with pytest.raises(ValueError, match="row '2' is not in the table"):
        cells("table5", [], ["2"])
