"""How cost grows: what is measured, and what the figure draws."""

import json

import pytest
from helpers import blobs

import engram as eg
from engram.bench import scaling
from engram.learning.learner import Training
from engram.report.scaling import ScalingFigure
from engram.runs.spec import Spec


def tiny(method: eg.Method) -> Spec:
    scenario = eg.split(blobs(6), kind="class")
    return Spec(scenario, method, eg.MLP(8), Training(batch=8), eg.Evaluation(), seed=0)


def test_a_step_is_taken_on_every_task_and_a_task_ends_before_the_next_begins():
    """EWC keeps a Fisher per finished task."""
    method, learned = eg.EWC(), []
    steps = scaling.steps_of_tasks(tiny(method))
    for step in steps:
        for _ in range(3):
            step()
        learned.append(step)
    assert len(learned) == 3


def test_the_cost_of_a_step_is_a_median_of_ratios_of_pairs(monkeypatch):
    clock = iter([0, 1, 1, 3, 3, 4, 4, 7, 7, 9, 9, 11])  # plain 1, ours 2; plain 1, ours 3; plain 2, ours 2
    monkeypatch.setattr(scaling.time, "process_time", lambda: next(clock))
    assert scaling.time_in_steps(lambda: None, lambda: None, pairs=3) == 2


@pytest.fixture
def measured(monkeypatch):
    points = {
        "time_hidden": lambda _, units: {"step_ms": units / 100, "peak_mb": 400.0},
        "time_tasks": lambda name: {"ratios": [1.0] + [1.5 + (name == "ewc") * k for k in range(19)], "peak_mb": 1.0},
        "time_capacity": lambda *_: {"ratio": 2.0, "peak_mb": 500.0},
    }
    monkeypatch.setattr(scaling, "measure_apart", lambda name, *values: points[name](*values))
    monkeypatch.setattr(scaling, "call_python", lambda *_: "")
    said = []
    return scaling.measure_scaling("split-mnist/class", ("er", "ewc"), said.append), said


def test_growth_is_told_from_the_second_task_on_with_what_the_paper_promises(measured):
    found, said = measured
    assert [(one["method"], one["same_cost"], one["growth"]) for one in found["tasks"]] == [
        ("er", True, 1.0),
        ("ewc", False, (1.5 + 17) / (1.5 + 1)),
    ]
    assert "ewc: 2.50 steps of adam on tasks 2 to 4, 18.50 on the last three of 20" in "\n".join(said)
    assert "promises no constant cost" in next(line for line in said if line.startswith("ewc"))


def test_the_figure_draws_every_point(measured, tmp_path):
    found, _ = measured
    path = tmp_path / "scaling.json"
    path.write_text(json.dumps(found))
    hidden, tasks, capacity, *_ = ScalingFigure(measured=path).draw([]).axes
    assert hidden.lines[0].get_ydata().tolist() == pytest.approx([1, 2, 4, 8, 16])
    assert [len(line.get_xdata()) for line in tasks.lines] == [20, 20]
    assert len(capacity.lines) == len(scaling.OVER_CAPACITY)


@pytest.mark.parametrize(("text", "message"), [(None, "does not exist"), ("{", "not JSON"), ("[]", "has no capacity")])
def test_a_file_that_is_none_is_refused(tmp_path, text, message):
    path = tmp_path / "scaling.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=message):
        ScalingFigure(measured=path).draw([])
