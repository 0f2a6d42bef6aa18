"""`learner.rng(purpose)` is one stream per task and purpose: a second call goes on where the first stopped."""

import torch
from helpers import Run, blobs

import engram as eg
from engram.core.streams import stream


def test_a_stream_that_is_asked_for_at_every_step_goes_on():
    draws: list[tuple[int, float]] = []

    class Draws(eg.Method):
        def loss(self, learner, batch):
            draws.append((learner.task, torch.rand((), generator=learner.rng("replay")).item()))
            return learner.loss(batch)

    Run(eg.split(blobs(4), kind="class").deal(0), Draws, eg.Training(steps=5, batch=16), eg.MLP(12), seed=3)
    for task in (0, 1):
        expected = torch.rand(5, generator=stream(3, "replay", task)).tolist()
        assert [value for t, value in draws if t == task] == expected


def test_streams_within_a_task_come_back_from_a_checkpoint_within_it():
    """Also one that a method has asked for in begin_task and holds."""

    class Draws(eg.Method):
        checkpoints = "epoch"

        def begin_task(self, learner, task):
            self._held = learner.rng("held")
            torch.rand(3, generator=self._held)

        def loss(self, learner, batch):
            noise = torch.rand((), generator=self._held) + torch.rand((), generator=learner.rng("asked"))
            return learner.loss(batch) * (0.5 + noise)

    def go(**options):
        return Run(
            eg.split(blobs(4), kind="class").deal(0), Draws, eg.Training(epochs=3, batch=16), eg.MLP(12), **options
        )

    whole = go()
    assert [set(checkpoint["streams"]) for checkpoint in whole.checkpoints[:4]] == [{"held", "asked"}] * 3 + [set()]
    for checkpoint in whole.checkpoints[:-1]:
        assert go(resume=checkpoint).bits() == whole.bits()
