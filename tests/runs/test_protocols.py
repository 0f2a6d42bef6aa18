"""The two protocols of the copied rows: their authors' (REFERENCE §1.4, §4.1, typed here), and that of all others."""

from dataclasses import replace

import pytest
import torch
from helpers import blobs

import engram as eg
from engram.core.streams import stream
from engram.runs.defaults import default_setting
from engram.runs.memory import kept_on_mnist
from engram.runs.spec import default_spec, from_json, spec_of_setting
from engram.studies.catalog import built_in_study, results_of, tables_with
from engram.studies.table import make_cells

COPIED = ("lwf", "dgr", "rtf")
KINDS = ("task", "domain", "class")


@pytest.fixture(autouse=True)
def _small_mnist(monkeypatch):
    """A made-up set in MNIST's place: defaults are about values, not pixels."""
    small = blobs(10, train=3, test=2, name="mnist")
    monkeypatch.setattr("engram.scenarios.create.images", lambda name: small)
    monkeypatch.setattr("engram.runs.spec.images", lambda name: small)


@pytest.mark.parametrize("method", COPIED)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("maker", "hidden", "steps", "lr", "pad"), [("split", 400, 2000, 1e-3, 0), ("permuted", 1000, 5000, 1e-4, 2)]
)
def test_their_own(method, kind, maker, hidden, steps, lr, pad):
    """28 × 28 (split) or 32 × 32 pixels in [0, 1]; 2000 or 5000 full batches of 128 by Adam, never reset."""
    spec = default_spec(f"{maker}-mnist/{kind}", method)
    s, t = spec.scenario, spec.training
    assert (s.kind, s.pad, s.normalize, s.held_out) == (kind, pad, None, 0)
    assert (t.steps, t.batch, t.drop_last, t.optimizer, t.lr) == (steps, 128, True, "adam", lr)
    assert (t.momentum, t.weight_decay, t.reset_optimizer) == (0, 0, False)
    assert (spec.net.hidden, spec.net.heads) == ((hidden, hidden), "random")
    if maker == "split":
        assert (s.order, s.classes_per_task) == ("shuffled", 2)
    else:
        assert (s.identity_first, s.permutations) == (False, 10)


@pytest.mark.parametrize("method", COPIED)
@pytest.mark.parametrize("scenario", [f"{maker}-mnist/{kind}" for maker in ("split", "permuted") for kind in KINDS])
def test_that_of_all_others_is_adam_s(method, scenario):
    ours, adam = default_spec(scenario, method, protocol="common").to_json(), default_spec(scenario, "adam").to_json()
    assert {k: v for k, v in ours.items() if k != "method"} == {k: v for k, v in adam.items() if k != "method"}


@pytest.mark.parametrize("protocol", ["own", "common"])
def test_the_methods_are_those_of_september_2018_in_both(protocol):
    """Distillation averaged over classes, T = 2, weights 1/t: the protocol is never a field of a method."""
    for scenario in ("split-mnist/class", "permuted-mnist/task"):
        found = [default_spec(scenario, method, protocol=protocol).method for method in COPIED]
        assert found == [eg.LwF(), eg.DGR(), eg.RtF()]
    lwf, _, rtf = found
    assert (lwf.temperature, lwf.reduction, lwf.weighting) == (2.0, "mean", "share")
    assert (rtf.temperature, rtf.reduction, rtf.generative) == (2.0, "mean", 1.0)


@pytest.mark.parametrize("method", ["adam", "si", "gem", "rehearsal", "offline", "rehearsal+si"])
@pytest.mark.parametrize("scenario", ["split-mnist/class", "permuted-mnist/domain"])
def test_other_methods_have_one(method, scenario):
    own, common = (default_spec(scenario, method, protocol=protocol) for protocol in ("own", "common"))
    assert own.key == common.key
    assert own.to_json() == common.to_json()


def test_a_copied_row_in_company_brings_its_protocol_along():
    assert default_spec("split-mnist/class", "lwf+si").training.steps == 2000
    assert default_spec("split-mnist/class", "rehearsal+lwf", protocol="common").training == eg.Training()


