"""Rehearsal: what the buffer holds after each task, and what is drawn from it while the next is learned."""

import itertools

import numpy as np
import pytest
import torch
from helpers import Run, blobs, everything, learner_for, numbered, numbers
from scipy.stats import chisquare

import engram as eg
from engram.learning.learner import batches
from engram.scenarios.task import ClosedDataError, Joined, Pixels, Scaling, Task, Tasks

KINDS = ("task", "domain", "class", "class-known")


def after(tasks: Tasks, method: eg.Method, n: int, seed: int = 0, kind_of=None):
    """A learner at task n + 1 and the method with its buffer of n tasks, without any training."""
    net = eg.MLP(4).build(tasks.shape, tasks.outputs)
    learner = eg.Learner(net, tasks, eg.Training(batch=16), seed, torch.device("cpu"))
    method.start(learner, tasks)
    for task in tasks[:n]:
        learner.task = task.index
        method.begin_task(learner, task)
        method.end_task(learner, task)
    learner.task = min(n, len(tasks) - 1)
    return learner, method


def held(method) -> list[list[int]]:
    """The numbers of the images of `numbered` in each slot."""
    found = []
    for x in method.pixels:
        pixels = (x * 255).round().long() if x.dtype == torch.float32 else x.long()
        found.append((256 * pixels[:, 0] + pixels[:, 1]).tolist())
    return found


def simple(kind: str = "class", train: int = 40, **options):
    return eg.split(numbered(8, train=train), kind=kind, **options).deal(0)


@pytest.mark.parametrize(
    ("method", "steps"),
    [
        (eg.Rehearsal(capacity=1100), 3292),
        (eg.RehearsalC(capacity=4400), 2980),
        (eg.GEMTextbook(capacity=1100), 1884),
    ],
)
def test_the_steps_of_a_run_on_split_mnist_are_known_in_advance(method, steps):
    sizes = method.pass_sizes([12665, 12089, 11263, 12183, 11800])
    assert sum(eg.Training(epochs=4, batch=128).steps_for(size) for size in sizes) == steps


# quotas ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [eg.Rehearsal, eg.RehearsalC])
def test_quotas_of_eleven_hundred(make):
    """floor(1100 / t) each: 1100, 550, 366, 275."""
    tasks = eg.split(blobs(10, train=600, size=2), kind="class").deal(0)
    sizes = []
    for n in (1, 2, 3, 4):
        _, method = after(tasks, make(capacity=1100), n)
        assert len({len(x) for x in method.pixels}) == 1
        assert [len(y) for y in method.labels] == [len(x) for x in method.pixels]
        assert method.owners == list(range(n))
        sizes.append(len(method.pixels[0]))
    assert sizes == [1100, 550, 366, 275]


def test_no_more_than_a_task_has():
    tasks = simple(train=10)  # 20 images a task
    _, method = after(tasks, eg.Rehearsal(capacity=50), 2)
    assert [len(x) for x in method.pixels] == [20, 20]
    _, method = after(tasks, eg.Rehearsal(capacity=50), 3)
    assert [len(x) for x in method.pixels] == [16, 16, 16]


def test_older_tasks_keep_the_first_of_theirs():
    tasks = simple()
    states = [held(after(tasks, eg.Rehearsal(capacity=30), n)[1]) for n in (1, 2, 3, 4)]
    assert [[len(slot) for slot in state] for state in states] == [[30], [15] * 2, [10] * 3, [7] * 4]
    for state, later in itertools.pairwise(states):
        for old, new in zip(state, later, strict=False):
            assert new == old[: len(new)]


@pytest.mark.parametrize("make", [eg.Rehearsal, eg.RehearsalC])
def test_no_image_twice_and_each_of_its_own_task(make):
    tasks = simple()
    _, method = after(tasks, make(capacity=120), 4)
    for task, slot, labels in zip(tasks, held(method), method.labels, strict=True):
        assert len(set(slot)) == len(slot) == 30
        assert set(slot) <= set(numbers(task.train))
        assert labels.tolist() == [number % 8 for number in slot]  # the class that the image carries


