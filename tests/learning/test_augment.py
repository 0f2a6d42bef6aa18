"""Augmented images: what each name does to pixels, who sees them, and that chance comes from a named stream."""

import pytest
import torch
from helpers import Run, blobs, learner_for

import engram as eg
from engram.learning.augment import augment_images

RECIPE = {"epochs": 2, "batch": 16, "lr": 0.01}
AUGMENTED = eg.Training(**RECIPE, augment=("crop2", "flip"))


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def tasks(**values):
    return eg.split(blobs(6, **values), kind="class").tasks(0)


def test_a_flip_mirrors_about_half_of_the_images():
    images = torch.arange(1000 * 2 * 3 * 4).view(1000, 2, 3, 4).float()
    changed = augment_images(images, ["flip"], (2, 3, 4), rng())
    mirrored = [torch.equal(new, old.flip(2)) for new, old in zip(changed, images, strict=True)]
    same = [torch.equal(new, old) for new, old in zip(changed, images, strict=True)]
    assert all(a != b for a, b in zip(mirrored, same, strict=True))
    assert 450 < sum(mirrored) < 550


def test_a_crop_is_a_window_of_the_padded_image_and_every_window_occurs():
    images = 1 + torch.arange(500 * 2 * 3 * 4).view(500, 2, 3, 4).float()
    changed = augment_images(images, ["crop1"], (2, 3, 4), rng())
    seen = set()
    for new, old in zip(changed, images, strict=True):
        padded = torch.zeros(2, 5, 6)
        padded[:, 1:4, 1:5] = old
        windows = [(i, j) for i in range(3) for j in range(3) if torch.equal(new, padded[:, i : i + 3, j : j + 4])]
        assert len(windows) == 1
        seen.update(windows)
    assert len(seen) == 9


def test_flat_images_are_changed_like_those_in_shape():
    images = torch.rand(20, 3, 6, 5)
    names = ["crop2", "flip"]
    flat = augment_images(images.flatten(1), names, (3, 6, 5), rng())
    assert flat.shape == (20, 90)
    assert torch.equal(flat, augment_images(images, names, (3, 6, 5), rng()).flatten(1))


class Sees(eg.Method):
    """Notes whether the images that each hook gets are those of the data."""

    def loss(self, learner, batch):
        self._known = {tuple(row) for row in learner.tasks[learner.task].train.batch(torch.arange(80)).x.tolist()}
        self._trained = batch.x
        return learner.loss(batch)

    def adjust_gradients(self, learner, batch):
        assert batch.x is self._trained
        assert not {tuple(row) for row in batch.x.tolist()} <= self._known

    def after_step(self, learner, batch):
        assert {tuple(row) for row in batch.x.tolist()} <= self._known


def test_methods_train_on_augmented_images_and_store_them_as_they_are():
    assert Run(tasks(), Sees, AUGMENTED).outcome.steps == 30


def test_a_buffer_holds_images_as_they_are():
    plain, augmented = eg.Rehearsal(capacity=30), eg.Rehearsal(capacity=30)
    Run(tasks(), lambda: plain, eg.Training(**RECIPE))
    Run(tasks(), lambda: augmented, AUGMENTED)
    assert all(torch.equal(a, b) for a, b in zip(plain.pixels, augmented.pixels, strict=True))


def test_each_draw_is_fresh_and_goes_on_from_the_last():
    learner = learner_for(eg.split(blobs(4)), augment=("crop2",))
    batch = learner.tasks[0].train.batch(torch.arange(30))
    first, second = learner.augment(batch), learner.augment(batch)
    assert not torch.equal(first.x, second.x)
    assert first.y is batch.y
    again = learner_for(eg.split(blobs(4)), augment=("crop2",))
    assert torch.equal(again.augment(batch).x, first.x)
    assert learner_for(eg.split(blobs(4))).augment(batch) is batch


class Passes(eg.Adam):
    checkpoints = "epoch"


@pytest.mark.parametrize("method", [Passes, eg.Rehearsal, eg.GEM, eg.LwF, eg.SI, eg.RtF])
def test_same_seed_same_bits_interrupted_or_not(method):
    whole = Run(tasks(channels=3), method, AUGMENTED)
    assert whole.bits() != Run(tasks(channels=3), method, eg.Training(**RECIPE)).bits()
    assert whole.bits() == Run(tasks(channels=3), method, AUGMENTED).bits()
    for checkpoint in whole.checkpoints[:-1]:
        assert Run(tasks(channels=3), method, AUGMENTED, resume=checkpoint).bits() == whole.bits()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("flop",), "augment 'flop' is unknown; did you mean flip"),
        (("crop",), "the number of crop is its padding in pixels"),
        (("crop0",), "augment 'crop0' is unknown"),
        (("flip", "flip"), "augment flip flip: a name is given twice"),
        ("flip", "augment 'flip' is not a list; give names such as crop4, flip"),
        ((4,), "augment"),
    ],
)
def test_wrong_names_are_refused(names, message):
    with pytest.raises(ValueError, match=message):
        eg.Training(augment=names)


def test_inputs_without_left_and_right_are_refused():
    with pytest.raises(ValueError, match="augment crop2 flip is for images; these have their pixels permuted"):
        Run(eg.permute(blobs(4), permutations=2).tasks(0), training=AUGMENTED)
    with pytest.raises(ValueError, match="augment crop9: the padding is larger than the images; give at most 6"):
        learner_for(eg.split(blobs(4)), augment=("crop9",))
    vectors = eg.Images(*(part.reshape(len(part), 1, 36) if part.ndim > 1 else part for part in arrays()))
    with pytest.raises(ValueError, match=r"augment flip is for images; these inputs have the shape \(1, 1, 36\)"):
        learner_for(eg.split(vectors), augment=("flip",))


def arrays():
    images = blobs(4)
    return images.x_train, images.y_train, images.x_test, images.y_test
