"""What every method owes a run: the same bits again, resumed or not, and plain Adam where it does nothing."""

import copy

import pytest
import torch
from helpers import Run, blobs, everything, learner_for

import engram as eg
from engram.learning.combine import combine
from engram.learning.train import train
from engram.scenarios.task import ClosedDataError

ADAM = eg.Training(epochs=2, batch=10, lr=0.02)
SGD = eg.Training(epochs=1, batch=10, lr=0.1, optimizer="sgd")
NET = eg.MLP(7, 6)
KINDS = ("task", "domain", "class", "class-known")

METHODS = {
    "l2": lambda: eg.L2(coef=0.1),
    "ewc": lambda: eg.EWC(coef=100.0),
    "ewc sampled": lambda: eg.EWC(coef=100.0, label="sampled", estimator="batch"),
    "online-ewc": lambda: eg.OnlineEWC(coef=100.0, decay=0.7, label="sampled"),
    "si": lambda: eg.SI(coef=10.0),
    "mas": lambda: eg.MAS(coef=1.0),
    "mas per sample": lambda: eg.MAS(coef=1.0, form="per-sample"),
    "rehearsal": lambda: eg.Rehearsal(capacity=60),
    "rehearsal balanced": lambda: eg.Rehearsal(capacity=60, mixing="balanced"),
    "rehearsal-c": lambda: eg.RehearsalC(capacity=60),
    "gem": lambda: eg.GEM(capacity=60),
    "gem memory batch": lambda: eg.GEM(capacity=60, memory_batch=12),
    "gem-textbook": lambda: eg.GEMTextbook(capacity=60),
    "rehearsal+online-ewc": lambda: combine([eg.Rehearsal(capacity=60), eg.OnlineEWC(coef=50.0)]),
    "si+gem": lambda: combine([eg.SI(coef=1.0), eg.GEM(capacity=60)]),
    "lwf": lambda: eg.LwF(),
    "lwf sum": lambda: eg.LwF(reduction="sum", weighting="count"),
    "dgr": lambda: eg.DGR(),
    "dgr 2022": lambda: eg.DGR(generator_turn="interleaved", heads_share=True, log_variance_bias=False),
    "rtf": lambda: eg.RtF(),
    "bi-r": lambda: eg.BIR(latent=5, gate_share=0.3),
    "bi-r by task": lambda: eg.BIR(latent=5, gate_share=0.3, gated_by="task", internal=1, targets="hard"),
    "generative-classifier": lambda: eg.GenerativeClassifier(units=6, latent=2, draws=3),
    "lwf+si": lambda: combine([eg.LwF(), eg.SI(coef=1.0)]),
    "rehearsal+lwf": lambda: combine([eg.Rehearsal(capacity=60), eg.LwF()]),
    "rtf+online-ewc": lambda: combine([eg.RtF(), eg.OnlineEWC(coef=1.0)]),
}


def deal(kind: str = "class", seed: int = 0):
    return eg.split(blobs(6, train=20, size=5), kind=kind).deal(seed)


def run(name: str, kind: str = "class", **options) -> Run:
    training = SGD if "gem" in name else ADAM
    return Run(deal(kind), METHODS[name], training, NET, **options)


