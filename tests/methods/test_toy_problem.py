"""Problems on which plain Adam forgets and every method helps: permuted patterns, one head, four tasks; new classes."""

import numpy as np
import pytest
from helpers import blobs

import engram as eg
from engram.learning.combine import combine
from engram.learning.train import train

METHODS = {
    "l2": lambda: eg.L2(coef=0.01),
    "ewc": lambda: eg.EWC(coef=100.0, label="exact"),
    "online-ewc": lambda: eg.OnlineEWC(coef=100.0, label="exact"),
    "si": lambda: eg.SI(coef=1.0),
    "mas": lambda: eg.MAS(coef=0.1),
    "rehearsal": lambda: eg.Rehearsal(capacity=100),
    "rehearsal balanced": lambda: eg.Rehearsal(capacity=100, mixing="balanced"),
    "rehearsal-c": lambda: eg.RehearsalC(capacity=100),
    "gem": lambda: eg.GEM(capacity=100, memory_batch=24),
    "gem-textbook": lambda: eg.GEMTextbook(capacity=100, memory_batch=24),
    "er": lambda: eg.ER(capacity=100),
    "gss": lambda: eg.GSS(capacity=100, comparisons=10),
    "hal": lambda: eg.HAL(capacity=100, anchors=24),
    "mer": lambda: eg.MER(capacity=100),
    "fdr": lambda: eg.FDR(capacity=100),
    "a-gem": lambda: eg.AGEM(capacity=100),
    "a-gem reservoir": lambda: eg.AGEM(capacity=100, memory="reservoir"),
    "rehearsal+online-ewc": lambda: combine([eg.Rehearsal(capacity=100), eg.OnlineEWC(coef=20.0, label="exact")]),
}


def scores(method: eg.Method) -> tuple[float, float]:
    """(average accuracy at the end, mean accuracy on each task right after it was learned)"""
    images = blobs(6, train=60, test=50, size=6, noise=60)
    tasks = eg.permute(images, kind="domain", permutations=4, normalize="train").deal(0)
    training = eg.Training(epochs=10, batch=32, lr=0.01)
    if method.optimizer == "sgd":
        training = eg.Training(epochs=10, batch=32, lr=0.3, optimizer="sgd")
    outcome = train(tasks, method, eg.MLP(60), training)
    return float(np.mean(outcome.accuracy[-1])), float(np.mean([row[-1] for row in outcome.accuracy]))


@pytest.fixture(scope="module")
def plain() -> dict[str, float]:
    """Adam learns every task and keeps little more than the last: 25 % would be all it knew of the others by luck."""
    found = {}
    for name, method in (("adam", eg.Adam()), ("sgd", eg.SGD())):
        found[name], learned = scores(method)
        assert learned > 98
    assert found["adam"] < 45
    return found


@pytest.mark.parametrize("name", METHODS)
def test_forgets_much_less_than_plain_training(name, plain):
    method = METHODS[name]()
    average, learned = scores(method)
    assert learned > 95, "it learns the tasks at all"
    assert average > plain["adam"] + 40
    assert average > plain[method.optimizer] + (5 if method.optimizer == "sgd" else 40)


REPLAYS = {
    "lwf": eg.LwF,
    "dgr": eg.DGR,
    "dgr interleaved": lambda: eg.DGR(generator_turn="interleaved", log_variance_bias=False),
    "rtf": eg.RtF,
    "rtf sum": lambda: eg.RtF(reduction="sum"),
    "bi-r": eg.BIR,
    "bi-r hard": lambda: eg.BIR(prior="normal", gate_share=0.0, targets="hard"),
    "generative-classifier": lambda: eg.GenerativeClassifier(units=30),
    "lwf+si": lambda: combine([eg.LwF(), eg.SI(coef=0.1)]),
    "rehearsal+lwf": lambda: combine([eg.Rehearsal(capacity=60), eg.LwF()]),
}


def class_scores(method: eg.Method) -> tuple[float, float]:
    """The same where each of three tasks has two new classes: who forgets scores a third."""
    images = blobs(6, train=60, test=50, size=6, noise=60)
    tasks = eg.split(images, kind="class").deal(0)
    outcome = train(tasks, method, eg.MLP(60), eg.Training(steps=150, batch=32, lr=0.005))
    return float(np.mean(outcome.accuracy[-1])), float(np.mean([row[-1] for row in outcome.accuracy]))


def test_plain_training_keeps_the_last_classes_only():
    average, learned = class_scores(eg.Adam())
    assert learned > 98
    assert average < 40


@pytest.mark.parametrize("name", REPLAYS)
def test_replay_without_stored_images_keeps_classes_apart(name):
    average, learned = class_scores(REPLAYS[name]())
    assert learned > 90, "it learns the tasks at all"
    assert average > 80
