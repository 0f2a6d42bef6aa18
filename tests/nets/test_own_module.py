"""Networks that are plain PyTorch: a module class or a function in the place of a recipe."""

import pytest
import torch
from helpers import Run, blobs
from torch import nn

import engram as eg
from engram.core.code import hash_code
from engram.core.registry import NETS, REGISTRIES, load_file
from engram.nets._module import recipe_class
from engram.runs.spec import Spec, from_json

IMAGES = blobs(4)
QUICK = eg.Training(epochs=1, batch=16)


class Conv(nn.Module):
    """Sees images as (n, channels, height, width)."""

    def __init__(self, shape, outputs, width: int = 3) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(shape[0], width, 3), nn.BatchNorm2d(width)
        self.head = nn.Linear(width * (shape[1] - 2) * (shape[2] - 2), outputs)
        self.shapes: set[tuple[int, ...]] = set()

    def forward(self, x):
        self.shapes.add(tuple(x.shape[1:]))
        return self.head(torch.relu(self.norm(self.conv(x))).flatten(1))


def wide(shape, outputs):
    return Conv(shape, outputs, width=5)


def key(net) -> str:
    return Spec(eg.split(IMAGES), eg.Adam(), recipe_class(net)()).key


def go(net, method=None, **options) -> eg.Record:
    return eg.run(eg.split(IMAGES, kind="class"), method or eg.Adam(), net=net, training=QUICK, **options)


def test_a_class_and_a_function_run_and_have_keys_of_their_own(tmp_path):
    by_class, by_function, by_lambda = (
        go(net, out=tmp_path) for net in (Conv, wide, lambda shape, outputs: Conv(shape, outputs, 4))
    )
    assert [len(r.accuracy) for r in (by_class, by_function, by_lambda)] == [2, 2, 2]
    assert len({r.key for r in (by_class, by_function, by_lambda)}) == 3
    net = by_class.spec["net"]
    assert (net["name"], net["width"], len(net["own code"])) == ("conv", 3, 16)
    assert go(Conv, out=tmp_path).reused


def test_the_module_gets_images_with_their_shape():
    module = recipe_class(Conv)().build((1, 6, 6), 4)
    assert module(torch.zeros(2, 36)).shape == module(torch.zeros(2, 1, 6, 6)).shape == (2, 4)
    assert module.shapes == {(1, 6, 6)}


@pytest.mark.parametrize("method", [eg.EWC(coef=10), eg.SI(), eg.MAS(), eg.Rehearsal(capacity=20), eg.LwF(), eg.L2()])
def test_methods_train_it(method):
    assert go(Conv, method).status == "done"


def test_it_resumes_to_the_same_bits():
    tasks = eg.split(IMAGES, kind="class").tasks(0)
    whole = Run(tasks, lambda: eg.EWC(coef=10), QUICK, recipe_class(Conv)())
    again = Run(tasks, lambda: eg.EWC(coef=10), QUICK, recipe_class(Conv)(), resume=whole.checkpoints[0])
    assert again.bits() == whole.bits()


def test_values_that_a_function_takes_over_are_in_its_key():
    def make(width):
        return lambda shape, outputs: Conv(shape, outputs, width)

    def with_default(width):
        def build(shape, outputs, width=width):
            return Conv(shape, outputs, width)

        return build

    assert key(make(3)) == key(make(3)) != key(make(4))
    assert key(with_default(3)) == key(with_default(3)) != key(with_default(4))


def test_two_lambdas_of_one_line_differ():
    one, two = lambda shape, outputs: Conv(shape, outputs, 3), lambda shape, outputs: Conv(shape, outputs, 4)
    assert key(one) != key(two)


def test_a_tensor_from_around_is_in_the_key_by_its_content():
    def with_weights(weights):
        return lambda shape, outputs: Conv(shape, outputs, int(weights.sum()))

    assert key(with_weights(torch.ones(2))) == key(with_weights(torch.ones(2))) != key(with_weights(torch.ones(3)))


def test_a_value_without_a_text_is_refused():
    width = iter([2])
    with pytest.raises(ValueError, match=r"uses width, a list_iterator from the function around it.*key"):
        go(lambda shape, outputs: Conv(shape, outputs, next(width)))


def test_classes_that_share_a_text_but_not_a_value_differ():
    def local(width):
        class Local(Conv):
            def __init__(self, shape, outputs) -> None:
                super().__init__(shape, outputs, width)

        return Local

    assert key(local(3)) == key(local(3)) != key(local(4))


