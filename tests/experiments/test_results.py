"""The committed records are what this code would call them."""

from pathlib import Path

import pytest

from engram.data import available
from engram.experiments import records
from engram.experiments.spec import from_json
from engram.paper.presets import label

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.mnist
def test_every_record_keeps_its_key_and_its_preset(mnist):
    found = [record for file in sorted(RESULTS.glob("*.jsonl")) for record in records.read(file)]
    here = {name for name, place in available().items() if place}
    whole = [record for record in found if record.spec["scenario"]["images"].keys() <= here]
    assert len(whole) >= 126
    for record in whole:
        spec = from_json(record.spec)
        assert spec.key == record.key
        assert label(spec) == record.preset
        assert record.environment["dirty"] is False


def test_no_run_is_recorded_twice():
    keys = [record.key for file in sorted(RESULTS.glob("*.jsonl")) for record in records.read(file)]
    assert len(set(keys)) == len(keys)
