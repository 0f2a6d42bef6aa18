"""The sensitivity plot: what is drawn where."""

import pytest

from engram.report.sensitivity import sensitivity
from engram.report.style import save
from engram.runs.records import Record


def trial(method: str, value: float | None, **point) -> Record:
    status = "diverged" if value is None else "done"
    note = {"stage": "trial", "selected_on": "holdout", "point": point}
    return Record(f"{method} {point}", "split-own/class", method, 1000, {}, status, average_accuracy=value, search=note)


TRIALS = [
    trial("sgd", 50.0, lr=0.001), trial("sgd", 70.0, lr=0.01), trial("sgd", None, lr=0.1),
    trial("rehearsal", 80.0, mixing="shuffled", lr=0.01), trial("rehearsal", 81.0, mixing="shuffled", lr=0.001),
    trial("rehearsal", 90.0, mixing="balanced", lr=0.001),
    trial("ewc", 60.0, coef=1.0), trial("ewc", 61.0, coef=100.0),
]  # fmt: skip


def lines(ax) -> dict[str, tuple[list[float], list[float]]]:
    return {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
        for line in ax.lines
        if not line.get_label().startswith("_")
    }


def test_every_method_is_a_line_in_the_panel_of_its_value():
    rate, coef = sensitivity([*TRIALS, Record("f", "split-own/class", "sgd", 0, {}, "done", average_accuracy=1.0)]).axes
    assert (rate.get_xlabel(), coef.get_xlabel()) == ("learning rate", "coefficient of the penalty")
    assert (rate.get_xscale(), rate.get_ylabel()) == ("log", "average accuracy (%), held-out images")
    assert lines(rate) == {
        "SGD": ([0.001, 0.01], [50.0, 70.0]),
        "Naive rehearsal, shuffled": ([0.001, 0.01], [81.0, 80.0]),
        "Naive rehearsal, balanced": ([0.001], [90.0]),
    }
    assert lines(coef) == {"EWC": ([1.0, 100.0], [60.0, 61.0])}


def test_winners_have_a_ring_and_what_diverged_a_cross():
    rate, coef = sensitivity(TRIALS).axes
    rings = [(line.get_xdata()[0], line.get_ydata()[0]) for ax in (rate, coef) for line in ax.lines if ring(line)]
    assert rings == [(0.01, 70.0), (0.001, 90.0), (100.0, 61.0)]
    crosses = [list(line.get_xdata()) for line in rate.lines if line.get_marker() == "x"]
    assert crosses == [[0.1]]
    assert all(line.get_marker() != "x" for line in coef.lines)


def test_a_trial_that_failed_and_was_tried_again_has_no_cross():
    first = trial("sgd", None, lr=0.01)
    first.status = "failed"
    rate, _ = sensitivity([first, *TRIALS]).axes
    assert [list(line.get_xdata()) for line in rate.lines if line.get_marker() == "x"] == [[0.1]]
    assert lines(rate)["SGD"] == ([0.001, 0.01], [50.0, 70.0])


def ring(line) -> bool:
    return line.get_markersize() == 11


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_it_is_saved_without_a_warning(tmp_path, suffix):
    path = save(sensitivity(TRIALS), tmp_path / f"plot.{suffix}")
    assert path.stat().st_size > 2000


def test_without_trials_there_is_nothing_to_draw():
    with pytest.raises(ValueError, match="no trials"):
        sensitivity([])
