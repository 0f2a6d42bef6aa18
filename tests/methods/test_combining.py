"""Several methods at once, and what each keeps: sums of the parts, checked by hand."""

import pytest
import torch
from helpers import Run, blobs, everything, learner_for
from torch import nn

import engram as eg
from engram.core.streams import stream
from engram.learning.combine import combine
from engram.learning.fisher import fisher
from engram.learning.memory import memory

NET = eg.MLP(7, 6)
PARAMETERS = 25 * 7 + 7 + 7 * 6 + 6 + 6 * 6 + 6  # 272
TRAINING = eg.Training(epochs=1, batch=16, lr=0.01)


def scenario(kind: str = "class"):
    return eg.split(blobs(6, train=40, size=5), kind=kind)


def test_rehearsal_with_online_ewc_is_the_sequence_written_out():
    """Mixed batches, Fisher on the new data alone, penalty on every step; by autograd and torch's own Adam."""
    training = eg.Training(epochs=2, batch=16, lr=0.01)
    both = combine([eg.Rehearsal(capacity=50), eg.OnlineEWC(coef=70.0, decay=0.5)])
    run = Run(scenario().deal(0), lambda: both, training, NET)
    learner = learner_for(scenario(), 7, 6)
    params = learner.params
    adam = torch.optim.Adam(params, lr=0.01)
    kept_x, kept_y = [], []
    weights = [torch.zeros_like(p) for p in params]
    centre = [p.detach().clone() for p in params]
    for task in learner.tasks:
        learner.task = task.index
        new = everything(task.train)
        x = torch.cat([new.x, *(kept_x * 1)]) if kept_x else new.x  # 80 // 50 = 1 repetition
        y = torch.cat([new.y, *(kept_y * 1)]) if kept_y else new.y
        assert len(x) == [80, 80 + 50, 80 + 2 * 25][task.index]
        shuffle = stream(0, "shuffle", task.index)
        for _ in range(2):
            for rows in torch.split(torch.randperm(len(x), generator=shuffle), 16):
                loss = nn.functional.cross_entropy(learner.net(x[rows])[:, : 2 * task.index + 2], y[rows])
                held = sum((w * (p - c) ** 2).sum() for w, p, c in zip(weights, params, centre, strict=True))
                adam.zero_grad()
                (loss + 70.0 * held).backward()
                adam.step()
        share = 50 // (task.index + 1)
        picks = torch.randperm(80, generator=stream(0, "buffer", task.index))[:share]
        kept_x = [part[:share] for part in kept_x] + [new.x[picks]]
        kept_y = [part[:share] for part in kept_y] + [new.y[picks]]
        weights = [0.5 * w + f for w, f in zip(weights, fisher(learner, task.train), strict=True)]
        centre = [p.detach().clone() for p in params]
    last = run.checkpoints[-1]
    for found, wanted in zip(last["net"].values(), params, strict=True):
        torch.testing.assert_close(found, wanted.detach(), rtol=1e-3, atol=1e-4)
    buffer, penalty = last["method"]
    assert all(torch.equal(a, b) for a, b in zip(buffer["pixels"], kept_x, strict=True))
    assert [y.tolist() for y in buffer["labels"]] == [y.tolist() for y in kept_y]
    for found, wanted in zip(penalty["weights"], weights, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-2, atol=1e-6)


def test_with_a_penalty_of_nothing_it_is_rehearsal_alone():
    alone = Run(scenario().deal(0), lambda: eg.Rehearsal(capacity=60), TRAINING, NET)
    both = Run(scenario().deal(0), lambda: combine([eg.L2(coef=0.0), eg.Rehearsal(capacity=60)]), TRAINING, NET)
    assert both.bits()["net"] == alone.bits()["net"]
    assert both.outcome.accuracy == alone.outcome.accuracy


class Another(eg.L2):
    """The same under another name: a combination has each method once."""


