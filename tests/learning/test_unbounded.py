"""Streams without boundaries: nobody is told of tasks, tasks are measured at their nominal ends, resumed runs agree."""

import re

import pytest
import torch
from helpers import Run, blobs
from torch import nn

import engram as eg
from engram.core.needs import methods_without_boundaries
from engram.core.registry import METHODS
from engram.data.images import ClosedDataError
from engram.learning import unbounded
from engram.learning.unbounded import new_labels, plan_stream
from engram.runs.arguments import check_net_argument
from engram.runs.run import run_spec
from engram.runs.spec import Spec

ONCE = eg.Training(epochs=2, batch=8, lr=0.01)
FREE = ["sgd", "adam", "adagrad", "er", "er-ace", "mir", "der", "der-pp"]


@pytest.fixture(scope="module")
def images():
    return blobs(6)


@pytest.fixture(autouse=True)
def _checkpoints_often(monkeypatch):
    monkeypatch.setattr(unbounded, "SAVE_EVERY", 11)


def blurred(images, kind="class", width=0.8):
    return eg.blend(eg.split(images, kind=kind), width=width).tasks(0)


class Spy(eg.ER):
    """Notes what it is called with."""

    needs = frozenset({"past data"})
    calls: list[tuple[str, int]] = []  # noqa: RUF012

    def begin_task(self, learner, task):
        self.calls.append(("begin", learner.steps))

    def end_task(self, learner, task):
        self.calls.append(("end", learner.steps))

    def after_step(self, learner, batch):
        super().after_step(learner, batch)
        assert learner.task == 0
        assert set(batch.t.tolist()) == {0}
        assert len(learner.tasks) == 1


@pytest.mark.parametrize("kind", ["domain", "class", "class-known", "iid"])
def test_the_hooks_of_boundaries_are_never_called(images, kind):
    Spy.calls.clear()
    outcome = Run(blurred(images, kind), Spy, ONCE).outcome
    assert Spy.calls == []
    assert outcome.steps == 60
    assert outcome.told_boundaries == "no"
    assert [len(row) for row in outcome.accuracy] == [3, 3, 3]  # all tasks, also those to come


def test_boundaries_can_be_made_up_by_interval(images):
    seen = []

    class Noting(eg.SGD):
        needs = frozenset({"boundaries"})

        def begin_task(self, learner, task):
            seen.append(("begin", learner.steps, task.index))
            with pytest.raises(ClosedDataError):
                task.train.batch(torch.arange(1))

        def end_task(self, learner, task):
            x = torch.cat([chunk.x for chunk in task.train.chunks()])
            seen.append(("end", learner.steps, task.index))
            assert torch.equal(x, torch.cat(self._shown))  # just what was shown

        def after_step(self, learner, batch):
            self._shown = [*getattr(self, "_shown", []), batch.x]
            assert set(batch.t.tolist()) == {learner.task}

    sharp = blurred(images, "domain", width=0)
    outcome = Run(sharp, Noting, eg.Training(epochs=2, batch=8, lr=0.01, boundary_every=25)).outcome
    assert outcome.told_boundaries == "every 25 steps"
    assert seen == [
        ("begin", 0, 0), ("end", 25, 0), ("begin", 25, 1), ("end", 50, 1), ("begin", 50, 2), ("end", 60, 2),
    ]  # fmt: skip


def test_methods_that_need_boundaries_are_refused_with_those_that_do_not(images):
    with pytest.raises(ValueError, match="ewc needs task boundaries") as refused:
        Run(blurred(images), eg.EWC)
    for name in [*FREE, "a-gem --memory reservoir", "offline", "--boundary-every 100"]:
        assert name in str(refused.value)
    with pytest.raises(ValueError, match="gdumb needs task boundaries") as refused:
        Run(blurred(images), eg.GDumb)
    assert "--boundary-every" not in str(refused.value)  # it would not help
    with pytest.raises(ValueError, match="rehearsal chooses what it trains on"):
        Run(blurred(images), eg.Rehearsal, eg.Training(boundary_every=10))