def plain(value):
    """Tensors as lists, all the way down."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list | tuple) else value


# coefficient zero -----------------------------------------------------------------------------------------------------

NOTHING = {
    "l2": lambda: eg.L2(coef=0.0),
    "ewc": lambda: eg.EWC(coef=0.0),
    "online-ewc": lambda: eg.OnlineEWC(coef=0.0),
    "si": lambda: eg.SI(coef=0.0),
    "mas": lambda: eg.MAS(coef=0.0),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NOTHING)
def test_a_coefficient_of_zero_is_plain_adam_bit_for_bit(name, kind):
    wanted = Run(deal(kind), eg.Adam, ADAM, NET)
    found = Run(deal(kind), NOTHING[name], ADAM, NET)
    assert found.outcome.accuracy == wanted.outcome.accuracy
    assert found.outcome.losses == wanted.outcome.losses
    for a, b in zip(found.checkpoints, wanted.checkpoints, strict=True):
        assert plain(a["net"]) == plain(b["net"])
        assert plain(a["optimizer"]["state"]) == plain(b["optimizer"]["state"])


@pytest.mark.parametrize("name", NOTHING)
@pytest.mark.parametrize("kind", ["task", "class"])
def test_any_coefficient_is_plain_adam_in_the_first_task_only(name, kind):
    wanted = Run(deal(kind), eg.Adam, ADAM, NET).checkpoints
    strong = {**NOTHING, **{n: METHODS[n] for n in NOTHING}}
    found = Run(deal(kind), strong[name], ADAM, NET).checkpoints
    assert plain(found[0]["net"]) == plain(wanted[0]["net"])
    assert plain(found[1]["net"]) != plain(wanted[1]["net"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "make",
    [eg.LwF, eg.DGR, lambda: eg.RtF(generative=0.0), lambda: eg.BIR(generative=0.0)],
    ids=["lwf", "dgr", "rtf", "bi-r"],
)
def test_where_there_is_no_past_to_replay_it_is_plain_adam_bit_for_bit(make, kind):
    """The first task, by autograd instead of the closed form; the classifiers of RtF and BI-R
    where their autoencoder weighs nothing."""
    wanted = Run(deal(kind), eg.Adam, ADAM, NET)
    found = Run(deal(kind), make, ADAM, NET)
    assert found.outcome.accuracy[0] == wanted.outcome.accuracy[0]
    assert found.outcome.losses[0] == wanted.outcome.losses[0]
    same = []
    for ours, theirs in zip(found.checkpoints, wanted.checkpoints, strict=True):
        net = {name.removeprefix("classifier."): p for name, p in ours["net"].items() if "generator" not in name}
        moments = {i: state for i, state in ours["optimizer"]["state"].items() if i < len(net)}
        assert len(net) == len(theirs["net"]) == 6
        same.append((plain(net), plain(moments)) == (plain(theirs["net"]), plain(theirs["optimizer"]["state"])))
    assert same == [True, False, False]


@pytest.mark.parametrize("name", ["l2", "ewc", "online-ewc", "si", "mas"])
def test_a_huge_coefficient_holds_what_matters(name):
    """After task 1 the parameters with a weight stay within a few steps of Adam's; plain training moves them farther.

    L2 holds all of them; the others those that their importance singles out (the top tenth is looked at).
    """
    huge = {"l2": eg.L2, "ewc": eg.EWC, "online-ewc": eg.OnlineEWC, "si": eg.SI, "mas": eg.MAS}[name]
    training = eg.Training(epochs=10, batch=16, lr=0.01)
    fields = {"label": "exact"} if "ewc" in name else {}
    moved = {}
    for coef in (0.0, 1e7):
        checkpoints = Run(deal("domain"), lambda coef=coef: huge(coef=coef, **fields), training, NET).checkpoints
        first, last = (torch.cat([p.flatten() for p in c["net"].values()]) for c in (checkpoints[0], checkpoints[-1]))
        weights = torch.cat([w.flatten() for w in checkpoints[0]["method"][0]["weights"]])
        heavy = weights.topk(len(weights) // 10).indices
        moved[coef] = float((last - first)[heavy].abs().mean())
    assert moved[1e7] < 0.25 * moved[0.0]
    assert moved[0.0] > 0.03


# same bits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_same_seed_same_bits(name):
    one, two = run(name), run(name)
    assert one.bits() == two.bits()
    assert plain(one.checkpoints[-1]["method"]) == plain(two.checkpoints[-1]["method"])
    other = run(name, seed=1)
    assert other.bits()["net"] != one.bits()["net"]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", ["task", "class"])
def test_resumed_at_any_boundary_it_ends_with_the_same_bits(name, kind):
    """Checkpoints go through torch.save and torch.load(weights_only=True)."""
    whole = run(name, kind)
    assert len(whole.checkpoints) == 3
    for checkpoint in whole.checkpoints[:-1]:
        resumed = run(name, kind, resume=checkpoint)
        assert resumed.bits() == whole.bits()
        assert plain(resumed.checkpoints[-1]["method"]) == plain(whole.checkpoints[-1]["method"])


def test_a_generator_and_its_optimiser_come_back_from_a_checkpoint():
    """Resumed after the first task, both are as the boundary left them, before anything is trained on."""
    first = run("dgr").checkpoints[0]
    method = eg.DGR()
    seen = {}

    class Looks(eg.Adam):
        def begin_task(self, learner, task):
            seen.setdefault("generator", copy.deepcopy(method.generator.state_dict()))
            seen.setdefault("generator_optimizer", copy.deepcopy(method.generator_optimizer.state_dict()))

    Run(deal(), lambda: combine([method, Looks()]), ADAM, NET, resume={**first, "method": [*first["method"], {}]})
    kept = first["method"][0]
    assert plain(seen["generator"]) == plain(kept["generator"])
    assert plain(seen["generator_optimizer"]["state"]) == plain(kept["generator_optimizer"]["state"])
    counts = {float(state["step"]) for state in kept["generator_optimizer"]["state"].values()}
    assert counts == {8.0}, "two passes of four batches"


@pytest.mark.parametrize("name", METHODS)
def test_what_a_checkpoint_holds_of_a_method_does_not_change_afterwards(name):
    """`save` may keep what it gets, in memory."""
    held, copies = [], []

    def save(checkpoint):
        held.append(checkpoint["method"])
        copies.append(copy.deepcopy(checkpoint["method"]))

    train(deal(), METHODS[name](), NET, SGD if "gem" in name else ADAM, save=save)
    assert [plain(h) for h in held] == [plain(c) for c in copies]


@pytest.mark.parametrize("name", METHODS)
def test_a_checkpoint_that_was_resumed_from_can_be_resumed_from_again(name):
    checkpoint = run(name).checkpoints[0]
    before = plain(checkpoint["method"])
    train(deal(), METHODS[name](), NET, SGD if "gem" in name else ADAM, resume=checkpoint)
    assert plain(checkpoint["method"]) == before


@pytest.mark.parametrize("name", METHODS)
def test_a_method_starts_afresh_in_a_second_run(name):
    """`start` leaves nothing of an earlier run behind."""
    method = METHODS[name]()
    training = SGD if "gem" in name else ADAM
    first = Run(deal(), lambda: method, training, NET)
    assert Run(deal(), lambda: method, training, NET).bits() == first.bits()


# other networks -------------------------------------------------------------------------------------------------------


class Convolutions:
    """A small network that has no closed forms of its own."""

    def build(self, shape, outputs):
        return torch.nn.Sequential(
            torch.nn.Unflatten(1, shape),
            torch.nn.Conv2d(shape[0], 3, 3),
            torch.nn.ReLU(inplace=True),
            torch.nn.Flatten(),
            torch.nn.Linear(27, outputs),
        )


@pytest.mark.parametrize(
    "name", ["ewc", "online-ewc", "si", "mas", "mas per sample", "gem", "rehearsal+online-ewc", "lwf", "lwf+si"]
)
def test_works_with_a_network_without_closed_forms(name):
    training = SGD if "gem" in name else ADAM
    one = Run(deal("task"), METHODS[name], training, Convolutions())
    assert one.outcome.status == "done"
    two = Run(deal("task"), METHODS[name], training, Convolutions(), resume=one.checkpoints[0])
    assert one.bits() == two.bits()


# the guard ------------------------------------------------------------------------------------------------------------


class LooksBack(eg.OnlineEWC):
    """Takes the importance on the first task's data again."""

    def importance(self, learner, task):
        return super().importance(learner, learner.tasks[0])