def test_two_penalties_add_up():
    """L2 of 3 and another L2 of 4 is L2 of 7."""
    one = Run(scenario().deal(0), lambda: eg.L2(coef=7.0), TRAINING, NET).checkpoints[-1]["net"]
    two = Run(scenario().deal(0), lambda: combine([eg.L2(coef=3.0), Another(coef=4.0)]), TRAINING, NET)
    for a, b in zip(one.values(), two.checkpoints[-1]["net"].values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


class Notes(eg.Method):
    """Writes down when it is called."""

    def note(self, hook: str) -> None:
        CALLS.append(f"{hook} {type(self).__name__}")

    def start(self, learner, tasks):
        self.note("start")

    def begin_task(self, learner, task):
        self.note("begin")

    def adjust_gradients(self, learner, batch):
        self.note("adjust")

    def after_step(self, learner, batch):
        self.note("after")

    def end_task(self, learner, task):
        self.note("end")


class One(Notes): ...


class Two(Notes): ...


class Three(Notes): ...


CALLS: list[str] = []


def test_members_act_in_their_order():
    CALLS.clear()
    tasks = eg.split(blobs(4, train=8, size=5)).deal(0)
    Run(tasks, lambda: combine([One(), Two(), Three()]), TRAINING, NET)
    task = [f"{hook} {name}" for hook in ("begin", "adjust", "after", "end") for name in ("One", "Two", "Three")]
    assert ["start One", "start Two", "start Three", *task, *task] == CALLS


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: eg.SI(coef=10.0), lambda: eg.EWC(coef=300.0)),
        (lambda: eg.L2(coef=0.5), lambda: eg.GEM(capacity=60)),
        (lambda: eg.SI(coef=10.0), lambda: eg.GEM(capacity=60)),
    ],
)
def test_on_gradients_the_order_of_names_does_not_matter(one, other):
    training = eg.Training(epochs=1, batch=16, lr=0.05, optimizer="sgd")
    nets = [
        Run(scenario().deal(0), lambda pair=pair: combine([make() for make in pair]), training, NET).bits()["net"]
        for pair in ([one, other], [other, one])
    ]
    assert nets[0] == nets[1]


def test_si_follows_the_loss_alone_and_gem_turns_the_sum():
    """Whatever stands before or after them: a pull towards zero with a weight of 100."""
    learner = learner_for(scenario(), 7, 6)
    si, gem, pull = eg.SI(coef=0.0), eg.GEM(capacity=60), eg.L2(coef=50.0)
    seen = {}

    class Watched(eg.Method):
        gradient_stage = "project"

        def adjust_gradients(self, learner, batch):
            seen["sum"] = [p.grad.clone() for p in learner.params]

    both = combine([Watched(), gem, pull, si])
    both.start(learner, learner.tasks)
    pull.weights = [torch.ones_like(p) for p in learner.params]
    pull.centre = [torch.zeros_like(p) for p in learner.params]
    task = learner.tasks[0]
    learner.task = 0
    both.begin_task(learner, task)
    batch = everything(task.train)
    learner.loss(batch).backward()
    of_loss = [p.grad.clone() for p in learner.params]
    both.adjust_gradients(learner, batch)
    for gradient, noted, summed, p in zip(of_loss, si._gradient, seen["sum"], learner.params, strict=True):
        assert torch.equal(noted, gradient)
        torch.testing.assert_close(summed, gradient + 100 * p.detach())


class OwnLoss(eg.Method):
    def loss(self, learner, batch):
        return 2 * learner.loss(batch)


class OtherLoss(OwnLoss): ...


class OwnNetwork(eg.Method):
    def network(self, net, tasks):
        return net


class OtherNetwork(OwnNetwork): ...


class Together(eg.Offline): ...


@pytest.mark.parametrize(
    ("members", "names", "hook"),
    [
        ([eg.Rehearsal(), eg.RehearsalC()], ("Rehearsal", "RehearsalC"), "data"),
        ([eg.L2(), eg.GEM(), eg.SI(), eg.Rehearsal()], ("GEM", "Rehearsal"), "data"),
        ([eg.GEMTextbook(), eg.RehearsalC()], ("GEMTextbook", "RehearsalC"), "data"),
        ([Together(), eg.Offline()], ("Together", "Offline"), "curriculum"),
        ([OwnLoss(), OtherLoss()], ("OwnLoss", "OtherLoss"), "loss"),
        ([eg.LwF(), eg.DGR()], ("LwF", "DGR"), "loss"),
        ([eg.SI(), eg.RtF(), eg.DGR()], ("RtF", "DGR"), "loss"),
        ([OtherNetwork(), OwnNetwork()], ("OtherNetwork", "OwnNetwork"), "network"),
    ],
)
def test_two_members_that_decide_on_the_same_are_refused_by_name(members, names, hook):
    with pytest.raises(ValueError, match=f"{names[0]} and {names[1]} cannot be combined.*{hook}"):
        combine(members)


