"""The committed records are what this code would call them."""

from dataclasses import field, make_dataclass, replace
from pathlib import Path

import pytest
from engram.studies.hsu2018.presets import label

from engram.data import available
from engram.learning.combine import combine
from engram.methods import methods
from engram.runs import records
from engram.runs.spec import from_json
from engram.search.ledger import tuned

RESULTS = Path(__file__).parents[2] / "results"
SEARCHES = sorted((RESULTS / "search").glob("*/records.jsonl"))


def at_hand() -> list[records.Record]:
    """The records whose image sets are on this machine."""
    files = [*sorted(RESULTS.glob("*.jsonl")), *SEARCHES]
    found = [record for file in files for record in records.read(file)]
    here = {name for name, place in available().items() if place}
    return [record for record in found if record.spec["scenario"]["images"].keys() <= here]


@pytest.mark.mnist
def test_every_record_keeps_its_key_and_its_preset(mnist):
    whole = at_hand()
    assert len(whole) >= 126
    for record in whole:
        spec = from_json(record.spec)
        assert spec.key == record.key
        assert label(spec) == record.preset
        assert record.environment["dirty"] is False


def test_no_run_is_recorded_twice():
    keys = [record.key for file in sorted(RESULTS.glob("*.jsonl")) for record in records.read(file)]
    assert len(set(keys)) == len(keys)


@pytest.mark.mnist
def test_a_field_with_a_neutral_default_added_to_every_method_moves_no_key(mnist, monkeypatch):
    for name, cls in methods().items():
        added = [("neutral", float, field(default=0.0))]
        wider = make_dataclass(cls.__name__, added, bases=(cls,), namespace={"__module__": cls.__module__})
        monkeypatch.setitem(methods(), name, wider)
    for record in at_hand():
        spec = from_json(record.spec)
        assert all(member.neutral == 0.0 for member in spec.method.members())
        assert spec.key == record.key
    members = [replace(member, neutral=1.0) for member in spec.method.members()]
    assert replace(spec, method=combine(members)).key != record.key


@pytest.mark.mnist
@pytest.mark.parametrize("file", SEARCHES, ids=lambda file: file.parent.name)
def test_the_ledger_of_a_committed_search_is_right_to_the_trial_and_step(mnist, file):
    """Counted again from the tasks that the specs deal, for methods that take one batch a step from the task alone."""
    found = records.read(file)
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


def steps(spec):
    sizes = [len(task.train) for task in spec.scenario.deal(spec.seed)]
    return sum(spec.training.epochs * -(-size // spec.training.batch) for size in sizes)