@pytest.mark.parametrize(
    ("net", "error", "words"),
    [
        (Conv((1, 6, 6), 4), TypeError, "Conv is a module that was built already.*give its class"),
        (lambda shape: nn.Flatten(), ValueError, r"<lambda>\(shape\) cannot be built.*number of outputs"),
        (nn.Flatten(), TypeError, "built already"),
        (3, TypeError, "not a recipe of a network.*constructor"),
        (lambda shape, outputs: 7, ValueError, "returns 7; it must return an nn.Module"),
        (lambda shape, outputs, depth: None, ValueError, "give depth a default"),
    ],
)
def test_what_is_no_network_is_refused_in_words(net, error, words):
    with pytest.raises(error, match=words):
        go(net)


# In files

FILE = """
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()

class Small(nn.Module):
    def __init__(self, shape, outputs, width: int = 6):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(36, width), nn.{}(), nn.Linear(width, outputs))

    def forward(self, x):
        assert x.ndim == 4
        return self.net(x)

def helper(shape, outputs):
    return 3

def mine(shape, outputs, depth: int = 1) -> nn.Module:
    return Small(shape, outputs, 2 * depth)
"""


@pytest.fixture(autouse=True)
def _registries(monkeypatch):
    for registry in REGISTRIES:
        monkeypatch.setattr(registry, "added", dict(registry.added))


def test_a_file_s_modules_and_annotated_functions_are_networks(tmp_path):
    file = tmp_path / "my_net.py"
    keys = []
    for activation in ("ReLU", "Tanh", "ReLU"):
        file.write_text(FILE.format(activation))
        assert [(one.what, one.name) for one in load_file(file)] == [("net", "small"), ("net", "my-net")]
        assert NETS.facts("small").defaults == {"width": 6}
        spec = Spec(eg.split(IMAGES), eg.Adam(), NETS["small"](width=4))
        keys.append(spec.key)
        again = from_json(spec.to_json(), {IMAGES.fingerprint: IMAGES})
        assert (again.key, again.net.width) == (spec.key, 4)
        assert hash_code(NETS["small"]) != hash_code(NETS["my-net"])
    assert keys[0] == keys[2] != keys[1]
    assert [layer.activation for layer in NETS["my-net"](depth=4).layers((1, 6, 6), 2)] == [(8,), (2,)]


def test_a_file_whose_network_cannot_be_built_is_refused_with_its_name(tmp_path):
    file = tmp_path / "my_net.py"
    file.write_text(FILE.format("ReLU").replace("width: int = 6", "width"))
    with pytest.raises(ValueError, match=r"my_net.py: net Small: give width a default"):
        load_file(file)


def test_modules_beside_a_recipe_are_its_parts(tmp_path):
    file = tmp_path / "my_net.py"
    recipe = (
        "import engram as eg\nclass Mine(eg.Net):\n    def build(self, shape, outputs):\n        return Small((), 2)\n"
    )
    file.write_text(FILE.format("ReLU") + recipe)
    assert [one.name for one in load_file(file)] == ["my-net"]


class Lazy(nn.Module):
    """Its layers learn the number of their inputs from the first image."""

    def __init__(self, shape, outputs):
        super().__init__()
        self.hidden, self.norm, self.out = nn.LazyLinear(8), nn.LazyBatchNorm1d(), nn.LazyLinear(outputs)

    def forward(self, x):
        return self.out(self.norm(self.hidden(x.flatten(1))).relu())


class LazyPairs(Lazy):
    def forward(self, x, other):
        return super().forward(x + other)


def test_lazy_layers_get_their_sizes_from_the_shape_and_their_weights_from_the_seed():
    module = recipe_class(Lazy)().build((1, 6, 6), 4)
    assert sum(p.numel() for p in module.parameters()) == 36 * 8 + 8 + 8 + 8 + 8 * 4 + 4
    assert int(module.norm.num_batches_tracked) == 0
    assert module.training
    first, again, other = (go(Lazy, seed=seed) for seed in (0, 0, 1))
    assert first.losses == again.losses != other.losses


def test_lazy_layers_that_one_image_does_not_settle_are_refused():
    with pytest.raises(
        ValueError, match=r"LazyPairs has lazy layers, and one image does not give .*; give the sizes, or"
    ):
        go(LazyPairs)