def test_members_that_decide_on_different_things_are_welcome():
    both = combine([eg.Rehearsal(capacity=60), OwnLoss(), OwnNetwork()])
    assert not both.plain_loss
    doubled = Run(scenario().deal(0), lambda: both, TRAINING, NET)
    single = Run(scenario().deal(0), lambda: eg.Rehearsal(capacity=60), TRAINING, NET)
    # twice the loss in the first step; the mean over task 1 shows it
    assert doubled.outcome.losses[0] > 1.5 * single.outcome.losses[0]
    assert doubled.outcome.steps == single.outcome.steps


@pytest.mark.parametrize("make", [eg.LwF, eg.DGR, eg.RtF])
@pytest.mark.parametrize("kind", ["task", "class"])
def test_with_all_tasks_at_once_there_is_nothing_to_replay(make, kind):
    run = Run(scenario(kind).deal(0), lambda: combine([eg.Offline(), make()]), TRAINING, NET)
    assert run.outcome.status == "done"
    if make is not eg.RtF:  # whose autoencoder has a say in the first task too
        alone = Run(scenario(kind).deal(0), eg.Offline, TRAINING, NET)
        assert run.outcome.accuracy == alone.outcome.accuracy
        assert run.bits()["net"] == alone.bits()["net"]


def test_needs_are_united():
    assert combine([eg.Rehearsal(), eg.OnlineEWC()]).needs == {"boundaries", "past data"}
    assert combine([eg.Adam(), eg.SGD()]).needs == set()
    assert combine([eg.Adam(), eg.SI()]).needs == {"boundaries"}


def test_the_optimiser_is_that_of_the_member_who_has_one():
    assert combine([eg.L2(), eg.GEM()]).optimizer == "sgd"
    assert combine([eg.L2(), eg.SI()]).optimizer == "adam"


def test_one_member_is_itself():
    method = eg.SI()
    assert combine([method]) is method


def test_a_combination_can_be_combined():
    """Its members' state is kept in checkpoints as if all had been given at once."""
    nested = combine([combine([eg.Rehearsal(capacity=60), eg.OnlineEWC()]), eg.L2()])
    flat = combine([eg.Rehearsal(capacity=60), eg.OnlineEWC(), eg.L2()])
    runs = [Run(scenario().deal(0), lambda m=m: m, TRAINING, NET) for m in (nested, flat)]
    assert runs[0].outcome.memory == runs[1].outcome.memory
    resumed = [
        Run(scenario().deal(0), lambda m=m: m, TRAINING, NET, resume=runs[1].checkpoints[0]) for m in (nested, flat)
    ]
    assert resumed[0].bits() == resumed[1].bits()


def test_nothing_cannot_be_combined():
    with pytest.raises(ValueError, match="method"):
        combine([])


# the ledger -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [eg.L2, eg.EWC, eg.OnlineEWC, eg.SI, eg.MAS])
def test_a_penalty_keeps_a_copy_and_a_weight_for_every_parameter(make):
    run = Run(scenario().deal(0), make, TRAINING, NET)
    assert run.outcome.memory["kept"] == {"weights": 4 * PARAMETERS, "centre": 4 * PARAMETERS}
    assert make().kept_bytes(NET.build((1, 5, 5), 6), 25) == 2 * 4 * PARAMETERS == 2176


def test_si_works_with_a_path_beside_it():
    run = Run(scenario().deal(0), eg.SI, TRAINING, NET)
    assert run.outcome.memory["working"]["path"] == 4 * PARAMETERS


