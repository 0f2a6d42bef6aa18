"""The data behind the page: settings, tables, curves and tests, in numbers that can be checked by hand."""

import json
import math
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from page_helpers import HOSTILE, queued, record, spec, usual_id
from setting_records import run_of

from engram.report.page.assemble import assemble, tidy
from engram.report.page.command import run_command
from engram.report.page.comparisons import compare_rows
from engram.report.page.html import embedded, html
from engram.report.page.settings import describe_settings, gather_settings, sensitivity_curves
from engram.runs import records
from engram.runs.defaults import default_setting
from engram.runs.records import Record
from engram.runs.setting import offline_of
from engram.runs.soundness import is_sound_record
from engram.studies.catalog import built_in_study, results_of
from engram.studies.outcomes import examine_claims
from engram.studies.reading import read_study
from engram.studies.table import make_cells

RESULTS = Path(__file__).parents[2] / "results"


def cell_of(data, table, row, column):
    rows = next(found["rows"] for found in data["tables"] if found["name"] == table)
    return next(c for found in rows if found["name"] == row for c in found["cells"] if c["column"] == column)


def test_a_setting_is_all_of_a_spec_but_the_seed():
    one, other = gather_settings(
        [record(seed=1, score=60), record(seed=0, score=40), record("si", fields={"coef": 1.0}, score=70)]
    )
    assert ([run.seed for run in one.runs.records], one.mean, one.std) == ([0, 1], 50.0, 10.0)
    assert (other.setting.method, other.mean, other.std) == ("si", 70.0, 0.0)


def test_a_seed_counts_once_and_a_success_stays():
    failed = record(status="failed", average_accuracy=None)
    (setting,) = gather_settings([failed, record(score=60), failed])
    assert (len(setting.runs.records), setting.mean) == (1, 60.0)


def test_a_trial_of_a_search_is_no_reported_run():
    trial = record(seed=1000, score=80, published=True, search={"stage": "trial", "selected_on": "test", "point": {}})
    data = assemble([trial, record(seed=0, score=20, published=True)])
    assert data["settings"][usual_id("split-mnist/class", "adam")]["mean"] == 20.0
    assert len(data["settings"]) == 2
    assert data["own"] == []


def test_a_cell_is_that_of_compare_and_names_its_setting():
    given = [record("adam", seed, 19.0 + seed / 10, published=True) for seed in range(4)]
    data = assemble(given)
    cell = cell_of(data, "table2", "adam", "class")
    (compared,) = make_cells(results_of(built_in_study("table2"), given), ["adam"], ["class"])
    assert {name: cell[name] for name in ("ours", "std", "n", "paper", "verdict", "telling")} == {
        "ours": 19.15, "std": 0.1118, "n": 4, "paper": 19.71, "verdict": compared.verdict, "telling": False,
    }  # fmt: skip
    assert cell["band"] == 0.3  # 3·√(0.129²/4 + 0.08²/10) = 0.21, and never less than 0.3
    assert cell["verdict"] == "lower"
    assert data["settings"][cell["setting"]]["mean"] == 19.15
    assert cell_of(data, "table2", "ewc", "class")["setting"] is None
    assert [table["name"] for table in data["tables"]] == ["table2", "table4"]  # table 3 has no runs


def test_what_is_in_no_table_is_listed_apart():
    data = assemble([record(published=True), record(HOSTILE, score=12.0), record("adam", scenario="split-own/iid")])
    assert [data["settings"][setting]["method"] for setting in data["own"]] == [HOSTILE, "adam"]
    assert [data["settings"][setting]["family"] for setting in data["own"]] == ["own or combined", "plain"]


def test_runs_keep_their_matrix_and_share_their_environment():
    given = [record(seed=seed, score=50 + 1 / 3) for seed in range(3)]
    (setting,) = assemble(given)["settings"].values()
    assert setting["runs"][2]["accuracy"] == [[90.0], [50.3333, 50.3333]]
    assert setting["runs"][2]["forgetting"] == 39.6667
    assert setting["runs"][2]["peak_mb"] == 502
    assert assemble(given)["environments"] == [{"engram": "0.1.0", "torch": "2.13.0", "cpu": "a processor"}]


