"""Generative replay: what is drawn for which task, who labels it, what it weighs, and the sequences written out."""

import copy
import math

import numpy as np
import pytest
import torch
from helpers import Run, blobs, everything
from torch.nn.functional import binary_cross_entropy, cross_entropy

import engram as eg
from engram.core.streams import stream
from engram.learning.learner import Learner
from engram.learning.train import new_learner
from engram.methods._replay import GenerativeReplay, distillation
from engram.nets.vae import VAE, FeedbackNet, Generator
from engram.scenarios.kinds import ScenarioError
from engram.scenarios.scenario import compute_scaling

NET = eg.MLP(7, 6)
QUICK = eg.Training(epochs=1, batch=16, lr=0.01)
KINDS = ("task", "domain", "class")
METHODS = {"dgr": eg.DGR, "rtf": eg.RtF}


def scenario(kind: str = "class", classes: int = 8, **options):
    return eg.split(blobs(classes, train=20, size=5), kind=kind, **options)


def at_task(method: GenerativeReplay, made, task: int, seed: int = 0) -> Learner:
    """A learner that has come to a task, counted from 0; between the tasks its weights are moved, not trained."""
    tasks = made.deal(seed)
    training = eg.Training(steps=1, batch=16, lr=0.05)
    learner = new_learner(tasks, method, NET, training, seed, torch.device("cpu"))
    for learner.task in range(task):
        method.begin_task(learner, tasks[learner.task])
        with torch.no_grad():
            for p in learner.params:
                p += 0.1 * torch.randn(p.shape, generator=stream(seed, "test", learner.task))
        learner.steps += 1
        method.end_task(learner, tasks[learner.task])
    learner.task = task
    method.begin_task(learner, tasks[task])
    return learner


# what is drawn --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("task", "each"), [(1, 16), (2, 8), (3, 6)])
def test_every_past_task_gets_an_equal_part_rounded_up(name, task, each):
    """16 images over 1, 2 and 3 past tasks: ⌈16 / (t − 1)⌉ a task, so 18 in the fourth."""
    method = METHODS[name]()
    learner = at_task(method, scenario("task"), task)
    intensities, batch = method.replay(learner, 16)
    assert batch.t.tolist() == [past for past in range(task) for _ in range(each)]
    assert batch.tasks == tuple(range(task))
    assert len(intensities) == len(batch.x) == each * task


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", ["domain", "class"])
def test_one_head_gets_as_many_as_the_batch_has(name, kind):
    method = METHODS[name]()
    learner = at_task(method, scenario(kind), 3)
    intensities, batch = method.replay(learner, 16)
    assert len(intensities) == len(batch.x) == 16
    assert batch.tasks == (2,)


@pytest.mark.parametrize("name", METHODS)
def test_images_are_fresh_at_every_step_and_come_from_the_generator_as_it_was(name):
    method = METHODS[name]()
    learner = at_task(method, scenario(), 2)
    then = copy.deepcopy(method.generator)
    if name == "rtf":  # its generator goes on learning within the task
        with torch.no_grad():
            for p in method.generator.parameters():
                p += 1
    then = then.generator if isinstance(then, VAE) else then
    rng = stream(0, "noise", 2)
    one, two = (method.replay(learner, 16)[0] for _ in range(2))
    assert torch.equal(one, then.draw(16, rng))
    assert torch.equal(two, then.draw(16, rng))
    assert not torch.equal(one, two)


# who labels it --------------------------------------------------------------------------------------------------------


