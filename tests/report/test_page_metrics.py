"""Metrics on logits on the page: numbers by hand, in the data and in the browser; strange records do no harm."""

from page_helpers import record, spec

from engram.report.page.assemble import assemble
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
        {"title": "steadiness", "mean": 16.0, "std": 5.0, "n": 2, "left_out": 1},
        {"title": "expected calibration error", "mean": 5.0, "std": 0.0, "n": 3, "left_out": 0},
    ]


def test_confusion_is_summed_over_runs_and_gives_the_accuracy_per_class():
    first, second = only(assemble([with_metric(0, 1.0), with_metric(1, 1.0, confusion=OTHER)]))["classes"]
    assert first == {
        "task": 1,
        "predicted": [0, 1],
        "rows": [
            {"right": 0, "accuracy": 90.0, "shares": [90.0, 10.0]},
            {"right": 1, "accuracy": 100.0, "shares": [0.0, 100.0]},
        ],
    }
    assert second["predicted"] == [0, 2, 3]
    assert second["rows"][0] == {"right": 2, "accuracy": 75.0, "shares": [25.0, 75.0, 0.0]}


def test_records_of_anyone_do_no_harm():
    for extra in ({"ece": []}, {"ece": [[]]}, {"ece": [[None]]}, {"confusion": [[[[1, 2]]]]}, {"confusion": []},
                  {"class-weighted-incremental-accuracy": [[1.0]]}):  # fmt: skip
        setting = only(assemble([record(extra=extra)]))
        assert (setting["metrics"], setting["classes"]) == ([], [])


def test_the_page_shows_metrics_classes_and_what_scores_are(page, tmp_path):
    path = tmp_path / "report.html"
    given = with_metric(0, 1.0)
    given.scores = ["accuracy", "R²"]
    path.write_text(html({**assemble([given]), "sources": ""}), encoding="utf-8")
    page.open(path)
    page.js("document.querySelector('#grid-own tbody tr').cells[1].click()")
    page.wait("document.querySelector('#details details table')")
    text = page.js("return document.getElementById('details').textContent")
    assert "expected calibration error5" in text
    assert "steadiness2" in text
    assert "task 1 by accuracy, task 2 by R²" in text
    assert "rightaccuracyas 0as 1080.080.020.0" in text  # output 0: 8 of 10 right, 2 taken for 1
    assert page.driver.get_log("browser") == []


def test_the_command_of_a_setting_asks_for_its_metrics():
    assert only(assemble([with_metric(0, 1.0)]))["command"].endswith("--metric steadiness")