@pytest.mark.parametrize("name", sorted(METHODS))
def test_who_needs_no_boundaries_runs_and_who_does_is_refused(images, name):
    kind = "task" if "task identity" in METHODS.facts(name).literals.get("needs", ()) else "class"
    words = {word.split()[0]: word for word in methods_without_boundaries(kind)}
    flags = re.findall(r"--(\S+) (\S+)", words.get(name, ""))
    if name in words:
        assert Run(blurred(images, kind), lambda: METHODS[name](**dict(flags)), ONCE).outcome.status == "done"
    if name not in words or flags:
        with pytest.raises(ValueError, match="needs task boundaries"):
            Run(blurred(images, kind), METHODS[name], ONCE)
    assert ("xdg" in methods_without_boundaries("task")) > ("xdg" in methods_without_boundaries("class"))


def test_what_overrides_a_hook_and_does_not_say_what_it_needs_is_refused(images):
    class Silent(eg.SGD):
        def end_task(self, learner, task):
            pass

    with pytest.raises(ValueError, match=r"Silent\.end_task would never be called"):
        Run(blurred(images), Silent)


@pytest.mark.parametrize(
    ("kind", "training", "evaluation", "word"),
    [
        ("domain", eg.Training(reset_optimizer=True), eg.Evaluation(), "reset_optimizer"),
        ("domain", eg.Training(), eg.Evaluation(give_task_identity=True), "no task identity"),
        ("task", eg.Training(boundary_every=5), eg.Evaluation(), "each sample names its task"),
    ],
)
def test_what_has_no_meaning_without_boundaries_is_refused(images, kind, training, evaluation, word):
    with pytest.raises(ValueError, match=word):
        Run(blurred(images, kind), eg.SGD, training, evaluation=evaluation)


def test_boundaries_that_are_told_are_not_made_up(images):
    with pytest.raises(ValueError, match="boundaries of this scenario are told"):
        Run(eg.split(images).tasks(0), eg.SGD, eg.Training(boundary_every=5))


def test_too_many_intervals_are_refused(images, monkeypatch):
    monkeypatch.setattr(unbounded, "MOST_STRETCHES", 10)
    with pytest.raises(ValueError, match="boundary_every 2 makes 30 tasks of 60 steps; give 7 or more"):
        Run(blurred(images), eg.SGD, eg.Training(epochs=2, batch=8, boundary_every=2))


def test_active_outputs_are_the_labels_seen_so_far(images):
    tasks = blurred(images, width=1.0)
    training = eg.Training(epochs=1, batch=1, lr=0.01)
    plan = plan_stream(tasks, eg.SGD(), training)
    appear = new_labels(tasks, plan)
    known: set[int] = set()
    gaps = []

    class Looking(eg.SGD):
        def loss(self, learner, batch):
            known.update(batch.y.tolist())
            assert set(learner.seen) == known
            assert set(range(learner.active(0).stop)) - set(learner.unseen) == known
            gaps.append(bool(learner.unseen))
            logits = learner.logits(batch.x)
            probabilities = torch.softmax(logits[:, sorted(known)], 1)
            expected = -torch.log(probabilities[:, sorted(known).index(int(batch.y))]).mean()
            loss = learner.loss_of(logits, batch)
            assert torch.allclose(loss, expected, atol=1e-6)
            assert set(learner.largest(logits, batch.t, batch.tasks).tolist()) <= known
            return loss

    Run(tasks, Looking, training)
    assert known == set(range(6)) == {label for labels in appear.values() for label in labels}
    assert any(gaps)  # a label came before a smaller one: the closed form is not asked


@pytest.mark.parametrize("name", ["sgd", "er-ace", "mir"])
def test_the_fast_path_agrees_where_labels_are_missing(images, name, monkeypatch):
    from engram.learning import fast

    training = eg.Training(epochs=1, batch=2, lr=0.01, optimizer="sgd")
    quick = Run(blurred(images), METHODS[name], training)
    monkeypatch.setattr(fast, "has_closed_form", lambda net: False)
    assert Run(blurred(images), METHODS[name], training).bits() == quick.bits()


def test_a_method_cannot_read_the_stream(images):
    class Greedy(eg.SGD):
        def after_step(self, learner, batch):
            learner.tasks[0].train.batch(torch.arange(1))

    for kind in ("class", "task"):
        with pytest.raises(ClosedDataError, match="shows its images in batches"):
            Run(blurred(images, kind), Greedy)