def test_intransigence_needs_an_offline_run_of_the_same_seed():
    """Offline 95 and 97, learned in turn 90 and 60: ((95 − 90) + (97 − 60)) / 2 = 21."""
    offline = record("offline", accuracy=[[95.0, 97.0]], average_accuracy=96.0)
    found = assemble([offline, record(score=60.0), record(seed=1, score=60.0)])
    runs = next(setting["runs"] for setting in found["settings"].values() if setting["method"] == "adam")
    assert runs[0]["intransigence"] == 21.0
    assert "intransigence" not in runs[1]


def test_intransigence_is_against_the_default_offline_run_of_the_same_network():
    """Whatever else is in the folder: trials of a search, and other settings. As above, 21."""
    good = {"accuracy": [[95.0, 97.0]], "average_accuracy": 96.0, "published": True}
    bad = {"accuracy": [[10.0, 10.0]], "average_accuracy": 10.0, "published": True}
    trial = {"stage": "trial", "selected_on": "test", "point": {}}
    usual, other, trial = record("offline", **good), record("offline", **bad), record("offline", search=trial, **bad)
    other.spec["training"]["epochs"] = 99
    elsewhere = record("offline", **bad)
    elsewhere.spec["net"] = {"name": "cnn"}
    for order in ([other, trial, elsewhere, usual], [usual, elsewhere, trial, other]):
        found = assemble([*order, record(score=60.0, published=True)])
        assert found["settings"][usual_id("split-mnist/class", "adam")]["runs"][0]["intransigence"] == 21.0
    assert offline_of(record(score=60.0, published=True), [trial, elsewhere]) is None


def test_a_curve_within_tasks_is_kept_as_rows():
    at = {"step": 100, "task": 1, "current": 80.5, "first": 80.5}
    (setting,) = assemble([record(curve=[at])])["settings"].values()
    assert setting["runs"][0]["curve"] == [[100, 1, 80.5, 80.5]]


def test_settings_that_differ_in_one_number_make_a_curve():
    given = [record("si", fields={"coef": coef}, score=acc) for coef, acc in ((10.0, 60), (0.1, 20), (1, 40))]
    given += [record("si", fields={"coef": 1.0}, score=33, kind="task"), record("adam")]
    settings = gather_settings(given)
    (curve,) = sensitivity_curves(settings)
    by_id = {setting.id: setting for setting in settings}
    assert (curve["scenario"], curve["method"], curve["field"]) == ("split-mnist/class", "si", "coef")
    assert [(value, by_id[setting].mean) for value, setting in curve["points"]] == [(0.1, 20), (1, 40), (10, 60)]


def test_curves_of_one_method_say_what_tells_them_apart():
    given = []
    for heads in ("random", "zero"):
        for coef in (1.0, 2.0):
            of = spec("si", coef=coef)
            given.append(record("si", spec={**of, "net": {**of["net"], "heads": heads}}))
    assert [curve["apart"] for curve in sensitivity_curves(gather_settings(given))] == ["heads random", "heads zero"]


def test_settings_that_differ_in_two_numbers_make_no_curve():
    other = spec("si", coef=2.0)
    other["training"]["lr"] = 0.1
    assert sensitivity_curves(gather_settings([record("si", fields={"coef": 1.0}), record("si", spec=other)])) == []


def test_threads_are_not_a_setting_to_plot():
    other = {**spec(), "threads": 2}
    assert sensitivity_curves(gather_settings([record(), record(spec=other)])) == []


def test_settings_say_what_tells_them_apart():
    found = gather_settings([record("si", fields={"coef": 1.5, "c": 1}), record("si", fields={"coef": 20.0, "c": 1})])
    assert list(describe_settings(found).values()) == ["coef 1.5", "coef 20"]
    given = [record("si", published=True, fields=fields) for fields in ({"coef": 1.5}, {"xi": 2.0}, {})]
    assert list(describe_settings(gather_settings(given)).values()) == ["", "coef 1.5", "xi 2"]  # the default first


