"""Wrong values given from Python are refused at once, by a message that names the value and what is expected."""

import pytest
from helpers import blobs

import engram as eg

IMAGES = blobs(4)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: eg.split(IMAGES, classes_per_task=2.0), r"classes_per_task 2\.0: .*give one of 1, 2"),
        (lambda: eg.split(IMAGES, classes_per_task=(1.0, 3)), r"classes_per_task 1\.0 3: give two or more numbers"),
        (lambda: eg.split(IMAGES, normalize="foo"), "normalize 'foo' is unknown; give 'train', None, or a mean"),
        (lambda: eg.split(IMAGES, normalize=(0.1,)), r"normalize \(0\.1,\) .*a mean and a standard deviation"),
        (lambda: eg.split(IMAGES, normalize=("a", "b")), r"normalize \('a', 'b'\) .*numbers"),
        (lambda: eg.queue([IMAGES], normalize=3), "normalize 3 .*a mean and a standard deviation"),
        (lambda: eg.split(IMAGES).holdout("x"), "held_out 'x' .*a share from 0 to below 1"),
        (lambda: eg.split(None), "images None are not a dataset; give"),
        (lambda: eg.permute("mnist"), "images 'mnist' are not a dataset; give"),
        (lambda: eg.queue(None), "images None are not a dataset; give"),
        (lambda: eg.permute(IMAGES, permutations=2.5), r"permutations 2\.5: .*give a whole number"),
        (lambda: eg.permute(IMAGES, permutations="3"), "permutations '3': .*give a whole number"),
        (lambda: eg.OnlineEWC(coef="x"), "coef 'x' .*give a number"),
        (lambda: eg.OnlineEWC(decay=None), "decay None .*give a number"),
        (lambda: eg.GEM(slots_per_task=1.5), r"slots_per_task 1\.5 .*give a whole number"),
        (lambda: eg.SI(clamp="no"), "clamp 'no' is neither True nor False"),
        (lambda: eg.Training(drop_last=1), "drop_last 1 is neither True nor False"),
        (lambda: eg.Evaluation(mask="no"), "mask 'no' is neither True nor False"),
        (lambda: eg.permute(IMAGES, identity_first=None), "identity_first None is neither True nor False"),
        (lambda: eg.Training(epochs=1.5), r"epochs 1\.5 .*give one whole number"),
        (lambda: eg.Training(lr="fast"), "lr 'fast' .*give a number"),
        (lambda: eg.Training(optimizer=3), r"optimizer '?3'? is unknown; choose from"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_expected(make, says):
    with pytest.raises(ValueError, match=says):
        make()