@pytest.mark.parametrize(("make", "bytes_a_pixel"), [(eg.Rehearsal, 4), (eg.RehearsalC, 1)])
def test_a_buffer_keeps_its_pixels_and_labels(make, bytes_a_pixel):
    """60 images of 25 pixels: three slots of 20; labels of two bytes; what undoes the scaling are numbers."""
    method = make(capacity=60)
    run = Run(scenario().deal(0), lambda: method, TRAINING, NET)
    kept = run.outcome.memory["kept"]
    assert kept["pixels"] == 60 * 25 * bytes_a_pixel
    assert kept["labels"] == 60 * 2
    assert sum(kept.values()) == method.kept_bytes(None, 25)
    assert run.outcome.memory["working"] == {}
    assert method.image_bytes(25) == 25 * bytes_a_pixel + 2


@pytest.mark.parametrize("kind", ["class", "task"])
@pytest.mark.parametrize("channels", [1, 3])
def test_what_is_promised_beforehand_is_an_upper_bound(kind, channels):
    """kept_bytes: "what it keeps at a boundary, at most"."""
    images = blobs(6, train=40, size=5, channels=channels)
    tasks = eg.split(images, kind=kind, normalize="train").deal(0)
    pixels = 25 * channels
    net = NET.build((channels, 5, 5), 6)
    for method in (eg.EWC(), eg.Rehearsal(capacity=100), eg.RehearsalC(capacity=100), eg.GEMTextbook(capacity=100)):
        run = Run(tasks, lambda m=method: m, TRAINING, NET)
        assert sum(run.outcome.memory["kept"].values()) <= method.kept_bytes(net, pixels), method


def test_gem_works_with_its_memory_as_floats_and_a_row_of_gradients_a_slot():
    """In task 3: four slots of 15; an image is 25 floats, its label and its task 8 bytes each."""
    run = Run(scenario().deal(0), lambda: eg.GEM(capacity=60), TRAINING, NET)
    ledger = run.outcome.memory
    assert ledger["working"] == {"inputs": 60 * (25 * 4 + 8 + 8), "matrix": 4 * PARAMETERS * 4}
    assert ledger["kept"]["pixels"] == 6 * 10 * 25 * 4
    assert ledger["kept"]["labels"] == 6 * 10 * 2


def test_plain_training_keeps_nothing():
    for make in (eg.Adam, eg.SGD, eg.Adagrad, eg.Offline):
        assert Run(scenario().deal(0), make, TRAINING, NET).outcome.memory == {"kept": {}, "working": {}}
        assert make().kept_bytes(NET.build((1, 5, 5), 6), 25) == 0


def test_the_ledger_of_a_combination_adds_up():
    both = combine([eg.Rehearsal(capacity=60), eg.OnlineEWC(), eg.SI()])
    run = Run(scenario().deal(0), lambda: both, TRAINING, NET)
    assert run.outcome.memory["kept"] == memory(both)["kept"]
    assert run.outcome.memory["kept"] == {
        "pixels": 6000,
        "labels": 120,
        "owners": 0,
        "scalings": 0,
        "weights": 2 * 4 * PARAMETERS,
        "centre": 2 * 4 * PARAMETERS,
    }
    assert run.outcome.memory["working"]["path"] == 4 * PARAMETERS
    assert both.kept_bytes(NET.build((1, 5, 5), 6), 25) == 60 * 102 + 2 * 2 * 4 * PARAMETERS


def test_equal_memory_of_the_paper():
    """2 · (1024 · 400 + 400 · 400) floats are 1112.5 images of 1024 floats, and 4450 of 1024 bytes."""
    budget = 4 * 2 * (1024 * 400 + 400 * 400)
    assert 1100 <= budget / (4 * 1024) < 1113
    assert 4400 <= budget / 1024 < 4451
    net = eg.MLP(400, 400).build((1, 32, 32), 10)
    full = eg.OnlineEWC().kept_bytes(net, 1024)
    assert full == 2 * 574_410 * 4
    for method in (eg.Rehearsal(), eg.RehearsalC(), eg.GEM()):
        assert 0.97 * budget < method.kept_bytes(net, 1024) < full
