"""Learning rates by the step: the closed forms, and that a run has them, interrupted or not."""

import math

import pytest
import torch
from helpers import Run, blobs

import engram as eg
from engram.learning.schedule import rate_at

PASSES = {"epochs": 2, "batch": 16, "lr": 0.01}
SCHEDULES = {
    "cosine": eg.Training(**PASSES, schedule="cosine"),
    "cosine over the run": eg.Training(**PASSES, schedule="cosine", schedule_over="run", warmup=7, lr_end=0.001),
    "step": eg.Training(**PASSES, schedule="step", warmup=3),
    "linear": eg.Training(**PASSES, schedule="linear", reset_optimizer=True),
    "warm-up alone": eg.Training(**PASSES, warmup=12, schedule_over="run"),
}


class Rates(eg.Method):
    """Plain training that notes the rate of each step, and may be resumed after every epoch."""

    checkpoints = "epoch"
    kept = ("rates",)

    def start(self, learner, tasks):
        self.rates = []

    def after_step(self, learner, batch):
        self.rates.append(learner.lr)


def tasks():
    return eg.split(blobs(6), kind="class").tasks(0)


@pytest.mark.parametrize(
    ("values", "step", "expected"),
    [
        ({"schedule": "constant"}, 63, 1.0),
        ({"schedule": "cosine"}, 0, 1.0),
        ({"schedule": "cosine"}, 25, (1 + math.sqrt(0.5)) / 2),
        ({"schedule": "cosine"}, 50, 0.5),
        ({"schedule": "cosine", "lr_end": 0.2}, 50, 0.6),
        ({"schedule": "cosine", "lr_end": 0.2}, 100, 0.2),
        ({"schedule": "cosine", "warmup": 20}, 60, 0.5),  # half of the 80 steps that are left
        ({"schedule": "linear"}, 75, 0.25),
        ({"schedule": "linear", "lr_end": 0.5}, 75, 0.625),
        ({"schedule": "linear"}, 130, 0.0),  # more steps than there should be
        ({"schedule": "step"}, 49, 1.0),
        ({"schedule": "step"}, 50, 0.1),
        ({"schedule": "step"}, 75, 0.01),
        ({"schedule": "step", "lr_drops": [0.3, 0.6, 0.8], "lr_factor": 0.5}, 99, 0.125),
        ({"warmup": 4}, 0, 0.25),
        ({"warmup": 4}, 2, 0.75),
        ({"warmup": 4}, 3, 1.0),
        ({"warmup": 4}, 90, 1.0),
    ],
)
def test_rates_of_a_hundred_steps(values, step, expected):
    assert rate_at(eg.Training(**values), 1.0, step, 100) == pytest.approx(expected, abs=1e-15)


def test_cosine_is_that_of_torch():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40, eta_min=0.01)
    training = eg.Training(schedule="cosine", lr_end=0.01)
    for step in range(40):
        assert rate_at(training, 0.3, step, 40) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        theirs.step()


def test_a_schedule_begins_anew_with_each_task_or_goes_over_the_run():
    """Three tasks of 10 steps."""
    method = Rates()
    Run(tasks(), lambda: method, SCHEDULES["cosine"])
    expected = [0.005 * (1 + math.cos(math.pi * (i % 10) / 10)) for i in range(30)]
    assert method.rates == pytest.approx(expected)
    method = Rates()
    Run(tasks(), lambda: method, SCHEDULES["cosine over the run"])
    falling = [0.001 + 0.0045 * (1 + math.cos(math.pi * i / 23)) for i in range(23)]
    assert method.rates == pytest.approx([0.01 * (i + 1) / 7 for i in range(7)] + falling)


def test_a_schedule_that_ends_where_it_begins_is_a_constant_rate_to_the_bit():
    plain = Run(tasks(), training=eg.Training(**PASSES)).bits()
    for schedule in ("cosine", "linear"):
        assert Run(tasks(), training=eg.Training(**PASSES, schedule=schedule, lr_end=0.01)).bits() == plain
    assert Run(tasks(), training=eg.Training(**PASSES, schedule="constant")).bits() == plain
    assert Run(tasks(), training=SCHEDULES["cosine"]).bits() != plain


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_resumed_run_has_the_bits_of_one_that_was_not_interrupted(name):
    whole = Run(tasks(), Rates, SCHEDULES[name])
    assert len(whole.checkpoints) == 9  # after each epoch and at each boundary
    for checkpoint in whole.checkpoints[:-1]:
        resumed = Run(tasks(), Rates, SCHEDULES[name], resume=checkpoint)
        assert resumed.bits() == whole.bits()
        assert resumed.checkpoints[-1]["method"] == whole.checkpoints[-1]["method"]


class Slower(Rates):
    """A tenth of the rate in all tasks but the first."""

    def begin_task(self, learner, task):
        learner.lr = 0.001 if task.index else 0.01


def test_a_method_sets_the_rate_that_the_schedule_begins_with():
    method = Slower()
    whole = Run(tasks(), lambda: method, SCHEDULES["cosine"])
    falling = [0.5 * (1 + math.cos(math.pi * i / 10)) for i in range(10)]
    assert method.rates == pytest.approx([rate * share for rate in (0.01, 0.001, 0.001) for share in falling])
    for checkpoint in whole.checkpoints[:-1]:
        assert Run(tasks(), Slower, SCHEDULES["cosine"], resume=checkpoint).bits() == whole.bits()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"schedule": "cosinus"}, "schedule 'cosinus' is unknown; did you mean cosine"),
        ({"schedule": "exponential"}, "choose from constant, cosine, step, linear"),
        ({"schedule_over": "epoch"}, "schedule_over 'epoch' is unknown"),
        ({"warmup": -1}, "warmup -1 is out of range; give a whole number, 0 or more"),
        ({"warmup": 0.5}, "warmup 0.5 has the wrong type; give a whole number"),
        ({"schedule": "linear", "lr_end": -0.1}, "lr_end -0.1 is out of range"),
        ({"schedule": "step", "lr_factor": 0.0}, "lr_factor 0.0 is out of range"),
        ({"schedule": "step", "lr_drops": (80, 120)}, "lr_drops: 80 is out of range; give shares of the steps"),
        ({"schedule": "step", "lr_drops": 0.5}, "lr_drops 0.5 is not a list; give shares of the steps"),
        ({"lr_end": 0.1}, "lr_end 0.1: schedule constant has no lr_end; choose from cosine, linear"),
        ({"schedule": "cosine", "lr_factor": 0.5}, "schedule cosine has no lr_factor; choose from step"),
        ({"schedule_over": "run"}, "schedule_over run: schedule constant has no schedule_over"),
        ({"schedule": "step", "lr_drops": ()}, "lr_drops is empty, and schedule step would change nothing"),
    ],
)
def test_wrong_values_are_refused(values, message):
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        eg.Training(**values)


def test_a_warm_up_that_never_ends_is_refused():
    """The learning rate that the record states would not be reached."""
    training = eg.Training(epochs=1, batch=16, warmup=6)
    with pytest.raises(ValueError, match="warmup 6: a task has 5 steps, and would never reach lr; give less"):
        eg.run(eg.split(blobs(4)), eg.Adam(), net=eg.MLP(8), training=training)