def labels_of(method: eg.DGR, learner: Learner) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(labels, tasks, all logits of the teacher) for many drawn images."""
    _, batch = method.replay(learner, 600)
    return method.teacher.predict(batch), batch.t, method.teacher.logits(batch.x)


def test_in_class_learning_the_old_network_names_old_classes_only():
    """Third task: the likeliest of outputs 0 to 3, also where a later output is higher."""
    method = eg.DGR()
    learner = at_task(method, scenario("class"), 2)
    bias = method.teacher.net.layers[-1].bias
    bias -= labels_of(method, learner)[2].mean(0)
    bias[4:] += 100
    labels, _, logits = labels_of(method, learner)
    assert logits.argmax(1).min() >= 4
    assert labels.tolist() == logits[:, :4].argmax(1).tolist()
    assert len(set(labels.tolist())) > 1


def test_in_task_learning_each_part_is_named_by_its_own_head():
    method = eg.DGR()
    learner = at_task(method, scenario("task"), 3)
    labels, t, logits = labels_of(method, learner)
    for past in range(3):
        head = logits[t == past][:, 2 * past : 2 * past + 2]
        assert labels[t == past].tolist() == (head.argmax(1) + 2 * past).tolist()


def test_in_domain_learning_all_outputs_are_names():
    method = eg.DGR()
    learner = at_task(method, scenario("domain"), 2)
    labels, _, logits = labels_of(method, learner)
    assert labels.tolist() == logits.argmax(1).tolist()


# what a step minimises ------------------------------------------------------------------------------------------------


def drawn_again(method: GenerativeReplay, learner: Learner, n: int):
    """What the next step will draw: its stream starts anew, so that a test and the step see the same."""
    method._noise = stream(5, "test")
    found = method.replay(learner, n)
    noise = torch.randn(n + len(found[0]), 100, generator=method._noise)
    method._noise = stream(5, "test")
    return *found, noise


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("task", [1, 2])
def test_dgr_s_loss_is_one_t_th_of_the_new_and_the_rest_of_the_old(kind, task):
    """Second task: ½ and ½; third: ⅓ and ⅔. Old images count over all outputs that are seen now."""
    method = eg.DGR()
    learner = at_task(method, scenario(kind), task)
    with torch.no_grad():
        for p in learner.params:  # it has moved on since
            p += 0.5 * torch.randn(p.shape, generator=stream(0, "test", task))
    batch = learner.tasks[task].train.batch(torch.arange(16))
    _, old, _ = drawn_again(method, learner, 16)
    labels = method.teacher.predict(old)
    if kind == "task":
        new = cross_entropy(learner.logits(batch.x)[:, 2 * task : 2 * task + 2], batch.y - 2 * task)
        heads = [
            cross_entropy(learner.logits(old.x[old.t == k])[:, 2 * k : 2 * k + 2], labels[old.t == k] - 2 * k)
            for k in range(task)
        ]
        past = sum(heads) / task
    else:
        seen = 2 if kind == "domain" else 2 * task + 2
        new = cross_entropy(learner.logits(batch.x)[:, :seen], batch.y)
        past = cross_entropy(learner.logits(old.x)[:, :seen], labels)
    assert abs(float((new - past).detach())) > 0.02, "else weights could not be told apart"
    share = 1 / (task + 1)
    torch.testing.assert_close(method.loss(learner, batch), share * new + (1 - share) * past)


def generative_loss(net: FeedbackNet, x, intensities, noise):
    """BCE over all images and pixels, and KL over both, of the autoencoder written out."""
    features = net.classifier.features(x)
    mean, log_variance = net.generator.mean(features), net.generator.log_variance(features)
    generated = torch.sigmoid(net.generator.logits(mean + (log_variance / 2).exp() * noise))
    divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
    return binary_cross_entropy(generated, intensities) + divergence / intensities.numel()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("normalize", [None, (0.3, 0.4)])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_rtf_s_loss_has_six_parts(kind, normalize, reduction):
    """Third task: ⅓ of (CE + BCE + KL) on its images, ⅔ of (distillation + BCE + KL) on drawn ones."""
    method = eg.RtF(reduction=reduction)
    learner = at_task(method, scenario(kind, normalize=normalize), 2)
    batch = learner.tasks[2].train.batch(torch.arange(16))
    stored = learner.tasks[2].train.pixels(torch.arange(16)) / 255
    intensities, old, noise = drawn_again(method, learner, 16)
    if normalize:
        torch.testing.assert_close(old.x, (intensities - 0.3) / 0.4)
    logits, then = learner.logits(old.x), method.teacher.logits(old.x).detach()
    if kind == "task":
        new = cross_entropy(learner.logits(batch.x)[:, 4:6], batch.y - 4)
        parts = [(slice(8 * k, 8 * k + 8), slice(2 * k, 2 * k + 2)) for k in range(2)]
        soft = sum(distillation(then[rows, head], logits[rows, head], 2.0, reduction) for rows, head in parts) / 2
    else:
        before, after = {"domain": (2, 2), "class": (4, 6)}[kind]
        new = cross_entropy(learner.logits(batch.x)[:, :after], batch.y)
        soft = distillation(then[:, :before], logits[:, :after], 2.0, reduction)
    now = new + generative_loss(learner.net, batch.x, stored, noise[:16])
    past = soft + generative_loss(learner.net, old.x, intensities, noise[16:])
    torch.testing.assert_close(method.loss(learner, batch), now / 3 + 2 * past / 3)


def test_the_weight_of_the_autoencoder_multiplies_both_its_losses():
    losses = {}
    for weight in (0.0, 1.0, 3.0):
        method = eg.RtF(generative=weight)
        learner = at_task(method, scenario(), 2)
        batch = learner.tasks[2].train.batch(torch.arange(16))
        drawn_again(method, learner, 16)
        losses[weight] = float(method.loss(learner, batch).detach())
    assert losses[3.0] - losses[0.0] == pytest.approx(3 * (losses[1.0] - losses[0.0]), rel=1e-4)
    assert losses[1.0] - losses[0.0] > 0.5  # BCE of pixels that are generated badly is about log 2


@pytest.mark.parametrize("normalize", [None, (0.3, 0.4)])
def test_dgr_s_generator_is_the_sequence_written_out(normalize):
    """Two tasks of two passes: its own Adam, never reset; on the second, ½ of its own images and ½ of its former
    self's, as many. Targets are intensities in [0, 1], inputs are as the network gets them."""
    training = eg.Training(epochs=2, batch=16, lr=0.01)
    made = scenario(classes=4, normalize=normalize)
    run = Run(made.deal(0), eg.DGR, training, NET)
    torch.manual_seed(stream(0, "generator").initial_seed())
    vae = VAE(25, (7, 6))
    adam = torch.optim.Adam(vae.parameters(), lr=0.01)
    mean, deviation = normalize or (0.0, 1.0)
    old = None
    for task in made.deal(0):
        shuffle, rng = stream(0, "generator", task.index), stream(0, "generator noise", task.index)
        for _ in range(2):
            for rows in torch.split(torch.randperm(40, generator=shuffle), 16):
                parts = [task.train.pixels(rows) / 255]
                if old is not None:
                    parts.append(old.draw(len(rows), rng))
                noises = torch.randn(len(parts) * len(rows), 100, generator=rng).split(len(rows))
                loss = torch.zeros(())
                for intensities, noise in zip(parts, noises, strict=True):
                    logits, m, v = vae((intensities - mean) / deviation, noise)
                    divergence = -0.5 * (1 + v - m**2 - v.exp()).sum()
                    part = binary_cross_entropy(torch.sigmoid(logits), intensities) + divergence / intensities.numel()
                    loss = loss + part / len(parts)
                adam.zero_grad()
                loss.backward()
                adam.step()
        old = copy.deepcopy(vae.generator)
    found = run.checkpoints[-1]["method"][0]["generator"]
    for name, wanted in vae.state_dict().items():
        torch.testing.assert_close(found[name], wanted, rtol=1e-3, atol=1e-4)
    assert run.outcome.steps == 2 * 2 * 2 * 3, "the network's and the generator's: tasks · passes · batches of 40"


