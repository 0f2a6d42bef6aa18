"""Recipes are found in their folder: a class with a name is all that a new scenario needs."""

import sys

import pytest
from helpers import blobs, everything

import engram as eg
import engram.scenarios
from engram.scenarios.names import MAKERS, find_makers, parse_name, scenario
from engram.scenarios.permute import Permute
from engram.scenarios.queue import Queue
from engram.scenarios.split import Split
from engram.scenarios.task import ScenarioError

HALVES = """
from dataclasses import dataclass
from engram.scenarios.split import Split

@dataclass(frozen=True, eq=False, kw_only=True)
class Halves(Split):
    name = "halves"
    make = "0.1's halves"
"""


def test_the_recipes_of_the_package_and_their_names_in_keys():
    assert find_makers() == {"permuted": Permute, "queue": Queue, "split": Split}
    assert {name: cls.make for name, cls in MAKERS.items()} == {
        "permuted": "permute",  # version 0.1's spelling, which is in every key
        "queue": "queue",
        "split": "split",
    }


@pytest.fixture
def halves(tmp_path, monkeypatch):
    (tmp_path / "halves.py").write_text(HALVES)
    monkeypatch.setattr(engram.scenarios, "__path__", [*engram.scenarios.__path__, str(tmp_path)])
    for name, maker in find_makers().items():
        monkeypatch.setitem(MAKERS, name, maker)
    yield MAKERS["halves"]
    del sys.modules["engram.scenarios.halves"]


def test_a_new_file_in_the_folder_is_a_new_recipe(halves, monkeypatch):
    monkeypatch.setattr("engram.scenarios.names.images", lambda name: blobs(4, name=name))
    found = scenario("halves-own/domain")
    assert (type(found), found.kind, found.classes_per_task) == (halves, "domain", 2)
    assert (halves.name, halves.make) == ("halves", "0.1's halves")
    assert str(parse_name("halves-own/domain")) == "halves-own/domain"
    with pytest.raises(
        ScenarioError, match=r"permuted-SET/KIND or queue-SET\+SET/KIND or split-SET/KIND or halves-SET/KIND"
    ):
        parse_name("thirds-own/domain")


@pytest.mark.parametrize("recipe", [eg.split, eg.permute])
def test_deal_is_the_old_name_of_tasks_and_the_seed_is_0_by_default(recipe):
    drawn = recipe(blobs(4))
    expected = [everything(task.train).x.tolist() for task in drawn.tasks()]
    for tasks in (drawn.deal(0), drawn.tasks(0)):
        assert [everything(task.train).x.tolist() for task in tasks] == expected
