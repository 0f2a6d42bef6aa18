"""The two protocols of the copied rows: their authors' (REFERENCE §1.4, §4.1, typed here), and that of all others."""

from dataclasses import replace

import pytest
import torch
from engram.studies.hsu2018.cells import cells, preset_name, preset_names
from engram.studies.hsu2018.presets import kept_bytes, label, preset, spec_of
from helpers import blobs

import engram as eg
from engram.core.streams import stream
from engram.runs.spec import from_json

COPIED = ("lwf", "dgr", "rtf")
KINDS = ("task", "domain", "class")


@pytest.fixture(autouse=True)
def _small_mnist(monkeypatch):
    """A made-up set in MNIST's place: presets are about values, not pixels."""
    small = blobs(10, train=3, test=2, name="mnist")
    monkeypatch.setattr("engram.scenarios.names.images", lambda name: small)
    monkeypatch.setattr("engram.runs.spec.images", lambda name: small)


@pytest.mark.parametrize("method", COPIED)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("maker", "hidden", "steps", "lr", "pad"), [("split", 400, 2000, 1e-3, 0), ("permuted", 1000, 5000, 1e-4, 2)]
)
def test_their_own(method, kind, maker, hidden, steps, lr, pad):
    """28 × 28 (split) or 32 × 32 pixels in [0, 1]; 2000 or 5000 full batches of 128 by Adam, never reset."""
    spec = preset(f"{maker}-mnist/{kind}", method)
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
    ours, adam = preset(scenario, method, protocol="common").to_json(), preset(scenario, "adam").to_json()
    assert {k: v for k, v in ours.items() if k != "method"} == {k: v for k, v in adam.items() if k != "method"}


@pytest.mark.parametrize("protocol", ["own", "common"])
def test_the_methods_are_those_of_september_2018_in_both(protocol):
    """Distillation averaged over classes, T = 2, weights 1/t: the protocol is never a field of a method."""
    for scenario in ("split-mnist/class", "permuted-mnist/task"):
        found = [preset(scenario, method, protocol=protocol).method for method in COPIED]
        assert found == [eg.LwF(), eg.DGR(), eg.RtF()]
    lwf, _, rtf = found
    assert (lwf.temperature, lwf.reduction, lwf.weighting) == (2.0, "mean", "share")
    assert (rtf.temperature, rtf.reduction, rtf.generative) == (2.0, "mean", 1.0)


@pytest.mark.parametrize("method", ["adam", "si", "gem", "rehearsal", "offline", "rehearsal+si"])
@pytest.mark.parametrize("scenario", ["split-mnist/class", "permuted-mnist/domain"])
def test_other_methods_have_one(method, scenario):
    own, common = (preset(scenario, method, protocol=protocol) for protocol in ("own", "common"))
    assert own.key == common.key
    assert own.to_json() == common.to_json()


def test_a_copied_row_in_company_brings_its_protocol_along():
    assert preset("split-mnist/class", "lwf+si").training.steps == 2000
    assert preset("split-mnist/class", "rehearsal+lwf", protocol="common").training == eg.Training()


# names ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", COPIED)
@pytest.mark.parametrize("scenario", ["split-mnist/class", "split-mnist/task", "permuted-mnist/domain"])
def test_a_label_leads_to_the_spec_and_back(method, scenario):
    for protocol, text in (("own", f"{scenario} {method}"), ("common", f"{scenario} {method} common")):
        spec = preset(scenario, method, seed=3, protocol=protocol)
        assert label(spec) == text
        assert text in preset_names()
        assert spec_of(text, seed=3).key == spec.key
        assert label(from_json(spec.to_json())) == text


def test_labels_of_other_methods_do_not_name_a_protocol():
    assert preset_name("table2", "si", "class", "common") == "split-mnist/class si"
    assert preset_name("table3", "rtf", "task", "common") == "permuted-mnist/task rtf common"
    assert preset_name("table3", "rtf", "task") == "permuted-mnist/task rtf"


@pytest.mark.parametrize(
    "change",
    [{"reduction": "sum"}, {"weighting": "count"}, {"temperature": 1.0}],
)
def test_today_s_forms_are_no_published_setting(change):
    for protocol in ("own", "common"):
        spec = preset("split-mnist/class", "lwf", protocol=protocol)
        assert label(replace(spec, method=eg.LwF(**change))) is None


def test_a_mixture_of_both_is_no_published_setting():
    own, common = (preset("split-mnist/class", "rtf", protocol=protocol) for protocol in ("own", "common"))
    assert label(replace(own, training=common.training)) is None
    assert label(replace(own, scenario=common.scenario)) is None


def test_a_table_in_the_common_protocol_says_so_where_it_differs_from_print():
    found = {(c.row, c.column): c.note for c in cells("table2", [], protocol="common")}
    for row in ("adam", "gem", "rtf", "lwf", "dgr"):
        assert ("common protocol" in found[row, "class"]) == (row in COPIED)
    assert not any("common protocol" in c.note for c in cells("table2", []))


# what the values do ---------------------------------------------------------------------------------------------------


def test_the_class_order_is_the_seed_s_own_and_pairs_follow_it():
    orders = []
    for seed in (0, 1):
        tasks = preset("split-mnist/domain", "lwf", seed=seed).scenario.deal(seed)
        wanted = torch.randperm(10, generator=stream(seed, "order")).tolist()
        orders.append([int(name) for task in tasks for name in task.classes])
        assert orders[-1] == wanted
        assert set(torch.cat([task.train.batch(torch.arange(6)).y for task in tasks]).tolist()) == {0, 1}
    assert orders[0] != orders[1]
    assert orders[0] != list(range(10)), "seed 0 is shuffled too"


def test_all_permutations_are_drawn_the_first_too():
    tasks = preset("permuted-mnist/class", "dgr").scenario.deal(0)
    orders = [next(task.train.leaves()).permutation for task in tasks]
    identity = torch.arange(len(orders[0]))
    assert not any(torch.equal(order, identity) for order in orders)
    assert len({tuple(order.tolist()) for order in orders}) == 10


def test_pixels_are_shades_in_their_own_and_normalised_in_the_common_protocol():
    for protocol, least in (("own", 0.0), ("common", -0.1 / 0.2752)):
        (first, *_) = preset("split-mnist/class", "rtf", protocol=protocol).scenario.deal(0)
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
    assert kept_bytes("split-mnist/class", method) == split
    assert kept_bytes("permuted-mnist/class", method) == permuted
