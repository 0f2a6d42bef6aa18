"""`engram check` finds planted faults, and passes everything that comes with the package."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn

import engram as eg
from engram.checks.contract import check_by_name, check_scenario, small_scenario
from engram.checks.facts import all_hold
from engram.cli import main
from engram.core.registry import METHODS, NETS, SCENARIOS, load_file

FAULTS = Path(__file__).with_name("faults")
PLANTED = {
    "file_not_in_key": ("reads nothing", "coefficient.txt"),
    "unseeded": ("same seed, same bits", "generator that nobody seeds"),
    "forgotten_state": ("trains", "attribute seen that it does not declare"),
    "restarted_stream": ("trains", "'noise' in task 1 (6 times)"),
    "undeclared_identity": ("trains", "undeclared_identity.py, line 13"),
    "undeclared_memory": ("trains", "keeps 76,800 bytes after task 1 (images 76,800) and declares 16,000"),
    "stash_on_network": ("trains", "(network.stash 154,368) and declares 0"),
    "pixels_as_numbers": ("trains", "keeps 32,000 bytes after task 1 (pixels 32,000) and declares 0"),
    "misspelt_hook": ("misspelt hooks", "did you mean end_task?"),
    "unknown_hook": ("misspelt hooks", "on_step_end is not a hook"),
    "no_annotation": ("misspelt hooks", "write coef: float = 1.0"),
    "loss_without_gradient": ("trains", "returned a tensor without a gradient"),
    "no_loss": ("trains", "returned nothing"),
    "nan_loss": ("trains", "became NaN or infinite"),
    "annotated_kept": ("misspelt hooks", "write it without: kept = ('images',)"),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_it_finds_a_planted_fault(fault, monkeypatch):
    monkeypatch.setattr(METHODS, "added", {})
    (loaded,) = load_file(FAULTS / f"{fault}.py")
    broken = [fact for fact in check_by_name(loaded.name, short=True) if fact.holds is False]
    name, detail = PLANTED[fault]
    assert name in broken[0].name
    assert detail in broken[0].detail


@pytest.mark.parametrize("name", sorted(METHODS.built_in))
def test_every_method_of_the_package_keeps_the_contract(name):
    facts = list(check_by_name(name, short=True))
    assert [fact for fact in facts if fact.holds is False] == []
    assert {"same seed, same bits", "resumed after each task equals uninterrupted"} <= {
        f.name for f in facts if f.holds
    }


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_every_scenario_of_the_package_keeps_the_contract(name):
    assert all_hold(check_scenario(small_scenario(SCENARIOS[name]), short=True))


@pytest.mark.parametrize("name", sorted(NETS.built_in))
def test_every_network_of_the_package_keeps_the_contract(name):
    assert all_hold(check_by_name(name, short=True))


@dataclass(frozen=True)
class Dropping(eg.Net):
    """A network with dropout and batch norm."""

    def build(self, shape, outputs):
        size = shape[0] * shape[1] * shape[2]
        layers = [nn.Linear(size, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.5), nn.Linear(12, outputs)]
        return nn.Sequential(*layers)

    def layers(self, shape, outputs):
        return []


def test_dropout_and_batch_norm_keep_the_contract():
    facts = {fact.name: fact for fact in eg.check(Dropping(), short=True)}
    assert all_hold(list(facts.values()))
    for name in ("same seed, same bits", "resumed after each task equals uninterrupted", "evaluation changes nothing"):
        assert facts[name].holds


def test_a_penalty_that_is_not_zero_at_coefficient_0_is_found():
    @dataclass
    class Leaking(eg.L2):
        def adjust_gradients(self, learner, batch):
            for p in learner.params:
                p.grad += 1e-3

    facts = {fact.name: fact for fact in eg.check(Leaking(), short=True)}
    assert facts["with coefficient 0 it is plain training, bit for bit"].holds is False


def test_state_outside_the_method_is_found():
    seen = []

    @dataclass
    class Outside(eg.Method):
        def loss(self, learner, batch):
            seen.append(1)
            return learner.loss(batch) * (1 + 1e-3 * len(seen))

    facts = {fact.name: fact for fact in eg.check(Outside(), short=True)}
    assert facts["same seed, same bits"].holds is False


def test_the_command_says_what_does_not_hold_and_ends_with_1(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["check", "unseeded", "--file", str(FAULTS / "unseeded.py"), "--short", "--json"])
    assert ended.value.code == 1
    facts = json.loads(capsys.readouterr().out)
    assert any(fact["fact"] == "same seed, same bits" and fact["holds"] is False for fact in facts)
    del METHODS["unseeded"]


def test_an_unknown_name_is_refused_with_the_nearest(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["check", "ewcc"])
    assert ended.value.code == 2
    assert "did you mean ewc" in capsys.readouterr().err


@pytest.mark.slow
def test_two_workers_give_the_same_record_as_this_process():
    facts = {fact.name: fact for fact in check_by_name("online-ewc")}
    assert facts["1 worker: the same record"].holds
    assert facts["2 workers: the same record"].holds
    assert torch.get_num_threads() == 1
