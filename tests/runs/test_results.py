"""The committed records are what this code would call them."""

from collections import Counter
from dataclasses import field, make_dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from engram.core.registry import METHODS
from engram.data.catalog import available
from engram.learning.combine import combine
from engram.runs.records import Record, read_records
from engram.runs.setting import group_by_setting, setting_of_record
from engram.runs.spec import Spec, from_json, spec_of_setting
from engram.search.ledger import tuned

RESULTS = Path(__file__).parents[2] / "results"
SEARCHES = sorted((RESULTS / "search").glob("*/records.jsonl"))


@cache
def with_data() -> list[tuple[Record, Spec]]:
    """The records whose datasets are on this machine, with their specs."""
    here = {name for name, place in available().items() if place}
    found = read_records(RESULTS)
    return [(record, from_json(record.spec)) for record in found if record.spec["scenario"]["images"].keys() <= here]


@pytest.mark.mnist
def test_every_record_keeps_its_key(mnist):
    assert len(with_data()) >= 126
    for record, spec in with_data():
        assert spec.key == record.key
        assert record.environment["dirty"] is False


@pytest.mark.mnist
def test_a_setting_and_a_seed_are_all_that_a_key_is_made_of(mnist):
    """From record to setting to spec and back: nothing but what is only measured is lost on the way."""
    for record, spec in with_data():
        assert setting_of_record(record) == spec.setting
        again = spec_of_setting(spec.setting, record.seed)
        assert replace(again, evaluation=spec.evaluation).key == record.key
        assert again.setting == spec.setting


def test_no_run_of_a_table_is_recorded_twice():
    for paper in (path for path in RESULTS.iterdir() if path.is_dir() and path.name != "search"):
        count = Counter(record.key for record in read_records(paper))
        assert [key for key, times in count.items() if times > 1] == []


def test_records_are_of_settings_with_seeds_and_nothing_is_left_out():
    groups = group_by_setting(read_records(RESULTS / "hsu2018"))
    assert sum(runs.other_data for runs in groups.values()) == 0
    assert sum(len(runs.by_seed) for runs in groups.values()) == len(read_records(RESULTS / "hsu2018"))


@pytest.mark.mnist
def test_a_field_with_a_neutral_default_added_to_every_method_moves_no_key(mnist, monkeypatch):
    known = [record for record, _ in with_data()]
    for name, cls in METHODS.items():
        added = [("neutral", float, field(default=0.0))]
        wider = make_dataclass(cls.__name__, added, bases=(cls,), namespace={"__module__": cls.__module__})
        monkeypatch.setitem(METHODS, name, wider)
    for record in known:
        spec = from_json(record.spec)
        assert all(member.neutral == 0.0 for member in spec.method.members())
        assert spec.key == record.key
    members = [replace(member, neutral=1.0) for member in spec.method.members()]
    assert replace(spec, method=combine(members)).key != record.key


@pytest.mark.mnist
@pytest.mark.parametrize("file", SEARCHES, ids=lambda file: file.parent.name)
def test_the_ledger_of_a_committed_search_is_right_to_the_trial_and_step(mnist, file):
    """Counted again from the tasks that the specs draw, for methods with one batch per step from the task alone."""
    found = read_records(file)
    trials = [record for record in found if record.search["stage"] == "trial"]
    finals = [record for record in found if record.search["stage"] == "final"]
    assert len(trials) + len(finals) == len(found)
    assert not {record.seed for record in trials} & {record.seed for record in finals}
    ledger = tuned(found)
    assert len({line.trials.runs for line in ledger}) == 1  # equal budgets
    for line in ledger:
        assert line.selected_on == "holdout"
        assert line.trials.looks == 0
        assert line.finals.looks == line.finals.runs == line.n
        for stage, spent in ((trials, line.trials), (finals, line.finals)):
            mine = [record for record in stage if record.method == line.method]
            assert spent.runs == len(mine)
            if line.method != "rehearsal":
                assert spent.steps == len(mine) * steps(from_json(mine[0].spec))


def steps(spec: Spec) -> int:
    sizes = [len(task.train) for task in spec.scenario.tasks(spec.seed)]
    return sum(spec.training.epochs * -(-size // spec.training.batch) for size in sizes)