# settings -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", COPIED)
@pytest.mark.parametrize("scenario", ["split-mnist/class", "split-mnist/task", "permuted-mnist/domain"])
def test_a_setting_leads_to_the_spec_and_back(method, scenario):
    found = []
    for protocol in ("own", "common"):
        spec = default_spec(scenario, method, seed=3, protocol=protocol)
        setting = default_setting(scenario, method, protocol)
        assert spec.setting == setting
        assert spec_of_setting(setting, 3).key == spec.key
        assert from_json(spec.to_json()).setting == setting
        found.append(setting)
    assert found[0] != found[1]


def test_only_copied_rows_have_a_protocol_of_their_own():
    for table in ("table2", "table3"):
        study = built_in_study(table)
        for row in study.rows:
            same = study.setting(row, "class") == study.setting(row, "class", "common")
            assert same == (row not in COPIED)


@pytest.mark.parametrize("change", [{"reduction": "sum"}, {"weighting": "count"}, {"temperature": 1.0}])
def test_today_s_forms_fill_no_cell(change):
    for protocol in ("own", "common"):
        spec = default_spec("split-mnist/class", "lwf", protocol=protocol)
        assert not tables_with(replace(spec, method=eg.LwF(**change)).setting)


def test_a_mixture_of_both_fills_no_cell():
    own, common = (default_spec("split-mnist/class", "rtf", protocol=protocol) for protocol in ("own", "common"))
    assert tables_with(own.setting) == ["hsu2018/table2 rtf class"]
    assert not tables_with(replace(own, training=common.training).setting)
    assert not tables_with(replace(own, scenario=common.scenario).setting)


def test_a_table_in_the_common_protocol_says_so_if_the_published_row_has_another():
    results = results_of(built_in_study("table2"))
    found = {(c.row, c.column): c.note for c in make_cells(results, protocol="common")}
    for row in ("adam", "gem", "rtf", "lwf", "dgr"):
        assert ("common protocol" in found[row, "class"]) == (row in COPIED)
    assert not any("common protocol" in c.note for c in make_cells(results))


# what the values do ---------------------------------------------------------------------------------------------------


def test_the_class_order_is_the_seed_s_own_and_pairs_follow_it():
    orders = []
    for seed in (0, 1):
        tasks = default_spec("split-mnist/domain", "lwf", seed=seed).scenario.tasks(seed)
        wanted = torch.randperm(10, generator=stream(seed, "order")).tolist()
        orders.append([int(name) for task in tasks for name in task.classes])
        assert orders[-1] == wanted
        assert set(torch.cat([task.train.batch(torch.arange(6)).y for task in tasks]).tolist()) == {0, 1}
    assert orders[0] != orders[1]
    assert orders[0] != list(range(10)), "seed 0 is shuffled too"


def test_all_permutations_are_drawn_the_first_too():
    tasks = default_spec("permuted-mnist/class", "dgr").scenario.tasks(0)
    orders = [next(task.train.leaves()).permutation for task in tasks]
    identity = torch.arange(len(orders[0]))
    assert not any(torch.equal(order, identity) for order in orders)
    assert len({tuple(order.tolist()) for order in orders}) == 10


def test_pixels_are_intensities_in_their_own_and_normalised_in_the_common_protocol():
    for protocol, least in (("own", 0.0), ("common", -0.1 / 0.2752)):
        (first, *_) = default_spec("split-mnist/class", "rtf", protocol=protocol).scenario.tasks(0)
        leaf = next(first.train.leaves())
        assert leaf.scaling.plain == (protocol == "own")
        x = first.train.batch(torch.arange(6)).x
        assert x.shape[1] == (36 if protocol == "own" else 100)  # 6 × 6, with two pixels around it 10 × 10
        assert float(x.min()) >= least - 1e-5
        assert float(x.max()) <= (1.0 if protocol == "own" else 0.9 / 0.2752) + 1e-5
        if protocol == "common":
            assert float(x.min()) == pytest.approx(least, abs=1e-5), "the border"


@pytest.mark.parametrize(
    ("method", "split", "permuted"),
    [("lwf", 0, 0), ("dgr", 4 * 1_069_784, 4 * 4_353_224), ("rtf", 4 * 595_384, 4 * 2_327_224)],
)
def test_what_they_keep(method, split, permuted):
    """A VAE beside the network; for RtF its latent maps and decoder: 80,200 + 515,184, and 200,200 + 2,127,024."""
    assert kept_on_mnist("split-mnist/class", method) == split
    assert kept_on_mnist("permuted-mnist/class", method) == permuted