def test_every_image_is_as_likely_as_any():
    """5 of 20 images, over 400 seeds: each 100 times, by a chi-square test; and so after older ones gave way."""
    tasks = simple(train=10)
    first, second, kept = np.zeros(80), np.zeros(80), np.zeros(80)
    for seed in range(400):
        _, method = after(tasks, eg.Rehearsal(capacity=10), 2, seed)
        old, new = held(method)
        np.add.at(kept, old, 1)
        np.add.at(second, new, 1)
        _, method = after(tasks, eg.Rehearsal(capacity=5), 1, seed + 5000)
        np.add.at(first, held(method)[0], 1)
    own = [np.array(numbers(tasks[t].train)) for t in (0, 1)]
    for counts, mine in ((first, own[0]), (kept, own[0]), (second, own[1])):
        assert counts.sum() == counts[mine].sum() == 400 * 5
        # draws without replacement spread less than the test thinks, by 15/19: it errs on the safe side
        assert chisquare(counts[mine]).pvalue > 1e-4


def test_other_seeds_and_other_tasks_pick_other_images():
    tasks = simple()
    picks = [held(after(tasks, eg.Rehearsal(capacity=60), 2, seed)[1]) for seed in (0, 1)]
    assert picks[0] != picks[1]
    places = [[numbers(tasks[t].train).index(number) for number in picks[0][t]] for t in (0, 1)]
    assert places[0] != places[1]
    assert picks[0] == held(after(tasks, eg.Rehearsal(capacity=60), 2, 0)[1])