def test_methods_of_a_column_are_compared_over_common_seeds():
    """Six pairs of one sign: p = 2/2⁶ = 0.03125; twice that after Holm's correction over two tests."""
    rows = {
        "adam": {seed: 20 + seed for seed in range(6)},
        "si": {seed: 25 + 2 * seed for seed in range(8)},
        "mas": {seed: 21 + seed for seed in range(2)},
    }
    found = compare_rows(rows)
    assert found["adam"]["si"] == {"difference": 7.5, "n": 6, "p": 0.03125, "word": "higher"}
    assert found["si"]["adam"] == {"difference": -7.5, "n": 6, "p": 0.03125, "word": "lower"}
    assert (found["adam"]["mas"]["n"], found["adam"]["mas"]["p"]) == (2, None)
    assert found["adam"]["mas"]["word"].startswith("too few pairs")
    rows["mas"] = {seed: 21 + seed for seed in range(6)}
    assert compare_rows(rows)["adam"]["si"]["p"] == 0.0625
    assert compare_rows(rows)["adam"]["si"]["word"].startswith("too few pairs for 2 tests")


def test_a_table_carries_its_comparisons():
    given = [record(m, seed, a + seed, published=True) for m, a in (("adam", 19), ("l2", 22)) for seed in range(6)]
    table = assemble(given)["tables"][0]
    assert table["tests"] == {
        "class": {
            "adam": {"l2": {"difference": 3.0, "n": 6, "p": 0.03125, "word": "higher"}},
            "l2": {"adam": {"difference": -3.0, "n": 6, "p": 0.03125, "word": "lower"}},
        }
    }


def test_a_variant_names_its_setting_and_is_not_listed_as_another_run():
    changed = {"slots_per_task": 1}
    data = assemble([record("gem", 0, 92.0, published=True), record("gem", 0, 90.5, published=True, fields=changed)])
    (variant,) = data["tables"][0]["variants"]
    name = usual_id("split-mnist/class", "gem", **changed)
    assert (variant["row"], variant["of"], variant["setting"]) == ("gem/one-slot", "GEM", name)
    assert (variant["ours"], variant["of_row"], variant["difference"], variant["p"]) == (90.5, 92.0, -1.5, None)
    assert data["own"] == []


@pytest.mark.parametrize(
    ("scenario", "remarks"),
    [
        ("long-queue/task", []),
        ("long-queue-with-cyrillic-letters/task", ["Cyrillic letters stand in for EMNIST letters"]),
    ],
)
def test_a_table_says_what_stands_in(scenario, remarks):
    run = queued("si", 0.1, 0, 80.0, scenario)
    (table,) = assemble([run])["tables"]
    assert table["remarks"] == remarks
    run.environment["data"] = {"svhn": "sha256:ec811ab3c8140865"}  # by its content, under whatever name
    (table,) = assemble([run])["tables"]
    assert table["remarks"] == [*remarks, "SVHN re-cropped from its photographs"]


def test_a_column_of_the_long_queue_is_its_best_or_worst_coefficient():
    given = [queued("adam", None, seed, 58.0 + seed) for seed in range(2)]
    given += [queued("si", 0.1, 0, 80.0), queued("si", 100.0, 0, 66.0)]
    data = assemble(given)
    (table,) = data["tables"]
    assert (table["name"], table["head"], table["tests"]) == ("table5", "after task", {})
    last = {cell["column"]: cell for cell in table["rows"][-1]["cells"]}
    assert table["rows"][-1]["title"] == "78"
    assert [last[column]["setting"] for column in ("adam", "si/best", "si/worst", "adagrad")] == [
        usual_id("long-queue/task", "adam"), *(usual_id("long-queue/task", "si", coef=c) for c in (0.1, 100.0)), None,
    ]  # fmt: skip
    assert (last["adam"]["ours"], last["adam"]["band"], last["si/best"]["ours"]) == (58.5, 5.0, 80.0)
    assert [c["ours"] for c in table["rows"][0]["cells"][:2]] == [100.0, 100.0]


def test_claims_are_those_of_compare():
    given = [record(m, s, a + s / 10, published=True) for m, a in (("adam", 19.0), ("sgd", 30.0)) for s in range(3)]
    (paper,) = assemble(given)["claims"]
    found = paper["claims"]
    expected = examine_claims("hsu2018", given)
    assert [claim["number"] for claim in found] == list(range(1, 11))
    assert [(c["print"]["outcome"], c["ours"]["outcome"]) for c in found] == [
        (one.outcome("print"), one.outcome("ours")) for one in expected
    ]
    assert [len(claim["parts"]) for claim in found] == [len(one.claim.parts) for one in expected]
    assert assemble([record("own")])["claims"] == []


