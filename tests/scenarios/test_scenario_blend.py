"""Tasks that overlap: who is shown when, and that nothing is lost."""

from collections import Counter

import pytest
import torch
from helpers import blobs, numbered, numbers
from scipy.stats import chi2

import engram as eg
from engram.runs.spec import Spec, from_json
from engram.scenarios.blend import BlurrySplit, draw_tasks
from engram.scenarios.scenario import ScenarioError
from engram.scenarios.stream import StreamReader


def plan_of(scenario, lengths=None, batch=16, seed=0, drop_last=False):
    tasks = scenario.tasks(seed)
    assert tasks.stream is not None
    return tasks, tasks.stream.plan(tasks, lengths or [len(t.train) for t in tasks], batch, drop_last)


@pytest.mark.parametrize("width", [0.3, 1.0])
def test_the_share_of_the_later_task_rises_linearly_through_the_overlap(width):
    """Chi-square against the closed form, in ten bins of one side; two samples at one distance are one draw."""
    length, seeds, bins = 600, 60, 10
    overlap = width * length
    side = int(overlap) // 2
    later = torch.zeros(side)
    for seed in range(seeds):
        found = draw_tasks([length, length, length], width, seed)
        assert found[: length - side].eq(0).all()
        assert found[-(length - side) :].eq(2).all()
        later += found[length : length + side] == 1
        mirrored = found[length - side : length].flip(0)
        assert torch.equal(mirrored == 1, found[length : length + side] == 0)
    p = 0.5 + (torch.arange(side) + 0.5) / overlap  # of the later task, this far behind the boundary
    statistic = 0.0
    for rows in torch.arange(side).tensor_split(bins):
        expected, variance = seeds * p[rows].sum(), seeds * (p[rows] * (1 - p[rows])).sum()
        statistic += float((later[rows].sum() - expected) ** 2 / variance)
    assert chi2.sf(statistic, bins) > 0.001


def test_every_task_keeps_its_number_of_samples():
    found = draw_tasks([100, 30, 70], 1.0, 0)
    assert Counter(found.tolist()) == {0: 100, 1: 30, 2: 70}
    assert found[:85].eq(0).all()  # the overlap is as long as the shorter task: 15 on each side
    assert 1 in found[85:100]


def test_without_width_tasks_follow_each_other_sharply():
    assert torch.equal(draw_tasks([5, 6, 7], 0, 0), torch.tensor([0] * 5 + [1] * 6 + [2] * 7))


def test_every_image_is_shown_once_per_epoch():
    scenario = eg.blend(eg.split(numbered(6, train=30)), width=0.7)
    _, plan = plan_of(scenario, [180, 180, 180])  # three epochs of 60 images
    assert set(Counter(plan.rows.tolist()).values()) == {3}
    assert plan.sizes == (16,) * 33 + (12,)
    assert plan.ends == (12, 23, 34)
    firsts = plan.rows[plan.rows < 60]
    assert sorted(firsts[:60].tolist()) == list(range(60))  # the first epoch ends before the second begins
    assert len(plan_of(scenario, [180] * 3, drop_last=True)[1].sizes) == 33


def test_a_reader_reads_just_what_the_plan_shows():
    tasks, plan = plan_of(eg.blend(eg.split(numbered(6, train=30), kind="class"), width=1.0))
    images = [number for task in tasks for number in numbers(task.train)]
    reader, at = StreamReader(tasks, plan), 0
    for step, size in enumerate(plan.sizes):
        batch = reader.batch(step)
        pixels = (batch.x * 255).round().long()
        shown = (256 * pixels[:, 0] + pixels[:, 1]).tolist()
        assert sorted(shown) == sorted(images[row] for row in plan.rows[at : at + size].tolist())
        assert batch.y.tolist() == pixels[:, 5].tolist()
        assert batch.t.tolist() == (batch.y // 2).tolist()
        assert batch.tasks == tuple(sorted(set(batch.t.tolist())))
        at += size
    assert not reader.held


def test_the_same_seed_gives_the_same_stream_and_another_seed_another():
    scenario = eg.blend(eg.split(blobs(4)), width=0.5)
    assert torch.equal(plan_of(scenario)[1].rows, plan_of(scenario)[1].rows)
    assert not torch.equal(plan_of(scenario)[1].rows, plan_of(scenario, seed=1)[1].rows)


def test_any_recipe_can_be_blended():
    images = blobs(4)
    recipes = [
        eg.split(images, kind="domain"),
        eg.permute(images, permutations=3),
        eg.rotate(images, tasks=3),
        eg.transform(images, ["none", "invert"]),
        eg.queue([images, blobs(4, seed=1, name="other")], size=6),
    ]
    for recipe in recipes:
        blurred = eg.blend(recipe, width=0.4)
        assert blurred.kind == recipe.kind
        assert len(blurred.tasks(0)) == len(recipe.tasks(0))
        assert blurred.sizes() == recipe.sizes()
        assert eg.blend(blurred, width=0.1).width == 0.1
        assert blurred.holdout(0.25).width == 0.4
        spec = Spec(blurred, eg.ER())
        given = {one.fingerprint: one for one in recipe.images}
        assert from_json(spec.to_json(), given).key == spec.key != Spec(recipe, eg.ER()).key


@pytest.mark.parametrize("width", [-0.1, 1.5, float("nan"), "wide", True])
def test_a_width_that_is_no_share_is_refused(width):
    with pytest.raises(ScenarioError, match="width"):
        eg.blend(eg.split(blobs(4)), width=width)


def test_a_recipe_of_one_s_own_is_told_how_to_be_blended():
    class Own(type(eg.split(blobs(4)))):
        name = "own-split"

    with pytest.raises(ScenarioError, match=r"inherits from engram\.scenarios\.blend\.Blurred"):
        eg.blend(Own(images=(blobs(4),)))


def test_names_and_defaults_follow_what_is_blurred():
    from engram.runs.defaults import default_setting

    blurred, plain = default_setting("blurry-split-mnist/class", "er"), default_setting("split-mnist/class", "er")
    assert blurred.scenario == "blurry-split-mnist/class"
    assert dict(blurred.values) == dict(plain.values)
    assert BlurrySplit.make == "blurry-split"
    online = default_setting("online-blurry-split-mnist/class", "er")
    assert online.scenario == "blurry-split-mnist/class"
    assert (online.value("training.epochs"), online.value("training.batch")) == (1, 10)
