"""Learning on a stream without boundaries: the learner is shown batch after batch, and never told of tasks.

The evaluator knows where each task nominally ends, and measures there. `begin_task` and `end_task` are not called,
unless `boundary_every` asks for it: then a stretch of so many steps is a task to the method.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import accumulate, chain, pairwise

import torch
from torch import Tensor

from engram.core.needs import methods_without_boundaries
from engram.core.registry import METHODS
from engram.learning.course import Course
from engram.learning.evaluate import Evaluation
from engram.learning.learner import Training
from engram.learning.method import Method
from engram.learning.step import CHECK_EVERY, check_weights, end_task, finite, seed_layers, take_step, training_of_task
from engram.scenarios.stream import Plan, Shown, StreamReader, outputs_of
from engram.scenarios.task import Batch, Task, Tasks, pool

SAVE_EVERY = 2000
"""Steps between two checkpoints within a stream. There, scratch is deleted and layers are seeded anew, as at a
boundary: another number gives other bits."""
MOST_STRETCHES = 10_000
"""Tasks that `boundary_every` may make of a stream; buffers count them in 16 bits."""


# before anything runs -------------------------------------------------------------------------------------------------


def learns_stream(tasks: Tasks, method: Method) -> bool:
    """Whether the method learns from the stream as it comes; `offline` waits for all of it."""
    return tasks.stream is not None and not overrides(method, "curriculum")


def overrides(method: Method, hook: str) -> bool:
    return any(getattr(type(member), hook) is not getattr(Method, hook) for member in method.members())


def check_stream(method: Method, tasks: Tasks, training: Training, evaluation: Evaluation) -> None:
    """Refuses what cannot be done without boundaries, and names the methods that can."""
    every = training.boundary_every
    if tasks.stream is None:
        if every:
            raise ValueError(
                f"boundary_every {every}: the boundaries of this scenario are told; leave it out, or choose a stream "
                "without boundaries, such as blurry-split-mnist/class"
            )
        return
    if not tasks.only_classes:
        raise ValueError(
            "a stream without boundaries takes tasks that predict classes, and these predict other targets"
        )
    for member in method.members():
        check_member(member, tasks.kind, every)
    if evaluation.give_task_identity and tasks.kind != "task":
        raise ValueError("give_task_identity: a stream without boundaries has no task identity to give; leave it out")
    if training.reset_optimizer and not every:
        raise ValueError("reset_optimizer: the learner is not told where a task begins; leave it out")
    if every and tasks.kind == "task":
        raise ValueError(f"boundary_every {every}: in task learning each sample names its task; choose another kind")
    if every and not learns_stream(tasks, method):
        raise ValueError(f"boundary_every {every}: the method learns everything at once; leave it out")


def check_member(member: Method, kind: str, every: int) -> None:
    name = METHODS.name_of(member)
    free = f"methods that can run here: {', '.join(methods_without_boundaries(kind))}"
    chooses = overrides(member, "data")
    if member.needs_boundaries() and not every:
        interval = "or set a boundary every so many steps: --boundary-every 100, Training(boundary_every=100)"
        raise ValueError(
            f"method {name} needs task boundaries, and this stream does not tell them; {free}"
            + ("" if chooses else f"; {interval}")
        )
    if chooses:
        raise ValueError(f"method {name} chooses what it trains on task by task, and this stream has no tasks; {free}")
    if every or overrides(member, "curriculum"):
        return
    for hook in ("begin_task", "end_task"):
        if overrides(member, hook) and not states_needs(type(member), hook):
            raise ValueError(
                f"{type(member).__name__}.{hook} would never be called: this stream has no boundaries. State "
                'needs = frozenset({"boundaries"}) in the class, or needs = frozenset() if it can do without'
            )


def states_needs(cls: type[Method], hook: str) -> bool:
    """Whether the class that overrides a hook, or one that inherits from it, states what it needs."""
    for owner in cls.__mro__:
        if "needs" in vars(owner):
            return owner is not Method
        if hook in vars(owner):
            return False
    return False


# what is shown --------------------------------------------------------------------------------------------------------


def plan_stream(tasks: Tasks, method: Method, training: Training) -> Plan:
    """What the stream shows in which step."""
    assert tasks.stream is not None
    lengths = [training_of_task(method, training, task.index).samples_for(len(task.train)) for task in tasks]
    return tasks.stream.plan(tasks, lengths, training.batch, training.drop_last)


def view_of_learner(tasks: Tasks, plan: Plan, every: int = 0) -> Tasks:
    """The tasks as the learner knows them: one that is the whole stream, or one per stretch of `every` steps.

    In task learning each sample names its task, so that the heads are known.
    """
    if tasks.kind == "task":
        unread = (Task(t.index, Shown(t.train, torch.arange(len(t.train)), t.index), t.test, t.classes) for t in tasks)
        return replace(tasks, tasks=tuple(unread), stream=None)
    steps = len(plan.sizes)
    cuts = [*range(0, steps, every or steps), steps]
    if len(cuts) > MOST_STRETCHES:
        raise ValueError(
            f"boundary_every {every} makes {len(cuts) - 1:,} tasks of {steps:,} steps; give "
            f"{steps // MOST_STRETCHES + 1} or more"
        )
    ends = [0, *accumulate(plan.sizes)]
    whole = pool(tasks)
    rows = plan.rows.to(whole.train.device)
    labels = outputs_of(whole.train)[rows] if tasks.kind == "class" else None
    stretches, heads = [], []
    for number, (start, end) in enumerate(pairwise(cuts)):
        train = Shown(whole.train, rows[ends[start] : ends[end]], number)
        stretches.append(Task(number, train, whole.test, tuple(dict.fromkeys(whole.classes))))
        heads.append(slice(0, tasks.outputs if labels is None else int(labels[: ends[end]].max()) + 1))
    return Tasks(tuple(stretches), tasks.kind, tuple(heads), tasks.outputs, tasks.shape)


def new_labels(tasks: Tasks, plan: Plan) -> dict[int, list[int]]:
    """step → the labels that it is the first to show; nothing outside class learning, where all outputs are active."""
    if tasks.kind != "class":
        return {}
    labels = outputs_of(pool(tasks).train).cpu()[plan.rows]
    step = torch.repeat_interleave(torch.tensor(plan.sizes))
    found: dict[int, list[int]] = {}
    for label in sorted(set(labels.tolist())):
        found.setdefault(int(step[(labels == label).nonzero()[0]]), []).append(label)
    return found


# the loop -------------------------------------------------------------------------------------------------------------


def learn_stream(course: Course, tasks: Tasks, training: Training, plan: Plan, streams: dict[str, Tensor]) -> None:
    """The whole stream, step by step; a resumed run goes on where it was."""
    with ExitStack() as open_data:
        if training.boundary_every:  # `Shown` decides what of it can be read
            open_data.enter_context(pool(tasks).train.opened())
        loop = StreamLoop(course, tasks, training, plan)
        open_data.enter_context(closing(loop.reader))
        loop.learner.set_stream_states(streams)
        for step in range(course.outcome.resumed_after_step, len(plan.sizes)):
            loop.prepare(step)
            loop.total += take_step(loop.learner, loop.method, loop.batch(step))
            loop.conclude(step + 1)


class StreamLoop:
    """What is done around the steps of a stream."""

    def __init__(self, course: Course, tasks: Tasks, training: Training, plan: Plan) -> None:
        self.course, self.tasks, self.plan, self.training = course, tasks, plan, training
        self.learner, self.method, outcome = course.learner, course.method, course.outcome
        self.every, self.steps = training.boundary_every, len(plan.sizes)
        self.place = outcome.resumed_after_task
        """The task whose nominal end comes next."""
        self.seed_at = outcome.resumed_after_step
        """The next step before which layers are seeded anew."""
        summed, self.since = outcome.running
        """Steps since the last nominal end, and the sum of their losses."""
        self.total = torch.tensor(summed, device=self.learner.device)
        self.reader = StreamReader(tasks, plan)
        self.learner.training = replace(training, epochs=1, steps=0)  # a stretch is gone over once
        self.learner.told = bool(self.every)
        self.learner.steps_of_run = self.steps
        self.learner.watch = lambda loss: course.tell(self.place, loss)
        self.learner.begin_task(len(tasks) - 1 if tasks.kind == "task" else 0, self.steps)
        self.appear = new_labels(tasks, plan)
        if tasks.kind == "class":
            before = [labels for step, labels in self.appear.items() if step < outcome.resumed_after_step]
            self.learner.see(chain.from_iterable(before))

    def prepare(self, step: int) -> None:
        """Before the step with this index."""
        learner = self.learner
        if self.every and step % self.every == 0:
            stretch = learner.tasks[step // self.every]
            learner.steps_before_task = step
            learner.begin_task(stretch.index, min(self.every, self.steps - step))
            if self.training.reset_optimizer and step:
                learner.new_optimizer()
            seed_layers(learner, "begin task")
            self.method.begin_task(learner, stretch)
        learner.step_of_task = step % self.every if self.every else step
        if step in self.appear:
            learner.see(self.appear[step])
        if step == self.seed_at:
            seed_layers(learner, f"step {step}")

    def batch(self, step: int) -> Batch:
        """What is shown in a step; which task it comes from is told in task learning only."""
        batch = self.reader.batch(step)
        if self.tasks.kind == "task":
            return batch
        return batch._replace(t=torch.full_like(batch.y, self.learner.task), tasks=(self.learner.task,))

    def conclude(self, done: int) -> None:
        """After the step with which so many are done."""
        course, ends = self.course, self.plan.ends
        self.learner.steps += 1
        self.since += 1
        if done % CHECK_EVERY == 0:
            course.tell(self.place, finite(self.total) / self.since)
        course.measure_curve(self.tasks[self.place], self.tasks[0])
        boundary = bool(self.every) and (done % self.every == 0 or done == self.steps)
        if boundary:
            self.end_stretch()
        while self.place < len(ends) and ends[self.place] == done:
            self.measure()
        if boundary or (not self.every and (done in ends or done % SAVE_EVERY == 0)):
            course.pass_boundary()
            self.seed_at = done
            if not self.every or done in ends or done // SAVE_EVERY > (done - self.every) // SAVE_EVERY:
                course.outcome.running = (finite(self.total), self.since)
                course.checkpoint(self.place, step=done)

    def end_stretch(self) -> None:
        """A boundary set by `boundary_every`: the method may read the stretch once more."""
        finite(self.total)
        check_weights(self.learner)  # the last step is in no loss
        stretch = self.learner.tasks[self.learner.task]
        assert isinstance(stretch.train, Shown)
        with stretch.train.readable():
            end_task(self.learner, self.method, stretch)
        self.course.check_state()

    def measure(self) -> None:
        """The nominal end of a task: all tasks are measured, also those to come."""
        outcome = self.course.outcome
        outcome.losses.append(finite(self.total) / max(self.since, 1))
        check_weights(self.learner)
        self.total, self.since = torch.zeros_like(self.total), 0
        self.course.check_state()
        self.course.measure(self.tasks, len(self.tasks), self.place)
        self.place += 1
        if self.course.evaluation.forward_transfer and self.place < len(self.tasks):
            outcome.before.append(outcome.accuracy[-1][self.place])
