"""Recipes by name: what a scenario class states is all that names, keys and errors need."""

import pytest
from helpers import blobs, everything

import engram as eg
from engram.core.registry import SCENARIOS
from engram.scenarios.kinds import ScenarioError
from engram.scenarios.names import parse_name


def test_the_recipes_of_the_package_and_their_names_in_keys():
    makes = {name: SCENARIOS[name].make for name in SCENARIOS}
    assert {name: make for name, make in makes.items() if not name.startswith("blurry-")} == {
        "mnist-360": "mnist-360",
        "permuted": "permute",  # version 0.1's spelling, which is in every key
        "queue": "queue",
        "repeating-split": "repeating-split",
        "rotated": "rotated",
        "sequence": "sequence",
        "split": "split",
        "transformed": "transformed",
    }
    blurry = {f"blurry-{name}" for name in makes if not name.startswith("blurry-") and name != "mnist-360"}
    assert {name: make for name, make in makes.items() if name.startswith("blurry-")} == {name: name for name in blurry}


def test_an_unknown_recipe_is_refused_with_the_form_of_every_name():
    with pytest.raises(ScenarioError, match=r"permuted-SET/KIND or queue-SET\+SET/KIND or repeating-split-SET"):
        parse_name("thirds-mnist/domain")


@pytest.mark.parametrize("recipe", [eg.split, eg.permute])
def test_deal_is_the_old_name_of_tasks_and_the_seed_is_0_by_default(recipe):
    drawn = recipe(blobs(4))
    expected = [everything(task.train).x.tolist() for task in drawn.tasks()]
    for tasks in (drawn.deal(0), drawn.tasks(0)):
        assert [everything(task.train).x.tolist() for task in tasks] == expected
