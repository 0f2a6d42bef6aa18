"""Twins: what they change of their row, and what their records are called."""

from collections import Counter
from dataclasses import fields

import pytest
from engram.studies.hsu2018.cells import TABLES, preset_name, preset_names, published
from engram.studies.hsu2018.presets import COEFS, label, spec_of
from engram.studies.hsu2018.twins import TWINS, known_twin, twins_of, variants
from helpers import blobs


@pytest.fixture(autouse=True)
def _small_mnist(monkeypatch):
    """A made-up set in MNIST's place: twins are about values, not pixels."""
    small = blobs(10, train=3, test=2, name="mnist")
    monkeypatch.setattr("engram.scenarios.names.images", lambda name: small)


def differences(a, b) -> dict[str, tuple[object, object]]:
    """Where two specs of one seed differ, as group.field."""
    found = {}
    for group in ("scenario", "method", "net", "training", "evaluation"):
        one, other = getattr(a, group), getattr(b, group)
        for f in fields(one):
            if getattr(one, f.name) != getattr(other, f.name):
                found[f"{group}.{f.name}"] = (getattr(one, f.name), getattr(other, f.name))
    return found


def test_twins_are_of_rows_and_columns_that_print_has():
    for twin in TWINS:
        assert twin.row in published()[twin.table]
        assert set(twin.columns) <= set(TABLES[twin.table][1])
        assert set(twin.grid) in (set(), set(twin.columns))
    assert Counter((t.table, t.full_name) for t in TWINS).most_common(1)[0][1] == 1
    assert {t.full_name for t in twins_of("table2")} == {
        "gem/textbook", "gem/one-slot", "gem/4400", "rehearsal/half-and-half", "rehearsal-c/half-and-half",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("split-mnist/class gem one-slot", {"method.slots_per_task": (2, 1)}),
        ("split-mnist/task gem 4400", {"method.capacity": (1100, 4400)}),
        ("permuted-mnist/task gem 16000", {"method.capacity": (4000, 16000)}),
        ("split-mnist/domain rehearsal half-and-half", {"method.mixing": ("shuffled", "balanced")}),
        ("split-mnist/class rehearsal-c half-and-half", {"method.mixing": ("shuffled", "balanced")}),
        ("permuted-mnist/domain ewc per-sample", {"method.estimator": ("batch", "sample")}),
        ("permuted-mnist/domain online-ewc per-sample", {"method.estimator": ("batch", "sample")}),
        ("permuted-mnist/task sgd text", {"training.lr": (0.01, 0.001)}),
        ("permuted-mnist/class l2 searched=0.01", {"method.coef": (0.0, 0.01)}),
        ("permuted-mnist/class-known ewc searched=1000", {"method.coef": (10.0, 1000)}),
        # one slot is the method's own, and it trains on new data alone
        ("split-mnist/class gem textbook", {"method.slots_per_task": (2, 1)}),
    ],
)
def test_a_twin_is_its_row_but_for_what_it_names(text, changed):
    scenario, row, _ = text.split()
    twin = spec_of(text, seed=3)
    assert differences(spec_of(f"{scenario} {row}", seed=3), twin) == changed
    assert twin.method_name == ("gem-textbook" if text.endswith("textbook") else row)
    assert twin.seed == 3


def test_every_record_of_a_twin_is_told_from_its_row_and_from_other_twins():
    keys = {}
    for text in variants():
        spec = spec_of(text, seed=5)
        assert label(spec) == text
        row = " ".join(text.split()[:2])
        assert row in preset_names()
        assert label(spec_of(row, seed=5)) == row
        keys[text] = spec.key
    assert len(set(keys.values())) == len(keys) == 5 * 3 * 2 + 2 + 3 + 1 + 2 * 5 * 3


def test_grids_are_the_row_s_weight_times_a_tenth_ten_and_a_hundred():
    for twin in TWINS:
        for column, values in twin.grid.items():
            own = COEFS[twin.row]["permuted" if column != "split/known" else "split"][2]
            expected = [own * factor for factor in (0.1, 10, 100)] if own else [0.001, 0.01, 0.1]
            assert values == pytest.approx(expected)


def test_twins_are_found_by_row_or_name_and_refused_with_the_choices():
    assert [t.name for t in twins_of("table3", ["ewc", "gem/one-slot"])] == ["one-slot", "per-sample"]
    assert known_twin("table2", "gem/one-slot") == "gem/one-slot"
    with pytest.raises(ValueError, match="did you mean gem/one-slot"):
        known_twin("table2", "gem/oneslot")
    assert preset_name("table2", "gem", "class") + " one-slot" in variants()