def test_evaluation_comes_at_nominal_ends(images):
    points = []
    Run(blurred(images), eg.SGD, ONCE, watch=lambda at: points.append((at.task, at.step)) if at.accuracy else None)
    assert points == [(1, 20), (2, 40), (3, 60)]
    evaluation = eg.Evaluation(forward_transfer=True, evaluate_every=15)
    outcome = Run(blurred(images, "domain"), eg.SGD, ONCE, evaluation=evaluation).outcome
    assert outcome.before == [outcome.accuracy[0][1], outcome.accuracy[1][2]]
    assert [(at["step"], at["task"]) for at in outcome.curve] == [(15, 1), (30, 2), (45, 3), (60, 3)]


class Dropping(nn.Module):
    def __init__(self, shape, outputs):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(36, 12), nn.Dropout(0.5), nn.Linear(12, outputs))

    def forward(self, x):
        return self.layers(x)


RESUMED = {
    "sgd": (eg.SGD, "class", 0),
    "er": (lambda: eg.ER(capacity=20, replay=8), "class", 0),
    "der-pp in task learning": (lambda: eg.DERpp(capacity=20, replay=8), "task", 0),
    "mir": (lambda: eg.MIR(capacity=20, replay=4), "domain", 0),
    "a-gem": (lambda: eg.AGEM(capacity=20, memory="reservoir"), "class-known", 0),
    "si by interval": (eg.SI, "class", 13),
    "online-ewc by interval": (eg.OnlineEWC, "domain", 13),
    "fdr by interval": (lambda: eg.FDR(capacity=20, replay=8), "class", 13),
    "lwf by interval": (eg.LwF, "class", 13),
    "dgr by interval": (eg.DGR, "class", 13),
}


@pytest.mark.parametrize("case", RESUMED)
def test_resumed_within_the_stream_equals_uninterrupted(images, case):
    method, kind, every = RESUMED[case]
    training = eg.Training(epochs=2, batch=8, lr=0.01, boundary_every=every, augment=() if every else ("flip",))
    evaluation = eg.Evaluation(forward_transfer=True, evaluate_every=7)
    whole = Run(blurred(images, kind), method, training, evaluation=evaluation)
    again = Run(blurred(images, kind), method, training, evaluation=evaluation)
    assert again.bits() == whole.bits()
    steps = [checkpoint["step"] for checkpoint in whole.checkpoints]
    assert steps == ([13, 26, 39, 52, 60] if every else [11, 20, 22, 33, 40, 44, 55, 60])
    for checkpoint in whole.checkpoints[:-1]:
        resumed = Run(blurred(images, kind), method, training, resume=checkpoint, evaluation=evaluation)
        assert resumed.bits() == whole.bits(), f"from step {checkpoint['step']}"
        assert resumed.outcome.resumed_after_step == checkpoint["step"]


def test_dropout_goes_on_as_it_would_have(images):
    net = check_net_argument(Dropping)
    whole = Run(blurred(images), eg.ER, ONCE, net)
    for checkpoint in whole.checkpoints[:3]:
        assert Run(blurred(images), eg.ER, ONCE, net, resume=checkpoint).bits() == whole.bits()


class Killed(BaseException):
    """As if the process had ended."""


def test_killed_in_the_middle_and_started_again_it_ends_with_the_same_numbers(images, tmp_path, monkeypatch):
    monkeypatch.setattr(unbounded, "CHECK_EVERY", 5)
    spec = Spec(eg.blend(eg.split(images)), eg.ER(capacity=20), eg.MLP(12), ONCE)

    def kill(at):
        if at.step == 30:
            raise Killed

    whole = run_spec(spec, tmp_path / "whole")
    with pytest.raises(Killed):
        run_spec(spec, tmp_path / "killed", watch=kill)
    left = [path.name for path in (tmp_path / "killed").rglob("*.pt")]
    assert left == ["task-1-step-22.pt"]
    resumed = run_spec(spec, tmp_path / "killed")
    assert resumed.environment["resumed_after_step"] == 22
    assert resumed.accuracy == whole.accuracy
    assert resumed.losses == whole.losses
    assert resumed.steps == whole.steps == 60


def test_a_new_field_moves_no_key(images):
    spec = Spec(eg.split(images), eg.ER())
    assert "boundary_every" not in spec.to_json()["training"]
    blurry = Spec(eg.blend(eg.split(images)), eg.SI())
    by_interval = Spec(eg.blend(eg.split(images)), eg.SI(), training=eg.Training(boundary_every=9))
    assert by_interval.to_json()["training"]["boundary_every"] == 9
    assert blurry.key != by_interval.key