# the form of 2022 -----------------------------------------------------------------------------------------------------


def dgr2022() -> eg.DGR:
    return eg.DGR(generator_turn="interleaved", heads_share=True, log_variance_bias=False)


def test_both_networks_learn_in_every_step_from_the_same_images():
    """Two tasks of two steps, written out: labels are the old network's arg-max, and the generator is trained on the
    very images that the network was, with its own Adam."""
    training = eg.Training(steps=2, batch=16, lr=0.01)
    run = Run(scenario("class-known", classes=4).tasks(0), dgr2022, training, NET)
    method = dgr2022()
    learner = new_learner(scenario("class-known", classes=4).tasks(0), method, NET, training, 0, torch.device("cpu"))
    net, vae = learner.net, method.generator
    adam, own = (torch.optim.Adam(part.parameters(), lr=0.01) for part in (net, vae))
    old_net = old_vae = None
    for task in learner.tasks:
        shuffle, draws = stream(0, "shuffle", task.index), stream(0, "noise", task.index)
        noises = stream(0, "generator noise", task.index)
        for rows in torch.split(torch.randperm(40, generator=shuffle), 16)[:2]:
            batch = task.train.batch(rows)
            if old_net is None:
                loss, parts = cross_entropy(net(batch.x), batch.y), [(1.0, batch.x)]
            else:
                drawn = old_vae.generator.draw(16, draws)
                labels = old_net(drawn).argmax(1)
                loss = 0.5 * cross_entropy(net(batch.x), batch.y) + 0.5 * cross_entropy(net(drawn), labels)
                parts = [(0.5, batch.x), (0.5, drawn)]
            noise = torch.randn(16 * len(parts), 100, generator=noises).split(16)
            generated = torch.zeros(())
            for (weight, x), epsilon in zip(parts, noise, strict=True):
                logits, m, v = vae(x, epsilon)
                divergence = -0.5 * (1 + v - m**2 - v.exp()).sum()
                generated = generated + weight * (
                    binary_cross_entropy(torch.sigmoid(logits), x) + divergence / x.numel()
                )
            for optimizer, value in ((adam, loss), (own, generated)):
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
        old_net, old_vae = copy.deepcopy(net), copy.deepcopy(vae)
    for found, wanted in ((run.checkpoints[-1]["net"], net), (run.checkpoints[-1]["method"][0]["generator"], vae)):
        for name, value in wanted.state_dict().items():
            torch.testing.assert_close(found[name], value, rtol=1e-3, atol=1e-4)
    assert run.outcome.steps == 2 * 2 * 2


