"""Tables 5 and 6: which runs they need, and their cells, by hand."""

import json

import pytest
from helpers import blobs
from record_helpers import record_of

import engram as eg
from engram.runs.defaults import default_setting
from engram.runs.records import Record
from engram.runs.spec import default_spec, spec_of_setting
from engram.scenarios.names import parse_name, with_letters
from engram.studies.catalog import built_in_study, results_of
from engram.studies.hsu2018.queue import COEFFICIENTS, HEAD_INITS, QUEUES, queue_setting, select_letters
from engram.studies.table import Cell, make_cells, records_behind

QUEUE, STAND_IN = QUEUES.values()
COLUMNS = ["adam", "si/best", "si/worst", "online-ewc/best", "online-ewc/worst", "adagrad"]


@pytest.fixture(autouse=True)
def _small_sets(monkeypatch):
    """Made-up sets in the place of the five: settings are about values, not pixels."""
    classes = {"emnist-letters": 26, "cyrillic-letters": 26, "cifar100": 100}
    made = {}

    def small(name):
        if name not in made:
            made[name] = blobs(classes.get(name, 10), train=2, test=2, seed=len(made), name=name)
        return made[name]

    monkeypatch.setattr("engram.scenarios.create.images", small)


def run(method: str, value: float | list[float], coef: float | None = None, seed: int = 0, **other) -> Record:
    """A finished run whose average after task i is `value`, or value[i]."""
    scenario = other.pop("scenario", QUEUE)
    values = value if isinstance(value, list) else [value] * 78
    accuracy = [[v] * (i + 1) for i, v in enumerate(values)]
    given = {"net": "mlp", "heads": "random", "reset": None if coef is None else True}
    given |= {name: other.pop(name) for name in tuple(given) if name in other}
    setting = queue_setting(scenario, method, coef, given["net"], given["heads"], given["reset"])
    return record_of(setting, values[-1], seed, **{"accuracy": accuracy, **other})


def cells(table: str, records=(), rows=(), columns=(), protocol="own") -> list[Cell]:
    return make_cells(results_of(built_in_study(table), records), rows or (), columns, protocol)


def cell(records, row, column, table="table5") -> Cell:
    (found,) = cells(table, records, [row], [column])
    return found


def test_the_queue_has_78_tasks_of_two_classes_and_the_paper_s_protocol():
    spec = default_spec(QUEUE, "adam")
    tasks = spec.scenario.tasks(0)
    assert (len(tasks), tasks.outputs, tasks.kind, tasks.shape) == (78, 156, "task", (1, 28, 28))
    assert tasks.floor == pytest.approx((100 + 77 * 50) / 78)
    t = spec.training
    assert (t.epochs, t.batch, t.optimizer, t.lr, t.reset_optimizer) == (10, 128, "adam", 0.001, False)
    assert spec.net == eg.MLP(256, 256)
    adagrad = default_spec(QUEUE, "adagrad").training
    assert (adagrad.optimizer, adagrad.lr) == ("adagrad", 0.001)
    si = default_spec(QUEUE, "si", net="cnn")
    assert (si.method.xi, si.method.clamp, si.training.optimizer, si.net) == (0.1, False, "adam", eg.CNN())
    ewc = default_spec(QUEUE, "online-ewc").method
    assert (ewc.decay, ewc.estimator, ewc.label) == (1.0, "sample", "predicted")
    assert (si.method.coef, ewc.coef) == (50.0, 100.0)  # the best that Table 5 has


def test_a_table_needs_14_runs_per_seed_and_the_figures_12_more():
    for table, net in (("table5", "mlp"), ("table6", "cnn")):
        results = results_of(built_in_study(table))
        settings = results.settings_to_run([], COLUMNS, "own")
        assert len(settings) == 14
        assert {setting.value("net.name") for setting in settings} == {net}
        assert len(results.settings_to_run([], COLUMNS, "own", heads=HEAD_INITS)) == 26
        si = results.settings_to_run([], ["si/best", "si/worst"], "own")
        assert [setting.value("method.coef") for setting in si] == [0.01, 0.1, 1, 10, 50, 100]
        (letters,) = {s.scenario for s in results.settings_to_run([], COLUMNS, "own", letters="cyrillic-letters")}
        assert letters == STAND_IN


