"""A method in a loop of one's own, as docs/one-part.md shows it, ends with the weights of a run."""

import pytest
import torch
from helpers import blobs

import engram as eg
from engram.learning.train import new_learner
from engram.runs.run import compute


@pytest.mark.parametrize("method", [eg.Adam, eg.EWC, eg.SI, eg.ER, eg.LwF], ids=lambda cls: cls.__name__)
def test_a_method_in_ones_own_loop_ends_with_the_weights_of_a_run(method):
    scenario = eg.split(blobs(6, train=30), kind="class")
    training = eg.Training(epochs=1, batch=16, lr=0.01)
    saved = []
    compute(eg.Spec(scenario, method(), eg.MLP(8), training, seed=4), save=saved.append)

    mine, tasks = method(), scenario.tasks(seed=4)
    learner = new_learner(tasks, mine, eg.MLP(8), training, 4, torch.device("cpu"))
    for task in tasks:
        loader = task.loader("train", batch=16)
        learner.begin_task(task.index, steps=len(loader))
        mine.begin_task(learner, task)
        for x, y, t in loader:
            batch = eg.Batch(x.flatten(1), y, t, (task.index,))
            learner.optimizer.zero_grad()
            mine.loss(learner, batch).backward()
            for p in learner.params:
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            mine.adjust_gradients(learner, batch)
            learner.optimizer.step()
            mine.after_step(learner, batch)
            learner.step_of_task, learner.steps = learner.step_of_task + 1, learner.steps + 1
        mine.end_task(learner, task)
    for name, value in learner.net.state_dict().items():
        torch.testing.assert_close(value, saved[-1]["net"][name], rtol=1e-5, atol=1e-6)
