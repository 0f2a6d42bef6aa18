"""A hold-out scenario has no way to the real test images."""

import copy
import pickle
from dataclasses import replace

import pytest
from helpers import blobs, numbered, numbers

import engram as eg
from engram.runs.spec import Spec
from engram.scenarios.prepare import flatten_once
from engram.scenarios.task import ClosedDataError


@pytest.fixture
def images():
    return blobs(4)


@pytest.mark.parametrize("part", ["x_test", "y_test"])
@pytest.mark.parametrize("make", [eg.split, eg.permute])
def test_reading_the_test_images_of_a_holdout_scenario_raises(images, make, part):
    (sealed,) = make(images).holdout(0.1).images
    with pytest.raises(ClosedDataError, match="test images of own may not be read"):
        getattr(sealed, part)
    for other in (sealed, copy.deepcopy(sealed), pickle.loads(pickle.dumps(sealed))):
        with pytest.raises(ClosedDataError):
            getattr(other, part)
        assert other.fingerprint == images.fingerprint


@pytest.mark.parametrize("kind", ["task", "domain", "class", "iid"])
def test_what_it_tests_on_are_training_images_that_are_not_trained_on(kind):
    """`numbered` counts test images from 10000."""
    scenario = eg.split(numbered(), kind=kind).holdout(0.1)
    tasks = scenario.tasks(0)
    train = [n for task in tasks for n in numbers(task.train)]
    test = [n for task in tasks for n in numbers(task.test)]
    assert sorted(train + test) == list(range(160))
    assert len(test) == 16
    assert sum(scenario.sizes()) == len(train) == 144


def test_it_can_be_turned_back(images):
    scenario = eg.split(images)
    again = scenario.holdout(0.1).holdout(0)
    assert again.images[0] is images
    assert Spec(again, eg.Adam()).key == Spec(scenario, eg.Adam()).key
    assert len(again.tasks(0)[0].test) == 20
    assert scenario.holdout(0.1).holdout(0.2).images[0].unseal() is images


def test_other_sets_and_other_names_are_untouched(images):
    sealed = images.seal()
    assert repr(sealed) == "Images(own: 160/sealed images of 1×6×6, 4 classes)"
    assert sealed.seal() is sealed
    assert images.unseal() is images
    assert len(images.y_test) == 40
    with pytest.raises(AttributeError, match="no attribute 'z_test'"):
        _ = sealed.z_test


def test_a_run_whose_method_looks_at_the_test_images_of_its_scenario_ends_there(images):
    scenario = eg.split(images).holdout(0.1)

    class Peeks(eg.Method):
        def end_task(self, learner, task):
            self.seen = scenario.images[0].x_test

    with pytest.raises(ClosedDataError):
        eg.run(scenario, Peeks(), net=eg.MLP(12))
    eg.run(replace(scenario, held_out=0.0), eg.Adam(), net=eg.MLP(12))


def test_test_images_that_were_read_before_stay_out_of_reach(images):
    scenario = eg.split(images)
    scenario.tasks(0)
    (sealed,) = scenario.holdout(0.1).images
    with pytest.raises(ClosedDataError):
        flatten_once(sealed, "x_test", pad=0)