def test_every_setting_of_the_queue_has_a_key_of_its_own():
    settings = {
        setting
        for table in ("table5", "table6")
        for protocol in ("own", "common")
        for letters in QUEUES
        for setting in results_of(built_in_study(table)).settings_to_run(
            [], COLUMNS, protocol, heads=HEAD_INITS, letters=letters
        )
    }
    assert len(settings) == 2 * 2 * (2 + 2 * 24)  # penalties in both protocols
    assert len({spec_of_setting(setting, 2).key for setting in settings}) == len(settings)
    odd = spec_of_setting(queue_setting(QUEUE, "si", 0.1, "cnn", "zero", False))
    assert (odd.method.coef, odd.net, odd.training.reset_optimizer) == (0.1, eg.CNN(heads="zero"), False)
    assert odd.setting == queue_setting(QUEUE, "si", 0.1, "cnn", "zero", False)
    assert default_spec(QUEUE, "si").training.reset_optimizer  # `engram run` takes what the tables take
    assert not default_spec(QUEUE, "si", protocol="common").training.reset_optimizer
    assert not default_spec(QUEUE, "adam").training.reset_optimizer
    assert not default_spec("queue-mnist+svhn/task", "si").training.reset_optimizer


BEST = "the best coefficient of Table 5 (MLP, a new optimiser for each task), by test accuracy"


@pytest.mark.parametrize(
    ("scenario", "method", "source"),
    [
        (QUEUE, "si", BEST),
        (STAND_IN, "online-ewc", BEST),
        ("long-queue/domain", "si", "engram's choice, after the paper's long queue"),
        ("queue-mnist+svhn/task", "online-ewc", "engram's choice, after the paper's long queue"),
        (QUEUE, "mas", "engram's choice, after Split MNIST"),
    ],
)
def test_coefficients_on_a_queue_say_where_they_come_from(scenario, method, source):
    assert default_setting(scenario, method).sources["method.coef"] == source


def test_scenarios_are_named_as_elsewhere():
    for letters, scenario in QUEUES.items():
        assert str(parse_name(scenario)) == scenario == with_letters("long-queue/task", letters)
        assert select_letters(letters) == letters
    with pytest.raises(ValueError, match="letters 'greek' is unknown; choose from emnist-letters, cyrillic-letters"):
        select_letters("greek")


def test_rows_are_averages_after_so_many_tasks_over_seeds():
    falling = [100 - i / 2 for i in range(78)]
    other = [value - 1 for value in falling]
    found = cells("table5", [run("adam", falling), run("adam", other, seed=1)], columns=["adam"])
    assert [c.row for c in found] == ["1", "11", "21", "31", "41", "51", "61", "71", "78"]
    assert [c.ours for c in found] == [99.5, 94.5, 89.5, 84.5, 79.5, 74.5, 69.5, 64.5, 61.0]
    assert {(c.n, c.std, c.paper_std, c.failed, c.note) for c in found} == {(2, 0.5, None, 0, "")}
    assert [c.paper for c in found] == [built_in_study("table5").rows[c.row].published["adam"][0] for c in found]


def test_verdicts_are_within_five_points_and_telling_cells_differ_from_adam_by_more():
    assert cell([run("adam", 63.05)], "78", "adam").verdict == "agrees"  # published: 58.05
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
    assert (best.ours, best.n, best.note) == (50.0, 2, "a new optimiser for each task; coefficient 0.1")
    worst = cell(given, "71", "si/worst")
    assert (worst.ours, worst.std, worst.note) == (65.0, 5.0, "a new optimiser for each task; coefficient 0.01")
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
    si = cell([run("si", 70.0, w, scenario=STAND_IN) for w in COEFFICIENTS], "1", "si/best")
    assert si.note == "Cyrillic letters stand in for EMNIST letters; a new optimiser for each task; coefficient 0.01"


def test_penalties_have_a_new_optimiser_for_each_task_but_in_the_common_protocol():
    given = [run("si", 80.0, 1.0), run("si", 85.0, 1.0, reset=False), run("adam", 60.0)]
    own, common = (cells("table5", given, ["78"], ["adam", "si/best"], protocol) for protocol in ("own", "common"))
    assert [c.ours for c in own] == [60.0, 80.0]
    assert [c.ours for c in common] == [60.0, 85.0]
    assert common[1].note.startswith("one optimiser for all tasks; coefficient 1")
    assert [r.average_accuracy for r in records_behind([common[1]])] == [85.0]


def test_failed_runs_are_counted_and_leave_the_others():
    given = [run("si", 70.0, 1.0), run("si", [60.0] * 10, 100.0, status="diverged")]
    found = cell(given, "78", "si/worst")
    assert (found.ours, found.failed, found.n) == (70.0, 1, 1)
    again = cell([run("adam", 10.0, status="failed"), run("adam", 60.0), run("adam", 61.0)], "78", "adam")
    assert (again.ours, again.failed) == (60.0, 0)  # a seed counts once: its first success


def test_cells_are_json_with_the_published_rows_and_columns():
    for table in ("table5", "table6"):
        found = [json.loads(json.dumps(c.to_json())) for c in cells(table)]
        assert [(c["row"], c["column"]) for c in found] == [
            (name, column) for name, row in built_in_study(table).rows.items() for column in row.published
        ]
        assert len(found) == 54
    with pytest.raises(ValueError, match="row '2' is unknown"):
        cells("table5", rows=["2"])