# lengths --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capacity", "images", "wanted"),
    [
        (30, 40, 40 + 1 * 30),  # 40 // 30 = 1
        (13, 40, 40 + 3 * 13),  # 40 // 13 = 3
        (80, 40, 40 + 1 * 40),  # at least once, and no more than a task has
        (20, 40, 40 + 2 * 20),
    ],
)
def test_the_whole_buffer_is_repeated_as_often_as_its_capacity_goes_into_the_new_data(capacity, images, wanted):
    tasks = simple(train=images // 2)
    _, method = after(tasks, eg.Rehearsal(capacity=capacity), 1)
    assert len(method.data(tasks[1])) == wanted


def test_the_factor_goes_by_the_capacity_and_not_by_what_is_held():
    """Capacity 31 holds 3 · 10 after three tasks; 62 // 31 = 2, 60 // 31 = 1 although 60 // 30 = 2."""
    _, method = after(simple(train=30), eg.Rehearsal(capacity=31), 3)
    assert len(method.data(simple(train=30)[3])) == 60 + 30
    _, method = after(simple(train=31), eg.Rehearsal(capacity=31), 3)
    assert len(method.data(simple(train=31)[3])) == 62 + 2 * 30


def test_one_pass_has_the_new_once_and_the_buffer_r_times():
    tasks = simple()
    _, method = after(tasks, eg.Rehearsal(capacity=25), 2)
    data = method.data(tasks[2])
    assert len(data) == 80 + 3 * 24
    count = np.bincount(numbers(data), minlength=320)
    old = [number for slot in held(method) for number in slot]
    assert sorted(np.flatnonzero(count == 1)) == sorted(numbers(tasks[2].train))
    assert sorted(np.flatnonzero(count == 3)) == sorted(old)
    assert count.sum() == 152


def sequence(tasks: Tasks, method: eg.Method, training: eg.Training) -> list[int]:
    """Optimiser steps of each task."""
    net = eg.MLP(1).build(tasks.shape, tasks.outputs)
    learner = eg.Learner(net, tasks, training, 0, torch.device("cpu"))
    method.start(learner, tasks)
    steps = []
    for task in tasks:
        learner.task = task.index
        steps.append(training.steps_for(len(method.data(task))))
        method.end_task(learner, task)
    return steps


@pytest.mark.mnist
@pytest.mark.parametrize(
    ("make", "steps", "quotas"),
    [
        (lambda: eg.Rehearsal(capacity=1100), [99, 181, 174, 190, 179], [220] * 5),
        (lambda: eg.RehearsalC(capacity=4400), [99, 164, 157, 164, 161], [880] * 5),
        (lambda: eg.Rehearsal(capacity=4400), [99, 164, 157, 164, 161], [880] * 5),
    ],
)
def test_steps_of_split_mnist(split_mnist, make, steps, quotas):
    """3292 and 2980 a run of four epochs."""
    method = make()
    found = sequence(split_mnist["class"], method, eg.Training(epochs=4, batch=128))
    assert [n // 4 for n in found] == steps
    assert sum(found) == {181: 3292, 164: 2980}[steps[1]]
    assert [len(x) for x in method.pixels] == quotas


@pytest.mark.mnist
def test_steps_of_split_mnist_with_two_slots_and_on_new_data_alone(split_mnist):
    """GEM of the paper: 2 · floor(1100 / 2t) a task; the textbook's is plain training's 1884."""
    training = eg.Training(epochs=4, batch=128)
    assert sum(sequence(split_mnist["class"], eg.GEMTextbook(), training)) == 1884
    method = eg.GEM()
    found = sequence(split_mnist["class"], method, training)
    assert [len(x) for x in method.pixels] == [110] * 10
    # 12089 + 10·1100, 11263 + 10·4·275, 12183 + 11·6·183, 11800 + 10·8·137 images, in batches of 128
    assert [n // 4 for n in found] == [99, 181, 174, 190, 178]


@pytest.mark.mnist
@pytest.mark.parametrize(
    ("make", "first", "then", "total"),
    [
        (lambda: eg.Rehearsal(capacity=4000), 469, 938, 89_110),
        (lambda: eg.RehearsalC(capacity=16000), 469, 844, 80_650),
    ],
)
def test_steps_of_permuted_mnist(permuted_mnist, make, first, then, total):
    method = make()
    quotas = {4000: [4000, 2000, 1333, 1000, 800, 666, 571, 500, 444], 16000: [16000, 8000, 5333, 4000, 3200, 2666]}
    found = sequence(permuted_mnist["domain"], method, eg.Training(epochs=10, batch=128))
    assert [n // 10 for n in found] == [first] + [then] * 9
    assert sum(found) == total
    assert len(method.pixels[0]) == method.capacity // 10
    assert quotas[method.capacity][4] == method.capacity // 5


def test_steps_of_a_run():
    """80 in sixteens, then 80 + 4 · 20 = 160: 5 and 10 a pass, two passes."""
    tasks = simple()
    run = Run(tasks, lambda: eg.Rehearsal(capacity=20), eg.Training(epochs=2, batch=16), eg.MLP(4))
    assert [c["outcome"]["steps"] for c in run.checkpoints] == [10, 30, 50, 70]  # 2·9·… 80 + 4·18 = 152: 10 too


@pytest.mark.parametrize("mixing", ["shuffled", "balanced"])
@pytest.mark.parametrize("capacity", [1, 3, 10])
def test_a_buffer_smaller_than_a_batch(capacity, mixing):
    """Its images come several times a batch; one task after another may even have none left."""
    tasks = simple()
    run = Run(tasks, lambda: eg.Rehearsal(capacity=capacity, mixing=mixing), eg.Training(epochs=1, batch=64), eg.MLP(4))
    assert run.outcome.status == "done"


# what is stored -------------------------------------------------------------------------------------------------------


NORMALS = [None, (0.1, 0.2752), (0.4914, 0.2470), (0.3, 1.7)]


@pytest.mark.parametrize("normalize", NORMALS)
@pytest.mark.parametrize("make", ["split", "permute"])
@pytest.mark.parametrize("channels", [1, 3])
def test_eight_bit_pixels_come_back_bit_for_bit(normalize, make, channels):
    """What is drawn from the buffer of rehearsal-c is what the task itself would have given, permuted and padded."""
    if normalize and channels == 3:
        normalize = ((normalize[0], 0.5, 0.2), (normalize[1], 0.3, 0.9))
    images = blobs(4, train=20, size=4, channels=channels)
    scenario = (eg.split if make == "split" else eg.permute)(images, pad=1, normalize=normalize)
    tasks = scenario.deal(0)
    for method in (eg.RehearsalC(capacity=30), eg.Rehearsal(capacity=30)):
        after(tasks, method, 2)
        memory = everything(method.memory())
        originals = {task.index: {tuple(x): y for x, y in rows(task)} for task in tasks[:2]}
        for x, y, t in zip(memory.x.tolist(), memory.y.tolist(), memory.t.tolist(), strict=True):
            assert originals[t][tuple(x)] == y
        assert memory.x.dtype == torch.float32
        stored = {x.dtype for x in method.pixels}
        assert stored == {torch.uint8 if type(method) is eg.RehearsalC else torch.float32}


def rows(task):
    batch = everything(task.train)
    return zip(batch.x.tolist(), batch.y.tolist(), strict=True)


def two_sets(kind: str = "class") -> Tasks:
    """Two tasks whose pixels are scaled differently, as in a queue of several sets."""
    x = torch.arange(24, dtype=torch.uint8).repeat_interleave(4).view(24, 4) * 10
    tasks = []
    for i, (scale, shift) in enumerate(((1 / 255, 0.0), (1 / (255 * 0.3), -1.4))):
        scaling = Scaling(torch.tensor([scale]), torch.tensor([shift]))
        y = torch.arange(24) % 2 + 2 * i
        tasks.append(Task(i, Pixels(x, y, i, scaling), Pixels(x, y, i, scaling), ("a", "b")))
    heads = (slice(0, 2), slice(2, 4))
    return Tasks(tuple(tasks), kind, heads, 4, (1, 2, 2))


@pytest.mark.parametrize("make", [eg.RehearsalC, eg.Rehearsal])
def test_tasks_of_different_scaling_keep_their_own(make):
    tasks = two_sets()
    _, method = after(tasks, make(capacity=24), 2)
    memory = everything(method.memory())
    for x, y, t in zip(memory.x, memory.y, memory.t, strict=True):
        source = everything(tasks[int(t)].train)
        same = (source.x == x).all(1)
        assert same.sum() == 1
        assert source.y[same].item() == y
    assert sorted(memory.t.tolist()) == [0] * 12 + [1] * 12


@pytest.mark.parametrize("make", [eg.Rehearsal, eg.RehearsalC])
@pytest.mark.parametrize("loaded", [True, False])
def test_buffers_hold_their_own_pixels(make, loaded):
    """Nothing of the set can be reached through them: closed or overwritten, the buffer stays as it was."""
    tasks = simple()
    net = eg.MLP(4).build(tasks.shape, tasks.outputs)
    learner = eg.Learner(net, tasks, eg.Training(), 0, torch.device("cpu"))
    method = make(capacity=2000)  # all images: a view would do, but must not
    method.start(learner, tasks)
    with tasks.guarded():
        with tasks[0].train.opened(load=loaded):
            method.end_task(learner, tasks[0])
        with pytest.raises(ClosedDataError):
            everything(tasks[0].train)
        before = everything(method.memory()).x.clone()
        next(tasks[0].train.leaves()).x.fill_(0)
        assert torch.equal(everything(method.memory()).x, before)
        assert before.abs().sum() > 0
    for x in method.pixels:
        assert x.untyped_storage().nbytes() == x.numel() * x.element_size()


def test_truncation_frees_what_is_given_up():
    """A slice would hold on to the whole buffer of the first task."""
    _, method = after(simple(), eg.Rehearsal(capacity=60), 3)
    for x in (*method.pixels, *method.labels):
        assert x.untyped_storage().nbytes() == x.numel() * x.element_size()
        assert len(x) == 20


# what is drawn --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mixing", ["shuffled", "balanced"])
@pytest.mark.parametrize("make", [eg.Rehearsal, eg.RehearsalC])
@pytest.mark.parametrize("kind", KINDS)
def test_images_of_mixed_batches_have_their_labels_and_tasks(kind, make, mixing):
    """An image carries its number; its class is the number modulo 8, its task a quarter of that, rounded down."""
    tasks = simple(kind)
    learner, method = after(tasks, make(capacity=30, mixing=mixing), 3)
    seen = set()
    for batch in batches(method.data(tasks[3]), eg.Training(epochs=1, batch=16), learner.rng("shuffle")):
        pixels = (batch.x * 255).round().long()
        of_class = (256 * pixels[:, 0] + pixels[:, 1]) % 8
        assert batch.t.tolist() == (of_class // 2).tolist()
        assert batch.y.tolist() == (of_class % 2 if kind == "domain" else of_class).tolist()
        assert batch.tasks == (0, 1, 2, 3)
        seen.update(batch.t.tolist())
    assert seen == {0, 1, 2, 3}


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_of_a_mixed_batch_uses_each_image_s_own_outputs(kind):
    tasks = simple(kind)
    learner, method = after(tasks, eg.Rehearsal(capacity=30), 2)
    batch = method.data(tasks[2]).batch(torch.arange(70, 110))
    assert set(batch.t.tolist()) == {0, 1, 2}
    logits = learner.logits(batch.x)
    outputs = {
        "task": lambda t: range(2 * t, 2 * t + 2),
        "domain": lambda t: range(2),
        "class": lambda t: range(6),
        "class-known": lambda t: range(8),
    }[kind]
    total = 0.0
    for row, y, t in zip(logits, batch.y.tolist(), batch.t.tolist(), strict=True):
        own = row[list(outputs(t))]
        total -= (row[y] - own.logsumexp(0)).item()
    assert learner.loss(batch).item() == pytest.approx(total / 40, rel=1e-5)


@pytest.mark.parametrize("batch", [2, 16, 20, 64])
@pytest.mark.parametrize("capacity", [20, 500])
def test_balanced_batches_are_half_new_half_old(batch, capacity):
    """80 new images: one pass over them, each exactly once; the rest of a pass is split in halves too."""
    tasks = simple()
    learner, method = after(tasks, eg.Rehearsal(capacity=capacity, mixing="balanced"), 2)
    data = method.data(tasks[2])
    training = eg.Training(epochs=2, batch=batch)
    drawn = list(batches(data, training, learner.rng("shuffle")))
    per_pass = -(-160 // batch)
    assert len(drawn) == 2 * per_pass
    sizes = [len(b.y) for b in drawn[:per_pass]]
    assert sizes == [batch] * (160 // batch) + ([160 % batch] if 160 % batch else [])
    for b in drawn:
        assert int((b.t == 2).sum()) * 2 == len(b.t)
    for epoch in (drawn[:per_pass], drawn[per_pass:]):
        new = torch.cat([b.x[b.t == 2] for b in epoch])
        pixels = (new * 255).round().long()
        assert sorted((256 * pixels[:, 0] + pixels[:, 1]).tolist()) == sorted(numbers(tasks[2].train))
    assert any(not torch.equal(a.x, b.x) for a, b in zip(drawn[:per_pass], drawn[per_pass:], strict=True))


def test_balanced_draws_every_old_image_alike():
    """Over 200 passes of 80 draws from 20 images: 800 each."""
    tasks = simple()
    _, method = after(tasks, eg.Rehearsal(capacity=20, mixing="balanced"), 2)
    data = method.data(tasks[2])
    rng = torch.Generator().manual_seed(0)
    orders = torch.cat([data.order(rng, 16) for _ in range(200)])
    counts = np.bincount((orders[orders >= 80] - 80).numpy(), minlength=20)
    assert counts.sum() == 16_000
    assert len(counts) == 20
    assert chisquare(counts).pvalue > 1e-4


def test_balanced_needs_two_images_a_batch():
    tasks = simple()
    learner, method = after(tasks, eg.Rehearsal(capacity=20, mixing="balanced"), 1)
    with pytest.raises(ValueError, match="batch 1"):
        next(batches(method.data(tasks[1]), eg.Training(batch=1), learner.rng("shuffle")))


def test_the_first_task_has_no_memory():
    tasks = simple()
    for mixing in ("shuffled", "balanced"):
        _, method = after(tasks, eg.Rehearsal(mixing=mixing), 0)
        assert method.data(tasks[0]) is tasks[0].train


def test_of_a_pool_of_all_classes():
    """Kind iid: a task's data have several parts."""
    tasks = simple("iid")
    assert isinstance(tasks[0].train, Joined)
    _, method = after(tasks, eg.RehearsalC(capacity=60), 3)
    for i, (slot, labels) in enumerate(zip(held(method), method.labels, strict=True)):
        assert set(slot) <= set(numbers(tasks[i].train))
        assert labels.tolist() == [number % 8 for number in slot]
        assert len(set(slot)) == 20


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_buffer_of_nothing_is_refused(capacity):
    for make in (eg.Rehearsal, eg.RehearsalC, eg.GEM, eg.GEMTextbook):
        with pytest.raises(ValueError, match="capacity"):
            make(capacity=capacity)


def test_picks_do_not_hang_on_training():
    """The same seed picks the same images whatever the network has become."""
    scenario = eg.split(numbered(4), kind="class")
    picks = []
    for lr in (1e-3, 1e-1):
        run = Run(scenario.deal(0), lambda: eg.RehearsalC(capacity=20), eg.Training(epochs=1, lr=lr), eg.MLP(4))
        picks.append(run.checkpoints[-1]["method"][0]["pixels"])
    assert all(torch.equal(a, b) for a, b in zip(*picks, strict=True))
    learner = learner_for(scenario, 4)
    method = eg.RehearsalC(capacity=20)
    method.start(learner, learner.tasks)
    for task in learner.tasks:
        learner.task = task.index
        method.end_task(learner, task)
    assert all(torch.equal(a, b) for a, b in zip(method.pixels, picks[0], strict=True))