def test_all_past_heads_share_the_drawn_images():
    """Third task: ⅓ of the new loss, ⅔ of the mean over both past heads, each over all 16 images."""
    method = dgr2022()
    learner = at_task(method, scenario("task"), 2)
    with torch.no_grad():
        for p in learner.params:
            p += 0.5 * torch.randn(p.shape, generator=stream(0, "test", 2))
    batch = learner.tasks[2].train.batch(torch.arange(16))
    method._noise = stream(5, "test")
    drawn = method.draw(16, stream(5, "test"))
    now, then = learner.logits(drawn), method.teacher.logits(drawn)
    heads = [cross_entropy(now[:, k : k + 2], then[:, k : k + 2].argmax(1)) for k in (0, 2)]
    new = cross_entropy(learner.logits(batch.x)[:, 4:6], batch.y - 4)
    torch.testing.assert_close(method.loss(learner, batch), new / 3 + sum(heads) / 3)


def test_the_generator_of_2022_has_the_paper_s_size():
    """784–400–400 → 100 → 400–400–784, log-variance without a bias: 1,069,684 parameters."""
    kept = eg.DGR(log_variance_bias=False).kept_bytes(eg.MLP(400, 400).build((1, 28, 28), 10), 784)
    assert kept == 4 * 1_069_684
    assert eg.DGR().kept_bytes(eg.MLP(400, 400).build((1, 28, 28), 10), 784) == kept + 400


def test_heads_that_share_images_need_one_scale():
    with pytest.raises(ScenarioError, match="normalised by different statistics"):
        Run(queue("task").tasks(0), dgr2022, QUICK, NET)