def command_of(setting, seeds=(0,)) -> str:
    """What the page says of runs with this setting."""
    (found,) = gather_settings([run_of(setting, seed, 50.0) for seed in seeds])
    return run_command(found).removeprefix(f"engram run {setting.scenario} {setting.method}").strip()


def test_the_command_of_a_default_setting_is_its_name():
    assert command_of(default_setting("split-mnist/class", "ewc"), range(3)) == "--seeds 3"
    assert command_of(default_setting("split-mnist/class", "ewc"), [3]) == "--seed 3"


def test_the_command_of_another_setting_says_what_differs():
    ewc = default_setting("split-mnist/class", "ewc")
    assert command_of(ewc.with_values({"method.coef": 0.5})) == "--coef 0.5"
    assert command_of(ewc.with_values({"net.hidden": (100, 100), "training.drop_last": True})) == (
        "--drop-last --hidden 100 100"
    )
    changed = record("ewc", published=True)
    changed.spec["evaluation"] |= {"mask": False, "evaluate_every": 50}
    (found,) = gather_settings([changed])
    assert run_command(found) == "engram run split-mnist/class ewc --no-mask --evaluate-every 50"


@pytest.mark.parametrize("method", ["lwf", "dgr", "rtf", "lwf+ewc"])
def test_the_common_protocol_is_named_if_that_is_shorter(method):
    assert command_of(default_setting("split-mnist/class", method, "common")) == "--protocol common"
    assert command_of(default_setting("split-mnist/class", method, "own")) == ""


@pytest.mark.parametrize(("reset", "words"), [(True, ""), (False, "--no-reset-optimizer")])
def test_a_penalty_on_the_long_queue_is_repeated_with_its_optimiser(reset, words):
    (found,) = gather_settings([queued("si", 0.1, 0, 80.0, reset=reset)])
    assert run_command(found).removeprefix("engram run long-queue/task si").split() == [*words.split(), "--coef", "0.1"]


def test_a_network_and_an_optimiser_bring_their_own_defaults():
    sgd = default_setting("split-mnist/class", "adam", optimizer="sgd")
    assert command_of(sgd) == "--optimizer sgd"
    assert command_of(sgd.with_values({"training.lr": 0.5})) == "--optimizer sgd --lr 0.5"
    assert command_of(default_setting("long-queue/task", "si", net="cnn")) == "--net cnn"


def test_the_command_gives_every_value_if_no_defaults_are_known():
    (found,) = gather_settings([record("a b", fields={"coef": 0})])
    assert run_command(found) == (
        "engram run split-mnist/class 'a b' --held-out 0.0 --coef 0 --net mlp --hidden 400 400 --heads random "
        "--epochs 4 --lr 0.001 --no-drop-last --file 'a b.py'"
    )


def test_whole_numbers_and_floats_that_are_equal_are_one_setting():
    (setting,) = gather_settings(
        [record("ewc", 0, 60, fields={"coef": 50}), record("ewc", 1, 40, fields={"coef": 50.0})]
    )
    assert (setting.mean, len(setting.runs.records)) == (50.0, 2)


def test_samples_find_their_run_by_key():
    uri = "data:image/png;base64,AA"
    data = assemble([record("dgr", seed=4, key="0123abcd")], {"0123abcd-task-2": uri, "unknown": uri})
    (setting,) = data["settings"]
    assert data["samples"] == [
        {"name": "0123abcd-task-2", "uri": uri, "setting": setting, "seed": 4, "task": "2"},
        {"name": "unknown", "uri": uri, "setting": None, "seed": None, "task": ""},
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"accuracy": "all"}, {"accuracy": [["<b>"]]}, {"average_accuracy": "50"}, {"spec": []}, {"seed": "0"},
        {"memory": {"kept": {"weights": "many"}}}, {"method": 5}, {"environment": None}, {"curve": [1]}, {"search": 1},
        {"search": {"stage": "trial"}},
    ],
)  # fmt: skip
def test_a_record_that_holds_something_else_is_left_out(wrong):
    bad = Record(**{**vars(record()), **wrong})
    assert not is_sound_record(bad)
    data = assemble([bad, record("si")])
    assert (data["records"], data["skipped"], len(data["settings"])) == (1, 1, 1)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_subnormal=False)
    | st.sampled_from(["", "done", "<b>", "adam"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["seed", "kept", "x"]), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([f.name for f in fields(Record)]), JSON, max_size=4))