class DrawsBack(eg.Rehearsal):
    """Rehearses the first task itself instead of the buffer."""

    def begin_task(self, learner, task):
        self._first = learner.tasks[0].train

    def data(self, task):
        return task.train + self._first if task.index else task.train


class ProjectsBack(eg.GEM):
    """Takes the past gradients on the first task itself."""

    def adjust_gradients(self, learner, batch):
        if learner.task:
            learner.gradients(everything(learner.tasks[0].train))


@pytest.mark.parametrize("make", [LooksBack, DrawsBack, ProjectsBack])
@pytest.mark.parametrize("together", [False, True])
def test_a_method_that_touches_a_past_task_s_training_data_raises(make, together):
    def method():
        return combine([make(), eg.L2()]) if together else make()

    with pytest.raises(ClosedDataError, match="training data of task 1"):
        Run(deal(), method, ADAM, NET)


# what can be asked for ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: eg.EWC(label="argmax"),
        lambda: eg.EWC(estimator="minibatch"),
        lambda: eg.OnlineEWC(label="Predicted"),
        lambda: eg.MAS(form="mean"),
        lambda: eg.Rehearsal(mixing="half"),
        lambda: eg.EWC(label="exact", estimator="batch"),
        lambda: eg.L2(coef=-1.0),
        lambda: eg.SI(xi=0.0),
        lambda: eg.GEM(slots_per_task=0),
        lambda: eg.GEM(memory_batch=-1),
        lambda: eg.GEM(margin=-0.5),
        lambda: eg.LwF(temperature=0.0),
        lambda: eg.LwF(weighting="half"),
        lambda: eg.RtF(reduction="average"),
        lambda: eg.RtF(generative=-1.0),
    ],
    ids=lambda make: str(make.__code__.co_consts[1:]),
)
def test_values_that_mean_nothing_are_refused_before_a_run(make, monkeypatch):
    """Unknown values are refused before anything runs."""

    def too_late(*_):
        raise AssertionError("the run has begun")

    monkeypatch.setattr("engram.scenarios.split.Split.deal", too_late)
    words = (
        "argmax|minibatch|Predicted|form|mixing|exact|coef|xi|slots|memory|margin|temperature|half|average|generative"
    )
    with pytest.raises(ValueError, match=words):
        eg.run(eg.split(blobs(4, train=4, size=3)), make(), net=eg.MLP(3), training=eg.Training(epochs=1))


def test_initial_weights_do_not_hang_on_the_method():
    for make in METHODS.values():
        method = make()
        learner = learner_for(eg.split(blobs(6, train=40, size=5), kind="class"), 7, 6)
        before = [p.detach().clone() for p in learner.params]
        method.start(learner, learner.tasks)
        assert all(torch.equal(a, b) for a, b in zip(before, learner.params, strict=True))