# scales ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 3])
def test_shades_and_network_input_are_each_other_s_inverse(channels):
    pixels = torch.randint(0, 256, (9, 4 * channels), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    normalize = (0.13, 0.31) if channels == 1 else ((0.1, 0.4, 0.6), (0.2, 0.3, 0.25))
    scaling = compute_scaling(normalize, pixels, channels)
    x = scaling(pixels)
    torch.testing.assert_close(scaling.to_intensities(x), pixels / 255, atol=1e-6, rtol=0)
    torch.testing.assert_close(scaling.from_intensities(pixels / 255), x, atol=1e-5, rtol=0)
    assert not scaling.plain
    assert float(scaling.to_intensities(x).min()) >= 0
    assert float(scaling.to_intensities(x).max()) <= 1


def test_plain_pixels_need_no_scaling():
    scaling = compute_scaling(None, torch.zeros(1, 4), 1)
    assert scaling.plain
    intensities = torch.rand(3, 4)
    torch.testing.assert_close(scaling.from_intensities(intensities), intensities)


def queue(kind: str, normalize="train"):
    """Three sets of two classes, each darker than the one before, and normalised by its own statistics."""
    sets = [blobs(2, train=20, size=5, seed=i, name=f"set {i}") for i in range(3)]
    darker = [eg.Images(s.x_train // (i + 1), s.y_train, s.x_test // (i + 1), s.y_test, name=s.name)
              for i, s in enumerate(sets)]  # fmt: skip
    return eg.queue(darker, kind=kind, size=5, normalize=normalize)


@pytest.mark.parametrize("name", METHODS)
def test_drawn_images_enter_the_network_in_the_scale_of_the_task_that_they_are_drawn_for(name):
    """In a queue of image sets every task has a scale of its own."""
    method = METHODS[name]()
    learner = at_task(method, queue("task"), 2)
    means, deviations = [], []
    for task in learner.tasks:
        pixels = task.train.pixels(torch.arange(40)) / 255
        means.append(float(pixels.mean()))
        deviations.append(float(pixels.std(correction=0)))
    assert means[0] > 1.5 * means[1] > 2 * means[2]
    intensities, batch = method.replay(learner, 16)
    for task in range(2):
        rows = slice(8 * task, 8 * task + 8)
        torch.testing.assert_close(
            batch.x[rows], (intensities[rows] - means[task]) / deviations[task], rtol=1e-4, atol=1e-4
        )
    now = everything(learner.tasks[2].train).x
    torch.testing.assert_close(method.intensities(now), pixels)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_queue_of_sets_can_be_learned_and_resumed(name, kind):
    made = queue(kind, "train" if kind == "task" else (0.3, 0.4))
    whole = Run(made.deal(0), METHODS[name], QUICK, NET)
    assert whole.outcome.status == "done"
    assert Run(made.deal(0), METHODS[name], QUICK, NET, resume=whole.checkpoints[1]).bits() == whole.bits()


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", ["domain", "class", "class-known", "iid"])
def test_where_drawn_images_are_of_no_known_task_all_tasks_have_one_scale(name, kind):
    with pytest.raises(ScenarioError, match="normalised by different statistics"):
        Run(queue(kind).deal(0), METHODS[name], QUICK, NET)


@pytest.mark.parametrize("name", METHODS)
def test_scales_of_past_tasks_are_kept(name):
    """A scale and a shift for every channel and task, as numbers."""
    method = METHODS[name]()
    run = Run(scenario(normalize="train").deal(0), lambda: method, QUICK, NET)
    assert run.outcome.memory["kept"]["scales"] == 0
    assert [(len(scale), len(shift)) for scale, shift in method.scales] == [(1, 1)] * 4


# the ledger -----------------------------------------------------------------------------------------------------------

ENCODER = 25 * 7 + 7 + 7 * 6 + 6
GENERATOR = 2 * (6 * 100 + 100) + (100 * 6 + 6) + (6 * 7 + 7) + (7 * 25 + 25)
CLASSIFIER = ENCODER + 6 * 8 + 8


@pytest.mark.parametrize(
    ("name", "kept", "working"),
    [
        (
            "dgr",
            {"generator": 4 * (ENCODER + GENERATOR), "generator_optimizer": 0, "scales": 0},
            {"teacher": 4 * CLASSIFIER, "old_generator": 4 * (ENCODER + GENERATOR)},
        ),
        ("rtf", {"generator": 4 * GENERATOR, "scales": 0}, {"teacher": 4 * (CLASSIFIER + GENERATOR)}),
    ],
)
def test_a_generator_is_kept_and_what_it_was_is_worked_with(name, kept, working):
    """Optimisers count nowhere, as the network's own does not."""
    run = Run(scenario().deal(0), METHODS[name], QUICK, NET)
    assert run.outcome.memory == {"kept": kept, "working": working}
    promised = METHODS[name]().kept_bytes(NET.build((1, 5, 5), 8), 25)
    assert promised == sum(kept.values())


def test_rtf_s_generator_is_part_of_the_network_that_is_trained():
    method = eg.RtF()
    learner = at_task(method, scenario(), 0)
    assert isinstance(learner.net, FeedbackNet)
    assert learner.net.generator is method.generator
    assert sum(p.numel() for p in learner.params) == CLASSIFIER + GENERATOR


# where it cannot work -------------------------------------------------------------------------------------------------


class Convolutions:
    def build(self, shape, outputs):
        return torch.nn.Sequential(
            torch.nn.Unflatten(1, shape), torch.nn.Conv2d(shape[0], outputs, 5), torch.nn.Flatten()
        )


@pytest.mark.parametrize("name", METHODS)
def test_a_network_without_hidden_layers_to_mirror_is_refused(name):
    with pytest.raises(ValueError, match="hidden layers of an MLP, and the network is Sequential"):
        Run(scenario().deal(0), METHODS[name], QUICK, Convolutions())


def test_a_weight_that_means_nothing_is_refused():
    for weight in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match=f"generative {weight}.*0 or more"):
            eg.RtF(generative=weight)


# what can be looked at ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("channels", [1, 3])
def test_samples_are_what_the_generator_draws_after_each_task(name, channels):
    """64 pictures, 5 × 5 pixels, in the layout of image sets: channels last, none where there is one."""
    told = []
    tasks = eg.split(blobs(4, train=20, size=5, channels=channels), normalize="train").deal(0)
    run = Run(tasks, METHODS[name], QUICK, NET, watch=told.append)
    shown = [at for at in told if at.samples is not None]
    assert [(at.task, at.accuracy) for at in shown] == [(1, run.outcome.accuracy[0]), (2, run.outcome.accuracy[1])]
    for at in shown:
        state = run.checkpoints[at.task - 1]["method"][0]["generator"]
        generator = Generator(25 * channels, (7, 6))
        generator.load_state_dict(
            {key.removeprefix("generator."): v for key, v in state.items() if "encoder" not in key}
        )
        wanted = (255 * generator.draw(64, stream(0, "samples", at.task - 1))).round()
        wanted = wanted.view(64, 3, 5, 5).permute(0, 2, 3, 1) if channels == 3 else wanted.view(64, 5, 5)
        assert at.samples.dtype == np.uint8
        assert at.samples.tolist() == wanted.tolist()


def test_a_method_without_a_generator_shows_nothing():
    told = []
    Run(scenario().deal(0), eg.LwF, QUICK, NET, watch=told.append)
    assert {at.samples for at in told} == {None}


def test_a_generator_learns_to_generate():
    """Two patterns in their noise: after a task, drawn images are nearer to one of them than random ones are."""
    images = blobs(4, train=60, size=5, noise=10)
    told = []
    Run(eg.split(images).deal(0), eg.DGR, eg.Training(steps=150, batch=32, lr=0.003), eg.MLP(40), watch=told.append)
    drawn = {at.task: torch.from_numpy(at.samples).view(64, 25) / 255 for at in told if at.samples is not None}
    x, y = torch.from_numpy(images.x_train).view(-1, 25) / 255, images.y_train
    centres = torch.stack([x[y == label].mean(0) for label in range(4)])
    random = torch.rand(64, 25, generator=torch.Generator().manual_seed(0))
    far = float(torch.cdist(random, centres).min(1).values.mean())
    assert float(torch.cdist(drawn[1], centres[:2]).min(1).values.mean()) < 0.5 * far
    nearest = torch.cdist(drawn[2], centres).argmin(1)
    assert (nearest < 2).sum() > 10, "old images are still generated after the second task"
    assert (nearest >= 2).sum() > 10