@settings(max_examples=40, deadline=None)
def test_no_record_that_json_can_hold_breaks_the_page(wrong):
    """Whatever stands in a line: it is shown or left out."""
    data = assemble([Record(**{**vars(record("si", published=True)), **wrong}), record("l2", published=True)])
    assert data["records"] + data["skipped"] == 2
    assert data["settings"][usual_id("split-mnist/class", "l2")]["mean"] == 50.0
    assert len(html({**data, "sources": ""})) > 10_000


def test_what_is_not_a_number_does_not_reach_the_page():
    data = assemble([record(seconds=math.nan), record(forgetting=math.inf), record(score=math.nan), record(seed=1)])
    assert (data["records"], data["skipped"]) == (1, 3)
    assert tidy([1e-7, 12.345678, 3, math.nan, -math.inf]) == [1e-7, 12.3457, 3, None, None]


def test_a_study_of_one_s_own_is_a_table_without_published_numbers():
    """Six pairs, all of one sign: p = 2/64, the only test of the table."""
    given = [record(m, seed, a + seed, published=True) for m, a in (("adam", 19), ("l2", 22)) for seed in range(6)]
    columns, rows = {"class": "split-mnist/class"}, {"adam": {}, "l2": {}}
    study = read_study({"title": "Mine", "baseline": "adam", "columns": columns, "rows": rows}, "mine")
    data = assemble(given, studies=[study])
    (table,) = data["tables"]
    assert (table["name"], table["title"], table["published"], table["baseline"]) == ("mine", "Mine", False, "Adam")
    assert table["command"] == "engram study mine.toml"
    cell = cell_of(data, "mine", "l2", "class")
    assert (cell["paper"], cell["verdict"], cell["band"], cell["n"]) == (None, None, None, 6)
    assert (cell["p"], cell["difference"]) == (0.03125, 3.0)
    assert cell["setting"] == usual_id("split-mnist/class", "l2")
    assert (data["own"], data["claims"]) == ([], [])


def test_nothing_in_the_data_is_markup():
    text = embedded({"method": HOSTILE, "other": "</script>&amp;@script@"})
    assert not set("<>&@") & set(text)
    assert json.loads(text) == {"method": HOSTILE, "other": "</script>&amp;@script@"}
    page = html(assemble([record(HOSTILE)]))
    assert page.count("<script") == page.count("</script>") == 2
    assert "onerror" not in page.replace("\\u003cimg src=x onerror", "")


def test_the_page_of_all_committed_records_is_small_and_asks_for_nothing():
    found = [r for file in sorted(RESULTS.glob("*.jsonl")) for r in records.read(file)]
    data = assemble(found)
    page = html(data)
    assert len(page.encode()) < 15e6
    assert data["records"] == len(found)
    policy = page.partition('Content-Security-Policy" content="')[2].partition('"')[0]
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "http" not in policy
    runs = {run["key"] for setting in data["settings"].values() for run in setting["runs"]}
    assert runs == {r.key for r in found}


def test_the_page_says_how_it_thins_many_runs(monkeypatch):
    """Of ten runs of a setting four are listed; the mean is that of all ten."""
    monkeypatch.setattr("engram.report.page.assemble.MOST_RUNS_LISTED", 4)
    data = assemble([record("adam", seed, 20.0 + seed) for seed in range(10)])
    (setting,) = data["settings"].values()
    assert ([run["seed"] for run in setting["runs"]], setting["mean"]) == ([0, 1, 2, 3], 24.5)
    assert data["thinned"].startswith("6 of 10 runs are not listed one by one: of each setting the first 4 by seed")
    assert assemble([record("adam", 0, 20.0)])["thinned"] == ""
