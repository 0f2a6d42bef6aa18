"""Metrics on logits on the page: numbers by hand, in the data and in the browser; strange records do no harm."""

import pytest
from page_helpers import record, spec

from engram.report.page.assemble import assemble
from engram.report.page.classes import output_names
from engram.report.page.html import html

CONFUSION = [[[[0, 0, 8], [0, 1, 2], [1, 1, 10]], [[2, 0, 5], [2, 2, 5], [3, 3, 10]]]]
OTHER = [[[[0, 0, 10], [1, 1, 10]], [[2, 2, 10], [3, 3, 10]]]]


def with_metric(seed: int, ece: float, code: str = "a", confusion=CONFUSION):
    stated = [{"name": "steadiness", "own code": code}]
    extra = {"steadiness": [[1.0], [ece, ece + 2]], "ece": [[3.0], [4.0, 6.0]], "confusion": confusion}
    return record(seed=seed, extra=extra, spec=spec(seed=seed) | {"metrics": stated}, key=f"k{seed}")


def only(data):
    (setting,) = data["settings"].values()
    return setting


def test_metrics_are_means_over_the_runs_that_one_version_measured():
    setting = only(assemble([with_metric(0, 90.0, "old"), with_metric(1, 10.0), with_metric(2, 20.0)]))
    assert setting["metrics"] == [
        {"title": "steadiness", "mean": 16.0, "std": 5.0, "n": 2, "left_out": 1, "along": [1.0, 16.0]},
        {"title": "expected calibration error", "mean": 5.0, "std": 0.0, "n": 3, "left_out": 0, "along": [3.0, 5.0]},
    ]


def test_confusion_is_summed_over_runs_and_gives_the_accuracy_per_class():
    """Of Split MNIST in its order, whose outputs are the digits."""
    found = only(assemble([with_metric(0, 1.0), with_metric(1, 1.0, confusion=OTHER)]))["classes"]["matrices"]
    whole, first, second = found
    assert first == {
        "task": 1,
        "predicted": ["0", "1"],
        "rows": [
            {"right": "0", "accuracy": 90.0, "shares": [90.0, 10.0], "n": 20},
            {"right": "1", "accuracy": 100.0, "shares": [0.0, 100.0], "n": 20},
        ],
    }
    assert second["predicted"] == ["0", "2", "3"]
    assert second["rows"][0] == {"right": "2", "accuracy": 75.0, "shares": [25.0, 75.0, 0.0], "n": 20}
    assert (whole["task"], [row["accuracy"] for row in whole["rows"]]) == (0, [90.0, 100.0, 75.0, 100.0])


def test_a_class_that_is_never_predicted_has_a_column_so_that_the_diagonal_is_one():
    guesses = [[[[0, 0, 9], [1, 0, 9]]]]
    (matrix,) = only(assemble([with_metric(0, 1.0, confusion=guesses)]))["classes"]["matrices"]
    assert matrix["predicted"] == ["0", "1"]
    assert [row["shares"] for row in matrix["rows"]] == [[100.0, 0.0], [100.0, 0.0]]


def test_with_many_classes_there_is_accuracy_per_class_alone():
    many = [[[[0, guess, 1] for guess in range(40)]]]
    (matrix,) = only(assemble([with_metric(0, 1.0, confusion=many)]))["classes"]["matrices"]
    assert (matrix["predicted"], matrix["rows"][0]["shares"], matrix["rows"][0]["accuracy"]) == ([], [], 2.5)


@pytest.mark.parametrize(
    "name",
    ["split-mnist/class", "split-mnist/task", "split-mnist/domain", "split-mnist/class-known",
     "permuted-mnist/domain", "rotated-mnist/domain", "blurry-split-mnist/class", "blurry-split-mnist/domain"],
)  # fmt: skip
def test_outputs_are_named_as_the_scenario_numbers_them(name):
    from engram.data.catalog import use_blank_images
    from engram.runs.spec import default_spec

    with use_blank_images():
        spec = default_spec(name, "adam")
        tasks = spec.scenario.tasks(0)
        names = output_names(spec.to_json()["scenario"], len(tasks))
        for task, named in zip(tasks, names, strict=True):
            own = sorted({int(label) for leaf in task.test.leaves() for label in leaf.y})
            assert [named[output] for output in own] == list(task.classes)


@pytest.mark.parametrize(
    "changed", [{"order": "shuffled"}, {"kind": "iid"}, {"images": {"own": "x"}}, {"groups": [[1, "<b>"]]},
                {"groups": "all"}, {"classes_per_task": "all"}, {"make": "queue"}, {"images": 3}],
)  # fmt: skip
def test_outputs_without_a_known_name_are_numbers(changed):
    scenario = {"make": "split", "images": {"mnist": "x"}, "kind": "class", **changed}
    assert output_names(scenario, 2) == []


def test_records_of_anyone_do_no_harm():
    for extra in ({"ece": []}, {"ece": [[]]}, {"ece": [[None]]}, {"confusion": [[[[1, 2]]]]}, {"confusion": []},
                  {"class-weighted-incremental-accuracy": [[1.0]]}):  # fmt: skip
        setting = only(assemble([record(extra=extra)]))
        assert (setting["metrics"], setting["classes"]) == ([], {})


def test_the_page_shows_metrics_classes_and_what_scores_are(page, tmp_path):
    path = tmp_path / "report.html"
    given = with_metric(0, 1.0)
    given.scores = ["accuracy", "R²"]
    path.write_text(html({**assemble([given]), "sources": ""}), encoding="utf-8")
    page.open(path)
    page.js("document.querySelector('#grid-own tbody tr').cells[1].click()")
    page.wait("document.querySelectorAll('#details .canvas svg').length === 7")
    text = page.js("return document.getElementById('details').textContent")
    assert "expected calibration error5" in text
    assert "steadiness2" in text
    assert "task 1 by accuracy, task 2 by R²" in text
    hints = "[...document.querySelectorAll('#details title')].map(t => t.textContent)"
    assert "0 taken for 1: 20.00 %" in page.js(f"return {hints}")  # 8 of 10 are right
    labels = page.js("return [...document.querySelectorAll('#details svg[aria-label]')].map(s => s.ariaLabel)")
    assert (
        "Confusion matrix, all tasks. 4 right classes, 4 predicted. Most often wrong: 50.0 % of 2 taken for 0."
        in labels
    )
    assert "steadiness, over the tasks seen. After each task: 1, 2." in labels
    choose = "const s = arguments[0]; s.value = 'task 2'; s.dispatchEvent(new Event('change'))"
    page.js(choose, page.find("#details [data-focus^='pick classes']"))
    page.wait(f"{hints}.includes('3, accuracy: 100.0 %')")
    page.js("document.querySelectorAll('#details figure details').forEach(d => { d.open = true; })")
    page.wait("document.getElementById('details').textContent.includes('rightsamplesas 0as 2as 321050.050.00.0')")
    assert page.driver.get_log("browser") == []


def test_the_command_of_a_setting_asks_for_its_metrics():
    assert only(assemble([with_metric(0, 1.0)]))["command"].endswith("--metric steadiness")
