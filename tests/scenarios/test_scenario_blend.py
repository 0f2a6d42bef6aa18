"""Tasks that overlap: who is shown when, and that nothing is lost."""

import copy
import pickle
from collections import Counter
from pathlib import Path

import pytest
import torch
from helpers import blobs, numbered, numbers
from scipy.stats import chi2

import engram as eg
from engram.core.registry import SCENARIOS, load_file
from engram.runs.spec import Spec, from_json
from engram.scenarios.blend import draw_tasks
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
        eg.repeat(images, probabilities=0.5),
        eg.repeat(images, order="cyclic", length=5),
        eg.sequence([images, blobs(4, seed=1, name="other")], kind="class"),
    ]
    for recipe in recipes:
        blurred = eg.blend(recipe, width=0.4)
        assert blurred.kind == recipe.kind
        tasks = blurred.tasks(0)
        assert len(tasks) == len(recipe.tasks(0))
        plan = plan_of(blurred)[1]
        assert sorted(plan.rows.tolist()) == list(range(sum(len(task.train) for task in tasks)))  # each image once
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


OWN = """
from dataclasses import dataclass
from engram.scenarios.split import Split


@dataclass(frozen=True, eq=False, kw_only=True)
class Halves(Split):
    {field}: float = 0.5
"""


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(SCENARIOS, "added", dict(SCENARIOS.added))


def load_own(path: Path, field: str) -> None:
    path.write_text(OWN.format(field=field))
    load_file(path)


def test_a_recipe_of_one_s_own_is_blended_and_its_code_stays_in_the_key(tmp_path):
    keys, images = [], blobs(4)
    for field in ("part", "share"):
        load_own(tmp_path / "own_halves.py", field)
        scenario = SCENARIOS["own-halves"](images=(images,), **{field: 0.25})
        spec = Spec(eg.blend(scenario, width=0.4), eg.ER())
        assert spec.scenario_name == "blurry-own-halves-own/class"
        assert type(spec.scenario) is SCENARIOS["blurry-own-halves"]
        assert spec.setting.with_own_code().value("scenario.own code")
        again = from_json(spec.to_json(), {images.fingerprint: images})
        assert again.key == spec.key
        assert (again.scenario.width, getattr(again.scenario, field)) == (0.4, 0.25)
        keys.append(spec.key)
    assert keys[0] != keys[1]


def test_what_cannot_be_blended_is_refused_in_words(tmp_path):
    load_own(tmp_path / "own_width.py", "width")
    with pytest.raises(ScenarioError, match="own-width has a field width of its own"):
        eg.blend(SCENARIOS["own-width"](images=(blobs(4),)))
    with pytest.raises(ScenarioError, match="mnist-360 is a stream without boundaries already"):
        eg.blend(SCENARIOS["mnist-360"](images=(blobs(10),)))
    with pytest.raises(ScenarioError, match=r"not a scenario; give engram\.split"):
        eg.blend("split-mnist/class")
    assert not {"blurry-mnist-360", "blurry-own-width", "blurry-blurry-split"} & set(SCENARIOS)
    with pytest.raises(ValueError, match="there is a scenario blurry-split already"):
        load_own(tmp_path / "blurry_split.py", "part")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_is_of_the_same_class_and_gives_the_same_stream(copied):
    scenario = eg.blend(eg.repeat(blobs(4), probabilities=0.5), width=0.7)
    again = copied(scenario)
    assert type(again) is type(scenario)
    assert torch.equal(plan_of(again)[1].rows, plan_of(scenario)[1].rows)


def test_names_and_defaults_follow_what_is_blurred():
    from engram.runs.defaults import default_setting

    blurred, plain = default_setting("blurry-split-mnist/class", "er"), default_setting("split-mnist/class", "er")
    assert blurred.scenario == "blurry-split-mnist/class"
    assert dict(blurred.values) == dict(plain.values)
    assert SCENARIOS["blurry-split"].make == "blurry-split"
    online = default_setting("online-blurry-split-mnist/class", "er")
    assert online.scenario == "blurry-split-mnist/class"
    assert (online.value("training.epochs"), online.value("training.batch")) == (1, 10)
